"""Words of a plan that say on which sessions is bought and sold, on real sessions of 2024, worked by hand."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, Market, RunContext, TradePlan, plan_words, simulate
from quantgraph.broker.accounts import Block
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import advance, days_without_entries, run_sessions
from quantgraph.errors import BadOption, BadWindow
from quantgraph.market import Rulebook, sessions
from quantgraph.state import DataState

ONE, SUSPENDED = "600000.SH", {"open": np.nan, "high": np.nan, "low": np.nan, "close": np.nan}
# Monday to Friday 03-29, Monday 04-01 to Wednesday 04-03, a holiday, Monday 04-08 to Friday 04-12
DAYS = sessions("2024-03-25", "2024-04-12")


def market_of(signal, bars=None, *, symbol=ONE, us=False):
    """Everything costs 10, but for ``bars`` by date; the signal by date holds until the next one."""
    frames = {name: pd.DataFrame({symbol: 10.0}, DAYS) for name in ("open", "high", "low", "close")}
    for date, bar in (bars or {}).items():
        for name, price in bar.items():
            frames[name].loc[f"2024-{date}", symbol] = price
    rows = pd.Series(np.nan, DAYS)
    for date, value in signal.items():
        rows[f"2024-{date}"] = value
    store = DataState()
    store.update("ohlcv", frames)
    ref = store.update("signal", {"s": rows.ffill().fillna(0).to_frame(symbol)})
    rules = Rulebook.zero_cost("us" if us else "cn")
    return Market(store=store, data_ref=ref, rules=rules, blocks_from=0)


def brief(results):
    return [
        f"{result.session:%m-%d} {outcome.order.side}{' ' * hasattr(outcome, 'code')}{getattr(outcome, 'code', '')}"
        for result in results
        for outcome in result.outcomes
    ]


def trades(signal, bars=None, *, market=None, **plan):
    """Fills and rejections, ``03-26 buy`` and ``03-27 buy suspended``."""
    market = market or market_of(signal, bars)
    account = Account.opening(10_000)
    return brief(simulate(market, DAYS, SignalRule(), account=account, plan=TradePlan(**plan)))


FRIDAYS = {"no_entry_on": {"weekdays": [5]}}


def test_a_friday_buys_nothing_on_the_signal_of_thursday():
    assert trades({"03-28": 1}) == ["03-29 buy"]
    assert trades({"03-28": 1}, **FRIDAYS) == ["04-01 buy"]  # Friday's row is 1, too
    assert trades({"03-28": 1, "03-29": 0}, **FRIDAYS) == []
    assert trades({"03-25": 1, "03-28": -1}, **FRIDAYS) == ["03-26 buy", "03-29 sell"]


def test_the_day_of_the_fill_counts_where_a_stock_is_suspended_on_the_day_after_its_signal():
    bars = {"03-28": SUSPENDED}
    assert trades({"03-27": 1}, bars) == ["03-28 buy suspended", "03-29 buy"]
    assert trades({"03-27": 1}, bars, **FRIDAYS) == ["03-28 buy suspended", "04-01 buy"]


def test_an_addition_is_a_purchase():
    plan = {"size": {"shares": 100}, "accumulate": {"shares": 100}, "trade_on": 2}  # 03-26, 03-28, 04-01, ...
    assert trades({"03-25": 1}, **plan)[:3] == ["03-26 buy", "03-28 buy", "04-01 buy"]
    days = {"no_entry_on": {"weekdays": [4]}}
    assert trades({"03-25": 1}, **plan, **days)[:3] == ["03-26 buy", "04-01 buy", "04-03 buy"]


def test_months_without_purchases_go_on_selling():
    plan = {"no_entry_on": {"months": [4, 8, 10]}}
    assert trades({"03-28": 1, "04-01": -1, "04-02": 1}, **plan) == ["03-29 buy", "04-02 sell"]
    assert trades({"03-29": 1}, **plan) == []


def test_sessions_of_a_month_are_those_of_the_calendar_not_of_the_data():
    assert trades({"03-25": 1}, no_entry_on={"sessions": [1, 2]}) == ["03-26 buy"]  # the second of the data
    assert trades({"03-28": 1}, no_entry_on={"sessions": [-1]}) == ["04-01 buy"]
    assert trades({"03-28": 1}, no_entry_on={"sessions": [-1, 1, 2]}) == ["04-03 buy"]
    # 05-31 is the last session of May, 05-06 the first after a week of holidays, 06-28 a Friday
    days = pd.DatetimeIndex(["2024-05-06", "2024-05-30", "2024-05-31", "2024-06-28"])
    assert days_without_entries(days, {"sessions": [1, -1]}).tolist() == [True, False, True, True]
    # Good Friday: the last session of March 2024 is Thursday in New York
    march = pd.DatetimeIndex(["2024-03-28"])
    assert days_without_entries(march, {"sessions": [-1]}, market="us").all()
    assert not days_without_entries(march, {"sessions": [-1]}).any()
    with pytest.raises(BadWindow):
        days_without_entries(pd.DatetimeIndex(["2090-03-28"]), {"sessions": [-1]})


def test_a_signal_sells_in_any_session_while_entries_wait_for_monday():
    week, every = {"trade_on": "week_start"}, {"trade_on": "week_start", "exit_on": "every"}
    signal = {"03-27": 1, "04-01": 0, "04-02": -1}
    assert trades(signal, **week) == ["04-01 buy", "04-08 sell"]
    assert trades(signal, **every) == ["04-01 buy", "04-03 sell"]
    # a later 1 buys on the trade day; one before the -1 does not
    assert trades(signal | {"04-03": 1}, **every) == ["04-01 buy", "04-03 sell", "04-08 buy"]
    assert trades({"03-27": 1, "03-28": -1}, **every) == []
    # by the last row alone what was a 1 before is none
    assert trades({"03-27": 1, "03-28": 0}, **week) == ["04-01 buy"]
    assert trades({"03-27": 1, "03-28": 0}, **week, entry_row="last") == []
    # the -1 of the week before the entry is not one of this position
    assert trades({"03-26": -1, "03-27": 1, "03-28": 0}, **every) == ["04-01 buy"]


def test_a_refused_exit_of_any_session_is_tried_again_until_a_1_revokes_it():
    plan, bars = {"trade_on": "week_start", "exit_on": "every"}, {"04-03": SUSPENDED}
    signal = {"03-27": 1, "04-02": -1, "04-03": 0}
    assert trades(signal, bars, **plan) == ["04-01 buy", "04-03 sell suspended", "04-08 sell"]
    assert trades(signal | {"04-03": 1}, bars, **plan) == ["04-01 buy", "04-03 sell suspended"]


@pytest.mark.parametrize(("cooldown", "again"), [(None, "03-29"), (1, "04-01"), (2, "04-02"), (4, "04-08")])
def test_a_symbol_is_not_bought_in_the_sessions_after_a_signal_sold_it(cooldown, again):
    signal = {"03-25": 1, "03-27": -1, "03-28": 1}
    assert trades(signal, cooldown=cooldown) == ["03-26 buy", "03-28 sell", f"{again} buy"]


@pytest.mark.parametrize(("cooldown", "again"), [(None, "03-28"), (1, "03-29"), (3, "04-02")])
def test_a_cooldown_counts_from_the_session_of_a_stop(cooldown, again):
    plan = {"stop_loss": 0.08, "reentry": "any", "cooldown": cooldown}
    found = trades({"03-25": 1}, {"03-27": {"low": 9.0}}, **plan)
    assert found == ["03-26 buy", "03-27 sell", f"{again} buy"]


def test_it_counts_from_the_entry_session_where_that_sells_and_not_from_a_sale_in_part():
    plan = {"stop_loss": 0.08, "reentry": "any", "cooldown": 1}
    same_day = market_of({"03-25": 1}, {"03-26": {"low": 9.0}}, symbol="AAPL", us=True)
    assert trades(None, market=same_day, **plan) == ["03-26 buy", "03-26 sell", "03-28 buy"]
    lower = {"size": {"percent": 0.5}, "rebalance": "every", "cooldown": 1}
    risen = trades({"03-25": 1}, {"03-27": dict.fromkeys(SUSPENDED, 20.0)}, **lower)
    assert risen == ["03-26 buy", "03-27 sell", "03-28 buy"]


def test_a_signal_that_comes_too_early_sells_when_the_time_is_over_unless_it_is_revoked():
    signal = {"03-25": 1, "03-26": -1, "03-27": 0}
    assert trades(signal) == ["03-26 buy", "03-27 sell"]
    assert trades(signal, min_holding=3) == ["03-26 buy", "03-29 sell"]
    assert trades(signal | {"03-28": 1}, min_holding=3) == ["03-26 buy"]
    suspended = {"03-27": SUSPENDED, "03-28": SUSPENDED}
    assert trades(signal, suspended, min_holding=3) == ["03-26 buy", "03-29 sell"]  # they count
    third = {
        "trade_on": 3,
        "min_holding": 4,
    }  # the trade days are 03-26, 03-29, 04-03: the second is too early
    assert trades(signal, **third) == ["03-26 buy", "04-03 sell"]
    assert trades(signal, **third, exit_on="every") == ["03-26 buy", "04-01 sell"]


def test_stops_and_the_longest_time_do_not_wait_for_the_shortest():
    signal, plan = {"03-25": 1, "03-26": 0}, {"min_holding": 6, "stop_loss": 0.08}
    assert trades(signal, {"03-28": {"low": 9.0}}, **plan) == ["03-26 buy", "03-28 sell"]
    assert trades(signal, min_holding=6, max_holding=2) == ["03-26 buy", "03-28 sell"]


def test_a_run_that_stopped_between_a_sale_and_the_end_of_its_cooldown_goes_on(tmp_path):
    market = market_of({"03-25": 1, "03-27": -1, "03-28": 1})
    options = {"cash": 10_000, "run_id": "r", "plan": TradePlan(cooldown=3)}
    for end in (4, 5, 6, len(DAYS)):  # a ledger and a decider of each part's own
        with Ledger(tmp_path / "ledger.sqlite") as ledger:
            run_sessions(market, DAYS[:end], SignalRule(), ledger=ledger, **options)
            found = brief(ledger.results("r"))
    assert found == ["03-26 buy", "03-28 sell", "04-03 buy"]


@pytest.mark.parametrize(
    "values",
    [
        {"exit_on": "every"},
        {"no_entry_on": {"months": [1]}},
        {"cooldown": 1},
        {"min_holding": 2},
        {"entry_row": "last"},
    ],
)
def test_they_survive_json_have_words_and_are_traded_in_blocks(values):
    plan = TradePlan(**values)
    assert TradePlan.of(json.loads(json.dumps(plan.to_json()))) == plan
    assert plan.to_json() == values
    assert set(values) <= SignalRule().executes
    for language in ("zh", "en"):
        (words,) = plan_words(values, language)
        assert next(iter(values)) not in words
    run, account = RunContext(plan=plan), Account.opening(10_000)
    parts = list(advance(market_of({"03-25": 1}), DAYS[:3], SignalRule(), account=account, run=run))
    assert any(isinstance(each, Block) for each in parts)


def test_days_without_purchases_are_sorted_and_in_words():
    plan = TradePlan(no_entry_on={"sessions": [-1, 2, 1], "weekdays": (5, 5)})
    assert plan.to_json() == {"no_entry_on": {"weekdays": [5], "sessions": [1, 2, -1]}}
    assert plan_words(plan.to_json(), "en") == [
        "no purchases on Fri, session 1 of a month, session 2 of a month, session 1 from the end of a month"
    ]
    assert plan_words({"no_entry_on": {"weekdays": [5], "months": [4, 10], "sessions": [-1]}}, "zh") == [
        "不买入的日子：周五、4月、10月、每月倒数第 1 个交易日"
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"exit_on": "always"}, "exit_on='always'; must be trade_on, every"),
        ({"entry_row": "first"}, "entry_row='first'; must be any, last"),
        ({"no_entry_on": [5]}, r'must be \{"weekdays": \[5\], '),
        ({"no_entry_on": {}}, r'must be \{"weekdays": \[5\], '),
        ({"no_entry_on": {"weekday": [5]}}, "did you mean weekdays"),
        ({"no_entry_on": {"weekdays": [0]}}, r"weekdays=\[0\]; must be a list of whole numbers from 1 to 7"),
        ({"no_entry_on": {"months": 4}}, "months=4; must be a list of whole numbers from 1 to 12"),
        ({"no_entry_on": {"sessions": [0]}}, "from -23 to 23 without 0"),
        ({"cooldown": 0}, "cooldown=0; must be a whole number >= 1"),
        ({"min_holding": 1.5}, "min_holding=1.5; must be a whole number >= 1"),
    ],
)
def test_bad_values_are_refused_with_what_is_valid(values, message):
    with pytest.raises(BadOption, match=message) as caught:
        TradePlan(**values)
    assert f"plan.{next(iter(values))}" in caught.value.data["parameter"]
