"""The day's orders before they are sent: what is shown of them, and how they are kept meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from typing_extensions import TypedDict

from quantgraph.broker.open_session import OpenSession, precheck
from quantgraph.broker.order_matching import reference_price
from quantgraph.broker.orders import SIZES, Fill, Order, Outcome
from quantgraph.broker.quotes import Quotes, quotes_at
from quantgraph.market.rulebook import OrderType, Side

__all__ = ["OrderProposal", "order_from_json", "order_to_json", "proposals_of"]

_NUMBERS = (*SIZES, "limit_price")


class OrderProposal(TypedDict):
    """An order with what is known of it at the open. Numbers are exact texts."""

    sequence: int
    symbol: str
    side: Side | None
    """None for a target that would be refused."""
    shares: str | None
    """None where the size is a target that would be refused."""
    price: str | None
    """The open, or the limit where the open is not as good; None where there is no price."""
    type: OrderType
    wish: str
    """The size as the decider gave it, ``target_weight 0.5``."""
    reason: str
    """Why the decider wants it."""
    refused: str | None
    """Why the desk would refuse it, ``code: message``; None if it would fill it."""


def proposals_of(morning: OpenSession, orders: Sequence[Order]) -> list[OrderProposal]:
    """The orders as somebody who approves them sees them, in the order in which they are submitted.

    Raises
    ------
    BadOption
        If two orders carry the same sequence.
    """
    quotes = quotes_at(morning.at_open)
    return [_shown(outcome, quotes) for outcome in precheck(morning, orders)]


def order_to_json(order: Order) -> dict[str, Any]:
    """An order as JSON; half a surrogate pair in a text is escaped, as UTF-8 has none."""
    numbers = {name: value for name in _NUMBERS if (value := getattr(order, name)) is not None}
    return {
        "sequence": str(order.sequence),
        "symbol": _utf8(order.symbol),
        "side": order.side,
        "type": order.type,
        "reason": _utf8(order.reason),
        **{name: _text(value) for name, value in numbers.items()},
    }


def order_from_json(told: dict[str, Any]) -> Order:
    """The order that :func:`order_to_json` told of."""
    numbers: dict[str, Any] = {
        name: int(told[name]) if "quantity" in name and "." not in told[name] else Decimal(told[name])
        for name in _NUMBERS
        if name in told
    }
    return Order(**{**told, "sequence": int(told["sequence"]), **numbers})


def _shown(outcome: Outcome, quotes: Quotes) -> OrderProposal:
    order = outcome.order
    name, size = order.size
    side, shares = order.side, order.quantity
    price, refused = reference_price(order, quotes.get(order.symbol)), None
    if isinstance(outcome, Fill):
        side, shares, price = outcome.side, outcome.quantity, outcome.price
    else:
        refused = f"{outcome.code}: {_utf8(outcome.message)}"
    return {
        "sequence": order.sequence,
        "symbol": _utf8(order.symbol),
        "side": side,
        "shares": None if shares is None else _text(shares),
        "price": None if price is None else _text(price),
        "type": order.type,
        "wish": f"{name} {_text(size)}",
        "reason": _utf8(order.reason),
        "refused": refused,
    }


def _text(number: int | Decimal) -> str:
    return f"{number:f}" if isinstance(number, Decimal) else str(number)


def _utf8(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
