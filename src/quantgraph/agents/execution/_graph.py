"""The stepwise agent as a subgraph: think → act → observe, until there is a decision."""

from __future__ import annotations

import time
from typing import Any

from langgraph.graph.state import CompiledStateGraph

from quantgraph._util.texts import Language
from quantgraph.agents._model_decider import loop_graph, scratch_context
from quantgraph.agents.execution._steps import (
    ExecutionInput,
    ExecutionLoop,
    ExecutionOptions,
    ExecutionState,
    ReactContext,
)
from quantgraph.broker import Account
from quantgraph.data.symbols import rules_of_codes
from quantgraph.llm import Model, get_llm, role_model
from quantgraph.market import Rulebook
from quantgraph.runtime import Resources, merge_resources, open_resources
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
    loop = options.loop(
        symbol=symbol,
        rule=rule,
        language=language,
        model=get_llm("execution", model=model),
        context=ToolContext(view, account or Account.opening(CASH), rules or rules_of_codes([symbol])),
        is_out_of_time=lambda: time.monotonic() - begun >= options.time_limit,
    )
    return ReactContext(loop=loop)


CompiledExecutionGraph = CompiledStateGraph[ExecutionState, None, ExecutionInput, ExecutionState]


def create_execution_subgraph(
    options: ExecutionOptions | None = None,
    *,
    rules: Rulebook | None = None,
    model: Model | None = None,
    resources: Resources | None = None,
) -> CompiledExecutionGraph:
    """Compiled stepwise agent: it decides one symbol at one session's open, and sends no order.

    It works without a key: the keyless planner answers by a rule. For the state see :class:`ExecutionState`.

    Parameters
    ----------
    options
        See :class:`.ExecutionAgent`; ``parallel`` and the sizes of orders have no effect here.
    rules
        The market's rules, which the tool ``get_rules`` tells. Default: those of the symbol's market.
    model, resources
        See :class:`~quantgraph.runtime.Resources`: the model, and the store of ``data_ref``.
    """
    chosen = options or ExecutionOptions()
    opened = open_resources(merge_resources(resources, model=model))

    def loop_of(state: ExecutionState) -> ExecutionLoop:
        """The loop of a state's execution, with the code that it has run so far."""
        context = scratch_context(
            state,
            opened,
            lambda _view: rules or rules_of_codes([state["symbol"]]),
            "symbol",
            cash=CASH,
            trades=False,
        )
        context.restore(state.get("cells", ()), ())
        return chosen.loop(
            symbol=state["symbol"],
            rule=state.get("rule", ""),
            language=state.get("language", "en"),
            model=role_model("execution", model=opened.model, settings=opened.settings),
            context=context,
            is_out_of_time=lambda: time.time() - state.get("begun", 0) >= chosen.time_limit,
        )

    schemas = ExecutionState, ExecutionInput
    return loop_graph(ExecutionLoop, loop_of, _fresh, name="execution", schemas=schemas)


def _fresh() -> dict[str, Any]:
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
