"""The stepwise agent as a subgraph: think → act → observe, until there is a decision."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from quantgraph._util.texts import Language
from quantgraph.agents._isolated import given_view
from quantgraph.agents.execution._steps import (
    Calling,
    Desk,
    ExecutionInput,
    ExecutionOptions,
    ExecutionState,
    ReactContext,
    act,
    observe,
    think,
)
from quantgraph.broker import Account
from quantgraph.data.symbols import rules_of_codes
from quantgraph.llm import Model, get_llm, role_model
from quantgraph.market import Rulebook
from quantgraph.runtime import OpenResources, Resources, merge_resources, open_resources, shown_offline
from quantgraph.sandbox.wire import given_account
from quantgraph.state import View
from quantgraph.tools import ToolContext

CASH = 1_000_000
"""Cash of an account where none is given."""


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
    tools: Sequence[BaseTool | str] = ExecutionOptions.tools,
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
