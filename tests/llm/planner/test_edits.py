"""A message changes one thing of the last request, and keeps the rest."""

from __future__ import annotations

from typing import Any

import pytest

from quantgraph.llm.planner.edits import with_last_request
from quantgraph.llm.planner.request import ParsedRequest, RequestContext, read_request

CONTEXT = RequestContext(last_session="20251031", names={"招商银行": "600036.SH"})
RULE = "600519.SH close above its 20-day SMA buy, below sell, 2025"
CROSS = "600519.SH 2025年 5日均线上穿20日均线买入，下穿卖出，止损5%"


def after(rule: str, message: str) -> ParsedRequest:
    last: dict[str, Any] = {
        "strategy_desc": rule,
        "ts_code": "600519.SH",
        "start_date": "20250101",
        "end_date": "20251231",
    }
    return read_request(with_last_request(message, last, CONTEXT), CONTEXT)


@pytest.mark.parametrize("message", ["now use 30 days", "改成30天", "change it to 30 days", "把20日改成30日"])
def test_the_only_period_is_replaced(message: str) -> None:
    wanted = read_request(RULE.replace("20-day", "30-day"), CONTEXT)
    found = after(RULE, message)
    assert (found.strategy, found.symbols, found.start, found.missing) == (
        wanted.strategy,
        ("600519.SH",),
        "20250101",
        (),
    )


def test_one_of_two_periods_is_replaced_only_if_it_is_named() -> None:
    assert after(CROSS, "改成30天").strategy is None
    wanted = read_request("5日均线上穿30日均线买入，下穿卖出", CONTEXT).strategy
    assert after(CROSS, "把20日改成30日").strategy == wanted
    assert after(CROSS, "改成30天\n20日改成30日").strategy == wanted


def test_stocks_window_stop_and_cash_change_alone() -> None:
    before = read_request(CROSS, CONTEXT)
    stocks, window = after(CROSS, "换成招商银行"), after(CROSS, "2024年呢")
    assert (stocks.symbols, stocks.start, stocks.strategy) == (("600036.SH",), "20250101", before.strategy)
    assert (window.symbols, window.start, window.end) == (("600519.SH",), "20240101", "20241231")
    assert (window.strategy, window.plan) == (before.strategy, before.plan)
    dropped, cash = after(CROSS, "去掉止损"), after(CROSS, "改成50万")
    assert (dropped.plan, dropped.missing, dropped.strategy) == ({}, (), before.strategy)
    assert (cash.plan, cash.strategy) == ({"stop_loss": 0.05, "cash": 500_000.0}, before.strategy)


def test_a_whole_request_stands_alone_and_a_rule_without_stocks_takes_the_last_ones() -> None:
    whole = "601318.SH 2024年 MACD金叉买入，死叉卖出"
    assert with_last_request(whole, {"strategy_desc": RULE}, CONTEXT) == whole
    kept = after("收盘价高于20日均线买入，低于20日均线卖出", "2024年呢")
    assert (kept.symbols, kept.start, kept.missing) == (("600519.SH",), "20240101", ())
