"""What an account holds, what it is worth, and what corporate actions do to it.

Orders, fills and rejections are frozen values with exact ``Decimal`` money. Prices come as ``Quotes`` of a
view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.broker.accounts._account import (
        Delisting,
        Dividend,
        Event,
        Payment,
        Position,
        Receivable,
        Split,
        shares_after,
    )
    from quantgraph.broker.accounts._orders import Quantity, order_from_json, order_to_json
    from quantgraph.broker.accounts._quotes import Quotes, quotes_at
    from quantgraph.broker.accounts._results import (
        Block,
        Mark,
        MarkAt,
        last_closes,
        mark,
        value_of,
        value_series,
    )

__all__ = [
    "Block",
    "Delisting",
    "Dividend",
    "Event",
    "Mark",
    "MarkAt",
    "Payment",
    "Position",
    "Quantity",
    "Quotes",
    "Receivable",
    "Split",
    "last_closes",
    "mark",
    "order_from_json",
    "order_to_json",
    "quotes_at",
    "shares_after",
    "value_of",
    "value_series",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
