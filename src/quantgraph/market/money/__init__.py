"""Exact money: ``Decimal`` amounts in cents, notionals, and fees of a trade."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.market.money._fees import (
        CENT,
        ZERO,
        Charges,
        MainlandFees,
        Side,
        market_value,
        money,
        notional,
        to_decimal,
        trim_zeros,
    )

__all__ = [
    "CENT",
    "ZERO",
    "Charges",
    "MainlandFees",
    "Side",
    "market_value",
    "money",
    "notional",
    "to_decimal",
    "trim_zeros",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
