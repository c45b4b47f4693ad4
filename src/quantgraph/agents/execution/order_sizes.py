"""From decisions to orders: in the order of the symbols, each in a size that is not the model's to choose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Literal, get_args

from quantgraph.broker import DecisionContext, Order
from quantgraph.broker.sizing import largest_buy
from quantgraph.errors import BadOption
from quantgraph.market.money import CENT, to_decimal

__all__ = ["SIZES", "OrderSize", "orders_of"]

SizeKind = Literal["confidence", "fixed"]
SIZES: tuple[SizeKind, ...] = get_args(SizeKind)

_REASON = 200


@dataclass(frozen=True, kw_only=True)
class OrderSize:
    """The value that a buy aims at for the whole position.

    Attributes
    ----------
    kind
        ``confidence``: ``share`` of the account's value times the decision's confidence. ``fixed``: ``cash``.
    share
        Share of the account's value, above 0 and at most 1; None: one over the number of symbols.
    cash
        In the market's currency, above 0.

    Raises
    ------
    BadOption
        If a value is out of its range, or belongs to the other kind.
    """

    kind: SizeKind = "confidence"
    share: float | None = None
    cash: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in SIZES:
            raise BadOption(f"size={self.kind!r:.40}; must be one of {', '.join(SIZES)}", parameter="size")
        if self.share is not None and not (_is_number(self.share) and 0 < self.share <= 1):
            raise BadOption(
                f"share={self.share!r:.40}; must be a number above 0, at most 1", parameter="share"
            )
        if self.cash is not None and not (_is_number(self.cash) and self.cash > 0):
            raise BadOption(f"cash={self.cash!r:.40}; must be a number above 0", parameter="cash")
        if self.kind == "fixed" and (self.cash is None or self.share is not None):
            raise BadOption(
                "size='fixed' needs cash=, the value of a position, and no share=", parameter="cash"
            )
        if self.kind == "confidence" and self.cash is not None:
            raise BadOption("cash= belongs to size='fixed'; size='confidence' has share=", parameter="cash")

    def target(self, total: Decimal, confidence: float, symbols: int) -> Decimal:
        """Return the value aimed at, of an account worth ``total`` that trades so many symbols."""
        if self.cash is not None:
            return to_decimal(self.cash, name="cash").quantize(CENT, ROUND_FLOOR)
        share = 1 / Decimal(symbols) if self.share is None else Decimal(str(self.share))
        return (total * share * Decimal(str(confidence))).quantize(CENT, ROUND_FLOOR)


def orders_of(
    decisions: Mapping[str, Mapping[str, Any]], context: DecisionContext, size: OrderSize
) -> list[Order]:
    """Return the orders of decisions, in their order.

    A sell sells all; a buy raises the position to its size. What is held in that size already, to less than a
    lot, is left as it is.
    """
    opens = context.view.numbers("ohlcv", "open")
    account = context.account
    prices = {name: to_decimal(opens[name]) for name in opens if 0 < opens[name] < math.inf}
    total = account.cash + sum(
        (prices.get(name, Decimal(0)) * held.quantity for name, held in account.positions.items()), Decimal(0)
    )
    orders: list[Order] = []
    for symbol, decision in decisions.items():
        held, wish = account.quantity(symbol), _wish(decision, total, len(decisions), size)
        if wish is None or (not wish and not held):
            continue
        price = prices.get(symbol)
        if wish and held and price is not None:
            room = wish - price * held
            if not largest_buy(symbol, price, room, context.rules, context.session):
                continue
        orders.append(
            Order(
                symbol=symbol,
                target_value=wish,
                sequence=len(orders) + 1,
                reason=decision["reason"][:_REASON],
            )
        )
    return orders


def _wish(decision: Mapping[str, Any], total: Decimal, symbols: int, size: OrderSize) -> Decimal | None:
    """Return the value wished for a position; None to leave it as it is."""
    if decision["action"] == "sell":
        return Decimal(0)
    return size.target(total, decision["confidence"], symbols) if decision["action"] == "buy" else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
