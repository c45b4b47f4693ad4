"""The average true range of each symbol (Wilder 1978), as of each close."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.broker.accounts._quotes import per_commit
from quantgraph.market.actions import CorporateAction, actions_of
from quantgraph.state import DataState

_UNIT = Decimal("0.0001")


@per_commit
def average_true_ranges(store: DataState, data_ref: str, window: int) -> pd.DataFrame:
    """Average true range as of the close of each session; NaN before a symbol has had ``window`` of them.

    The first is the mean of ``window`` true ranges, each later one moves by the part ``1 / window``. Sessions
    without high, low and close are left out. On an ex-date the close before and the average move as prices.
    """
    fields = store.snapshot(data_ref)["ohlcv"]
    like = fields["open"]
    high, low, close = (fields[name].reindex_like(like).to_numpy() for name in ("high", "low", "close"))
    places = {symbol: place for place, symbol in enumerate(like.columns)}
    actions = actions_by_session(store, data_ref)
    before, average = np.full((2, len(like.columns)), np.nan)
    counted, found = np.zeros(len(like.columns), np.int64), np.full(like.shape, np.nan)
    for row, day in enumerate(like.index):
        for action in actions.get(day, ()):
            if action.symbol in places:
                place, ratio = places[action.symbol], float(action.ratio)
                before[place] = (before[place] - float(action.cash)) / ratio
                average[place] /= ratio
        there = ~np.isnan(high[row] + low[row] + close[row])
        ranges = np.maximum(high[row], before) - np.minimum(low[row], before)
        ranged = there & ~np.isnan(before)
        counted += ranged
        weight = np.where(ranged, 1 / np.clip(counted, 1, window), 0.0)
        average = np.where(weight == 1, ranges, average + weight * np.where(ranged, ranges - average, 0.0))
        before = np.where(there, close[row], before)
        found[row] = np.where(counted >= window, average, np.nan)
    return pd.DataFrame(found, like.index, like.columns)


def range_of(ranges: pd.DataFrame, symbol: str, end: int) -> Decimal | None:
    """The average as of the last of the first ``end`` sessions, to four decimals; None without one."""
    value: NDArray[np.float64] = ranges[symbol].to_numpy()[max(0, end - 1) : end]
    if not len(value) or np.isnan(value[0]):
        return None
    return Decimal(repr(float(value[0]))).quantize(_UNIT)


@per_commit
def actions_by_session(store: DataState, data_ref: str) -> dict[pd.Timestamp, list[CorporateAction]]:
    """Corporate actions by the session that has their ex-date, or the first one after it."""
    fields = store.snapshot(data_ref)["ohlcv"]
    sessions, found = pd.DatetimeIndex(fields["open"].index), dict[pd.Timestamp, list[CorporateAction]]()
    for action in actions_of(fields):
        place = int(sessions.searchsorted(action.ex))
        if place < len(sessions):
            found.setdefault(sessions[place], []).append(action)
    return found
