"""The nodes of the main graph."""

from quantgraph.nodes.daily_loop import begin_node, daily_loop_node, route_after_daily_loop
from quantgraph.nodes.decision import decision_node
from quantgraph.nodes.desk import TradingDesk
from quantgraph.nodes.report import report_node
from quantgraph.nodes.state import TradingState

__all__ = [
    "TradingDesk",
    "TradingState",
    "begin_node",
    "daily_loop_node",
    "decision_node",
    "report_node",
    "route_after_daily_loop",
]
