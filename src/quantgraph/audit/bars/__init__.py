"""Checks of daily bars, indicators and signals: impossible prices, missing cells, wrong axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.audit.bars._moves import Move, move_lines, unexplained_moves
    from quantgraph.audit.bars._quality import check_data, check_signal, impossible_bars, signal_counts

__all__ = [
    "Move",
    "check_data",
    "check_signal",
    "impossible_bars",
    "move_lines",
    "signal_counts",
    "unexplained_moves",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
