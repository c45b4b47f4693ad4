"""Where generated code runs: a sealed process with the data of one moment.

A ``CodeRunner`` runs cells over frames and returns a ``CodeResult``. ``ForkRunner`` keeps a server process
that forks a child for each call, sealed by Landlock, seccomp and limits before it sees code; what cannot be
sealed is refused and named. ``open_prefix_run`` runs one strategy at many moments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.sandbox._lockdown import IsolationLevel
    from quantgraph.sandbox._requests import Cell, CellOutcome, cell_namespace, new_signals, run_cells
    from quantgraph.sandbox._result import CodeResult, Isolation, check_signal_axes, code_error
    from quantgraph.sandbox._runner import (
        CodeRunner,
        ForkRunner,
        counted_restarts,
        default_runner,
        open_prefix_run,
        runner_of,
    )

__all__ = [
    "Cell",
    "CellOutcome",
    "CodeResult",
    "CodeRunner",
    "ForkRunner",
    "Isolation",
    "IsolationLevel",
    "cell_namespace",
    "check_signal_axes",
    "code_error",
    "counted_restarts",
    "default_runner",
    "new_signals",
    "open_prefix_run",
    "run_cells",
    "runner_of",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
