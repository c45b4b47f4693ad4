"""The proof that a strategy's signal does not depend on its future.

``run_first`` runs the code for the first time on these rows, in each session on what was known in it:
that signal trades. ``check_causality`` then compares it with runs that know more. A difference is a
*counterexample* with symbol and session. *Trials* run the code (``CodeTrials`` in the sandbox,
``FunctionTrials`` a function of yours, ``BuiltTrials`` a rule here); the *verdict* says what was proved, and
what was left unchecked. A ``rehearsal`` is a panel whose rows after the first session are invented, for runs
before the first one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.audit.causality._check import check_causality
    from quantgraph.audit.causality._first_run import FirstRun, LookLog, SessionsProved, run_first
    from quantgraph.audit.causality._futures import rehearsal_panel
    from quantgraph.audit.causality._trials import BuiltTrials, CodeTrials, FunctionTrials, Trials
    from quantgraph.audit.causality._verdict import Verdict
    from quantgraph.audit.causality._warm_up import Rehearsal, rehearse

__all__ = [
    "BuiltTrials",
    "CodeTrials",
    "FirstRun",
    "FunctionTrials",
    "LookLog",
    "Rehearsal",
    "SessionsProved",
    "Trials",
    "Verdict",
    "check_causality",
    "rehearsal_panel",
    "rehearse",
    "run_first",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
