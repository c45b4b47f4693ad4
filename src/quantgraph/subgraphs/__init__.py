"""Graphs that other graphs import: :mod:`quantgraph.subgraphs.signal`."""
