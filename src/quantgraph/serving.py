"""The old place of :mod:`quantgraph.graph.serving`; it goes with the next release."""

from quantgraph.graph import signal_graph, trading_graph

__all__ = ["signal_graph", "trading_graph"]
