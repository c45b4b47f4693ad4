"""The first screen of a page: what happened in sentences, what was left out, how large a purchase is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quantgraph.page._summary import facts, not_done, sentence

from .page_views import view_of

ACCOUNT = {
    "final_value": 110_000.0,
    "return": 0.1,
    "round_trips": 4,
    "win_rate": 0.75,
    "realised": 8_000.0,
    "costs": {"commission": 50.0, "total": 50.0},
    "ex_dates": {"count": 0, "not_credited": 0.0},
}
DAYS = ["2024-01-02", "2024-01-03"]


def traded(language="en", parameters=None, **result):
    base = view_of([], DAYS, language=language, parameters=parameters or {})
    return replace(base, result={**base.result, "account": ACCOUNT, **result})


def test_the_sentence_says_where_the_profit_is():
    # 100,000 became 110,000: 8,000 of the 10,000 were realised
    assert sentence(traded(benchmark={"return": -0.02})) == (
        "In 2 sessions the account of 100,000 gained 10.00% (+10,000); buy and hold lost 2.00%. It closed 4 trades, "
        "75% of them with a profit, +8,000 in all; +2,000 is from holdings and dividends. Costs were 50."
    )
    assert sentence(traded("zh")) == (
        "2 个交易日里，100,000 的账户盈利 10.00%（+10,000）。平仓 4 笔，其中 75% 盈利，合计 +8,000；其余 +2,000 来自持仓和分红。费用共 50。"
    )
    assert sentence(view_of([], DAYS)) == ""


def test_what_was_given_up_is_named_beside_the_result():
    clauses = [
        {"words": "stop loss 5%", "became": "not done", "status": "not_done"},
        {"words": "", "became": "window: 2024", "status": "default"},
    ]
    view = traded(understanding={"clauses": clauses})
    assert not_done(view) == ["stop loss 5% (it was agreed to go on without)"]
    assert not_done(replace(view, result={**view.result, "account": None})) == []


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({}, "each purchase 1/10 of the account; at most 10 of 12 positions, by code (default)"),
        ({"size": {"cash": "5000"}, "max_positions": 12}, "buys for 5,000 each time; at most 12 positions"),
        ({"size": {"weights": {"A": "0.5"}}}, "weights A 50%"),
        ({"max_positions": 3, "size": "equal_weight"}, "equal weights; at most 3 of 12 positions, by code"),
    ],
)
def test_the_size_of_a_purchase_is_that_of_the_plan(plan, words):
    view = traded(plan=plan, symbols=[f"S{number}" for number in range(12)])
    assert dict(facts(view))["size of a purchase"] == [words]
