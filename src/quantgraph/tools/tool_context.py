"""What a tool may touch: handed to it by the node that runs the agent, never by the model."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from langchain.tools import ToolRuntime

from quantgraph.data import MarketDataSource, open_source
from quantgraph.data.as_of import AsOfSource
from quantgraph.errors import NoSignal
from quantgraph.market.moment import Moment
from quantgraph.sandbox import CodeResult, CodeRunner
from quantgraph.sandbox.wire import Frames
from quantgraph.settings import load_settings
from quantgraph.state import GLOBAL_DATA_STATE, WorkingTree
from quantgraph.tools.trusted_runner import code_runner

__all__ = ["CodeSession", "ToolContext", "current_context"]


@dataclass(kw_only=True)
class CodeSession:
    """The cells that one agent has run over one view; each call runs the earlier ones first.

    The lock keeps cells in one order when a model asks for two at once.

    Attributes
    ----------
    names
        Of the signals that the cells handed over, in order.
    signals
        The signals themselves; empty while the cells have not run here.
    """

    runner: CodeRunner
    frames: Frames
    cells: list[str] = field(default_factory=list)
    names: tuple[str, ...] = ()
    signals: dict[str, pd.DataFrame] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def run(self, code: str) -> CodeResult:
        """Run a cell; it is kept if it did not fail, so that a failing one leaves nothing behind."""
        with self._lock:
            result = self.runner.run([*self.cells, code], self.frames)
            if result.error is None:
                self.cells.append(code)
                self._hand_over(result)
            return result

    def restore(self, cells: Sequence[str], names: Sequence[str]) -> None:
        """What was run before, in another process perhaps; nothing runs now."""
        with self._lock:
            self.cells, self.names, self.signals = list(cells), tuple(names), {}

    def signal(self, name: str) -> pd.DataFrame:
        """A signal that was handed over; cells that were restored are run for it.

        Raises
        ------
        CodeFailed
            What they raise now.
        NoSignal
            If they hand over no signal of that name, now or ever.
        """
        with self._lock:
            if self.names and not self.signals:
                result = self.runner.run(self.cells, self.frames)
                if result.error is not None:
                    raise result.error
                self._hand_over(result)
            if name not in self.signals:
                raise NoSignal(f"the code handed over no signal {name}")
            return self.signals[name]

    def _hand_over(self, result: CodeResult) -> None:
        self.signals = dict(result.signals)
        self.names = tuple(self.signals)


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """One node execution's handles.

    Attributes
    ----------
    source
        Where data comes from. Whatever is given, what is kept is the source as known at ``as_of``.
    tree
        Where fetched data and signals are published.
    as_of
        The run's moment: nothing later may be asked for or seen.
    code
        The python_repl's session.
    publish
        Whether python_repl publishes the signals handed over to ``tree``. In an agent's run it does not:
        the node that asked for a signal takes it from ``code`` and commits it itself.
    """

    source: MarketDataSource
    tree: WorkingTree
    as_of: Moment
    code: CodeSession
    publish: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", AsOfSource(self.source, self.as_of))

    @classmethod
    def standalone(cls) -> ToolContext:
        """For a tool called by hand: the configured source, and publishing to ``GLOBAL_DATA_STATE``."""
        settings = load_settings()
        source = open_source(settings=settings)
        tree = GLOBAL_DATA_STATE.checkout(GLOBAL_DATA_STATE.head)
        as_of = Moment(source.sessions()[-1])
        code = CodeSession(
            runner=code_runner(settings),
            frames=tree.view(as_of).frozen(),
        )
        return cls(source=source, tree=tree, as_of=as_of, code=code, publish=True)


def current_context(runtime: ToolRuntime[Any, Any] | None) -> ToolContext:
    """The context a tool runs in; called outside of an agent it gets the standalone one."""
    context = runtime.context if runtime else None
    if isinstance(context, ToolContext):
        return context
    return ToolContext.standalone()
