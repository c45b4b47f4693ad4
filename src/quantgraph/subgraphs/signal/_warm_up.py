"""Warm-up: the earlier sessions that a strategy needs are measured, fetched and not evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.audit.causality import CodeTrials, TrialOutcome, measure_warm_up
from quantgraph.data import AsOfSource, MarketDataSource
from quantgraph.errors import CodeFailed, QuantGraphError
from quantgraph.market import Moment, session_of
from quantgraph.runtime.endings import FATAL_ERRORS
from quantgraph.sandbox import CodeRunner
from quantgraph.state import DataState, View
from quantgraph.state.frames import Floats, FrozenFrame
from quantgraph.subgraphs.signal.understanding import (
    market_sessions,
    request_symbols,
    restrict_to_request,
    with_sessions,
)

EVALUATION_FIELDS = ("causality", "warm_up", "evaluated_from", "not_judged")
"""Fields of a validated signal's report, on its proof and its evaluation, that a result repeats."""

_EARLIER_SESSIONS = (250, 500, 1000)
"""Lengths of earlier data, in sessions, over which the warm-up is measured until one shows it."""


@dataclass(frozen=True, kw_only=True)
class DraftStrategy:
    """The cells that publish the signal ``name``, and what they run on."""

    cells: Sequence[str]
    name: str
    data_ref: str
    signal: pd.DataFrame
    runner: CodeRunner
    store: DataState


@dataclass(frozen=True, kw_only=True)
class WarmedSignal:
    """The signal of a window, made with the earlier sessions that it needs and that exist."""

    data_ref: str
    signal: pd.DataFrame
    warm_up: int | None
    longest_ref: str
    """The commit with the most sessions that were fetched to measure it."""
    data_start: str | None = None
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _EarlierData:
    """A commit whose data start before the window, and their first session."""

    data_ref: str
    start: pd.Timestamp


def run_with_warm_up(
    strategy: DraftStrategy, request: Mapping[str, Any], source: MarketDataSource, as_of: Moment
) -> WarmedSignal:
    """Run a strategy again with as many earlier sessions as its signal needs.

    The need is measured over more sessions than the window, which may be too short to show it.
    """
    sessions = market_sessions(request, source)
    before = sessions[sessions < session_of(request["start"])]
    alone = WarmedSignal(
        data_ref=strategy.data_ref, signal=strategy.signal, warm_up=None, longest_ref=strategy.data_ref
    )
    try:
        need, longest = _measure(strategy, request, source, before, as_of)
        alone = alone if longest is None else replace(alone, longest_ref=longest.data_ref)
        starts = [session_of(request["data_start"])] if "data_start" in request else []
        if need != 1 and longest is not None:
            starts.append(longest.start if need is None else before[-(need - 1) :][0])
        if not starts:
            return replace(alone, warm_up=need, notes=() if need else (unmeasured_note(request["start"]),))
        first = min(starts)
        extended = {**request, "data_start": f"{first:%Y%m%d}"}
        if longest is not None and longest.start <= first:
            ref = longest.data_ref
        else:
            ref = with_sessions(
                strategy.store, strategy.data_ref, request, source, first=first, last=before[-1]
            )
        ref = restrict_to_request(strategy.store, ref, extended, source)
        signal = in_window(_signal(strategy, ref, as_of), request)
    except FATAL_ERRORS:
        raise
    except CodeFailed as error:
        return replace(alone, warm_up=_need(strategy, as_of), notes=(_failure_note(error),))
    except QuantGraphError as error:
        return replace(alone, warm_up=_need(strategy, as_of), notes=(_missing(error),))
    notes = () if need else (unmeasured_note(extended["data_start"]),)
    return replace(
        alone, data_ref=ref, signal=signal, warm_up=need, data_start=extended["data_start"], notes=notes
    )


_WIDEST = 2_500
"""Sessions on which a signal is held against the words, at most."""
_MOST_CELLS = 1_000_000
"""Sessions times symbols of them, at most."""


