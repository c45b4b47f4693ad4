"""The context of a tool call, from the node and never the model: view, account, source, code."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta, timezone, tzinfo
from functools import cached_property
from typing import Any

import pandas as pd
from langchain.tools import ToolRuntime

from quantgraph.broker import Account, Session
from quantgraph.broker.accounts import Quotes, quotes_at
from quantgraph.data import AsOfSource, MarketDataSource, open_source
from quantgraph.errors import BadOption, NoSignal, UnknownSymbol
from quantgraph.market import Moment, Rulebook, exchange_zone
from quantgraph.sandbox import CodeResult, CodeRunner
from quantgraph.sandbox.wire import Frames
from quantgraph.settings import load_settings
from quantgraph.state import GLOBAL_DATA_STATE, View, WorkingTree
from quantgraph.tools._symbol_bars import SymbolBars, known_bars, known_symbol
from quantgraph.tools.code._needed_cells import needed_cells
from quantgraph.tools.code._trusted_runner import code_runner
from quantgraph.tools.news._gate import CommitNews, NewsSource


@dataclass(kw_only=True)
class CodeSession:
    """The cells that an agent has run over one view; each call runs the earlier cells first.

    The lock keeps the cells in one order when a model requests two at once.

    Attributes
    ----------
    names
        Names of the signals that the cells published, in order.
    signals
        The signals; empty if the cells have not run in this process.
    """

    runner: CodeRunner
    frames: Frames
    cells: list[str] = field(default_factory=list)
    names: tuple[str, ...] = ()
    signals: dict[str, pd.DataFrame] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def run(self, code: str) -> CodeResult:
        """Run a cell; it is kept unless it fails."""
        with self._lock:
            result = self.runner.run([*self.cells, code], self.frames)
            if result.error is None:
                self.cells.append(code)
                self._keep_signals(result)
            return result

    def evaluate(self, code: str) -> CodeResult:
        """Run a cell alone, after none and before none; nothing of it is kept."""
        return self.runner.run([code], self.frames)

    def restore(self, cells: Sequence[str], names: Sequence[str]) -> None:
        """Set the cells that ran before, perhaps in another process; nothing runs now."""
        with self._lock:
            self.cells, self.names, self.signals = list(cells), tuple(names), {}

    def needed(self) -> list[str]:
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
                result = self.runner.run(self.cells, self.frames)
                if result.error is not None:
                    raise result.error
                self._keep_signals(result)
            if name not in self.signals:
                raise NoSignal(f"the code published no signal {name}")
            return self.signals[name]

    def _keep_signals(self, result: CodeResult) -> None:
        self.signals = dict(result.signals)
        self.names = tuple(self.signals)


class _SettingsRunner:
    """The runner of the settings, made when the first cell runs: most decisions run none."""

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        return code_runner(load_settings()).run(cells, frames)


def code_session(view: View, runner: CodeRunner | None = None) -> CodeSession:
    """Return a new session of cells over a view; ``runner`` is by default that of the settings."""
    return CodeSession(runner=runner or _SettingsRunner(), frames=view.frozen())


@dataclass(frozen=True, kw_only=True)
class ViewContext:
    """What the tools of a decider's agent use: its view, by code that runs on nothing else.

    Attributes
    ----------
    as_of
        The moment: nothing later may be requested or seen.
    code
        The session of python_repl.
    dropped_news
        For each news item that was found and not shown, why.
    """

    as_of: Moment
    code: CodeSession
    dropped_news: list[str] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(cls, view: View, *, runner: CodeRunner | None = None) -> ViewContext:
        """Return the context of a view; ``runner`` is by default that of the settings."""
        return ViewContext(as_of=view.moment, code=code_session(view, runner))


@dataclass(frozen=True, kw_only=True)
class ToolContext(ViewContext):
    """What the tools of a node's agent use.

    Attributes
    ----------
    source
        The data source; any source given is cut to what is known at ``as_of``.
    tree
        The working tree to which data and signals are published.
    publish
        Whether python_repl publishes signals to ``tree``. In an agent it does not: the node takes the signal
        from ``code`` and commits it.
    """

    source: MarketDataSource
    tree: WorkingTree
    publish: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", AsOfSource(self.source, self.as_of))

    @classmethod
    def standalone(cls) -> ToolContext:
        """Return the context outside of an agent: the source of the settings and ``GLOBAL_DATA_STATE``."""
        settings = load_settings()
        source = open_source(settings=settings)
        tree = GLOBAL_DATA_STATE.checkout(GLOBAL_DATA_STATE.head)
        as_of = Moment(source.sessions()[-1])
        code = CodeSession(
            runner=code_runner(settings),
            frames=tree.view(as_of).frozen(),
        )
        return cls(source=source, tree=tree, as_of=as_of, code=code, publish=True)


def current_context(runtime: ToolRuntime[Any, Any] | None) -> ViewContext:
    """Return the context that a tool runs in; outside of an agent, the standalone one."""
    context = runtime.context if runtime else None
    return context if isinstance(context, ViewContext) else ToolContext.standalone()


def data_context(runtime: ToolRuntime[Any, Any] | None) -> ToolContext:
    """Return the context of a tool that fetches data."""
    context = current_context(runtime)
    if not isinstance(context, ToolContext):
        raise BadOption("this tool fetches data, which a decider's agent cannot; read the view instead")
    return context


_FIRST_ZONE = timezone(timedelta(hours=14))


@dataclass(frozen=True, kw_only=True)
class DecisionTools(ViewContext):
    """What the tools of one decision use. One for each symbol that is decided side by side.

    Attributes
    ----------
    view
        The data as known at the session's open.
    account
        The account on that morning.
    rules
        The rulebook in force.
    market
        Where orders are submitted as they are decided; None for an agent whose orders code makes later.
    news
        Where news are searched; None for the view's own ``news`` records.
    """

    view: View
    account: Account
    rules: Rulebook
    market: Session | None = None
    news: NewsSource | None = None
    _bars: dict[str, SymbolBars] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(  # type: ignore[override]  # a decision has an account besides its view
        cls,
        view: View,
        account: Account,
        rules: Rulebook,
        runner: CodeRunner | None = None,
        *,
        market: Session | None = None,
        news: NewsSource | None = None,
        allow_leaky_search: bool = False,
    ) -> DecisionTools:
        """Return the tools' context of a decision; ``runner`` is by default that of the settings.

        Raises
        ------
        BadOption
            If ``news`` asks a live server, without ``allow_leaky_search``.
        """
        if news is not None:
            check_news(news, allow_leaky_search=allow_leaky_search)
        return cls(
            as_of=view.moment,
            code=code_session(view, runner),
            view=view,
            account=account,
            rules=rules,
            market=market,
            news=news,
        )

    @property
    def account_now(self) -> Account:
        """The account after the fills so far; without a market, that of the morning."""
        return self.market.account if self.market else self.account

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The shares of the data, in its order."""
        shares = self.view["ohlcv"]
        return next((shares.frozen(name).symbols for name in ("close", "open") if name in shares), ())

    @cached_property
    def zone(self) -> tzinfo:
        """Zone of the exchange; where the codes do not tell it, that in which the moment is first reached."""
        try:
            return exchange_zone(self.symbols[0]) if self.symbols else _FIRST_ZONE
        except UnknownSymbol:
            return _FIRST_ZONE

    @cached_property
    def news_source(self) -> NewsSource:
        """Where news are searched."""
        return self.news or CommitNews(self.view, self.zone, self.symbols)

    @cached_property
    def quotes(self) -> Quotes:
        """The morning's quotes."""
        return quotes_at(self.view)

    def bars(self, symbol: str) -> SymbolBars:
        """Return the bars of a symbol's complete sessions, see :func:`.known_bars`.

        Raises
        ------
        UnknownSymbol
            If the view does not have it.
        """
        name = known_symbol(self.view, symbol)
        if name not in self._bars:
            self._bars[name] = known_bars(self.view, name)
        return self._bars[name]


def decision_tools(runtime: ToolRuntime[Any, Any] | None) -> DecisionTools:
    """Return the context that a tool of a decision runs in."""
    context = runtime.context if runtime else None
    if not isinstance(context, DecisionTools):
        raise BadOption("this tool reads the view of a decision; it is called by an agent that decides")
    return context


def check_limit(limit: int, most: int) -> int:
    """Return a number of entries."""
    if not 1 <= limit <= most:
        raise BadOption(f"limit={limit}; must be 1 to {most}", parameter="limit")
    return limit


def check_news(source: NewsSource, *, allow_leaky_search: bool) -> None:
    """Check that a source of news may serve a simulation.

    Raises
    ------
    BadOption
        If it is live and was not allowed: what a server of today returns knows what came later.
    """
    if source.live and not allow_leaky_search:
        raise BadOption(
            f"news={source.name!r} asks a live server, whose answers may know what came after the simulated "
            "day; pass allow_leaky_search=True to take that, or use the news of the data",
            parameter="allow_leaky_search",
        )
