"""Does the code do it: the sessions that a signal needs, the proof that it knows no future, its review.

A model may warn. It stops a run only with a cell that reproduces the fault on the data and the signal.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from quantgraph._util.parsing import parse_code
from quantgraph._util.texts import Language, Note, say
from quantgraph.audit import Finding, Report
from quantgraph.audit.bars import signal_counts
from quantgraph.audit.causality import (
    BuiltTrials,
    FirstRun,
    LookLog,
    Rehearsal,
    Trials,
    Verdict,
    check_causality,
    rehearse,
    run_first,
)
from quantgraph.data import MarketDataSource
from quantgraph.errors import BadWindow, CodeFailed, QuantGraphError
from quantgraph.market import Moment, session_of
from quantgraph.rules import trials_of
from quantgraph.runtime import OpenResources
from quantgraph.runtime.dialogue import emit_proof
from quantgraph.runtime.endings import FATAL_ERRORS, language
from quantgraph.runtime.graph_state import request_of, strategy_of
from quantgraph.sandbox import CodeRunner
from quantgraph.sandbox.wire import Frames
from quantgraph.state import DataState
from quantgraph.state.frames import FieldKey, Floats, FrozenFrame, frozen_array
from quantgraph.subgraphs.signal._agents import Issue, as_of, current_ref
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import market_sessions, restrict_to_request, with_sessions

_LONG = 30.0
"""Seconds from which on a proof is announced."""
_TIMES, _SESSIONS = 2, 4
"""A warm-up is refuted by a need of more than so many times as much, and so many sessions."""


def run_strategy_first(
    resources: OpenResources,
    trials: Trials,
    panel: Frames,
    *,
    window: FixedWindow,
    request: Mapping[str, Any],
    seed: int,
    user_language: Language,
) -> FirstRun:
    """FirstRun through a fixed window: the first time that this code runs on these rows.

    Raises
    ------
    CodeFailed
        If the code fails at a session.
    """
    audit = resources.settings.audit

    def announce(runs: int) -> None:
        if (seconds := runs * window.seconds) > _LONG:
            emit_proof(runs, seconds, _long_proof(runs, seconds, window.seconds, user_language))

    first = run_first(
        trials,
        panel,
        prove=audit.prove,
        cuts=audit.cuts,
        seed=seed,
        reads=window.reads,
        looks=LookLog(resources.settings.cache_dir, start=session_of(request["start"])),
        announce=announce,
    )
    if first.error:
        raise CodeFailed(f"the code fails {first.error}")
    return first


def prove_causality(state: SignalSubgraphState, resources: OpenResources) -> Report:
    """Compare the walked signal with runs that know more.

    The report's summary has the verdict as ``causality``; ``warm_up``, the sessions that a row of the signal
    needs by its rehearsal; ``needs``, on these rows if they refute it; ``evaluated_from``, the first session
    of the window that counts; and ``not_judged``, how many sessions of the window are before it.
    """
    strategy, request = strategy_of(state), request_of(state)["checked"]
    moment, name, warm_up = as_of(state, resources), strategy["name"], strategy["warm_up"]
    view, kept = resources.store.view(moment, strategy["data_ref"]), strategy["first_run"]
    panel, audit = view.frozen(), resources.settings.audit
    signal = resources.store.view(moment, kept["ref"]).frozen()["signal"][name]
    verdict = check_causality(
        trials_of(resources.runner, strategy["cells"], name, prove=audit.prove),
        panel,
        cuts=audit.cuts,
        walked=FirstRun.from_json(kept, panel, signal),
    )
    sessions = pd.DatetimeIndex(view["ohlcv"]["close"].index)
    first = evaluated_from(sessions, request, warm_up)
    findings = list(verdict.findings(language(state)))
    stored = resources.store.view(moment, current_ref(state, resources))["signal"][name]
    if verdict.signal is not None and not verdict.signal.reindex_like(stored).equals(stored):
        message = f"{name} differs when its code is run again; seed all randomness"
        findings.append(Finding(severity="error", code="not_reproducible", message=message))
    needs = verdict.warm_up or 0
    refuted = bool(warm_up and needs > _TIMES * warm_up + _SESSIONS)
    if verdict.causal and first is None:
        there = f"the data have {len(sessions)}: use a longer window, or shorter averages"
        message = f"{name} needs {warm_up} sessions before its signal counts, but {there}"
        findings.append(Finding(severity="error", code="warm_up", message=message))
    elif refuted:
        message = f"{name} needs {needs} sessions on these rows and {warm_up} on invented ones; run it again"
        findings.append(Finding(severity="error", code="short_warm_up", message=message))
    return Report(
        checks=("causality", "warm_up"),
        findings=tuple(findings),
        summary={
            "causality": _verdict_json(verdict, language(state)) | {"warm_up": warm_up},
            "warm_up": warm_up,
            "needs": needs if refuted else None,
            "evaluated_from": None if first is None else f"{first:%Y%m%d}",
            "not_judged": count_sessions(sessions, session_of(request["start"]), first),
        },
    )


def _long_proof(runs: int, seconds: float, each: float, user_language: Language) -> str:
    minutes = max(1, round(seconds / 60))
    return say(
        user_language,
        zh=f"证明最多要把策略代码再运行约 {runs} 次，每次至多 {each:.1f} 秒，最长约 {minutes} 分钟",
        en=f"the proof runs the code at most {runs} times, each up to {each:.1f} s: up to some {minutes} min",
    )


def _verdict_json(verdict: Verdict, user_language: Language) -> dict[str, Any]:
    verdict_json = {key: value for key, value in verdict.as_json().items() if key != "seconds"}
    return verdict_json | {"text": verdict.text(user_language)}


def count_sessions(sessions: pd.DatetimeIndex, start: pd.Timestamp, first: pd.Timestamp | None) -> int:
    """Count the sessions from ``start`` up to but not including ``first``; None means up to the last."""
    inside = sessions[sessions >= start]
    return len(inside) if first is None else int((inside < first).sum())


_TRADES = 5


def review_facts(
    sentence: str,
    understanding: Mapping[str, Any],
    strategy: Mapping[str, Any],
    signal: pd.DataFrame,
    close: pd.DataFrame,
) -> dict[str, Any]:
    """Return what the model is shown: the words, the code and its signal's name, counts and first trades."""
    return {
        "sentence": sentence,
        "understanding": understanding,
        "signal": strategy["name"],
        "code": "\n# %%\n".join(strategy["cells"]),
        "counts": signal_counts(signal),
        "trades": first_trades(signal, close),
    }