def wider_view(
    strategy: Mapping[str, Any],
    request: Mapping[str, Any],
    store: DataState,
    local: AsOfSource | None,
    as_of: Moment,
) -> View | None:
    """Return a request's data in all sessions that need no fetch; None if there are no more.

    Without a ``local`` source these are the sessions that the warm-up was measured on.
    """
    if local is None:
        view = store.view(as_of, strategy.get("longest_ref") or strategy["data_ref"])
    else:
        sessions, symbols = market_sessions(request, local), request_symbols(request, local)
        sessions = sessions[-min(_WIDEST, _MOST_CELLS // len(symbols)) :]
        wide = DataState()
        ref = with_sessions(wide, wide.empty, request, local, first=sessions[0], last=sessions[-1])
        view = wide.view(as_of, ref)
    known = store.view(as_of, strategy["data_ref"])
    return view if len(view["ohlcv"]["close"]) > len(known["ohlcv"]["close"]) else None


def _measure(
    strategy: DraftStrategy,
    request: Mapping[str, Any],
    source: MarketDataSource,
    before: pd.DatetimeIndex,
    as_of: Moment,
) -> tuple[int | None, _EarlierData | None]:
    """Return the sessions needed, None if not measurable, and the longest data with a signal."""
    longest = None
    for count in _EARLIER_SESSIONS if len(before) else ():
        first = before[-count:][0]
        ref = with_sessions(strategy.store, strategy.data_ref, request, source, first=first, last=before[-1])
        trials, panel = _trials(strategy), strategy.store.view(as_of, ref).frozen()
        whole = trials.whole(panel)
        if whole.signal is None:
            raise CodeFailed(whole.error)
        if _varies(whole.signal.values):
            longest = _EarlierData(data_ref=ref, start=first)
            need = measure_warm_up(trials, panel, whole=whole)
            if need is not None:
                return need, longest
        if count >= len(before):
            break
    return None if longest is not None else _need(strategy, as_of), longest


def _need(strategy: DraftStrategy, as_of: Moment) -> int | None:
    """The sessions needed, measured on the window's data, on which the draft was made."""
    panel, signal = strategy.store.view(as_of, strategy.data_ref).frozen(), strategy.signal
    sessions = signal.index.to_numpy().astype("datetime64[us]")
    whole = FrozenFrame(sessions, tuple(signal.columns), signal.to_numpy())
    return measure_warm_up(_trials(strategy), panel, whole=TrialOutcome(signal=whole))


def _trials(strategy: DraftStrategy) -> CodeTrials:
    return CodeTrials(strategy.runner, strategy.cells, strategy.name)


def _signal(strategy: DraftStrategy, ref: str, as_of: Moment) -> pd.DataFrame:
    result = strategy.runner.run(strategy.cells, strategy.store.view(as_of, ref).frozen())
    if result.error is not None:
        raise result.error
    if strategy.name not in result.signals:
        raise CodeFailed(f"with earlier data the code publishes no signal {strategy.name}")
    return result.signals[strategy.name]


def _varies(values: Floats) -> bool:
    """Whether a signal has different values; one that is 0 throughout may still wait for its data."""
    return np.unique(values[~np.isnan(values)]).size > 1


def unmeasured_note(start: str) -> Note:
    """Return the note on a signal whose rows need as many sessions as there are, as far as is known."""
    return Note(
        zh=f"测不出信号每一行需要多少个交易日（可能取决于全部历史），因此用了自 {start} 起的全部数据",
        en="the sessions that a row of the signal needs could not be measured (it may depend on all of "
        f"them), so all data from {start} on are used",
    )


def _missing(error: QuantGraphError) -> Note:
    return Note(
        zh=f"取不到区间之前的数据（{error.line}），信号尚不可靠的交易日不参与评价",
        en=f"there are no data from before the window ({error.line}); sessions that need them do not count",
    )


def _failure_note(error: CodeFailed) -> Note:
    return Note(
        zh=f"策略代码在更早的数据上出错（{error.message}），因此只用区间内的数据",
        en=f"the code fails on earlier data ({error.message}), so only the window's data are used",
    )


def in_window(frame: pd.DataFrame, request: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of the requested window, without the earlier ones."""
    return frame.loc[session_of(request["start"]) :]


def evaluated_from(
    sessions: pd.DatetimeIndex, request: Mapping[str, Any], warm_up: int | None
) -> pd.Timestamp | None:
    """Return the first session of the window that is evaluated; None if there is none.

    It is the window's first if that row of the signal has the ``warm_up`` sessions that a row needs, its own
    included; else the session after the first such row, since a row is traded at the next open.
    """
    inside = sessions[sessions >= session_of(request["start"])]
    early, cold = len(sessions) - len(inside), 0 if warm_up is None else warm_up - 1
    place = 0 if cold <= early else cold + 1 - early
    return inside[place] if place < len(inside) else None


def not_evaluated_text(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return, by language, the end of a sentence on sessions not evaluated; empty if there are none."""
    count, need, first = (summary[key] for key in ("not_judged", "warm_up", "evaluated_from"))
    if not count:
        return {"zh": "", "en": ""}
    return {
        "zh": f"；信号每一行需要 {need} 个交易日，区间的前 {count} 个不参与评价，从 {first} 起评价",
        "en": f"; each row needs {need} sessions: the first {count} are not evaluated, numbers are from "
        f"{first} on",
    }
