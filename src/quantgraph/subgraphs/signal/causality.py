"""The proof that a signal knows no future, and what follows from it for the run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from quantgraph._texts import Language
from quantgraph.audit import CodeTrials, Finding, Report, Verdict, check_causality
from quantgraph.subgraphs.signal.kit import SignalKit
from quantgraph.subgraphs.signal.progress import language
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.warm_up import evaluated_from

__all__ = ["prove"]


def prove(state: SignalSubgraphState, kit: SignalKit) -> Report:
    """Audit the strategy on the data it ran on.

    The report has the verdict as ``causality``, and ``warm_up`` and ``evaluated_from``: the sessions
    that a row of the signal needs, and the first one of the window that is traded. What the proof cost is
    told in evaluations, since seconds would make two runs of one thing differ.
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
    first = evaluated_from(sessions, request, verdict.warm_up)
    findings = list(verdict.findings(language(state)))
    if verdict.causal and first is None:
        findings.append(
            Finding(
                severity="error",
                code="warm_up",
                message=f"{strategy['name']} needs {verdict.warm_up} sessions before its signal counts; "
                f"there are {len(sessions)} in all: take a longer window, or shorter averages",
            )
        )
    return Report(
        checks=("causality", "warm_up"),
        findings=tuple(findings),
        summary={
            "causality": _told(verdict, language(state)),
            "warm_up": verdict.warm_up,
            "evaluated_from": f"{first:%Y%m%d}" if first is not None else None,
        },
    )


def _told(verdict: Verdict, user_language: Language) -> dict[str, Any]:
    told = {key: value for key, value in verdict.as_json().items() if key != "seconds"}
    return told | {"text": verdict.text(user_language)}
