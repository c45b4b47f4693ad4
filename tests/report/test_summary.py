"""The summary of a run, against a market small enough to do by hand."""

from __future__ import annotations

from decimal import Decimal

import pandas as pd
import pytest

from quantgraph.agents import SignalRule
from quantgraph.broker import Ledger, run_sessions
from quantgraph.market.rulebook import Rulebook
from quantgraph.report import summarise
from quantgraph.state import DataState

DAYS = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"])


@pytest.fixture
def summary(tmp_path):
    """Buy 600000.SH with half the cash at 10.00 on the second day; 0.50 go ex on the third."""
    close = pd.DataFrame({"600000.SH": [10.0, 10.0, 9.5, 9.5], "600036.SH": [20.0] * 4}, index=DAYS)
    before = pd.DataFrame({"600000.SH": [10.0, 10.0, 9.5, 9.5], "600036.SH": [20.0] * 4}, index=DAYS)
    signal = pd.DataFrame({"600000.SH": [1.0, 0, 0, 0], "600036.SH": [0.0] * 4}, index=DAYS)
    store = DataState()
    store.update("ohlcv", {"open": close, "close": close, "pre_close": before})
    ref = store.update("signal", {"s": signal})
    rules = Rulebook.zero_cost()
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        decider = SignalRule(cash_reserve=0.5, rules=rules)
        run_sessions(store, ref, DAYS, decider, cash=100_000, rules=rules, ledger=ledger, run_id="r")
        return summarise(ledger, "r", store, ref, DAYS, signal="s", cash=Decimal(100_000), rules=rules)


def test_exposure_and_the_largest_weight_are_shares_of_the_value(summary):
    # 5,000 shares: 50,000 of 100,000 on day two; 47,500 of 97,500 on days three and four; nothing on day one.
    account = summary["account"]
    assert account["trades"] == 1
    assert account["largest_weight"] == pytest.approx(0.5)
    assert account["exposure"] == pytest.approx((0 + 0.5 + 2 * 47_500 / 97_500) / 4)


def test_what_went_ex_while_held_is_counted_and_valued(summary):
    assert summary["account"]["ex_dates"] == {"count": 1, "not_credited": 2_500.0}
    assert summary["account"]["final_value"] == 97_500.0


def test_a_run_that_never_trades_has_no_exposure(tmp_path):
    close = pd.DataFrame({"600000.SH": [10.0] * 4}, index=DAYS)
    store = DataState()
    store.update("ohlcv", {"open": close, "close": close})
    ref = store.update("signal", {"s": close * 0})
    rules = Rulebook.mainland()
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        run_sessions(store, ref, DAYS, SignalRule(), cash=100_000, rules=rules, ledger=ledger, run_id="r")
        told = summarise(ledger, "r", store, ref, DAYS, signal="s", cash=Decimal(100_000), rules=rules)
    assert (told["account"]["exposure"], told["account"]["largest_weight"]) == (0.0, 0.0)
    assert told["account"]["sharpe"] is None
    assert told["account"]["ex_dates"] == {"count": 0, "not_credited": 0.0}
