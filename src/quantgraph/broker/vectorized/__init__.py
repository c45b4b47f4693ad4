"""Many sessions at once: a decider's :class:`~quantgraph.broker.BlockRule` traded by compiled array code."""

from quantgraph.broker.vectorized.block import Block, trade_block

__all__ = ["Block", "trade_block"]
