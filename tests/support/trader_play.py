"""Days of the trader with a model that plays replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage

from quantgraph.agents.trader import TraderOptions
from quantgraph.agents.trader._day import TraderLoop, day_tools
from quantgraph.broker import Account, Session
from quantgraph.market import Rulebook
from quantgraph.testing import ScriptedChatModel
from quantgraph.tools import ToolContext, tools_of
from quantgraph.tools._code import TrustedRunner

STOP = "done <FINISH_SIGNAL>"


def says(text: str = "", *calls: tuple[str, dict[str, Any]]) -> AIMessage:
    """A reply with a text and calls of tools."""
    made = [{"name": name, "args": args, "id": f"c{place}"} for place, (name, args) in enumerate(calls)]
    return AIMessage(text, tool_calls=made)


def buys(symbol: str, amount: Any, text: str = "") -> AIMessage:
    """A reply that buys."""
    return says(text, ("buy", {"symbol": symbol, "amount": amount}))


def sells(symbol: str, amount: Any, text: str = "") -> AIMessage:
    """A reply that sells."""
    return says(text, ("sell", {"symbol": symbol, "amount": amount}))


def table_of(prompt: str) -> list[dict[str, str]]:
    """The symbols of a prompt's table by its columns, without the cash."""
    day = prompt[prompt.index("symbol,") :].partition("</trader_day>")[0].partition("\n\n")[0]
    names, _, *rows = [line.split(",") for line in day.splitlines()]
    return [dict(zip(names, row, strict=True)) for row in rows]


class TraderDay:
    """A day that is played on a view: its state, its market, and what the model was asked."""

    def __init__(
        self,
        view: Any,
        replies: Sequence[Any],
        *,
        account: Account | None = None,
        rules: Rulebook | None = None,
        rule: str = "",
        language: str = "en",
        model: Any = None,
        **options: Any,
    ) -> None:
        account, rules = account or Account.opening(10_000), rules or Rulebook.zero_cost("us")
        self.market = Session.at_open(view, account, rules)
        self.kept: list[tuple[int, Any, Any]] = []
        self.model = model or ScriptedChatModel(list(replies))
        chosen = TraderOptions(**options)
        context = ToolContext(view, account, rules, code=TrustedRunner(), session=self.market)
        tools = day_tools(tools_of("trader"), context, news=bool(chosen.news))
        self.offered = tuple(tools)
        self.loop = TraderLoop(
            options=chosen,
            model=self.model,
            context=context,
            tools=tools,
            rule=rule,
            language=language,
            keep=lambda step, action, result: self.kept.append((step, action, result)),
        )
        self.state = self.loop.run({})

    @property
    def asked(self) -> list[list[Any]]:
        """The messages of each call of the model."""
        return [list(call.messages) for call in self.model.calls]

    def results(self, step: int) -> list[Any]:
        """What the tools of a step answered."""
        return [each["result"] for each in self.kept[step - 1][2]]
