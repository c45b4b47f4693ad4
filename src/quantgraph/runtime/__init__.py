"""The base of every node and agent: resources, running nodes, building agents, events, questions, endings."""

from quantgraph.runtime.resources import Resources

__all__ = ["Resources"]
