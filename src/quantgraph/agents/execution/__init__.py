"""The execution agent: a model that reasons step by step, calls tools and ends with buy, sell or hold.

Each step is one *action* (tool call, calculation, observation or decision) in one JSON form, parsed from
native tool calls or from text. ``ExecutionAgent`` runs the steps for each symbol of a session and sizes the
order; ``create_execution_subgraph`` is the same loop as a LangGraph graph. Steps go to the ledger's execution
log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.agents.execution._actions import parse_action
    from quantgraph.agents.execution._decider import ExecutionAgent
    from quantgraph.agents.execution._drawing import cut, draw_execution, step_texts
    from quantgraph.agents.execution._steps import (
        ExecutionOptions,
        begin_execution,
        create_execution_subgraph,
        execute_action,
        react_step,
    )

__all__ = [
    "ExecutionAgent",
    "ExecutionOptions",
    "begin_execution",
    "create_execution_subgraph",
    "cut",
    "draw_execution",
    "execute_action",
    "parse_action",
    "react_step",
    "step_texts",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
