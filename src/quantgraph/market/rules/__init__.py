"""Trading rules by date and board: lots, ticks, price bands, T+1, halts. Read from dated TOML tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.market.rules._order_rules import (
        ListingStatus,
        Lots,
        MarketCode,
        OrderType,
        exchange_of,
        find_board,
        halt_days,
        load_rules,
        market_elsewhere,
    )

__all__ = [
    "ListingStatus",
    "Lots",
    "MarketCode",
    "OrderType",
    "exchange_of",
    "find_board",
    "halt_days",
    "load_rules",
    "market_elsewhere",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
