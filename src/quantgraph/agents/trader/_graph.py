"""The trader's day as a subgraph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from quantgraph.agents._isolated import given_view
from quantgraph.agents.trader._day import (
    ResultsAs,
    TraderDesk,
    TraderInput,
    TraderOptions,
    TraderState,
    ask_model,
    use_tools,
)
from quantgraph.agents.trader._prompt import positions_of, universe
from quantgraph.broker import Session
from quantgraph.broker.accounts import order_from_json, order_to_json
from quantgraph.data.symbols import rules_of
from quantgraph.llm import Model, role_model
from quantgraph.market import Rulebook
from quantgraph.runtime import OpenResources, Resources, merge_resources, open_resources, shown_offline
from quantgraph.sandbox.wire import given_account
from quantgraph.tools import ToolContext, tools_of

CASH: Final = 10_000
"""Cash of an account where none is given."""


TraderGraph = StateGraph[TraderState, None, TraderInput, TraderState]
CompiledTraderGraph = CompiledStateGraph[TraderState, None, TraderInput, TraderState]


def create_trader_subgraph(
    *,
    max_steps: int = TraderOptions.max_steps,
    max_retries: int = TraderOptions.max_retries,
    base_delay: float = TraderOptions.base_delay,
    results_as: ResultsAs = TraderOptions.results_as,
    watched: Sequence[str] = TraderOptions.watched,
    window: int = TraderOptions.window,
    tool_timeout: float = TraderOptions.tool_timeout,
    rules: Rulebook | None = None,
    model: Model | None = None,
    resources: Resources | None = None,
) -> CompiledTraderGraph:
    """Compiled trader: it trades one session's open on a scratch account, and returns its orders.

    It works without a key: the keyless planner answers by a rule. For the state see :class:`TraderState`.

    Parameters
    ----------
    max_steps, max_retries, base_delay, results_as, watched, window, tool_timeout
        See :class:`.TraderAgent`.
    rules
        The market's rules. Default: those of the market whose codes the data have.
    model, resources
        See :class:`~quantgraph.runtime.Resources`: the model, and the store of ``data_ref``.

    Raises
    ------
    BadOption
        If an argument is not valid.
    """
    options = TraderOptions(
        max_steps=max_steps,
        max_retries=max_retries,
        base_delay=base_delay,
        results_as=results_as,
        watched=watched,
        window=window,
        tool_timeout=tool_timeout,
    )
    opened = open_resources(merge_resources(resources, model=model))
    nodes = _Nodes(options=options, opened=opened, rules=rules)
    graph: TraderGraph = StateGraph(TraderState, input_schema=TraderInput)
    for name in ("begin", "ask_model", "use_tools"):
        graph.add_node(name, getattr(nodes, name))
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "ask_model")
    graph.add_conditional_edges("ask_model", route_after_ask_model, ["use_tools", END])
    graph.add_conditional_edges("use_tools", route_after_use_tools, ["ask_model", END])
    return shown_offline(graph.compile(name="trader"))


def route_after_ask_model(state: TraderState) -> Literal["use_tools", "__end__"]:
    """After a reply: use its tools; end where there is none."""
    return "__end__" if state.get("ended") else "use_tools"


def route_after_use_tools(state: TraderState) -> Literal["ask_model", "__end__"]:
    """After the tools: ask on, unless the model has ended its day."""
    return "__end__" if state.get("ended") else "ask_model"


@dataclass(frozen=True, kw_only=True)
class _Nodes:
    """The nodes, and what they share."""

    options: TraderOptions
    opened: OpenResources
    rules: Rulebook | None

    def begin(self, state: TraderInput) -> TraderState:
        """Check what is given, and begin anew: the thread may have an earlier day."""
        desk = self.desk({**state})  # type: ignore[typeddict-item]  # mypy wants all keys of a total=False dict
        return {
            "conversation": [],
            "step": 0,
            "reply": None,
            "calls": [],
            "call_count": 0,
            "submitted": [],
            "log": [],
            "ended": None,
            "error": "",
            "final_text": "",
            **_traded(desk),
        }

    def ask_model(self, state: TraderState) -> TraderState:
        """Ask the model for its next reply."""
        return ask_model(state, self.desk(state))

    def use_tools(self, state: TraderState) -> TraderState:
        """Carry its calls out and tell it what they answered."""
        desk = self.desk(state)
        return {**use_tools(state, desk), **_traded(desk)}

    def desk(self, state: TraderState) -> TraderDesk:
        """Return what the state's day is worked with; its market has the orders so far."""
        opened = self.opened
        view = given_view(state, opened.store)
        account = given_account(state, cash=CASH)
        rules = self.rules or rules_of(opened.source, universe(view))
        market = Session.at_open(view, account, rules)
        for each in state.get("submitted", ()):
            market.submit(order_from_json(each))
        settings = opened.settings.with_model("trader", self.options.model_settings["trader"])
        return self.options.desk(
            model=role_model("trader", model=opened.model, settings=settings),
            context=ToolContext(view, account, rules, code=opened.runner, session=market),
            tools=tools_of("trader"),
            rule=state.get("rule", ""),
            language=state.get("language", "en"),
        )


def _traded(desk: TraderDesk) -> TraderState:
    """Return what the orders so far have made of the account."""
    context, market = desk.context, desk.context.session
    return {
        "submitted": [order_to_json(order) for order in market.submitted],
        "orders": [order_to_json(order) for order in market.orders],
        "traded": market.account != context.account,
        "positions": positions_of(market.account, context.view),
    }
