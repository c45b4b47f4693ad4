"""The main graph: signal subgraph, daily loop, decision, report.

``create_trading_graph`` compiles it without a checkpointer; the host chooses one. The nodes and routes are
plain functions over ``TradingState`` and can be tested alone. One turn of the loop is one session: the
decider sees the view of that moment, its orders are filled at the open, the day is committed in one
transaction. ``serving`` has the factories that ``langgraph.json`` names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.graph._approval import (
        approve_node,
        propose_node,
        route_after_approve,
        route_after_propose,
    )
    from quantgraph.graph._graph import create_trading_graph
    from quantgraph.graph._loop import (
        begin_node,
        daily_loop_node,
        decision_node,
        given_data_node,
        route_after_begin,
        route_after_daily_loop,
        route_after_decision,
    )
    from quantgraph.graph._report import report_node
    from quantgraph.graph._state import TradingState
    from quantgraph.graph.serving import signal_graph, trading_graph

__all__ = [
    "TradingState",
    "approve_node",
    "begin_node",
    "create_trading_graph",
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
    "signal_graph",
    "trading_graph",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_approval": "approve_node propose_node route_after_approve route_after_propose",
            "_graph": "create_trading_graph",
            "_loop": (
                "begin_node daily_loop_node decision_node given_data_node route_after_begin "
                "route_after_daily_loop route_after_decision"
            ),
            "_report": "report_node",
            "_state": "TradingState",
            "serving": "signal_graph trading_graph",
        },
    )
