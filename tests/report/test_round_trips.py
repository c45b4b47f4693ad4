import math
from decimal import Decimal

import pandas as pd
import pytest

from quantgraph.broker import Fill, Order
from quantgraph.broker.accounts import Delisting, Dividend, Split
from quantgraph.broker.ledger import OrderTable
from quantgraph.errors import BadOption
from quantgraph.report._round_trips import (
    Entitlement,
    Trade,
    annual_turnover,
    profit_factor,
    round_trip_statistics,
    round_trips,
    turnover,
    win_rate,
)

DAYS = pd.bdate_range("2024-01-01", periods=6)


def trade(day, side, quantity, price, cost=0, *, symbol="600000.SH"):
    return Trade(session=DAYS[day], symbol=symbol, side=side, quantity=quantity, price=price, cost=cost)


TRADES = [
    trade(1, "buy", 100, 10, 5),
    trade(2, "buy", 100, 20, 5),
    trade(3, "sell", 150, 30, 9),
    trade(4, "sell", 50, 12, 6),
]


def shown(trips):
    return [(trip.quantity, trip.cost, trip.proceeds, trip.profit) for trip in trips]


def test_fifo_sells_the_oldest_first():
    # 1005 for the first hundred; half of 2005 for the next fifty, and half for the last
    trips = round_trips(TRADES)
    assert shown(trips) == [(150.0, 2007.5, 4491.0, 2483.5), (50.0, 1002.5, 594.0, -408.5)]
    assert [(trip.opened, trip.closed) for trip in trips] == [(DAYS[1], DAYS[3]), (DAYS[2], DAYS[4])]


def test_average_sells_a_share_of_all():
    # 3010 for two hundred: 15.05 a share
    trips = round_trips(TRADES, basis="average")
    assert shown(trips) == [(150.0, 2257.5, 4491.0, 2233.5), (50.0, 752.5, 594.0, -158.5)]
    assert [(trip.opened, trip.closed) for trip in trips] == [(DAYS[1], DAYS[3]), (DAYS[1], DAYS[4])]


def test_symbols_do_not_touch_and_the_order_of_sales_is_kept():
    trips = round_trips(
        [
            trade(1, "buy", 1, 10, symbol="AAPL"),
            trade(1, "buy", 1, 20, symbol="MSFT"),
            trade(2, "sell", 1, 21, symbol="MSFT"),
            trade(2, "sell", 1, 9, symbol="AAPL"),
        ]
    )
    assert [(trip.symbol, trip.profit) for trip in trips] == [("MSFT", 1.0), ("AAPL", -1.0)]


def test_a_position_opened_again_begins_anew():
    trips = round_trips(
        [trade(0, "buy", 10, 1), trade(1, "sell", 10, 2), trade(2, "buy", 10, 3), trade(3, "sell", 10, 2)],
        basis="average",
    )
    assert [(trip.opened, trip.profit) for trip in trips] == [(DAYS[0], 10.0), (DAYS[2], -10.0)]


def test_what_is_still_held_is_in_no_round_trip():
    assert round_trips([trade(1, "buy", 100, 10)]) == ()
    assert round_trips([]) == ()


def test_fractions_are_exact_so_breaking_even_is_no_profit():
    # three buys of a third at 0.1, sold in tenths of a share: floats would leave dust
    trades = [trade(0, "buy", Decimal("0.1"), 0.1, 0.01) for _ in range(3)]
    trades += [trade(1, "sell", Decimal("0.3"), 0.3, 0.03)]
    assert shown(round_trips(trades)) == [(0.3, 0.06, 0.06, 0.0)]
    assert win_rate(round_trips(trades)) == 0.0


def test_bonus_shares_spread_the_cost_and_a_dividend_is_income():
    # 1000 shares for 10,000; three for ten and 260 in cash; 650 of 1300 sold: half of both
    gift = Entitlement(session=DAYS[2], symbol="600000.SH", shares=300, cash=260)
    trades = [trade(1, "buy", 1000, 10), trade(2, "sell", 650, 8), trade(3, "sell", 650, 7)]
    for basis in ("fifo", "average"):
        trips = round_trips(trades, [gift], basis=basis)
        assert shown(trips) == [(650.0, 5000.0, 5330.0, 330.0), (650.0, 5000.0, 4680.0, -320.0)]


