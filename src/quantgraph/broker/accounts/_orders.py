"""Orders, decisions, and the outcome of an order: a fill, a rejection, or that it is pending."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from quantgraph._util.values import is_whole
from quantgraph.broker._plan import ExitRule, TradePlan
from quantgraph.errors import BadOption
from quantgraph.market.money import ZERO, Side
from quantgraph.market.rules import OrderType

Quantity = int | Decimal
"""Shares: an int when they are whole, else a decimal."""

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
    "not_approved",
]
REJECTION_CODES: tuple[RejectionCode, ...] = get_args(RejectionCode)

SIZES = ("quantity", "target_quantity", "target_weight", "target_value")
PRICES = ("limit_price", "stop_price")
_NUMBERS = (*SIZES, *PRICES)


def normalize_quantity(quantity: Quantity) -> Quantity:
    """Whole shares as an int, others without trailing zeros.

    >>> normalize_quantity(Decimal("100.000")), normalize_quantity(Decimal("2.50"))
    (100, Decimal('2.5'))
    """
    if isinstance(quantity, int):
        return quantity
    return int(quantity) if quantity == int(quantity) else quantity.normalize()


@dataclass(frozen=True, kw_only=True)
class Order:
    """An order to trade, with exactly one of four sizes.

    Attributes
    ----------
    symbol
        ``ts_code``.
    side
        ``buy`` or ``sell``; only with ``quantity``: a target determines its side.
    quantity
        Shares to trade. An order for zero or less is rejected.
    target_quantity
        Shares to hold afterwards.
    target_weight
        Share of the account's value to hold afterwards, 0.05 for 5 %.
    target_value
        Value to hold afterwards, in the market's currency.
    type
        ``open``: at the opening price. ``close``: at the closing price. ``limit``: at ``limit_price`` or
        better, good for the session. ``stop``: once the price reaches ``stop_price``, at it, or at the open
        if that is beyond it already; good for the session.
    limit_price
        Worst price that is accepted; only with type ``limit``.
    stop_price
        Price at which the order becomes one; only with type ``stop``.
    sequence
        Number within the decider's session, unique, from 1.
    reason
        The decider's reason, for people.
    trigger
        What a trade plan reached, with the session of the entry: ``stop_loss 20240105``; empty for an order
        of the decider. Each try of one exit has the same.

    Raises
    ------
    BadOption
        If a value has the wrong type, or not exactly one size is set.

    Notes
    -----
    Whole numbers are converted: NumPy's to ``int``, weights, values and prices to ``Decimal``. Floats are
    refused, because 0.1 is not a tenth.
    """

    symbol: str
    side: Side | None = None
    quantity: Quantity | None = None
    target_quantity: Quantity | None = None
    target_weight: Decimal | None = None
    target_value: Decimal | None = None
    type: OrderType = "open"
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    sequence: int
    reason: str = ""
    trigger: str = ""

    def __post_init__(self) -> None:
        for name in ("symbol", "reason", "trigger"):
            if not isinstance(getattr(self, name), str):
                self._refuse(name, "must be text")
        _one_size(self)
        for name in PRICES:
            if getattr(self, name) is not None:
                _convert_whole(self, name)
        if self.side not in (None, *get_args(Side)) or (self.side is None) != (self.quantity is None):
            self._refuse("side", "must be 'buy' or 'sell' with a quantity, and None with a target")
        if self.type not in get_args(OrderType):
            self._refuse("type", f"must be one of {', '.join(get_args(OrderType))}")
        self._check_prices()
        if not is_whole(self.sequence) or self.sequence < 1:
            self._refuse("sequence", "must be a whole number >= 1")

    def _check_prices(self) -> None:
        for name in PRICES:
            price, kind = getattr(self, name), name.removesuffix("_price")
            if (price is not None) != (self.type == kind):
                self._refuse(name, f"must be a price with type {kind!r}, and None otherwise")
            if price is not None and not (_is_number(price, Decimal) and price > 0):
                self._refuse(name, "must be a Decimal > 0")

    def _refuse(self, name: str, valid: str) -> None:
        raise BadOption(f"{name}={getattr(self, name)!r:.80} of {self.symbol!s:.80}; {valid}", parameter=name)

    @property
    def price(self) -> Decimal | None:
        """The limit or the stop, None of an order at an auction."""
        return self.limit_price if self.stop_price is None else self.stop_price

    @property
    def size(self) -> tuple[str, Quantity]:
        """Which of the four sizes is set, and how much."""
        return next((name, value) for name in SIZES if (value := getattr(self, name)) is not None)


def check_sequences(orders: Iterable[Order]) -> None:
    """Raise ``BadOption`` if two orders of a session have the same sequence."""
    used = set[int]()
    for order in orders:
        if order.sequence in used:
            raise BadOption(
                f"sequence={order.sequence} of {order.symbol} is used twice in one session",
                parameter="sequence",
            )
        used.add(order.sequence)


def _one_size(order: Order) -> None:
    sizes = [name for name in SIZES if getattr(order, name) is not None]
    if len(sizes) != 1:
        raise BadOption(
            f"{order.symbol}: exactly one of {', '.join(SIZES)} must be set, not {len(sizes)}",
            parameter="quantity",
        )
    value = _convert_whole(order, sizes[0])
    if not _is_number(value, *((int, Decimal) if "quantity" in sizes[0] else (Decimal,))):
        valid = "a whole number or a Decimal" if "quantity" in sizes[0] else "a Decimal"
        raise BadOption(f"{sizes[0]}={value!r} of {order.symbol}; must be {valid}", parameter=sizes[0])


def _convert_whole(order: Order, name: str) -> Any:
    """Convert a whole number to the attribute's type, and return it."""
    sizes = value = getattr(order, name)
    if isinstance(value, np.integer):
        value = int(value)
    if type(value) is int and "quantity" not in name:
        value = Decimal(value)
    if value is not sizes:
        object.__setattr__(order, name, value)
    return value


