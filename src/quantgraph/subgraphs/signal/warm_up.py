"""The sessions that a strategy needs before its signal counts: fetched, run through, and not judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from quantgraph.audit import CodeTrials, measure_warm_up
from quantgraph.data import MarketDataSource
from quantgraph.errors import NoData, UnknownSymbol
from quantgraph.market.moment import Moment, session_of
from quantgraph.sandbox import CodeRunner
from quantgraph.state import DataState
from quantgraph.subgraphs.signal.request import request_symbols

__all__ = ["Warmed", "evaluated_from", "in_window", "warmed"]

A_YEAR = 250
"""Sessions fetched before a window that is too short to measure the need."""


@dataclass(frozen=True, kw_only=True)
class Warmed:
    """A signal for the window, made on data that begins before it.

    Attributes
    ----------
    data_ref
        The commit with the earlier rows, without the signal.
    data_start
        Its first session, ``YYYYMMDD``.
    """

    data_ref: str
    data_start: str
    signal: pd.DataFrame


def warmed(
    request: Mapping[str, Any],
    *,
    cells: Sequence[str],
    name: str,
    signal: pd.DataFrame,
    runner: CodeRunner,
    store: DataState,
    data_ref: str,
    source: MarketDataSource,
    as_of: Moment,
) -> Warmed | None:
    """Run a strategy again with as many earlier sessions as its signal needs.

    None if it needs none, depends on the whole history, or the source has nothing earlier.

    Parameters
    ----------
    request
        As checked; the window begins at its ``start``.
    cells, name, signal
        The strategy, and the signal it handed over for the window alone.
    source
        The source as known at ``as_of``.
    """
    sessions = source.sessions()
    before = sessions[sessions < session_of(request["start"])]
    if before.empty:
        return None
    needed = A_YEAR
    if signal.notna().to_numpy().any():  # else the window is too short to measure the need
        trials = CodeTrials(runner, cells, name)
        needed = _cold(measure_warm_up(trials, store.view(as_of, data_ref).frozen()))
    if not needed:
        return None
    first = before[-needed:][0]
    symbols = request_symbols(request, source)
    try:
        ref = store.update("ohlcv", source.bars(symbols, first, before[-1]), base=data_ref)
        if request["indicators"]:
            earlier = source.indicators(symbols, first, before[-1], request["indicators"])
            ref = store.update("indicators", earlier, base=ref)
    except (NoData, UnknownSymbol):  # listed later, for example: then the window has to do
        return None
    result = runner.run(cells, store.view(as_of, ref).frozen())
    if result.error is not None or name not in result.signals:
        return None
    signal = in_window(result.signals[name], request)
    return Warmed(data_ref=ref, data_start=f"{first:%Y%m%d}", signal=signal)


def in_window(frame: pd.DataFrame, request: Mapping[str, Any]) -> pd.DataFrame:
    """The rows of the window that was asked for, without those before it."""
    return frame.loc[session_of(request["start"]) :]


def evaluated_from(
    sessions: pd.DatetimeIndex, request: Mapping[str, Any], warm_up: int | None
) -> pd.Timestamp | None:
    """First session of the window that is traded; None if there is none.

    The window's first if its row of the signal has the ``warm_up`` sessions that a row needs, itself
    included. Else the one after the first row that counts, since a row is traded at the next open.

    Parameters
    ----------
    sessions
        Those of the data, earlier ones included.
    """
    inside = sessions[sessions >= session_of(request["start"])]
    early = len(sessions) - len(inside)
    cold = 0 if _cold(warm_up) <= early else _cold(warm_up) + 1 - early
    return inside[cold] if cold < len(inside) else None


def _cold(warm_up: int | None) -> int:
    """Rows at the beginning of data that do not count."""
    return 0 if warm_up is None else warm_up - 1