def test_an_entitlement_belongs_to_who_held_over_the_night():
    # bought on the ex-date: nothing of it
    gift = Entitlement(session=DAYS[2], symbol="600000.SH", cash=100)
    trades = [trade(1, "buy", 100, 10), trade(2, "buy", 100, 9), trade(3, "sell", 200, 9)]
    assert shown(round_trips(trades, [gift])) == [(200.0, 1900.0, 1900.0, 0.0)]
    first, second = round_trips([*trades[:2], trade(3, "sell", 100, 9), trade(3, "sell", 100, 9)], [gift])
    assert (first.proceeds, second.proceeds) == (1000.0, 900.0)


def test_a_dividend_goes_to_each_purchase_by_its_shares():
    gift = Entitlement(session=DAYS[2], symbol="600000.SH", cash=400)
    trades = [trade(0, "buy", 100, 10), trade(1, "buy", 300, 10), trade(3, "sell", 100, 10)]
    assert shown(round_trips(trades, [gift])) == [(100.0, 1000.0, 1100.0, 100.0)]


def test_a_reverse_split_with_a_remainder_leaves_no_dust():
    # 7 shares in two lots become 3, all of them sold
    shrink = Entitlement(session=DAYS[2], symbol="AAPL", shares=-4)
    trades = [trade(0, "buy", 5, 2, symbol="AAPL"), trade(1, "buy", 2, 3, symbol="AAPL")]
    sales = [trade(3, "sell", 1, 10, symbol="AAPL"), trade(4, "sell", 2, 10, symbol="AAPL")]
    trips = round_trips([*trades, *sales], [shrink])
    assert sum(trip.cost for trip in trips) == pytest.approx(16, abs=1e-12)
    # the first lot is 15/7 of a share for 10: one of it costs 14/3
    assert trips[0].cost == pytest.approx(14 / 3, abs=1e-12)


def test_win_rate_and_profit_factor_by_hand():
    trips = round_trips(TRADES, basis="average")
    assert win_rate(trips) == 0.5
    assert profit_factor(trips) == pytest.approx(2233.5 / 158.5, rel=1e-14)
    assert (win_rate(trips[:1]), win_rate(trips[1:])) == (1.0, 0.0)
    assert profit_factor(trips[1:]) == 0.0


def test_nothing_sold_has_no_rate_and_no_loss_no_factor():
    assert math.isnan(win_rate([]))
    assert math.isnan(profit_factor([]))
    assert math.isnan(profit_factor(round_trips(TRADES)[:1]))


def test_selling_what_is_not_held_names_the_place():
    with pytest.raises(BadOption, match=r"sells 150 of 600000.SH on 2024-01-04 and 100 are held"):
        round_trips([TRADES[0], TRADES[2]])
    with pytest.raises(BadOption, match=r"600000.SH on 2024-01-03, shares 0, and 0 are held"):
        round_trips([], [Entitlement(session=DAYS[2], symbol="600000.SH", cash=1)])
    with pytest.raises(BadOption, match=r"shares -100, and 100 are held; some must be held"):
        round_trips(TRADES[:1], [Entitlement(session=DAYS[2], symbol="600000.SH", shares=-100)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"side": "short"}, "side='short' of the trade in AAPL on 2024-01-01"),
        ({"quantity": 0}, "quantity=0 of"),
        ({"quantity": math.nan}, "quantity=nan"),
        ({"price": -1}, "price=-1 of"),
        ({"cost": math.inf}, "cost=inf"),
    ],
)
def test_a_trade_that_is_none_is_refused(change, message):
    fields = {"session": DAYS[0], "symbol": "AAPL", "side": "buy", "quantity": 1, "price": 1, "cost": 0}
    with pytest.raises(BadOption, match=message):
        Trade(**fields | change)


def test_an_unknown_basis_is_refused():
    with pytest.raises(BadOption, match="basis='lifo'"):
        round_trips([], basis="lifo")


