"""What the agents that decide may read and do: bars, indicators, positions, rules, orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.tools.trading._account import MOST_SYMBOLS
    from quantgraph.tools.trading._calculations import talib_values
    from quantgraph.tools.trading._symbol_bars import SymbolBars, known_bars, known_symbol

__all__ = ["MOST_SYMBOLS", "SymbolBars", "known_bars", "known_symbol", "talib_values"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
