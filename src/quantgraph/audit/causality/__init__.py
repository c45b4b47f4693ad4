"""The proof that a signal uses only what was known."""

from quantgraph.audit.causality.check import check_causality, planned_runs
from quantgraph.audit.causality.counterexample import Counterexample
from quantgraph.audit.causality.fields_read import Reads, run_again
from quantgraph.audit.causality.trials import CodeTrials, FunctionTrials, TrialOutcome, Trials
from quantgraph.audit.causality.verdict import Verdict
from quantgraph.audit.causality.warm_up_length import measure_warm_up

__all__ = [
    "CodeTrials",
    "Counterexample",
    "FunctionTrials",
    "Reads",
    "TrialOutcome",
    "Trials",
    "Verdict",
    "check_causality",
    "measure_warm_up",
    "planned_runs",
    "run_again",
]
