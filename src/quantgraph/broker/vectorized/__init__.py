"""Many sessions at once: a decider's :class:`~quantgraph.broker.BlockRule` traded by compiled array code."""

from quantgraph.broker.vectorized._block_run import is_kept_on_disk
from quantgraph.broker.vectorized.block import trade_block

__all__ = ["is_kept_on_disk", "trade_block"]