def first_trades(signal: pd.DataFrame, close: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the first five positions of a signal: sessions of entry and exit, and their closes.

    >>> days = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04"])
    >>> one = pd.DataFrame({"600519.SH": [1.0, 0.0, -1.0]}, index=days)
    >>> first_trades(one, one + 10)[0]["entry"], first_trades(one, one + 10)[0]["exit_close"]
    ('2024-01-02', 9.0)
    """
    found = []
    for symbol in signal.columns:
        entered: pd.Timestamp | None = None
        values = signal[symbol].to_numpy()
        for row in map(int, np.flatnonzero(np.nan_to_num(values))):
            session = pd.DatetimeIndex(signal.index)[row]
            if values[row] == 1 and entered is None:
                entered = session
            elif values[row] == -1 and entered is not None:
                found.append(_trade(close, str(symbol), entered, session))
                entered = None
        if entered is not None:
            found.append(_trade(close, str(symbol), entered, None))
    return sorted(found, key=lambda trade: (trade["entry"], trade["symbol"]))[:_TRADES]


def _trade(close: pd.DataFrame, symbol: str, begin: pd.Timestamp, end: pd.Timestamp | None) -> dict[str, Any]:
    trade: dict[str, Any] = {"symbol": symbol}
    for name, session in (("entry", begin), ("exit", end)):
        trade[name] = None if session is None else f"{session:%Y-%m-%d}"
        price = np.nan if session is None else float(close[symbol].loc[session])
        trade[f"{name}_close"] = None if np.isnan(price) else price
    return trade


def is_reproduced(issue: Issue, signal: pd.DataFrame, runner: CodeRunner, frames: Frames) -> bool:
    """Whether an issue's code fails an assertion on the signal, and on no other account than the named cell.

    It has to pass once that one cell of the signal has the value that the issue expects.
    """
    if issue.severity != "error" or issue.symbol not in signal.columns or not _asserts_signal(issue.cell):
        return False
    try:
        session = session_of(issue.date)
    except BadWindow:
        return False
    if session not in signal.index or issue.expected is None:
        return False
    if float(np.nan_to_num(signal[issue.symbol].loc[session])) == issue.expected:
        return False
    error = runner.run([issue.cell], frames).error
    if error is None or "AssertionError" not in error.message:
        return False
    values = signal.to_numpy(dtype=np.float64, copy=True)
    values[signal.index.get_loc(session), signal.columns.get_loc(issue.symbol)] = issue.expected
    axes = {name: (frame.sessions, frame.symbols) for name, frame in frames["signal"].items()}
    mended = {name: FrozenFrame(*each, frozen_array(values)) for name, each in axes.items()}
    return runner.run([issue.cell], {**frames, "signal": mended}).error is None


def _asserts_signal(cell: str) -> bool:
    """Whether code has an assertion, of something that is computed, and reads the signal."""
    try:
        tree = parse_code(cell)
    except (SyntaxError, ValueError, RecursionError):
        return False
    asserts = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    read = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return "signal" in read and any(not isinstance(node.test, ast.Constant) for node in asserts)


def issue_finding(issue: Issue, *, reproduced: bool) -> Finding:
    """Return an issue as a finding: a fault that was reproduced, an error that was not, or a remark."""
    if reproduced:
        session = f"{session_of(issue.date):%Y-%m-%d}"
        return Finding(
            severity="warning",
            code="meaning_review",
            message=f"The review reproduced a fault: {issue.message}. At {session} {issue.symbol} the words "
            f"want {issue.expected:g}, which the code does not give: {issue.why}.",
            zh=f"复核重现了一处与原话不符的信号：{issue.message}。{session} {issue.symbol} 按原话应为 "
            f"{issue.expected:g}，代码给出的不是：{issue.why}。",
            detail=f"Its assertion fails:\n{issue.cell}",
            session=session,
            symbol=issue.symbol,
        )
    if issue.severity != "error":
        return Finding(severity=issue.severity, code="model_finding", message=issue.message)
    return Finding(
        severity="warning",
        code="meaning_doubt",
        message=f"The review doubts, without a cell that shows it: {issue.message}",
        zh=f"复核有疑问，但没有能重现的格子：{issue.message}",
        detail=". ".join(filter(None, (issue.message, issue.why))),
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
        zh = f"；信号每一行需要 {need} 个交易日，区间里没有这么多"
        return {"zh": zh, "en": f"; each row needs {need} sessions, and there are fewer"}
    return {
        "zh": f"；信号每一行需要 {need} 个交易日，区间的前 {count} 个不参与评价，从 {first} 起评价",
        "en": f"; each row needs {need} sessions: the first {count} are not evaluated, numbers are from "
        f"{first} on",
    }
