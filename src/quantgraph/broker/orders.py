"""What was wished, what happened, and why it did not."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, get_args

import pandas as pd

from quantgraph.errors import BadOption
from quantgraph.market.rulebook import Side

__all__ = ["REJECTION_CODES", "Fill", "Order", "Outcome", "Rejection", "RejectionCode"]

RejectionCode = Literal[
    "unknown_symbol",
    "not_a_session",
    "suspended",
    "no_price",
    "bad_quantity",
    "lot_size",
    "tick_size",
    "insufficient_cash",
    "insufficient_shares",
    "t_plus_one",
    "limit_up",
    "limit_down",
    "order_size_cap",
    "volume_cap",
    "short_not_allowed",
    "market_closed",
]
REJECTION_CODES: tuple[RejectionCode, ...] = get_args(RejectionCode)


@dataclass(frozen=True, kw_only=True)
class Order:
    """A wish to trade at the open.

    Attributes
    ----------
    symbol
        ``ts_code``.
    side
        ``buy`` or ``sell``.
    quantity
        Shares. Zero or less is an order that the desk rejects.
    sequence
        Number within the decider's session, unique, from 1.
    reason
        Why the decider wants it, for people.
    """

    symbol: str
    side: Side
    quantity: int
    sequence: int
    reason: str = ""

    def __post_init__(self) -> None:
        if self.side not in get_args(Side):
            raise BadOption(f"side={self.side!r}; an order is 'buy' or 'sell'", parameter="side")
        for name in ("quantity", "sequence"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise BadOption(
                    f"{name}={value!r} of {self.symbol}; a whole number is wanted", parameter=name
                )
        if self.sequence < 1:
            raise BadOption(
                f"sequence={self.sequence} of {self.symbol}; it counts from 1", parameter="sequence"
            )


@dataclass(frozen=True, kw_only=True)
class Fill:
    """An order that was executed, whole. Money in CNY to the cent."""

    order: Order
    session: pd.Timestamp
    price: Decimal
    quantity: int
    notional: Decimal
    commission: Decimal
    stamp_duty: Decimal
    transfer_fee: Decimal

    @property
    def cost(self) -> Decimal:
        """Commission, stamp duty and transfer fee together."""
        return self.commission + self.stamp_duty + self.transfer_fee

    @property
    def cash_change(self) -> Decimal:
        """What the fill adds to the cash: negative for a buy."""
        return (self.notional if self.order.side == "sell" else -self.notional) - self.cost


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """An order that was not executed, with a stable code and one line for people."""

    order: Order
    session: pd.Timestamp
    code: RejectionCode
    message: str


Outcome = Fill | Rejection
"""Every order ends as one of the two."""
