"""Many sessions at once: a decider's :class:`~quantgraph.broker.BlockRule` traded by compiled array code."""

from quantgraph.broker.vectorized.block import trade_block

__all__ = ["trade_block"]
