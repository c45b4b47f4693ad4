"""Deciders: a signal traded by rule, and code that runs in a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgraph.agents.isolated import IsolatedDecider
from quantgraph.agents.named_deciders import make_decider
from quantgraph.agents.signal_rule import SignalRule
from quantgraph.report.benchmark import BuyAndHold

__all__ = [
    "BuyAndHold",
    "DualAgent",
    "ExecutionAgent",
    "IsolatedDecider",
    "McpClient",
    "SignalRule",
    "TraderAgent",
    "make_decider",
]

if TYPE_CHECKING:
    from quantgraph.agents.dual_agent import DualAgent
    from quantgraph.agents.execution import ExecutionAgent
    from quantgraph.agents.mcp_client import McpClient
    from quantgraph.agents.trader import TraderAgent


def __getattr__(name: str) -> Any:
    if name == "DualAgent":  # a run with another decider starts without it
        from quantgraph.agents.dual_agent import DualAgent

        return DualAgent
    if name == "ExecutionAgent":
        from quantgraph.agents.execution import ExecutionAgent

        return ExecutionAgent
    if name == "McpClient":
        from quantgraph.agents.mcp_client import McpClient

        return McpClient
    if name == "TraderAgent":
        from quantgraph.agents.trader import TraderAgent

        return TraderAgent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
