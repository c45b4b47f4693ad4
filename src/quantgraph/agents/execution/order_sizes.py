"""From decisions to orders: in the order of the symbols, each in a size that is not the model's to choose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Literal, get_args

from quantgraph._util.texts import say
from quantgraph.broker import DecisionContext, Order
from quantgraph.broker.sizing import largest_buy
from quantgraph.errors import BadOption
from quantgraph.market.money import CENT, to_decimal

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


def account_value(context: DecisionContext) -> Decimal:
    """Return what the account is worth at the open; what has no open counts as nothing."""
    opens, account = context.view.numbers("ohlcv", "open"), context.account
    worths = (
        to_decimal(opens[name]) * held.quantity
        for name, held in account.positions.items()
        if 0 < opens.get(name, math.nan) < math.inf
    )
    return sum(worths, account.cash)


def orders_of(
    decisions: Mapping[str, Mapping[str, Any]], context: DecisionContext, size: OrderSize
) -> list[Order]:
    """Return the orders of decisions, in their order.

    A sell sells all; a buy raises the position to its size. What is held in that size already, to less than a
    lot, is left as it is.
    """
    opens, account, total = context.view.numbers("ohlcv", "open"), context.account, account_value(context)
    orders: list[Order] = []
    for symbol, decision in decisions.items():
        held, wish = account.quantity(symbol), _wish(decision, total, len(decisions), size)
        if wish is None or (not wish and not held):
            continue
        if wish and held and 0 < opens[symbol] < math.inf:
            price = to_decimal(opens[symbol])
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


def size_text(context: DecisionContext, symbol: str, size: OrderSize, total: Decimal, symbols: int) -> str:
    """Say to a model what a buy aims at, and what the least one is."""
    target, lots = size.target(total, 1.0, symbols), context.rules.lots(symbol, context.session.date())
    price = context.view.numbers("ohlcv", "open").get(symbol, math.nan)
    scaled = size.kind == "confidence"
    told = say(
        context.language,
        zh=f"买入把整个持仓补到 {target}{'乘以信心' if scaled else ''}，不足一手的差额不动",
        en=f"a buy raises the whole position to {target}{' times its confidence' if scaled else ''}; less "
        "than a lot of difference changes nothing",
    )
    if not 0 < price < math.inf:
        return told
    least = float(lots.first) * price
    return told + say(
        context.language,
        zh=f"；至少买 {lots.first} 股，按开盘价为 {least:.2f}",
        en=f"; the least buy is {lots.first} shares, {least:.2f} at the open",
    )


def _wish(decision: Mapping[str, Any], total: Decimal, symbols: int, size: OrderSize) -> Decimal | None:
    """Return the value wished for a position; None to leave it as it is."""
    if decision["action"] == "sell":
        return Decimal(0)
    return size.target(total, decision["confidence"], symbols) if decision["action"] == "buy" else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
