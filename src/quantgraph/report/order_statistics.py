"""Statistics of a run's orders: rejections by reason, round trips, buys of the signal without an order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from quantgraph.broker.corporate_actions import Delisting, Event, Split
from quantgraph.broker.ledger.order_table import OrderTable
from quantgraph.report.trades import Trade

_DUST = 1e-6
"""Rounding of sums of shares."""
_ROUNDED = 20
"""Decimals that the cost of a part of a holding is rounded to, as by :func:`.round_trips`."""
_SPLITS, _MERGERS, _FILLS, _DELISTINGS = range(4)
"""What comes first in a session."""

_Move = tuple[int, int, int, bool, int, int | float]
"""Session, what it is, symbol, whether it adds shares, shares, and what was paid (in units) or brought."""


def rejection_counts(orders: OrderTable) -> dict[str, int]:
    """Number of orders refused or cut by code, the most frequent first."""
    return dict(Counter(code for code in orders.refused if code).most_common())


def format_counts(reasons: Mapping[str, int]) -> str:
    """Counts by code in one line.

    >>> format_counts({"limit_up": 3, "suspended": 1})
    'limit_up 3, suspended 1'
    """
    return ", ".join(f"{code} {count:,}" for code, count in reasons.items())


def round_trip_statistics(
    orders: OrderTable, events: Iterable[Event], sessions: pd.DatetimeIndex
) -> dict[str, Any]:
    """Round trips at average cost and without dividends, as ``win_rate`` and ``realised`` count them.

    The numbers are those of :func:`.round_trips` with ``basis="average"``, bit for bit: both are exact, this
    one in whole numbers, and both round the cost of a part of a holding to twenty decimals.

    Returns
    -------
    dict
        ``round_trips``, one a sale; ``profit_factor``, None without a loss; ``average_holding``, mean number
        of sessions from purchase to sale, None without a round trip.
    """
    decimals = max(2 * orders.digits, _ROUNDED)
    unit, grain = 10**decimals, 10 ** (decimals - _ROUNDED)
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


def count_unfollowed_buys(
    signal: pd.DataFrame, orders: OrderTable, events: Iterable[Event], sessions: pd.DatetimeIndex
) -> int:
    """Count buys of a signal, for symbols not held, without an order.

    Parameters
    ----------
    signal
        1 = buy; a row stands at the session in which it is traded. Only its symbols count.
    sessions
        The sessions that were traded.
    """
    columns = signal.columns.get_indexer(pd.Index(orders.symbols, dtype="str"))
    rows = sessions.get_indexer(pd.DatetimeIndex(orders.days))
    known = columns[orders.symbol] >= 0
    places = rows[orders.day[known]], columns[orders.symbol[known]]
    shape = len(sessions), signal.shape[1]
    cells = np.ravel_multi_index(places, shape)
    ordered = np.bincount(cells[orders.wishes_to_buy[known]], minlength=math.prod(shape)).reshape(shape)
    moved = np.zeros(shape)
    np.add.at(moved.reshape(-1), cells, orders.shares[known])
    for event in events:
        column = int(signal.columns.get_indexer(pd.Index([event.symbol]))[0])
        if column >= 0 and isinstance(event, Split | Delisting):
            change = event.after - event.before if isinstance(event, Split) else -event.quantity
            moved[sessions.get_loc(event.session), column] += float(change)
    held = np.zeros(shape, dtype=bool)
    held[1:] = moved[:-1].cumsum(axis=0) > _DUST
    buys = signal.reindex(sessions).to_numpy() == 1
    return int((buys & ~held & (ordered == 0)).sum())
