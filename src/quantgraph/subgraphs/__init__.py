"""Graphs that other graphs import: ``quantgraph.subgraphs.signal``."""
