"""The proof that a signal knows no future, and what follows from it for the run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from quantgraph._texts import Language
from quantgraph.audit import CodeTrials, Finding, Report, Verdict, check_causality
from quantgraph.market.moment import session_of
from quantgraph.subgraphs.signal.kit import SignalKit
from quantgraph.subgraphs.signal.progress import language
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.warm_up import evaluated_from

__all__ = ["prove"]


def prove(state: SignalSubgraphState, kit: SignalKit) -> Report:
    """Audit the strategy on the data it ran on.

    The report has the verdict as ``causality``; ``warm_up``, the sessions that a row of the signal needs;
    ``evaluated_from``, the first session of the window that is judged; and how many before it are
    ``not_judged``.
    What the proof cost is told in evaluations, since seconds would make two runs of one thing differ.
    """
    strategy, request = state["strategy"], state["request"]
    view = kit.store.view(kit.as_of(state), strategy["data_ref"])
    verdict = check_causality(
        CodeTrials(kit.runner, strategy["cells"], strategy["name"]),
        view.frozen(),
        cuts=kit.audit_cuts,
        cells=kit.audit_cells,
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
    return Report(
        checks=("causality", "warm_up"),
        findings=tuple(findings),
        summary={
            "causality": _told(verdict, language(state)),
            "warm_up": warm_up,
            "evaluated_from": None if first is None else f"{first:%Y%m%d}",
            "not_judged": _between(sessions, session_of(request["start"]), first),
        },
    )


def _told(verdict: Verdict, user_language: Language) -> dict[str, Any]:
    told = {key: value for key, value in verdict.as_json().items() if key != "seconds"}
    return told | {"text": verdict.text(user_language)}


def _between(sessions: pd.DatetimeIndex, start: pd.Timestamp, first: pd.Timestamp | None) -> int:
    """How many sessions there are from ``start`` to the one before ``first``; None is after all of them."""
    inside = sessions[sessions >= start]
    return len(inside) if first is None else int((inside < first).sum())
