from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from quantgraph.broker import Fill
from quantgraph.errors import BadWindow
from quantgraph.market.rulebook import Rulebook
from quantgraph.report import equal_weight_buy_and_hold
from quantgraph.state import DataState


@pytest.fixture
def three():
    """Three symbols over three sessions; the third one is suspended on the first."""
    index = pd.DatetimeIndex(["2024-01-02", "2024-01-03", "2024-01-04"])
    codes = ["600000.SH", "600036.SH", "601318.SH"]
    store = DataState()
    opens = pd.DataFrame([[10.0, 30.0, np.nan], [10.5, 31.0, 40.0], [11.0, 32.0, 41.0]], index, codes)
    closes = pd.DataFrame([[10.2, 30.5, np.nan], [10.6, np.nan, 40.5], [10.9, 31.5, 41.5]], index, codes)
    return store, store.update("ohlcv", {"open": opens, "close": closes}), index


def test_buy_and_hold_by_hand(three):
    store, ref, days = three
    result = equal_weight_buy_and_hold(store, ref, days, cash=100_000, rules=Rulebook.mainland())
    # 50,000 each: 4,900 at 10 (12.25 + 0.49 of fees) and 1,600 at 30 (12 + 0.48); the suspended one gets nothing.
    assert [(fill.order.symbol, fill.quantity) for fill in result.outcomes] == [
        ("600000.SH", 4900),
        ("600036.SH", 1600),
    ]
    cash = 100_000 - 49_000 - 12.74 - 48_000 - 12.48
    assert result.values.tolist() == pytest.approx(
        [
            100_000,
            cash + 4900 * 10.2 + 1600 * 30.5,
            cash + 4900 * 10.6 + 1600 * 30.5,
            cash + 4900 * 10.9 + 1600 * 31.5,
        ],
        abs=1e-9,
    )
    assert list(result.values.index) == [pd.Timestamp("2024-01-01"), *days]


def test_a_run_of_a_later_window_buys_on_its_own_first_session(three):
    store, ref, days = three
    result = equal_weight_buy_and_hold(store, ref, days[1:], cash=100_000, rules=Rulebook.zero_cost())
    # 33,333.33 each
    assert [fill.quantity for fill in result.outcomes] == [3100, 1000, 800]
    assert {fill.session for fill in result.outcomes} == {days[1]}


def test_sse_50_without_fees_earns_the_mean_of_its_members(a_share):
    file = a_share / "daily_prices_sse_50_20250102_20251031.csv"
    rows = pd.read_csv(file, dtype={"trade_date": str})
    rows["trade_date"] = pd.to_datetime(rows["trade_date"])
    panel = {
        name: rows.pivot(index="trade_date", columns="ts_code", values=name)
        for name in ("open", "close", "pre_close")
    }
    store = DataState()
    ref = store.update("ohlcv", panel)
    days = panel["open"].index
    result = equal_weight_buy_and_hold(store, ref, days, cash=Decimal(10**10), rules=Rulebook.zero_cost())
    growth = panel["close"].ffill().iloc[-1] / panel["open"].iloc[0]
    assert all(isinstance(outcome, Fill) for outcome in result.outcomes)
    # 200 million CNY a ticket: a lot is less than a thousandth of it
    assert result.values.iloc[-1] / 1e10 == pytest.approx(growth.mean(), rel=1e-3)


def test_no_session_is_an_error(three):
    store, ref, _ = three
    with pytest.raises(BadWindow):
        equal_weight_buy_and_hold(store, ref, [], cash=1, rules=Rulebook.mainland())
