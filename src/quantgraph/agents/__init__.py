"""Deciders: a signal traded by rule, and code that runs in a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names
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
else:  # a run with another decider starts without these; a type checker must still find misspelt names
    __getattr__ = lazy_names(
        __name__,
        {
            "dual_agent": ("DualAgent",),
            "execution": ("ExecutionAgent",),
            "mcp_client": ("McpClient",),
            "trader": ("TraderAgent",),
        },
    )
