"""The main graph: signal subgraph, daily loop, decision, report.

``create_trading_graph`` compiles it without a checkpointer; the host chooses one. The nodes and routes are
plain functions over ``TradingState`` and can be tested alone. One turn of the loop trades a session, or up to
128 of a decider with a block rule: the decider sees the view of the open, its orders are matched, and days
are committed whole. ``serving`` has the factories that ``langgraph.json`` names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.graph._graph import create_trading_graph
    from quantgraph.graph._loop import daily_loop_node, decision_node
    from quantgraph.graph._report import report_node
    from quantgraph.graph._state import TradingState
    from quantgraph.graph.serving import signal_graph, trading_graph

__all__ = [
    "TradingState",
    "create_trading_graph",
    "daily_loop_node",
    "decision_node",
    "report_node",
    "signal_graph",
    "trading_graph",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
