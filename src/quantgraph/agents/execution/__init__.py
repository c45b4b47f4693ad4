"""The stepwise agent: it thinks, acts and observes, one symbol at a time, and everything it did is kept."""

from quantgraph.agents.execution.execution_decider import ExecutionAgent
from quantgraph.agents.execution.execution_graph import create_execution_subgraph
from quantgraph.agents.execution.execution_options import ExecutionOptions, begin_execution
from quantgraph.agents.execution.execution_steps import (
    ExecutionState,
    ReactContext,
    execute_action,
    react_step,
    run_execution,
)
from quantgraph.agents.execution.order_sizes import OrderSize
from quantgraph.agents.execution.step_action import Action, parse_action

__all__ = [
    "Action",
    "ExecutionAgent",
    "ExecutionOptions",
    "ExecutionState",
    "OrderSize",
    "ReactContext",
    "begin_execution",
    "create_execution_subgraph",
    "execute_action",
    "parse_action",
    "react_step",
    "run_execution",
]
