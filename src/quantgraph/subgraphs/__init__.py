"""Graphs that other graphs import."""
