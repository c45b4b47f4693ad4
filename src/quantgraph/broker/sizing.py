"""From an order's size to a side and shares."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.orders import Order, Quantity, RejectionCode, normalize_quantity
from quantgraph.errors import BadOption
from quantgraph.market.money import notional
from quantgraph.market.rulebook import Lots, Rulebook, Side

LARGEST = 10**12
"""Largest shares, money and prices: above it decimals of 28 digits would lose the cents."""


class OrderRefused(Exception):
    """An order that cannot be filled: a rejection's code and message."""

    def __init__(self, code: RejectionCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, kw_only=True)
class SizedOrder:
    """An order with its side and its shares."""

    side: Side
    quantity: Quantity


def side_of(order: Order, held: Quantity, price: Decimal | None, others: Decimal | None) -> Side:
    """The side of an order; a target without a price counts as a buy."""
    name, size = order.size
    if order.side is not None:
        return order.side
    if name == "target_quantity":
        return "buy" if size >= held else "sell"
    if price is None:
        return "buy"
    return "buy" if _target_value(name, size, others, price * held) >= price * held else "sell"


def size_order(  # noqa: PLR0917 - the parameters of submit
    order: Order,
    price: Decimal,
    account: Account,
    rules: Rulebook,
    session: pd.Timestamp,
    others: Decimal | None,
) -> SizedOrder:
    """Compute the side and the shares of an order at a price.

    A buy towards ``target_weight`` or ``target_value`` includes its fees: notional and fees together fit
    what is missing. A sale leaves at most the target. A weight is a share of ``others``, what the account is
    worth without the symbol, plus the holding at the price.

    Raises
    ------
    OrderRefused
        If the order has no such quantity.
    """
    name, size = order.size
    if order.side is not None:
        return SizedOrder(side=order.side, quantity=normalize_quantity(size))
    held, symbol = account.quantity(order.symbol), order.symbol
    if size < 0:
        raise OrderRefused("short_not_allowed", f"{name}={size} of {symbol}; must be >= 0")
    if name == "target_quantity":
        if size == held:
            text = f"nothing to trade: {held} shares of {symbol} are held already"
            raise OrderRefused("bad_quantity", text)
        if size > held:
            return SizedOrder(side="buy", quantity=normalize_quantity(size - held))
        return SizedOrder(side="sell", quantity=normalize_quantity(held - size))
    target = _target_value(name, size, others, price * held)
    if target > LARGEST:
        raise OrderRefused("bad_quantity", f"{name}={size} of {symbol}; must be an amount <= {LARGEST}")
    room = target - price * held
    side: Side = "buy" if room >= 0 else "sell"
    if side == "buy":
        quantity = largest_buy(symbol, price, room, rules, session)
    else:
        quantity = _largest_sale(price, target, held, rules.lots(symbol, session.date()))
    if not quantity:
        text = f"{name}={size} of {symbol} is less than a lot away from the {held} shares held"
        raise OrderRefused("lot_size", text)
    return SizedOrder(side=side, quantity=quantity)


def largest_buy(
    symbol: str, price: Decimal, budget: Decimal, rules: Rulebook, session: pd.Timestamp
) -> Quantity:
    """The largest quantity whose notional and fees together fit the budget.

    Examples
    --------
    >>> day = pd.Timestamp("2024-01-02")
    >>> largest_buy("600000.SH", Decimal("10"), Decimal("5005.05"), Rulebook.mainland(), day)
    500
    >>> largest_buy("600000.SH", Decimal("10"), Decimal("5005.04"), Rulebook.mainland(), day)
    400
    """
    lots = rules.lots(symbol, session.date())

    def paid(steps: int) -> Decimal:
        quantity: Quantity = lots.step * steps
        amount = notional(price, quantity)
        return amount + rules.charges(symbol, "buy", quantity, amount, session.date()).total

    most = int(budget // (price * lots.step)) if budget > 0 else 0
    # Fees are a small share, so the answer is nearly always at most ten steps below.
    low = max(0, most - 10)
    if low and paid(low) > budget:
        low = 0
    steps = low
    while steps < most:
        middle = (steps + most + 1) // 2
        steps, most = (middle, most) if paid(middle) <= budget else (steps, middle - 1)
    quantity: Quantity = lots.step * steps
    return normalize_quantity(quantity) if quantity >= lots.first else 0


def split_buys(
    symbol: str, price: Decimal, budget: Decimal, rules: Rulebook, session: pd.Timestamp
) -> list[Quantity]:
    """Quantities that spend a budget at the open, split where the size cap of an order requires it."""
    cap = rules.order_cap(symbol, session.date(), "open")
    parts: list[Quantity] = []
    while quantity := largest_buy(symbol, price, budget, rules, session):
        parts.append(quantity if cap is None else min(quantity, cap))
        if parts[-1] == quantity:
            break
        amount = notional(price, parts[-1])
        budget -= amount + rules.charges(symbol, "buy", parts[-1], amount, session.date()).total
    return parts


def _largest_sale(price: Decimal, target: Decimal, held: Quantity, lots: Lots) -> Quantity:
    """Shares to sell, in lots, so that at most ``target`` is left."""
    step = Decimal(lots.step)
    surplus = (Decimal(held) - target / price) / step
    steps = surplus.to_integral_value(rounding=ROUND_CEILING)
    return normalize_quantity(min(Decimal(held), Decimal(steps) * step))


def _target_value(name: str, size: Quantity, others: Decimal | None, holding: Decimal) -> Decimal:
    if name == "target_value":
        return Decimal(size)
    if others is None:
        raise BadOption(
            "target_weight needs others=, the account's value without the symbol", parameter="others"
        )
    return size * (others + holding)
