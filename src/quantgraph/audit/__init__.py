"""Checks that code makes, which no model can overrule."""

from quantgraph.audit.causality import check_causality
from quantgraph.audit.counterexample import Counterexample
from quantgraph.audit.quality import check_data, check_signal, signal_counts
from quantgraph.audit.report import Finding, Report
from quantgraph.audit.start import measure_warm_up
from quantgraph.audit.trials import CodeTrials, FunctionTrials, Outcome, Trials
from quantgraph.audit.verdict import Verdict

__all__ = [
    "CodeTrials",
    "Counterexample",
    "Finding",
    "FunctionTrials",
    "Outcome",
    "Report",
    "Trials",
    "Verdict",
    "check_causality",
    "check_data",
    "check_signal",
    "measure_warm_up",
    "signal_counts",
]
