"""May it run: the earlier sessions that a strategy needs are measured, fetched and not evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.audit.causality import BuiltTrials, Rehearsal, Trials, rehearse
from quantgraph.data import MarketDataSource
from quantgraph.errors import CodeFailed, QuantGraphError
from quantgraph.market import Moment, session_of
from quantgraph.runtime.endings import FATAL_ERRORS
from quantgraph.state import DataState
from quantgraph.state.frames import FieldKey, Floats
from quantgraph.subgraphs.signal.understanding import (
    market_sessions,
    restrict_to_request,
    with_sessions,
)

EVALUATION_FIELDS = ("causality", "warm_up", "evaluated_from", "not_judged")
"""Fields of a validated signal's report, on its proof and its evaluation, that a result repeats."""

_EARLIER_SESSIONS = (250, 500, 1000)
"""Lengths of earlier data, in sessions, over which the warm-up is measured until one shows it."""


@dataclass(frozen=True, kw_only=True)
class DraftStrategy:
    """The trials of cells, on a commit that holds the window alone; ``least`` is a need found before."""

    trials: Trials
    data_ref: str
    store: DataState
    least: int = 1


@dataclass(frozen=True, kw_only=True)
class FixedWindow:
    """The data on which a strategy runs: the window, with the earlier sessions that it needs and that exist.

    ``reads`` are the fields that its code is given, ``seconds`` what a run on the longest data took.
    """

    data_ref: str
    warm_up: int | None = None
    data_start: str | None = None
    reads: frozenset[FieldKey] | None = None
    seconds: float = 0.0
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class _Rehearsed:
    """A run on invented rows, the commit behind them, and its first session."""

    run: Rehearsal
    data_ref: str
    first: pd.Timestamp


def fix_window(
    strategy: DraftStrategy, request: Mapping[str, Any], source: MarketDataSource, as_of: Moment
) -> FixedWindow:
    """Fix on what a strategy runs, before it has seen a real row: as many earlier sessions as it needs.

    The need is measured on invented rows, over more sessions than the window, which may be too short to show
    it.
    """
    sessions, window = market_sessions(request, source), session_of(request["start"])
    before = sessions[sessions < window]
    try:
        longest = _measure(strategy, request, source, before, as_of)
        longest = longest or _rehearse(strategy, strategy.data_ref, as_of, window)
        starts = [session_of(request["data_start"])] if "data_start" in request else []
        if longest.run.warm_up != 1 and len(before) and (longest.first < window or strategy.least > 1):
            need = None if isinstance(strategy.trials, BuiltTrials) else longest.run.warm_up
            starts.append(longest.first if need is None else before[-(need - 1) :][0])
        if not starts:
            return _fixed(longest, strategy.data_ref, None, request["start"])
        first = min(starts)
        extended = {**request, "data_start": f"{first:%Y%m%d}"}
        ref = longest.data_ref
        if longest.first > first:
            span = {"first": first, "last": before[-1]}
            ref = with_sessions(strategy.store, strategy.data_ref, request, source, **span)
        ref = restrict_to_request(strategy.store, ref, extended, source)
        return _fixed(longest, ref, extended["data_start"], extended["data_start"])
    except FATAL_ERRORS:
        raise
    except QuantGraphError as error:
        note = _failure_note(error) if isinstance(error, CodeFailed) else _missing(error)
        alone = _rehearse(strategy, strategy.data_ref, as_of, window)
        return replace(_fixed(alone, strategy.data_ref, None, request["start"]), notes=(note,))


def _fixed(found: _Rehearsed, ref: str, data_start: str | None, start: str) -> FixedWindow:
    return FixedWindow(
        data_ref=ref,
        warm_up=found.run.warm_up,
        data_start=data_start,
        reads=found.run.reads,
        seconds=found.run.seconds,
        notes=() if found.run.warm_up else (unmeasured_note(start),),
    )


def _measure(
    strategy: DraftStrategy,
    request: Mapping[str, Any],
    source: MarketDataSource,
    before: pd.DatetimeIndex,
    as_of: Moment,
) -> _Rehearsed | None:
    """Rehearse on more and more earlier sessions until these show the need; None if no signal comes of it."""
    longest, known = None, strategy.trials.needs if isinstance(strategy.trials, BuiltTrials) else 0
    for count in ((max(known, _EARLIER_SESSIONS[0]),) if known else _EARLIER_SESSIONS) if len(before) else ():
        first = before[-count:][0]
        ref = with_sessions(strategy.store, strategy.data_ref, request, source, first=first, last=before[-1])
        rehearsed = _rehearse(strategy, ref, as_of, first)
        if known or _varies(rehearsed.run.signal.values):
            longest = rehearsed
        if count >= len(before) or (longest is rehearsed and rehearsed.run.warm_up is not None):
            break
    return longest


def _rehearse(strategy: DraftStrategy, ref: str, as_of: Moment, first: pd.Timestamp) -> _Rehearsed:
    panel = strategy.store.view(as_of, ref).frozen()
    run = rehearse(strategy.trials, panel, warm_up=True)
    need = run.warm_up and max(run.warm_up, strategy.least)
    return _Rehearsed(replace(run, warm_up=need), ref, first)


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


def _failure_note(error: QuantGraphError) -> Note:
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
    if first is None:
        zh, en = (
            f"；信号每一行需要 {need} 个交易日，区间里没有这么多",
            f"; each row needs {need} sessions, and there are fewer",
        )
        return {"zh": zh, "en": en}
    return {
        "zh": f"；信号每一行需要 {need} 个交易日，区间的前 {count} 个不参与评价，从 {first} 起评价",
        "en": f"; each row needs {need} sessions: the first {count} are not evaluated, numbers are from "
        f"{first} on",
    }
