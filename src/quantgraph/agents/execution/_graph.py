"""The options of the stepwise agent, checked once, and the desk that they make."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Literal, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.texts import Language
from quantgraph._util.values import check_whole, is_number
from quantgraph.agents._isolated import check_symbols, given_view
from quantgraph.agents.execution._actions import ACTION_TOOLS, Action, calls_as_text
from quantgraph.agents.execution._prompt import described, prompt_texts
from quantgraph.agents.execution._steps import (
    Desk,
    ExecutionInput,
    ExecutionState,
    ReactContext,
    act,
    observe,
    think,
)
from quantgraph.broker import Account
from quantgraph.data.symbols import rules_of_codes
from quantgraph.errors import BadOption
from quantgraph.llm import Model, get_llm, role_model
from quantgraph.market import Rulebook
from quantgraph.market.money import CENT, to_decimal
from quantgraph.runtime import OpenResources, Resources, merge_resources, open_resources, shown_offline
from quantgraph.sandbox.wire import given_account
from quantgraph.state import View
from quantgraph.tools import ToolContext, tools_of

Calling = Literal["json", "native"]
CALLING: tuple[Calling, ...] = get_args(Calling)

SizeKind = Literal["confidence", "fixed"]
SIZES: tuple[SizeKind, ...] = get_args(SizeKind)

_MOST_ROUNDS, _MOST_PARALLEL = 50, 64
CASH = 1_000_000
"""Cash of an account where none is given."""


def _nothing(_action: Action, _result: Any) -> None:
    """Steps are kept by a run."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ExecutionOptions:
    """The options of :class:`.ExecutionAgent`, which is made of them, with their defaults."""

    tools: Sequence[BaseTool] = ()
    size: SizeKind = "confidence"
    share: float | None = None
    cash: float | None = None
    rounds: int = 10
    time_limit: float = 120.0
    tool_timeout: float = 30.0
    parallel: int = 4
    calling: Calling = "json"
    catalog: Mapping[str, BaseTool] = field(init=False)
    described: Sequence[Mapping[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self._check_size()
        check_whole("rounds", self.rounds, 1, _MOST_ROUNDS)
        check_whole("parallel", self.parallel, 1, _MOST_PARALLEL)
        for name in ("time_limit", "tool_timeout"):
            value = getattr(self, name)
            if not is_number(value) or not 0 < value < math.inf:
                raise BadOption(f"{name}={value!r:.40}; must be seconds above 0", parameter=name)
        if self.calling not in CALLING:
            raise BadOption(
                f"calling={self.calling!r:.40}; must be one of {', '.join(CALLING)}", parameter="calling"
            )
        catalog = dict(tools_of("execution"))
        for tool in self.tools:
            if not isinstance(tool, BaseTool):
                raise BadOption(
                    f"tools: {tool!r:.60} is not a tool; make one with langchain_core.tools.tool",
                    parameter="tools",
                )
            if tool.name in catalog or tool.name in ACTION_TOOLS:
                raise BadOption(
                    f"tools: there is a tool {tool.name!r} already; give yours another name",
                    parameter="tools",
                )
            catalog[tool.name] = tool
        object.__setattr__(self, "tools", tuple(self.tools))
        object.__setattr__(self, "catalog", catalog)
        object.__setattr__(self, "described", _available(catalog, self.calling))

    def _check_size(self) -> None:
        if self.size not in SIZES:
            raise BadOption(f"size={self.size!r:.40}; must be one of {', '.join(SIZES)}", parameter="size")
        if self.share is not None and not (is_number(self.share) and 0 < self.share <= 1):
            raise BadOption(
                f"share={self.share!r:.40}; must be a number above 0, at most 1", parameter="share"
            )
        if self.cash is not None and not (is_number(self.cash) and 0 < self.cash < math.inf):
            raise BadOption(f"cash={self.cash!r:.40}; must be a number above 0", parameter="cash")
        if self.size == "fixed" and (self.cash is None or self.share is not None):
            raise BadOption(
                "size='fixed' needs cash=, the value of a position, and no share=", parameter="cash"
            )
        if self.size == "confidence" and self.cash is not None:
            raise BadOption("cash= belongs to size='fixed'; size='confidence' has share=", parameter="cash")

    def target(self, total: Decimal, confidence: float, symbols: int) -> Decimal:
        """Return the value that a buy aims at, of an account worth ``total`` that trades so many symbols."""
        if self.cash is not None:
            return to_decimal(self.cash, name="cash").quantize(CENT, ROUND_FLOOR)
        share = 1 / Decimal(symbols) if self.share is None else Decimal(str(self.share))
        return (total * share * Decimal(str(confidence))).quantize(CENT, ROUND_FLOOR)

    @property
    def identity(self) -> dict[str, Any]:
        """The options as plain JSON: a run is not continued with others."""
        own = {
            tool.name: content_hash(canonical_json(convert_to_openai_tool(tool)), size=8)
            for tool in self.tools
        }
        limits = {name: getattr(self, name) for name in ("rounds", "time_limit", "tool_timeout", "calling")}
        return {**limits, **({"tools": own} if own else {})}

    def desk(
        self,
        *,
        symbol: str,
        rule: str,
        language: Language,
        model: BaseChatModel,
        context: ToolContext,
        is_out_of_time: Callable[[], bool],
        keep: Callable[[Action, Any], None] = _nothing,
        status: Mapping[str, Any] | None = None,
    ) -> Desk:
        """Return what the execution of a symbol is worked with."""
        check_symbols(context.view, [symbol])
        bound: Any = model
        if self.calling == "native":
            # place_order, which is in the catalog, is the decision.
            bound = model.bind_tools([*self.catalog.values(), ACTION_TOOLS["calculation"]])

        def ask(messages: Sequence[AnyMessage]) -> AIMessage:
            reply: AIMessage = bound.invoke(list(messages))
            return reply if self.calling == "native" else calls_as_text(reply)

        return Desk(
            symbol=symbol,
            rule=rule,
            ask=ask,
            tools=self.catalog,
            available=self.described,
            context=context,
            prompt=prompt_texts()[f"execution_{language}"],
            language=language,
            is_out_of_time=is_out_of_time,
            keep=keep,
            status=status or {},
            rounds=self.rounds,
            tool_timeout=self.tool_timeout,
        )


def _available(catalog: Mapping[str, BaseTool], calling: Calling) -> list[dict[str, Any]]:
    """Return the tools as the prompt has them: by name alone where the model is offered them anyway."""
    return [{"name": name} for name in catalog] if calling == "native" else described(catalog.values())


def begin_execution(
    view: View,
    symbol: str,
    *,
    model: Model | None = None,
    rule: str = "",
    language: Language = "en",
    account: Account | None = None,
    rules: Rulebook | None = None,
    options: ExecutionOptions | None = None,
) -> ReactContext:
    """Begin the execution of a symbol by hand, for :func:`.react_step` and :func:`.run_execution`.

    Parameters
    ----------
    view
        The data as known at a session's open.
    model
        See :func:`~quantgraph.llm.get_llm`: the model of the role ``execution``.
    rule, language
        The user's rule in words, and the language of the prompt.
    account
        On that morning. Default: cash of 1,000,000.
    rules
        The market's rules. Default: those of the symbol's market.

    Raises
    ------
    UnknownSymbol
        If the view has no such symbol.
    """
    options = options or ExecutionOptions()
    begun = time.monotonic()
    desk = options.desk(
        symbol=symbol,
        rule=rule,
        language=language,
        model=get_llm("execution", model=model),
        context=ToolContext(view, account or Account.opening(CASH), rules or rules_of_codes([symbol])),
        is_out_of_time=lambda: time.monotonic() - begun >= options.time_limit,
    )
    return ReactContext(desk=desk)


ExecutionGraph = StateGraph[ExecutionState, None, ExecutionInput, ExecutionState]
CompiledExecutionGraph = CompiledStateGraph[ExecutionState, None, ExecutionInput, ExecutionState]


def create_execution_subgraph(
    *,
    tools: Sequence[BaseTool] = ExecutionOptions.tools,
    rounds: int = ExecutionOptions.rounds,
    time_limit: float = ExecutionOptions.time_limit,
    tool_timeout: float = ExecutionOptions.tool_timeout,
    calling: Calling = ExecutionOptions.calling,
    rules: Rulebook | None = None,
    model: Model | None = None,
    resources: Resources | None = None,
) -> CompiledExecutionGraph:
    """Compiled stepwise agent: it decides one symbol at one session's open, and sends no order.

    It works without a key: the keyless planner answers by a rule. For the state see :class:`ExecutionState`.

    Parameters
    ----------
    tools, rounds, time_limit, tool_timeout, calling
        See :class:`.ExecutionAgent`.
    rules
        The market's rules, which the tool ``get_rules`` tells. Default: those of the symbol's market.
    model, resources
        See :class:`~quantgraph.runtime.Resources`: the model, and the store of ``data_ref``.

    Raises
    ------
    BadOption
        If an argument is not valid.
    """
    options = ExecutionOptions(
        tools=tools, rounds=rounds, time_limit=time_limit, tool_timeout=tool_timeout, calling=calling
    )
    opened = open_resources(merge_resources(resources, model=model))
    nodes = _Nodes(options=options, opened=opened, rules=rules)
    graph: ExecutionGraph = StateGraph(ExecutionState, input_schema=ExecutionInput)
    for name in ("begin", "think", "act", "observe"):
        graph.add_node(name, getattr(nodes, name))
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "think")
    graph.add_conditional_edges("think", route_after_think, ["act", "think"])
    graph.add_edge("act", "observe")
    graph.add_conditional_edges("observe", route_after_observe, ["think", END])
    return shown_offline(graph.compile(name="execution"))


def route_after_think(state: ExecutionState) -> Literal["act", "think"]:
    """After think: carry the action out, or think again if the reply was sent back."""
    return "think" if state["action"] is None else "act"


def route_after_observe(state: ExecutionState) -> Literal["think", "__end__"]:
    """After observe: end with a decision, else think on."""
    return "__end__" if state.get("decision") else "think"


@dataclass(frozen=True, kw_only=True)
class _Nodes:
    """The nodes, and what they share."""

    options: ExecutionOptions
    opened: OpenResources
    rules: Rulebook | None

    def begin(self, state: ExecutionInput) -> ExecutionState:
        """Check what is given, and begin anew: the thread may have an earlier execution."""
        self.desk({**state})  # type: ignore[typeddict-item]  # mypy wants all keys of a total=False dict
        return {
            "cells": [],
            "step": 1,
            "conversation": [],
            "sent_back": 0,
            "malformed": 0,
            "reply": None,
            "action": None,
            "result": None,
            "execution_history": [],
            "decision": {},
            "begun": time.time(),
        }

    def think(self, state: ExecutionState) -> ExecutionState:
        """Ask the model for the next action."""
        return think(state, self.desk(state))

    def act(self, state: ExecutionState) -> ExecutionState:
        """Carry it out."""
        desk = self.desk(state)
        return {**act(state, desk), "cells": list(desk.context.cells)}

    def observe(self, state: ExecutionState) -> ExecutionState:
        """Tell the model its result, or end."""
        return observe(state, self.desk(state))

    def desk(self, state: ExecutionState) -> Desk:
        """Return what the state's execution is worked with."""
        opened = self.opened
        view = given_view(state, opened.store, "symbol")
        account = given_account(state, cash=CASH)
        rules = self.rules or rules_of_codes([state["symbol"]])
        context = ToolContext(view, account, rules, code=opened.runner)
        context.restore(state.get("cells", ()), ())
        return self.options.desk(
            symbol=state["symbol"],
            rule=state.get("rule", ""),
            language=state.get("language", "en"),
            model=role_model("execution", model=opened.model, settings=opened.settings),
            context=context,
            is_out_of_time=lambda: time.time() - state.get("begun", 0) >= self.options.time_limit,
        )
