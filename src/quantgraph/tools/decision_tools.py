"""The context of the tools that an agent uses to decide at the open: view, account, the market's rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from langchain.tools import ToolRuntime

from quantgraph.broker.account import Account
from quantgraph.broker.quotes import Quotes, quotes_at
from quantgraph.broker.session_market import SessionMarket
from quantgraph.errors import BadOption
from quantgraph.market.rulebook import Rulebook
from quantgraph.sandbox import CodeRunner
from quantgraph.state import View
from quantgraph.tools.symbol_bars import SymbolBars, known_bars, known_symbol
from quantgraph.tools.tool_context import ViewContext, code_session

__all__ = ["DecisionTools", "check_limit", "decision_tools"]


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
    """

    view: View
    account: Account
    rules: Rulebook
    market: SessionMarket | None = None
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
    ) -> DecisionTools:
        """Return the tools' context of a decision; ``runner`` is by default that of the settings."""
        return cls(
            as_of=view.moment,
            code=code_session(view, runner),
            view=view,
            account=account,
            rules=rules,
            market=market,
        )

    @property
    def account_now(self) -> Account:
        """The account after the fills so far; without a market, that of the morning."""
        return self.market.account if self.market else self.account

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
