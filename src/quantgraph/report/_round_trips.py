"""What was traded and what came of it: turnover, round trips, win rate, profit factor.

A round trip is one sale with the purchases it closes. Its cost is what those shares were bought for,
the costs of buying included; its proceeds are what they brought, less the costs of selling. Which
purchases a sale closes is a convention: ``fifo`` takes the oldest first, ``average`` takes a share of all
that are held. Shares still held at the end are not in a round trip. A position sold in three orders makes
three round trips, under both conventions.

Sums are exact to twenty decimals; the round trips are float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, get_args

import pandas as pd

from quantgraph.broker import Fill
from quantgraph.broker.accounts import Delisting, Dividend, Event, Split
from quantgraph.broker.ledger import OrderTable
from quantgraph.errors import BadOption
from quantgraph.market.money import Side, to_decimal
from quantgraph.report.metrics._metrics import per_year, values_array


@dataclass(frozen=True, kw_only=True)
class Trade:
    """A purchase or a sale.

    Attributes
    ----------
    quantity
        Shares, > 0.
    price
        Per share, >= 0: a delisting without payment is a sale at 0.
    cost
        Fees, taxes and slippage of the trade together.
    """

    session: pd.Timestamp
    symbol: str
    side: Side
    quantity: Decimal | float
    price: Decimal | float
    cost: Decimal | float

    def __post_init__(self) -> None:
        where = f"of the trade in {self.symbol} on {self.session:%Y-%m-%d}"
        if self.side not in get_args(Side):
            raise BadOption(f"side={self.side!r} {where} must be 'buy' or 'sell'", parameter="side")
        if not to_decimal(self.quantity, name="quantity") > 0:
            raise BadOption(f"quantity={self.quantity} {where} must be > 0", parameter="quantity")
        if to_decimal(self.price, name="price") < 0:
            raise BadOption(f"price={self.price} {where} must be >= 0", parameter="price")
        to_decimal(self.cost, name="cost")

    @classmethod
    def of(cls, fill: Fill | Delisting) -> Trade:
        """Make the trade of a fill, with all its costs; a delisting is a sale for what was paid."""
        if isinstance(fill, Delisting):
            return cls(
                session=fill.session,
                symbol=fill.symbol,
                side="sell",
                quantity=fill.quantity,
                price=fill.per_share,
                cost=fill.per_share * fill.quantity - fill.amount,
            )
        return cls(
            session=fill.session,
            symbol=fill.order.symbol,
            side=fill.side,
            quantity=fill.quantity,
            price=fill.price,
            cost=fill.cost,
        )

    @property
    def notional(self) -> Decimal:
        """Quantity times price."""
        return to_decimal(self.quantity) * to_decimal(self.price)


def turnover(trades: Iterable[Trade], values: pd.Series[float]) -> float:
    """``sum(quantity * price) / mean(V[1:])``: both sides, over the mean value of the sessions.

    Buying everything once and selling it once is about 2. (US SEC Form N-1A, item 13, divides the lesser of
    purchases and sales instead: about 1.)

    Parameters
    ----------
    trades
        All of the run.
    values
        Of the run, beginning with the initial cash, which does not count as a session.

    Returns
    -------
    float
        NaN without a session.

    Raises
    ------
    BadOption
        If the session of a trade is not one of the values'.
    """
    array = values_array(values)[1:]
    sessions = set(values.index[1:])
    traded = Decimal(0)
    for trade in trades:
        if trade.session not in sessions:
            raise BadOption(
                f"trades has {trade.symbol} on {trade.session:%Y-%m-%d}, not a session of the values",
                parameter="trades",
            )
        traded += trade.notional
    return float(traded) / float(array.mean()) if len(array) else math.nan


def annual_turnover(
    trades: Iterable[Trade], values: pd.Series[float], *, periods_per_year: int = 252
) -> float:
    """``turnover * periods_per_year / n`` over ``n`` sessions; NaN without a session."""
    whole = turnover(trades, values)
    return math.nan if math.isnan(whole) else whole * per_year(periods_per_year) / (len(values) - 1)


CostBasis = Literal["fifo", "average"]

_DIGITS = 20
"""Decimals that the cost of a part of a holding is rounded to."""
_SPLITS, _MERGERS, _FILLS, _DELISTINGS = range(4)
"""What comes first in a session."""

_Move = tuple[int, int, int, bool, int, int | float]
"""Session, what it is, symbol, whether it adds shares, shares, and what was paid (in units) or brought."""


@dataclass(frozen=True, kw_only=True)
class Entitlement:
    """What a holding gets without a trade.

    Attributes
    ----------
    session
        The ex-date: before the trades of that session.
    shares
        Added to the whole holding by a split or bonus shares; negative for a reverse split.
    cash
        Paid on the whole holding. It is income of the round trips that close it.
    """

    session: pd.Timestamp
    symbol: str
    shares: Decimal | float = 0
    cash: Decimal | float = 0

    @classmethod
    def of(cls, event: Dividend | Split) -> Entitlement:
        """Make the entitlement of an event in a ledger."""
        shares, cash = (
            (0, event.amount) if isinstance(event, Dividend) else (event.after - event.before, event.cash)
        )
        return cls(session=event.session, symbol=event.symbol, shares=shares, cash=cash)


@dataclass(frozen=True, kw_only=True)
class RoundTrip:
    """A sale and what it closed."""

    symbol: str
    opened: pd.Timestamp
    closed: pd.Timestamp
    quantity: float
    cost: float
    proceeds: float

    @property
    def profit(self) -> float:
        """Proceeds less cost."""
        return self.proceeds - self.cost


@dataclass(kw_only=True)
class _Lot:
    opened: pd.Timestamp
    quantity: Fraction
    cost: Fraction
    income: Fraction = Fraction(0)


def round_trips(
    trades: Iterable[Trade], entitlements: Iterable[Entitlement] = (), *, basis: CostBasis = "fifo"
) -> tuple[RoundTrip, ...]:
    """Match every sale with the purchases it closes, one round trip per sale, in the order of the sales.

    Sessions are put in order; trades of one session keep their order, after its entitlements.

    >>> day = pd.Timestamp("2024-01-02")
    >>> buy = Trade(session=day, symbol="600000.SH", side="buy", quantity=100, price=10.0, cost=5.0)
    >>> sell = Trade(session=day, symbol="600000.SH", side="sell", quantity=100, price=11.0, cost=6.0)
    >>> round_trips([buy, sell])[0].profit
    89.0

    Raises
    ------
    BadOption
        If a sale or an entitlement finds too few shares, or the basis is not one of the two.
    """
    if basis not in get_args(CostBasis):
        raise BadOption(f"basis={basis!r} must be 'fifo' or 'average'", parameter="basis")
    held: dict[str, list[_Lot]] = {}
    trips = []
    events: list[Trade | Entitlement] = [*entitlements, *trades]
    for event in sorted(events, key=lambda event: event.session):
        lots = held.setdefault(event.symbol, [])
        if isinstance(event, Entitlement):
            _entitle(lots, event)
        elif event.side == "buy":
            _buy(lots, event, basis)
        else:
            trips.append(_sell(lots, event))
    return tuple(trips)


def win_rate(trips: Iterable[RoundTrip]) -> float:
    """Share of the round trips with a profit above 0; NaN without a round trip."""
    profits = [trip.profit for trip in trips]
    return sum(profit > 0 for profit in profits) / len(profits) if profits else math.nan


def profit_factor(trips: Iterable[RoundTrip]) -> float:
    """``sum(profits) / -sum(losses)`` of the round trips; NaN without a loss."""
    profits = [trip.profit for trip in trips]
    lost = math.fsum(profit for profit in profits if profit < 0)
    return math.fsum(profit for profit in profits if profit > 0) / -lost if lost else math.nan


def _buy(lots: list[_Lot], trade: Trade, basis: CostBasis) -> None:
    lot = _Lot(
        opened=trade.session,
        quantity=_fraction(trade.quantity),
        cost=_fraction(trade.notional) + _fraction(trade.cost),
    )
    if basis == "average" and lots:
        (pool,) = lots
        pool.quantity += lot.quantity
        pool.cost += lot.cost
    else:
        lots.append(lot)


def _sell(lots: list[_Lot], trade: Trade) -> RoundTrip:
    left = _fraction(trade.quantity)
    if left > (held := _quantity(lots)):
        raise BadOption(
            f"trades sells {trade.quantity} of {trade.symbol} on {trade.session:%Y-%m-%d}"
            f" and {float(held):g} are held",
            parameter="trades",
        )
    opened = lots[0].opened
    cost, proceeds = Fraction(0), _fraction(trade.notional) - _fraction(trade.cost)
    while left:
        taken = _take(lots[0], min(left, lots[0].quantity))
        left -= taken.quantity
        cost += taken.cost
        proceeds += taken.income
        if not lots[0].quantity:
            lots.pop(0)
    return RoundTrip(
        symbol=trade.symbol,
        opened=opened,
        closed=trade.session,
        quantity=float(trade.quantity),
        cost=float(cost),
        proceeds=float(proceeds),
    )


def _take(lot: _Lot, quantity: Fraction) -> _Lot:
    """Cut shares off a lot, with their part of its money; rounded, or the fractions grow at each sale."""
    share = quantity / lot.quantity
    part = _Lot(
        opened=lot.opened,
        quantity=quantity,
        cost=round(lot.cost * share, _DIGITS),
        income=round(lot.income * share, _DIGITS),
    )
    lot.quantity -= part.quantity
    lot.cost -= part.cost
    lot.income -= part.income
    return part


def _entitle(lots: list[_Lot], event: Entitlement) -> None:
    held = _quantity(lots)
    growth = 1 + _fraction(event.shares) / held if held else Fraction(0)
    if growth <= 0:
        raise BadOption(
            f"entitlements has {event.symbol} on {event.session:%Y-%m-%d}, shares {event.shares},"
            f" and {float(held):g} are held; some must be held before and after",
            parameter="entitlements",
        )
    for lot in lots:
        lot.income += round(_fraction(event.cash) * lot.quantity / held, _DIGITS)
        lot.quantity *= growth


def _quantity(lots: Iterable[_Lot]) -> Fraction:
    return sum((lot.quantity for lot in lots), Fraction(0))


def _fraction(number: Decimal | float) -> Fraction:
    return Fraction(to_decimal(number))


def round_trip_statistics(
    orders: OrderTable, events: Iterable[Event], sessions: pd.DatetimeIndex
) -> dict[str, Any]:
    """Round trips at average cost and without dividends, as ``win_rate`` and ``realised`` count them.

    The numbers equal :func:`.round_trips` with ``basis="average"``, bit for bit: both are exact, this
    one in whole numbers, and both round the cost of a part of a holding to twenty decimals.
    """
    decimals = max(2 * orders.digits, _DIGITS)
    unit, grain = 10**decimals, 10 ** (decimals - _DIGITS)
    profits: list[float] = []
    holding = 0
    held: dict[int, tuple[int, int, int]] = {}  # by symbol: first session, shares, cost in units
    for session, what, symbol, adds, shares, money in _moves(orders, events, sessions, decimals):
        opened, there, cost = held.get(symbol, (session, 0, 0))
        if what == _SPLITS:
            held[symbol] = opened, there + shares, cost
        elif adds:
            held[symbol] = opened if there else session, there + shares, cost + int(money)
        else:
            part = cost if shares == there and grain == 1 else _part(cost * shares, there, grain)
            profits.append(money - part / unit)
            holding += session - opened
            if shares == there:
                del held[symbol]
            else:
                held[symbol] = opened, there - shares, cost - part
    lost = math.fsum(profit for profit in profits if profit < 0)
    won = math.fsum(profit for profit in profits if profit > 0)
    return {
        "round_trips": len(profits),
        "profits": profits,
        "profit_factor": won / -lost if lost else None,
        "average_holding": holding / len(profits) if profits else None,
    }


def _part(product: int, whole: int, grain: int) -> int:
    """A product over a whole in grains, half to even, as ``round(Fraction(...), 20)``."""
    count, rest = divmod(product, whole * grain)
    if 2 * rest > whole * grain or (2 * rest == whole * grain and count % 2):
        count += 1
    return count * grain


def _moves(
    orders: OrderTable, events: Iterable[Event], sessions: pd.DatetimeIndex, decimals: int
) -> Iterable[_Move]:
    """Fills and events in the order in which they moved shares."""
    place_of = {f"{session:%Y-%m-%d}": place for place, session in enumerate(sessions)}
    found: Iterable[_Move] = _fills(orders, [place_of[day] for day in orders.days], decimals)
    others = list(_event_moves(events, orders, sessions))
    return sorted((*found, *others), key=lambda move: move[:2]) if others else found


def _fills(orders: OrderTable, places: Sequence[int], decimals: int) -> Iterator[_Move]:
    scale, unit = 10**orders.digits, 10**decimals
    more = unit // scale**2
    columns = zip(
        orders.day.tolist(),
        orders.symbol.tolist(),
        orders.sells.tolist(),
        orders.quantity,
        orders.price,
        orders.cost,
        strict=True,
    )
    for day, symbol, sells, quantity, price, cost in columns:
        if sells:
            brought = (quantity * price - cost * scale) * more / unit
            yield places[day], _FILLS, symbol, False, quantity, brought
        elif quantity:
            yield places[day], _FILLS, symbol, True, quantity, (quantity * price + cost * scale) * more


def _event_moves(events: Iterable[Event], orders: OrderTable, sessions: pd.DatetimeIndex) -> Iterator[_Move]:
    symbols = {symbol: place for place, symbol in enumerate(orders.symbols)}
    scale = 10**orders.digits
    for event in events:
        if not isinstance(event, Split | Delisting):
            continue
        session, symbol = int(sessions.searchsorted(event.session)), symbols[event.symbol]
        if isinstance(event, Split) and event.after:
            shares = int((Decimal(event.after) - Decimal(event.before)) * scale)
            yield session, _SPLITS, symbol, True, shares, 0
            continue
        gone = isinstance(event, Delisting)
        trade = Trade.of(event) if isinstance(event, Delisting) else _merged_away(event)
        shares = int(Decimal(trade.quantity) * scale)
        brought = float(Fraction(trade.notional) - Fraction(trade.cost))
        yield session, _DELISTINGS if gone else _MERGERS, symbol, False, shares, brought


def _merged_away(split: Split) -> Trade:
    """A reverse split that leaves no share is a sale for what the fraction brings."""
    return Trade(
        session=split.session,
        symbol=split.symbol,
        side="sell",
        quantity=split.before,
        price=split.cash / split.before,
        cost=0,
    )
