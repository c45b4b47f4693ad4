"""A run as a folder: start it, resume it, replay it, verify it, list and compare runs.

A ``RunSpec`` is plain JSON and says what the run is; the folder holds ``run.json``, ledger, recording,
strategy, result and page. ``run_strategy`` starts one and returns a ``RunResult``. A replay serves the
recording, offline, and compares every output byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.runs._execute import step_words
    from quantgraph.runs._outputs import PAGE_FILE, next_command, read_result
    from quantgraph.runs._page import verify_page, write_page
    from quantgraph.runs._replay import ReplayResult, replay
    from quantgraph.runs._result import RunResult, compare, list_runs, open_run, write_index
    from quantgraph.runs._resume import resume_run
    from quantgraph.runs._run_rule import run_rule
    from quantgraph.runs._specification import RunSpec
    from quantgraph.runs._start import prepare_run, run_signal, run_strategy, start_run

__all__ = [
    "PAGE_FILE",
    "ReplayResult",
    "RunResult",
    "RunSpec",
    "compare",
    "list_runs",
    "next_command",
    "open_run",
    "prepare_run",
    "read_result",
    "replay",
    "resume_run",
    "run_rule",
    "run_signal",
    "run_strategy",
    "start_run",
    "step_words",
    "verify_page",
    "write_index",
    "write_page",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