def _is_number(value: object, *kinds: type) -> bool:
    return type(value) in kinds and (not isinstance(value, Decimal) or value.is_finite())


@dataclass(frozen=True)
class Decision:
    """What a decider decided for one session.

    Attributes
    ----------
    orders
        Filled or rejected in this session. A decider may return the orders alone instead of a decision.
    notes
        Plain JSON by name, such as the reasons of a hold: kept in the ledger beside the orders.
    exits
        How positions end, at most one rule a symbol, in place of the plan's exits.
    in_order
        True submits the orders of each auction as listed, with the outcomes that :class:`.Session` gave for
        them; False submits sells before buys, so that a buy may spend what a sale brings.
    """

    orders: Sequence[Order] = ()
    notes: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    in_order: bool = field(default=False, kw_only=True)
    exits: Sequence[ExitRule] = field(default=(), kw_only=True)


@dataclass(frozen=True, kw_only=True)
class BlockRule:
    """A decider's rule as plain data, see :class:`~quantgraph.agents.SignalRule`.

    Attributes
    ----------
    name
        The decider's name.
    trades
        False keeps the holdings as they are.
    signal
        Name of the signal; None means the only one there is.
    plan
        Sizes, schedules and exits.
    started
        The run's first session, from which schedules count; None: the data's.
    missed
        Name of its note on purchases of a schedule for which the cash is too little.
    """

    name: str
    trades: bool
    signal: str | None = None
    plan: TradePlan = field(default_factory=TradePlan)
    started: pd.Timestamp | None = None
    missed: str = ""


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """An order that was not executed, with a stable code and one line for people."""

    order: Order
    session: pd.Timestamp
    code: RejectionCode
    message: str


@dataclass(frozen=True, kw_only=True)
class Fill:
    """An order that was executed. Money to the cent, in the market's currency.

    Attributes
    ----------
    price
        The market's price, without slippage.
    notional
        ``price * quantity``, half up to the cent.
    commission, stamp_duty, transfer_fee, regulatory, slippage
        Charges, see :class:`~quantgraph.market.money.Charges`.
    t_plus
        Sessions until what was bought may be sold: 1, or 0.
    rest
        The part that the volume cap cut off; None if all was filled.
    """

    order: Order
    session: pd.Timestamp
    side: Side
    price: Decimal
    quantity: Quantity
    notional: Decimal
    commission: Decimal
    stamp_duty: Decimal
    transfer_fee: Decimal
    regulatory: Decimal = ZERO
    slippage: Decimal = ZERO
    t_plus: int = 1
    rest: Rejection | None = None

    @property
    def cost(self) -> Decimal:
        """Commission, duty, fees and slippage together."""
        return self.commission + self.stamp_duty + self.transfer_fee + self.regulatory + self.slippage

    @property
    def cash_change(self) -> Decimal:
        """What the fill adds to the cash: negative for a buy."""
        return (self.notional if self.side == "sell" else -self.notional) - self.cost


@dataclass(frozen=True, kw_only=True)
class Pending:
    """An order whose outcome the open does not tell, and why.

    Attributes
    ----------
    reason
        ``limit``, ``stop`` or ``close``: the type of the order, which meets prices of later;
        ``volume_cap``: the market limits fills to a share of the session's volume; ``earlier_order``: it
        depends on a pending order.
    """

    order: Order
    reason: str
    message: str


Outcome = Fill | Rejection
"""Each order ends as a fill or a rejection."""


def rejection_of(outcome: Outcome) -> Rejection | None:
    """The rejection of an order, or of the rest that the volume cap cut off; None if all was filled."""
    return outcome if isinstance(outcome, Rejection) else outcome.rest


def order_to_json(order: Order) -> dict[str, Any]:
    """An order as plain JSON with exact numbers as text; lone surrogates in its texts are escaped."""
    numbers = {name: value for name in _NUMBERS if (value := getattr(order, name)) is not None}
    return {
        "sequence": str(order.sequence),
        "symbol": escape_surrogates(order.symbol),
        "side": order.side,
        "type": order.type,
        "reason": escape_surrogates(order.reason),
        **{name: number_text(value) for name, value in numbers.items()},
        **({"trigger": order.trigger} if order.trigger else {}),
    }


def order_from_json(body: dict[str, Any]) -> Order:
    """Read what :func:`order_to_json` wrote."""
    numbers: dict[str, Any] = {
        name: int(body[name]) if "quantity" in name and "." not in body[name] else Decimal(body[name])
        for name in _NUMBERS
        if name in body
    }
    return Order(**{**body, "sequence": int(body["sequence"]), **numbers})


def number_text(number: int | Decimal) -> str:
    """Decimal digits without an exponent."""
    return f"{number:f}" if isinstance(number, Decimal) else str(number)


def escape_surrogates(text: str) -> str:
    """Lone surrogates as backslash escapes, because UTF-8 has none."""
    return text.encode(errors="backslashreplace").decode()
