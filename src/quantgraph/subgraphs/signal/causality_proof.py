"""The proof that a signal does not use the future."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from quantgraph._util.texts import Language, say
from quantgraph.audit import (
    CodeTrials,
    Finding,
    Reads,
    Report,
    TrialOutcome,
    Verdict,
    check_causality,
    planned_runs,
    run_again,
)
from quantgraph.market.moment import session_of
from quantgraph.runtime.endings import language
from quantgraph.runtime.events import emit_proof
from quantgraph.runtime.resources import OpenResources
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import FrozenFrame
from quantgraph.subgraphs.signal.agents import as_of, current_ref
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.warm_up import evaluated_from, in_window

_LONG = 30.0
"""Seconds from which on a proof is announced."""


@dataclass(frozen=True, kw_only=True)
class CausalityProof:
    """Result of the proof.

    Attributes
    ----------
    signal
        The window's signal computed session by session, which is traded instead of the generated one; None
        if it was not computed so.
    """

    report: Report
    signal: pd.DataFrame | None = None


def prove_causality(
    state: SignalSubgraphState, resources: OpenResources, *, seed: int | None
) -> CausalityProof:
    """Prove the strategy causal on the data it ran on, after a second run gave the same signal.

    The report's summary has the verdict as ``causality``; ``warm_up``, the sessions that a row of the signal
    needs; ``evaluated_from``, the first session of the window that counts; and ``not_judged``, how many
    sessions of the window are before it. The cost is given in evaluations, not in seconds, which would make
    two equal runs differ.

    Parameters
    ----------
    seed
        See :func:`~quantgraph.audit.check_causality`.
    """
    strategy, request = state["strategy"], state["request"]
    view = resources.store.view(as_of(state, resources), strategy["data_ref"])
    trials, panel = CodeTrials(resources.runner, strategy["cells"], strategy["name"]), view.frozen()
    stored = resources.store.view(as_of(state, resources), current_ref(state, resources))
    signal = stored["signal"][strategy["name"]]
    whole, reads, changed = _run_again(state, trials, panel, signal)
    if changed is not None:
        return CausalityProof(report=Report(checks=("reproducible",), findings=(changed,)))
    settings = resources.settings
    runs = planned_runs(len(view["ohlcv"]["close"]), settings.audit_cuts)
    if (seconds := runs * whole.seconds) > _LONG:
        emit_proof(runs, seconds, _long_proof(runs, seconds, whole.seconds, language(state)))
    verdict = check_causality(
        trials,
        panel,
        cuts=settings.audit_cuts,
        seconds=settings.audit_walk_seconds,
        seed=seed,
        whole=whole,
        reads=reads,
        warm_up=False,  # measured at generation, over a longer window
    )
    sessions = pd.DatetimeIndex(view["ohlcv"]["close"].index)
    warm_up = strategy["warm_up"]
    first = evaluated_from(sessions, request, warm_up)
    findings = list(verdict.findings(language(state)))
    if verdict.causal and first is None:
        findings.append(
            Finding(
                severity="error",
                code="warm_up",
                message=f"{strategy['name']} needs {warm_up} sessions before its signal counts, but the data "
                f"have {len(sessions)}: use a longer window, or shorter averages",
            )
        )
    report = Report(
        checks=("causality", "warm_up"),
        findings=tuple(findings),
        summary={
            "causality": _verdict_json(verdict, language(state)) | {"warm_up": warm_up},
            "warm_up": warm_up,
            "evaluated_from": None if first is None else f"{first:%Y%m%d}",
            "not_judged": _count_sessions(sessions, session_of(request["start"]), first),
        },
    )
    if verdict.signal is None:
        return CausalityProof(report=report)
    return CausalityProof(report=report, signal=in_window(verdict.signal, request)[signal.columns])


def _run_again(
    state: SignalSubgraphState, trials: CodeTrials, panel: Frames, stored: pd.DataFrame
) -> tuple[TrialOutcome, Reads, Finding | None]:
    """Run the strategy in a fresh process; the finding says how its signal differs from the stored one."""
    name = state["strategy"]["name"]

    def is_same(signal: FrozenFrame) -> bool:
        return in_window(signal.frame, state["request"]).reindex(columns=stored.columns).equals(stored)

    again, reads = run_again(trials, panel, is_same)
    if again.signal is None:
        message = f"{name} failed when its code was run again: {again.error}"
    elif reads is not None or is_same(again.signal):
        return again, reads, None
    else:
        message = f"{name} differs when its code is run again; seed all randomness"
    return again, reads, Finding(severity="error", code="not_reproducible", message=message)


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


def _count_sessions(sessions: pd.DatetimeIndex, start: pd.Timestamp, first: pd.Timestamp | None) -> int:
    """Count the sessions from ``start`` up to but not including ``first``; None means up to the last."""
    inside = sessions[sessions >= start]
    return len(inside) if first is None else int((inside < first).sum())
