from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from quantgraph.broker import Account, BlockRule, DecisionContext, Market, simulate
from quantgraph.errors import BadWindow, NoData
from quantgraph.market import Moment, Rulebook
from quantgraph.report import BuyAndHold
from quantgraph.report._summary import buy_and_hold_values, index_buy_and_hold
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


def market_of(store, ref, rules=None, **more):
    return Market(store=store, data_ref=ref, rules=rules or Rulebook.mainland(), **more, blocks_from=0)


def test_buy_and_hold_by_hand(three):
    store, ref, days = three
    values = buy_and_hold_values(market_of(store, ref), days, cash=100_000)[0]
    # 50,000 each: 4,900 at 10 (12.25 + 0.49 of fees) and 1,600 at 30 (12 + 0.48); the suspended one gets nothing.
    cash = 100_000 - 49_000 - 12.74 - 48_000 - 12.48
    assert values.tolist() == pytest.approx(
        [
            100_000,
            cash + 4900 * 10.2 + 1600 * 30.5,
            cash + 4900 * 10.6 + 1600 * 30.5,
            cash + 4900 * 10.9 + 1600 * 31.5,
        ],
        abs=1e-9,
    )
    assert list(values.index) == [pd.Timestamp("2024-01-01"), *days]
    assert (values.name, values.index.name) == ("value", "trade_date")


def test_holdings_may_be_marked_at_the_open(three):
    store, ref, days = three
    values = buy_and_hold_values(market_of(store, ref, mark_at="open"), days, cash=100_000)[0]
    cash = 100_000 - 49_000 - 12.74 - 48_000 - 12.48
    opens = [(10.0, 30.0), (10.5, 31.0), (11.0, 32.0)]
    assert values.tolist()[1:] == pytest.approx([cash + 4900 * a + 1600 * b for a, b in opens], abs=1e-9)


def bought(market, days, cash):
    results = simulate(market, days, BuyAndHold(), account=Account.opening(cash))
    return [fill for result in results for fill in result.fills]


def test_a_run_of_a_later_window_buys_on_its_own_first_session(three):
    store, ref, days = three
    fills = bought(market_of(store, ref, Rulebook.zero_cost()), days[1:], 100_000)
    # 33,333.33 each
    assert [fill.quantity for fill in fills] == [3100, 1000, 800]
    assert {fill.session for fill in fills} == {days[1]}


def test_star_shares_are_bought_by_the_share_from_200_on():
    days = pd.DatetimeIndex(["2024-01-02"])
    prices = pd.DataFrame([[30.0, 99.0]], days, ["600036.SH", "688981.SH"])
    store = DataState()
    ref = store.update("ohlcv", {"open": prices, "close": prices})
    market = market_of(store, ref, Rulebook.zero_cost())
    # 20,000 each: 666 shares at 30 are 600; 202 at 99 stay 202. 19,799 each: 199 at 99 are too few.
    assert [fill.quantity for fill in bought(market, days, 40_000)] == [600, 202]
    assert [fill.quantity for fill in bought(market, days, 39_598)] == [600]


def test_nobody_is_asked_once_something_is_held(three):
    store, ref, days = three
    market = market_of(store, ref)
    rule = BuyAndHold()
    *_, last = simulate(market, days, rule, account=Account.opening(100_000))
    view = store.view(Moment(days[-1], "open"), ref)
    assert rule.block_rule(DecisionContext(view, Account.opening(1))) is None
    assert rule.block_rule(DecisionContext(view, last.account)) == BlockRule(
        name="buy_and_hold", trades=False
    )


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
    market = market_of(store, ref, Rulebook.zero_cost())
    values, _ = buy_and_hold_values(market, panel["open"].index, cash=Decimal(10**8))
    growth = panel["close"].ffill().iloc[-1] / panel["open"].iloc[0]
    # 2 million CNY a ticket: the dearest lot is 7 % of one, and of the mean less than two thousandths
    assert values.iloc[-1] / 1e8 == pytest.approx(growth.mean(), rel=2e-3)


def test_an_index_grows_from_its_first_open_and_carries_a_missing_close():
    days = pd.DatetimeIndex(["2024-01-02", "2024-01-03", "2024-01-04"])
    levels = pd.DataFrame({"open": [2000.0, 2050.0, 2100.0], "close": [2020.0, np.nan, 1900.0]}, days)
    values = index_buy_and_hold(levels, days, cash=1000)
    assert values.tolist() == pytest.approx([1000, 1010, 1010, 950])
    assert index_buy_and_hold(levels, days[2:], cash=1000).tolist() == pytest.approx([1000, 1900 / 2.1])
    with pytest.raises(NoData, match="2024-01-05"):
        index_buy_and_hold(levels, pd.DatetimeIndex(["2024-01-05"]), cash=1000)
    with pytest.raises(BadWindow):
        index_buy_and_hold(levels, [], cash=1000)


def test_no_session_is_an_error(three):
    store, ref, _ = three
    with pytest.raises(BadWindow):
        buy_and_hold_values(market_of(store, ref), [], cash=1)[0]


def test_what_is_above_the_size_of_one_order_is_several_orders():
    """Ten million at 5.00: a first order of a million shares, a second with what 4,998,700.00 still buy."""
    days = pd.DatetimeIndex(["2024-01-02", "2024-01-03"])
    prices = pd.DataFrame({"600000.SH": [5.0, 5.0]}, index=days)
    store = DataState()
    market = market_of(store, store.update("ohlcv", {"open": prices, "close": prices}))
    (first, _) = simulate(market, days, BuyAndHold(), account=Account.opening(10_000_000))
    assert [fill.quantity for fill in first.fills] == [1_000_000, 999_400]
    fees = 1250 + 50 + Decimal("1249.25") + Decimal("49.97")
    assert first.account.cash == 10_000_000 - 5_000_000 - 4_997_000 - fees
