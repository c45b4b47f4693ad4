"""The proof that a strategy's signal does not depend on its future.

``check_causality`` runs the code on data cut at a session and on data with another future, and compares the
rows that both know. A difference is a *counterexample* with symbol, session and the field that was read
ahead. *Trials* run the code (``CodeTrials`` in the sandbox, ``FunctionTrials`` a function of yours); the
*verdict* says what was checked, at how many cuts, and what was left unchecked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.audit.causality._check import check_causality, planned_runs
    from quantgraph.audit.causality._comparison import Reads, run_again
    from quantgraph.audit.causality._trials import CodeTrials, FunctionTrials, TrialOutcome
    from quantgraph.audit.causality._verdict import Verdict
    from quantgraph.audit.causality._warm_up import measure_warm_up

__all__ = [
    "CodeTrials",
    "FunctionTrials",
    "Reads",
    "TrialOutcome",
    "Verdict",
    "check_causality",
    "measure_warm_up",
    "planned_runs",
    "run_again",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
