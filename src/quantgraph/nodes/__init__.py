"""The nodes of the main graph, their state and trading."""

from quantgraph.nodes.approval import (
    approve_node,
    propose_node,
    route_after_approve,
    route_after_propose,
)
from quantgraph.nodes.daily_loop import (
    begin_node,
    daily_loop_node,
    route_after_daily_loop,
    route_after_decision,
)
from quantgraph.nodes.decision import decision_node
from quantgraph.nodes.given_data import given_data_node, route_after_begin
from quantgraph.nodes.report import report_node
from quantgraph.nodes.state import TradingState
from quantgraph.nodes.trading import Trading

__all__ = [
    "Trading",
    "TradingState",
    "approve_node",
    "begin_node",
    "daily_loop_node",
    "decision_node",
    "given_data_node",
    "propose_node",
    "report_node",
    "route_after_approve",
    "route_after_begin",
    "route_after_daily_loop",
    "route_after_decision",
    "route_after_propose",
]
