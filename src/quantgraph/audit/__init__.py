"""Checks that code makes, which no model can overrule."""

from quantgraph.audit.bars.quality import check_data, check_signal, signal_counts
from quantgraph.audit.causality.check import check_causality
from quantgraph.audit.causality.counterexample import Counterexample
from quantgraph.audit.causality.trials import CodeTrials, FunctionTrials, TrialOutcome, Trials
from quantgraph.audit.causality.verdict import Verdict
from quantgraph.audit.causality.warm_up_length import measure_warm_up
from quantgraph.audit.findings import Finding, Report

__all__ = [
    "CodeTrials",
    "Counterexample",
    "Finding",
    "FunctionTrials",
    "Report",
    "TrialOutcome",
    "Trials",
    "Verdict",
    "check_causality",
    "check_data",
    "check_signal",
    "measure_warm_up",
    "signal_counts",
]
