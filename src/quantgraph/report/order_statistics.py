"""Statistics of a run's orders: rejections by reason, round trips, buys of the signal without an order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from quantgraph.broker.corporate_actions import Delisting, Event, Split
from quantgraph.broker.orders import Fill, Outcome, rejection_of
from quantgraph.report.round_trips import Entitlement, profit_factor, round_trips
from quantgraph.report.trades import Trade
from quantgraph.state.frames import Floats

__all__ = ["count_unfollowed_buys", "format_counts", "rejection_counts", "round_trip_statistics"]

_DUST = 1e-6
"""Rounding of sums of shares."""


def rejection_counts(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Number of orders refused or cut by code, the most frequent first."""
    return dict(Counter(refused.code for each in outcomes if (refused := rejection_of(each))).most_common())


def format_counts(reasons: Mapping[str, int]) -> str:
    """Counts by code in one line.

    >>> format_counts({"limit_up": 3, "suspended": 1})
    'limit_up 3, suspended 1'
    """
    return ", ".join(f"{code} {count:,}" for code, count in reasons.items())


def round_trip_statistics(
    outcomes: Iterable[Outcome], events: Iterable[Event], sessions: pd.DatetimeIndex
) -> dict[str, Any]:
    """Round trips at average cost and without dividends, as ``win_rate`` and ``realised`` count them.

    Returns
    -------
    dict
        ``round_trips``, one a sale; ``profit_factor``, None without a loss; ``average_holding``, mean number
        of sessions from purchase to sale, None without a round trip.
    """
    splits = [event for event in events if isinstance(event, Split)]
    trades = [_merged_away(split) for split in splits if not split.after]  # before the session's orders
    trades += [Trade.of(each) for each in (*outcomes, *events) if isinstance(each, Fill | Delisting)]
    shares = [
        Entitlement(session=split.session, symbol=split.symbol, shares=split.after - split.before)
        for split in splits
        if split.after
    ]
    trips = round_trips(trades, shares, basis="average")
    opened, closed = (
        sessions.get_indexer(pd.DatetimeIndex([getattr(trip, at) for trip in trips]))
        for at in ("opened", "closed")
    )
    factor = profit_factor(trips)
    return {
        "round_trips": len(trips),
        "profit_factor": None if math.isnan(factor) else factor,
        "average_holding": float((closed - opened).mean()) if trips else None,
    }


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
    signal: pd.DataFrame, outcomes: Iterable[Outcome], events: Iterable[Event], sessions: pd.DatetimeIndex
) -> int:
    """Count buys of a signal, for symbols not held, without an order.

    Parameters
    ----------
    signal
        1 = buy; a row stands at the session in which it is traded. Only its symbols count.
    sessions
        The sessions that were traded.
    """
    outcomes = list(outcomes)
    moved = [
        (fill.session, fill.order.symbol, float(fill.quantity if fill.side == "buy" else -fill.quantity))
        for fill in outcomes
        if isinstance(fill, Fill)
    ]
    for event in events:
        if isinstance(event, Split):
            moved.append((event.session, event.symbol, float(event.after - event.before)))
        elif isinstance(event, Delisting):
            moved.append((event.session, event.symbol, -float(event.quantity)))
    ordered = [(each.session, each.order.symbol, 1.0) for each in outcomes if each.order.side == "buy"]
    after, orders = (_sums(cells, sessions, signal.columns) for cells in (moved, ordered))
    held = np.vstack([np.zeros((1, signal.shape[1])), after.cumsum(axis=0)[:-1]]) > _DUST
    buys = signal.reindex(sessions).to_numpy() == 1
    return int((buys & ~held & (orders == 0)).sum())


def _sums(
    cells: Sequence[tuple[pd.Timestamp, str, float]], sessions: pd.DatetimeIndex, symbols: pd.Index
) -> Floats:
    """Sums by session and symbol, (T, N), 0 without an amount."""
    sums = np.zeros((len(sessions), len(symbols)))
    days, names, amounts = zip(*cells, strict=True) if cells else ((), (), ())
    columns = symbols.get_indexer(pd.Index(names, dtype="str"))
    known = columns >= 0
    rows = sessions.get_indexer(pd.DatetimeIndex(days))
    np.add.at(sums, (rows[known], columns[known]), np.array(amounts)[known])
    return sums
