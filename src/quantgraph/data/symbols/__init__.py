"""Symbols: codes, names and indexes that people write, as ``ts_code``; and the market they trade on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.data.symbols._codes import is_code, is_index_code, symbol_list
    from quantgraph.data.symbols._resolution import (
        INDEX_NAMES,
        ResolvedSymbols,
        index_code,
        names_in,
        resolve_symbols,
        rules_of,
        rules_of_codes,
    )

__all__ = [
    "INDEX_NAMES",
    "ResolvedSymbols",
    "index_code",
    "is_code",
    "is_index_code",
    "names_in",
    "resolve_symbols",
    "rules_of",
    "rules_of_codes",
    "symbol_list",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
