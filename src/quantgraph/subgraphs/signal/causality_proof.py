"""The proof that a signal knows no future, and what follows from it for the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from quantgraph._util.texts import Language
from quantgraph.audit import CodeTrials, Finding, Report, TrialOutcome, Verdict, check_causality
from quantgraph.market.moment import session_of
from quantgraph.runtime.endings import language
from quantgraph.sandbox.wire import Frames
from quantgraph.subgraphs.signal.signal_resources import SignalResources
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.warm_up import evaluated_from, in_window

__all__ = ["CausalityProof", "prove_causality"]


@dataclass(frozen=True, kw_only=True)
class CausalityProof:
    """What the proof came to.

    Attributes
    ----------
    signal
        The window's signal as it was computed session by session, to be traded in place of the one that was
        handed over; None where it was not.
    """

    report: Report
    signal: pd.DataFrame | None = None


def prove_causality(
    state: SignalSubgraphState, resources: SignalResources, *, seed: int | None
) -> CausalityProof:
    """Audit the strategy on the data it ran on.

    Run again it must give what it gave before. The report has the verdict as ``causality``; ``warm_up``, the
    sessions that a row of the signal needs; ``evaluated_from``, the first session of the window that is
    judged; and how many before it are ``not_judged``.
    What the proof cost is told in evaluations, since seconds would make two runs of one thing differ.

    Parameters
    ----------
    seed
        See :func:`~quantgraph.audit.check_causality`.
    """
    strategy, request = state["strategy"], state["request"]
    view = resources.store.view(resources.as_of(state), strategy["data_ref"])
    trials, panel = CodeTrials(resources.runner, strategy["cells"], strategy["name"]), view.frozen()
    whole, changed = _run_again(state, resources, trials, panel)
    if changed is not None:
        return CausalityProof(report=Report(checks=("reproducible",), findings=(changed,)))
    verdict = check_causality(
        trials,
        panel,
        cuts=resources.audit_cuts,
        cells=resources.audit_cells,
        seed=seed,
        whole=whole,
        warm_up=False,  # it was measured when the data were fetched, over a longer time
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
                message=f"{strategy['name']} needs {warm_up} sessions before its signal counts; "
                f"there are {len(sessions)} in all: take a longer window, or shorter averages",
            )
        )
    report = Report(
        checks=("causality", "warm_up"),
        findings=tuple(findings),
        summary={
            "causality": _told(verdict, language(state)) | {"warm_up": warm_up},
            "warm_up": warm_up,
            "evaluated_from": None if first is None else f"{first:%Y%m%d}",
            "not_judged": _between(sessions, session_of(request["start"]), first),
        },
    )
    return CausalityProof(
        report=report, signal=None if verdict.signal is None else in_window(verdict.signal, request)
    )


def _run_again(
    state: SignalSubgraphState, resources: SignalResources, trials: CodeTrials, panel: Frames
) -> tuple[TrialOutcome, Finding | None]:
    """The strategy on all its data in a fresh process, and what is wrong if it is not what is stored."""
    name = state["strategy"]["name"]
    again = trials.whole(panel)
    stored = resources.store.view(resources.as_of(state), resources.data_ref(state))["signal"][name]
    if again.signal is None:
        message = f"{name} run again: {again.error}"
    elif in_window(again.signal.frame, state["request"]).equals(stored):
        return again, None
    else:
        message = f"{name} differs when its code is run again; seed what is random"
    return again, Finding(severity="error", code="not_reproducible", message=message)


def _told(verdict: Verdict, user_language: Language) -> dict[str, Any]:
    told = {key: value for key, value in verdict.as_json().items() if key != "seconds"}
    return told | {"text": verdict.text(user_language)}


def _between(sessions: pd.DatetimeIndex, start: pd.Timestamp, first: pd.Timestamp | None) -> int:
    """How many sessions there are from ``start`` to the one before ``first``; None is after all of them."""
    inside = sessions[sessions >= start]
    return len(inside) if first is None else int((inside < first).sum())
