"""Statistics of orders: equal, bit for bit, to those of exact fractions, whatever is bought, sold and split."""

from __future__ import annotations

import math
from decimal import Decimal

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgraph.broker import Fill, Order, Rejection
from quantgraph.broker.accounts import Delisting, Split
from quantgraph.broker.ledger import OrderTable
from quantgraph.report._round_trips import (
    Entitlement,
    Trade,
    profit_factor,
    round_trip_statistics,
    round_trips,
)

DAYS = pd.bdate_range("2024-01-02", periods=12, name="trade_date").as_unit("us")
SYMBOLS = ("600000.SH", "AAPL", "513100.SH")


def fill(day, symbol, side, *, shares, price, charge):
    return Fill(
        order=Order(symbol=symbol, side=side, quantity=shares, sequence=1),
        session=DAYS[day],
        side=side,
        price=price,
        quantity=shares,
        notional=(price * shares).quantize(Decimal("0.01")),
        commission=charge,
        stamp_duty=Decimal("0.00"),
        transfer_fee=Decimal("0.01"),
    )


@st.composite
def trading(draw):
    """Fills and events in order; never more is sold than is held."""
    whole = draw(st.booleans())
    shares = st.integers(1, 5_000) if whole else st.decimals("0.0001", "50", places=4)
    prices = st.decimals("0.5", "900", places=draw(st.sampled_from([2, 3, 4, 11])))
    held = dict.fromkeys(SYMBOLS, Decimal(0))
    outcomes, events = [], []
    for day in range(len(DAYS)):
        for symbol in SYMBOLS:
            if held[symbol] and draw(st.integers(0, 9)) == 0:
                before = held[symbol]
                after = draw(st.sampled_from([0, before * 2, (before / 2).quantize(Decimal("0.0001"))]))
                after = int(after) if whole else after
                events.append(
                    Split(symbol=symbol, session=DAYS[day], ratio=Decimal(1), before=before, after=after,
                          cash=Decimal("1.37") if not after else Decimal(0))
                )  # fmt: skip
                held[symbol] = Decimal(after)
        for _ in range(draw(st.integers(0, 4))):
            symbol = draw(st.sampled_from(SYMBOLS))
            if held[symbol] and draw(st.booleans()):
                part = draw(st.sampled_from([1, 2, 3, 7]))
                sold = held[symbol] // part if whole else (held[symbol] / part).quantize(Decimal("0.0001"))
                side, size = "sell", min(sold or held[symbol], held[symbol])
            else:
                side, size = "buy", Decimal(draw(shares))
            charge = draw(st.decimals("0", "60", places=2))
            size = int(size) if whole else size
            outcomes.append(fill(day, symbol, side, shares=size, price=draw(prices), charge=charge))
            held[symbol] += size if side == "buy" else -size
            if draw(st.integers(0, 3)) == 0:
                order = Order(symbol=symbol, side="buy", quantity=1, sequence=2)
                code = draw(st.sampled_from(["limit_up", "suspended"]))
                outcomes.append(Rejection(order=order, session=DAYS[day], code=code, message="no"))
    for symbol in SYMBOLS:
        if held[symbol] and draw(st.booleans()):
            size = int(held[symbol]) if whole else held[symbol]
            amount = (size * Decimal("0.31")).quantize(Decimal("0.01"))
            gone = Delisting(
                symbol=symbol, session=DAYS[-1], quantity=size, per_share=Decimal("0.31"), amount=amount
            )
            events.append(gone)
    return outcomes, events


def by_fractions(outcomes, events):
    """The same by :func:`round_trips`, which works with fractions."""
    splits = [event for event in events if isinstance(event, Split)]
    trades = [
        Trade(session=each.session, symbol=each.symbol, side="sell", quantity=each.before,
              price=each.cash / each.before, cost=0)
        for each in splits if not each.after
    ]  # fmt: skip
    trades += [Trade.of(each) for each in (*outcomes, *events) if isinstance(each, Fill | Delisting)]
    shares = [
        Entitlement(session=each.session, symbol=each.symbol, shares=each.after - each.before)
        for each in splits
        if each.after
    ]
    trips = round_trips(trades, shares, basis="average")
    spans = [DAYS.get_loc(trip.closed) - DAYS.get_loc(trip.opened) for trip in trips]
    factor = profit_factor(trips)
    return {
        "round_trips": len(trips),
        "profits": [trip.profit for trip in trips],
        "profit_factor": None if math.isnan(factor) else factor,
        "average_holding": sum(spans) / len(spans) if spans else None,
    }


@settings(max_examples=150, deadline=None)
@given(trading())
def test_round_trips_are_those_of_fractions(told):
    outcomes, events = told
    assert round_trip_statistics(OrderTable.of(outcomes), events, DAYS) == by_fractions(outcomes, events)
