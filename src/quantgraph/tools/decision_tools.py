"""The context of the tools that an agent uses to decide at the open: view, account, the market's rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta, timezone, tzinfo
from functools import cached_property
from typing import Any

from langchain.tools import ToolRuntime

from quantgraph.broker.account import Account
from quantgraph.broker.quotes import Quotes, quotes_at
from quantgraph.broker.session_market import SessionMarket
from quantgraph.errors import BadOption, UnknownSymbol
from quantgraph.market.exchange_time import exchange_zone
from quantgraph.market.rulebook import Rulebook
from quantgraph.sandbox import CodeRunner
from quantgraph.state import View
from quantgraph.tools.news.commit_news import CommitNews
from quantgraph.tools.news.gate import NewsSource
from quantgraph.tools.symbol_bars import SymbolBars, known_bars, known_symbol
from quantgraph.tools.tool_context import ViewContext, code_session

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
    market: SessionMarket | None = None
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
        market: SessionMarket | None = None,
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
    """Return the context that a tool of a decision runs in.

    Raises
    ------
    BadOption
        Outside of a decision.
    """
    context = runtime.context if runtime else None
    if not isinstance(context, DecisionTools):
        raise BadOption("this tool reads the view of a decision; it is called by an agent that decides")
    return context


def check_limit(limit: int, most: int) -> int:
    """Return a number of entries.

    Raises
    ------
    BadOption
        If it is not between 1 and ``most``.
    """
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
