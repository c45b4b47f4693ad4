"""The context of a tool call, from the node and never the model: view, account, source, code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from copy import copy
from datetime import tzinfo
from functools import cached_property
from typing import Any, TypeVar

import pandas as pd
from langchain.tools import ToolRuntime

from quantgraph.broker import Account, Session
from quantgraph.broker.accounts import Quotes, quotes_at
from quantgraph.data import AsOfSource, MarketDataSource, open_source
from quantgraph.errors import BadOption, NoSignal
from quantgraph.market import Moment, Rulebook, local_zone
from quantgraph.sandbox import CodeResult, CodeRunner
from quantgraph.sandbox.wire import Frames
from quantgraph.settings import load_settings
from quantgraph.state import GLOBAL_DATA_STATE, View, WorkingTree
from quantgraph.tools._code import code_runner, needed_cells

_Part = TypeVar("_Part")


class ToolContext:
    """What the tools of one agent use: a view, and the parts that the agent was given, cut at its moment.

    A tool that reads a part which is not there raises BadOption: the agent was not made for it.

    Parameters
    ----------
    view
        The data as known at the moment.
    account, rules
        The account at the open that is decided, and the rulebook in force.
    session
        The market of that open, to which orders are submitted as they are decided.
    code
        Where cells run. Default: the runner of the settings, made when the first cell runs.
    news
        Where the news tool searches. Default: the view's own ``news`` records.
    allow_leaky_search
        Whether ``news`` may ask a live server.
    source, tree
        Where data are fetched, cut here to what is known at the moment, and the tree to which they go.
    publish
        Whether signals of cells go to ``tree``. In an agent they do not: the node takes the signal from here
        and commits it.
    rehearsal
        Makes the frames that cells run over in place of the view's.

    Attributes
    ----------
    moment
        The view's: nothing later may be requested or seen.
    cells
        The cells that ran without an error; each cell runs after the earlier ones.
    names, signals
        Names of the signals that the cells published, in order; the signals, empty if the cells have not run
        in this process.
    dropped_news
        For each news item that was found and not shown, why.
    reason
        Why the next orders are placed, for the ledger.
    kept
        What tools keep from one call to the next.
    """

    def __init__(
        self,
        view: View,
        account: Account | None = None,
        rules: Rulebook | None = None,
        *,
        session: Session | None = None,
        code: CodeRunner | None = None,
        news: Any = None,
        allow_leaky_search: bool = False,
        source: MarketDataSource | None = None,
        tree: WorkingTree | None = None,
        publish: bool = False,
        rehearsal: Callable[[], Frames] | None = None,
    ) -> None:
        self.view, self.moment, self.news, self.publish = view, view.moment, news, publish
        self._account, self._rules, self._session, self._tree = account, rules, session, tree
        self._source = None if source is None else AsOfSource(source, view.moment)
        self._runner, self.rehearsal = code, rehearsal
        self.cells: list[str] = []
        self.names: tuple[str, ...] = ()
        self.signals: dict[str, pd.DataFrame] = {}
        self.dropped_news: list[str] = []
        self.reason = ""
        self.kept: dict[str, Any] = {}
        self.allow_leaky_search = allow_leaky_search
        # The lock keeps the cells in one order when a model requests two at once.
        self._lock = threading.Lock()

    @classmethod
    def standalone(cls) -> ToolContext:
        """Return the context outside of an agent: the source of the settings and ``GLOBAL_DATA_STATE``."""
        source = open_source(settings=load_settings())
        tree = GLOBAL_DATA_STATE.checkout(GLOBAL_DATA_STATE.head)
        return cls(tree.view(Moment(source.sessions()[-1])), source=source, tree=tree, publish=True)

    def copy(self) -> ToolContext:
        """Return a context with its own cells and dropped news: a call that is given up changes it alone."""
        own = copy(self)
        own.__dict__ |= {"dropped_news": [], "_lock": threading.Lock()}
        own.restore(self.cells, self.names)
        return own

    @property
    def account(self) -> Account:
        """The account at the open."""
        return _given(self._account, "an account", "decide")

    @property
    def rules(self) -> Rulebook:
        """The rulebook in force."""
        return _given(self._rules, "a rulebook", "decide")

    @property
    def session(self) -> Session:
        """The market of the open."""
        return _given(self._session, "the market of a session", "trade by themselves")

    @property
    def source(self) -> AsOfSource:
        """The source of the data, as known at the moment."""
        return _given(self._source, "a data source", "fetch data")

    @property
    def tree(self) -> WorkingTree:
        """The tree to which data go."""
        return _given(self._tree, "a working tree", "fetch data")

    @property
    def ref(self) -> str | None:
        """The commit of the tree; None without one."""
        return self._tree.ref if self._tree else None

    @property
    def account_now(self) -> Account:
        """The account after the fills so far."""
        return self._session.account if self._session else self.account

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The shares of the data, in its order."""
        shares = self.view["ohlcv"]
        return next((shares.frozen(name).symbols for name in ("close", "open") if name in shares), ())

    @cached_property
    def zone(self) -> tzinfo:
        """Zone of the exchange, see :func:`.local_zone`."""
        return local_zone(self.symbols[0] if self.symbols else "")

    @cached_property
    def quotes(self) -> Quotes:
        """The quotes of the open."""
        return quotes_at(self.view)

    @cached_property
    def _frames(self) -> Frames:
        return self.rehearsal() if self.rehearsal else self.view.frozen()

    def run(self, cell: str) -> CodeResult:
        """Run a cell; it is kept unless it fails."""
        with self._lock:
            result = self._result([*self.cells, cell])
            if result.error is None:
                self.cells.append(cell)
                self._keep_signals(result)
            return result

    def restore(self, cells: Sequence[str], names: Sequence[str]) -> None:
        """Set the cells that ran before, perhaps in another process; nothing runs now."""
        with self._lock:
            self.cells, self.names, self.signals = list(cells), tuple(names), {}

    def needed_cells(self) -> list[str]:
        """Return the cells that the published signals need."""
        return needed_cells(self.cells)

    def signal(self, name: str) -> pd.DataFrame:
        """Return a published signal; restored cells are run for it.

        Raises
        ------
        CodeFailed
            If a restored cell fails.
        NoSignal
            If the cells publish no signal of that name.
        """
        with self._lock:
            if self.names and not self.signals:
                result = self._result(self.cells)
                if result.error is not None:
                    raise result.error
                self._keep_signals(result)
            if name not in self.signals:
                raise NoSignal(f"the code published no signal {name}")
            return self.signals[name]

    def _result(self, cells: Sequence[str]) -> CodeResult:
        runner = self._runner or code_runner(load_settings())
        return runner.run(cells, self._frames)

    def _keep_signals(self, result: CodeResult) -> None:
        self.signals = dict(result.signals)
        self.names = tuple(self.signals)


def _given(part: _Part | None, what: str, agents: str) -> _Part:
    if part is None:
        raise BadOption(
            f"this tool needs {what}, which its agent does not have; it is for agents that {agents}"
        )
    return part


def context_of(runtime: ToolRuntime[Any, Any] | None, *, by_hand: bool = False) -> ToolContext:
    """Return the context that a tool runs in; one called ``by_hand``, outside of an agent, has its own."""
    context = runtime.context if runtime else None
    if isinstance(context, ToolContext):
        return context
    if by_hand:
        return ToolContext.standalone()
    raise BadOption("this tool reads the view of a decision; an agent that decides calls it")


def check_limit(limit: int, most: int) -> int:
    """Return a number of entries."""
    if not 1 <= limit <= most:
        raise BadOption(f"limit={limit}; must be 1 to {most}", parameter="limit")
    return limit