def test_turnover_is_both_sides_over_the_mean_value_of_the_sessions():
    values = pd.Series([9999.0, 5000.0, 7000.0, 6000.0, 6000.0], index=DAYS[:5])
    # 1000 + 2000 + 4500 + 600 over 6000, in 4 sessions
    assert turnover(TRADES, values) == pytest.approx(8100 / 6000, rel=1e-14)
    assert annual_turnover(TRADES, values, periods_per_year=240) == pytest.approx(81.0, rel=1e-14)
    assert turnover([], values) == 0.0


def test_turnover_without_a_session_is_not_defined():
    values = pd.Series([100.0], index=DAYS[:1])
    assert math.isnan(turnover([], values))
    assert math.isnan(annual_turnover([], values))


def test_a_trade_outside_the_sessions_is_refused():
    values = pd.Series([100.0, 100.0], index=DAYS[1:3])
    with pytest.raises(BadOption, match=r"600000.SH on 2024-01-02, not a session"):
        turnover(TRADES, values)


def test_the_trade_of_a_fill_has_all_its_costs():
    order = Order(symbol="AAPL", side="sell", quantity=300, sequence=1)
    fill = Fill(
        order=order,
        session=DAYS[1],
        side="sell",
        price=Decimal("10.5"),
        quantity=200,
        notional=Decimal("2100.00"),
        commission=Decimal("1.00"),
        stamp_duty=Decimal("0.20"),
        transfer_fee=Decimal("0.03"),
        regulatory=Decimal("0.004"),
        slippage=Decimal("5.00"),
    )
    wanted = trade(1, "sell", 200, Decimal("10.5"), Decimal("6.234"), symbol="AAPL")
    assert Trade.of(fill) == wanted


def test_shares_that_a_split_left_nothing_of_are_sold_before_the_orders_of_that_session():
    def filled(day, side, shares, price):
        return Fill(
            order=Order(symbol="AAPL", side=side, quantity=shares, sequence=1),
            session=DAYS[day],
            side=side,
            price=Decimal(price),
            quantity=shares,
            notional=Decimal(price) * shares,
            commission=Decimal(0),
            stamp_duty=Decimal(0),
            transfer_fee=Decimal(0),
        )

    gone = Split(
        symbol="AAPL", session=DAYS[2], ratio=Decimal("0.1"), before=3, after=0, cash=Decimal("12.00")
    )
    fills = [filled(0, "buy", 3, 10), filled(2, "buy", 5, 100), filled(3, "sell", 5, 110)]
    # 30 brought 12 after two sessions; 500 brought 550 after one
    wanted = {
        "profits": [-18.0, 50.0],
        "round_trips": 2,
        "profit_factor": pytest.approx(50 / 18),
        "average_holding": 1.5,
    }
    assert round_trip_statistics(OrderTable.of(fills), [gone], DAYS) == wanted


@pytest.mark.parametrize("periods", [0, -1, None, "252", math.nan, math.inf])
def test_a_year_has_periods(periods):
    values = pd.Series([100.0, 100.0], index=DAYS[:2])
    with pytest.raises(BadOption, match="periods_per_year"):
        annual_turnover([], values, periods_per_year=periods)


def test_events_of_a_ledger_are_entitlements_and_a_delisting_is_a_sale():
    dividend = Dividend(
        symbol="AAPL",
        session=DAYS[2],
        quantity=100,
        per_share=Decimal("0.5"),
        amount=Decimal("50.00"),
        pay=DAYS[3],
    )
    split = Split(
        symbol="AAPL", session=DAYS[3], ratio=Decimal("1.5"), before=100, after=150, cash=Decimal("0.25")
    )
    gone = Delisting(
        symbol="AAPL", session=DAYS[4], quantity=150, per_share=Decimal("8.005"), amount=Decimal("1200.75")
    )
    assert Entitlement.of(dividend) == Entitlement(session=DAYS[2], symbol="AAPL", cash=Decimal("50.00"))
    assert Entitlement.of(split) == Entitlement(
        session=DAYS[3], symbol="AAPL", shares=50, cash=Decimal("0.25")
    )
    # a hundred for 1,000.00; 50.00, 0.25 and 1,200.75 come back
    trades = [trade(1, "buy", 100, 10, symbol="AAPL"), Trade.of(gone)]
    (trip,) = round_trips(trades, [Entitlement.of(dividend), Entitlement.of(split)])
    assert (trip.quantity, trip.profit) == (150.0, 251.0)
