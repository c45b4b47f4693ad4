"""Checks of data, signals and strategies by code, which no model can overrule."""

from quantgraph.audit.bars import check_data, check_signal, signal_counts
from quantgraph.audit.causality import (
    CodeTrials,
    Counterexample,
    FunctionTrials,
    Reads,
    TrialOutcome,
    Trials,
    Verdict,
    check_causality,
    measure_warm_up,
    planned_runs,
    run_again,
)
from quantgraph.audit.findings import Finding, Report

__all__ = [
    "CodeTrials",
    "Counterexample",
    "Finding",
    "FunctionTrials",
    "Reads",
    "Report",
    "TrialOutcome",
    "Trials",
    "Verdict",
    "check_causality",
    "check_data",
    "check_signal",
    "measure_warm_up",
    "planned_runs",
    "run_again",
    "signal_counts",
]
