"""The trader's options, checked once, and its day as a subgraph."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from quantgraph._util.texts import Language
from quantgraph._util.values import check_whole, is_number, is_whole
from quantgraph.agents._isolated import given_view
from quantgraph.agents.trader._day import (
    ResultsAs,
    TraderDesk,
    TraderInput,
    TraderState,
    ask_model,
    use_tools,
)
from quantgraph.agents.trader._prompt import LEAST_WINDOW, get_agent_system_prompt, positions_of, universe
from quantgraph.broker import SessionMarket
from quantgraph.broker.accounts import order_from_json, order_to_json
from quantgraph.data.symbols import rules_of
from quantgraph.errors import BadOption
from quantgraph.llm import Model, role_model
from quantgraph.market import Rulebook
from quantgraph.runtime import OpenResources, Resources, merge_resources, open_resources, shown_offline
from quantgraph.sandbox.wire import given_account
from quantgraph.tools import ToolContext, tools_of
from quantgraph.tools.news import NewsSource

CASH: Final = 10_000
"""Cash of an account where none is given."""

_MOST_STEPS, _MOST_RETRIES = 200, 20
_MOST_WATCHED = 1_000


def no_step_kept(_step: int, _action: Mapping[str, Any], _result: Any) -> None:
    """Steps are kept by a run."""


Toolset = Literal["local", "mcp"] | Sequence[str]
"""``local``, ``mcp``, or addresses of MCP servers."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TraderOptions:
    """The options of :class:`.TraderAgent`, which is made of them, with their defaults."""

    max_steps: int = 30
    max_retries: int = 3
    base_delay: float = 1.0
    tool_timeout: float = 30.0
    window: int = 60_000
    results_as: ResultsAs = "messages"
    watched: Sequence[str] = ()
    memory: bool = False
    tools: Toolset = "local"
    allow_leaky_tools: bool = False
    news: NewsSource | str | None = None
    allow_leaky_search: bool = False

    def __post_init__(self) -> None:
        check_whole("max_steps", self.max_steps, 1, _MOST_STEPS)
        check_whole("max_retries", self.max_retries, 1, _MOST_RETRIES)
        if not is_whole(self.window) or self.window < LEAST_WINDOW:
            valid = f"must be a whole number from {LEAST_WINDOW}"
            raise BadOption(f"window={self.window!r:.40}; {valid}", parameter="window")
        for name, least in (("base_delay", "at least 0"), ("tool_timeout", "above 0")):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value < math.inf or (value == 0 and name == "tool_timeout"):
                raise BadOption(f"{name}={value!r:.40}; must be seconds, {least}", parameter=name)
        if self.results_as not in get_args(ResultsAs):
            raise BadOption(
                f"results_as={self.results_as!r:.40}; must be one of {', '.join(get_args(ResultsAs))}",
                parameter="results_as",
            )
        if isinstance(self.watched, str) or not all(isinstance(each, str) for each in self.watched):
            raise BadOption(f"watched={self.watched!r:.60}; must be symbols", parameter="watched")
        if len(self.watched) > _MOST_WATCHED:
            raise BadOption(
                f"watched has {len(self.watched)} symbols; must be at most {_MOST_WATCHED}",
                parameter="watched",
            )
        if not isinstance(self.memory, bool):
            raise BadOption(f"memory={self.memory!r:.40}; must be True or False", parameter="memory")
        object.__setattr__(self, "watched", tuple(self.watched))

    @property
    def identity(self) -> dict[str, Any]:
        """The options as plain JSON: a run is not continued with others."""
        names = ("max_steps", "max_retries", "base_delay", "tool_timeout", "window", "results_as")
        own = {"watched": list(self.watched)} if self.watched else {}
        return {**{name: getattr(self, name) for name in names}, **own}

    @property
    def model_settings(self) -> Mapping[str, Mapping[str, Any]]:
        """How often the model is asked, and with which waits."""
        return {"trader": {"max_attempts": self.max_retries, "retry_wait": float(self.base_delay)}}

    def desk(
        self,
        *,
        model: BaseChatModel,
        context: ToolContext,
        tools: Mapping[str, BaseTool],
        rule: str = "",
        language: Language = "en",
        remembered: str = "",
        keep: Callable[[int, Mapping[str, Any], Any], None] = no_step_kept,
    ) -> TraderDesk:
        """Return what the day of a context is worked with."""
        bound: Any = model.bind_tools(list(tools.values()))

        def ask(messages: Sequence[AnyMessage]) -> AIMessage:
            reply: AIMessage = bound.invoke(list(messages))
            return reply

        today = f"{context.moment.session:%Y-%m-%d}"
        return TraderDesk(
            today=today,
            prompt=get_agent_system_prompt(
                today,
                context=context,
                rule=rule,
                language=language,
                watched=self.watched,
                remembered=remembered,
            ),
            ask=ask,
            tools=tools,
            context=context,
            keep=keep,
            max_steps=self.max_steps,
            results_as=self.results_as,
            window=self.window,
            tool_timeout=self.tool_timeout,
        )


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
        market = SessionMarket(view, account, rules)
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
