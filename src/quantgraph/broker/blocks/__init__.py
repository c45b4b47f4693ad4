"""Many sessions at once: the account's arithmetic compiled with numba, equal to one session at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.broker.blocks._block import is_kept_on_disk, trade_block
    from quantgraph.broker.blocks._panel import lasting_refusal

__all__ = ["is_kept_on_disk", "lasting_refusal", "trade_block"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
