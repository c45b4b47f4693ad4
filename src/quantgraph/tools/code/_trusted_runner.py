"""Runs trusted code in this process, without isolation, by LangChain's Python tool.

The tool's package is being sunset. It is imported here only: without it, the base class is ``BaseTool``.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Sequence

from langchain_core.callbacks import CallbackManagerForToolRun
from pydantic import PrivateAttr

from quantgraph.errors import CodeFailed
from quantgraph.sandbox import (
    Cell,
    CellOutcome,
    CodeResult,
    CodeRunner,
    cell_namespace,
    check_signal_axes,
    code_error,
    new_signals,
    run_cells,
    runner_of,
)
from quantgraph.sandbox.wire import Frames
from quantgraph.settings import Settings
from quantgraph.state import DataState

with warnings.catch_warnings():
    warnings.filterwarnings(
        "ignore", category=DeprecationWarning, module="langchain_(experimental|community)"
    )
    warnings.filterwarnings("ignore", message=".*sunset.*")
    from langchain_experimental.tools.python.tool import PythonAstREPLTool

ReplTool = PythonAstREPLTool


class TrustedRunner:
    """Run cells in this process, with its rights: for code that you wrote or have read.

    There is no limit of time or memory, the code can use files and the network, and changes to libraries
    persist.

    Notes
    -----
    Output is captured by replacing ``sys.stdout`` while cells run; the lock keeps runs apart.
    """

    def __init__(self, *, output_limit: int = 20_000) -> None:
        self._output_limit = output_limit
        self._lock = threading.Lock()

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run cells, see :class:`~quantgraph.sandbox.CodeRunner`."""
        store = DataState()
        store.adopt(frames)
        tool, outcome = _TrustedRepl.over(store, self._output_limit), CellOutcome()
        with self._lock:
            started = time.perf_counter()
            for cell in cells:
                outcome = tool.invoke({"query": cell})
                if outcome.error:
                    break
            seconds = time.perf_counter() - started
        if isinstance(outcome.raised, KeyboardInterrupt):
            raise outcome.raised
        signals = new_signals(store, frames)
        try:
            for name, frozen in signals.items():
                check_signal_axes(name, frozen, frames)
        except CodeFailed as error:
            return CodeResult(error=error, seconds=seconds, isolation="trusted")
        return CodeResult(
            stdout=outcome.stdout,
            value=outcome.value,
            signals={name: frozen.frame for name, frozen in signals.items()},
            error=code_error(outcome.error, "trusted") if outcome.error else None,
            seconds=seconds,
            isolation="trusted",
        )


class _TrustedRepl(PythonAstREPLTool):
    """The tool over one namespace, which runs a cell as a code process does.

    LangChain's own version runs a failing last expression twice, hides a cell's names from its functions,
    lets ``exit()`` end the host, and returns errors as text without a line.
    """

    output_limit: int
    _count: int = PrivateAttr(default=0)

    @classmethod
    def over(cls, store: DataState, output_limit: int) -> _TrustedRepl:
        tool = cls(output_limit=output_limit)
        # Assigned here: the constructor would copy them into two scopes.
        tool.globals = tool.locals = cell_namespace(store)
        return tool

    def _run(self, query: str, run_manager: CallbackManagerForToolRun | None = None) -> CellOutcome:  # type: ignore[override] # noqa: ARG002
        self._count += 1
        return run_cells([Cell(query, self._count)], self.globals or {}, self.output_limit)


def code_runner(settings: Settings) -> CodeRunner:
    """Return the runner of the settings: one with a process of its own, or the trusted one."""
    if settings.code_isolation == "trusted":
        return TrustedRunner()
    return runner_of(settings)
