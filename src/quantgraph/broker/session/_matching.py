"""Matching one order with a quote: its size becomes shares, then a fill or a rejection with its reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal

import pandas as pd

from quantgraph.broker.accounts._account import Account
from quantgraph.broker.accounts._orders import (
    Fill,
    Order,
    Quantity,
    Rejection,
    RejectionCode,
    normalize_quantity,
)
from quantgraph.broker.accounts._quotes import Quote
from quantgraph.errors import BadOption, UnknownSymbol
from quantgraph.market import Rulebook
from quantgraph.market.money import Charges, Side, notional, to_decimal
from quantgraph.market.rules import Lots

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


def size_order(  # noqa: PLR0917 - the parameters of match_order
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


def match_order(
    order: Order,
    account: Account,
    quote: Quote | None,
    rules: Rulebook,
    session: pd.Timestamp,
    *,
    others: Decimal | None = None,
    traded: Quantity = 0,
) -> Fill | Rejection:
    """Fill an order in a session, or reject it. The account does not change: apply the fill to it.

    All checks use the price of the fill. An order is filled in full, up to the volume cap, or not at all. The
    account is in the open session (after :meth:`Account.open_session`).
    """
    matching = _Matching(order, account, quote, rules, session, others, traded)
    try:
        return matching.fill()
    except OrderRefused as refused:
        return Rejection(order=order, session=session, code=refused.code, message=refused.message)


def reference_price(order: Order, quote: Quote | None) -> Decimal | None:
    """The price that determines the side of a target."""
    if order.price is not None:
        return order.price
    if quote is None:
        return None
    price = quote.open if order.type == "open" or quote.close is None else quote.close
    return to_decimal(price) if 0 < price < math.inf else None


def fits_lots(side: Side, quantity: Quantity, held: Quantity, lots: Lots) -> bool:
    """Whether a quantity is in lots; a sale may also take all that is held, or its odd rest."""
    if quantity % lots.step == 0 and quantity >= lots.first:
        return True
    if side == "buy":
        return False
    return quantity == held or (lots.step == lots.first and quantity % lots.step == held % lots.step)


def price_band(
    symbol: str, session: pd.Timestamp, quote: Quote, rules: Rulebook
) -> tuple[Decimal | None, Decimal | None]:
    """Upper and lower limit of a session from the data, else from the rules; None where there is none."""
    upper, lower = (
        to_decimal(price) if 0 < price < math.inf else None for price in (quote.up_limit, quote.down_limit)
    )
    if (upper is None or lower is None) and 0 < quote.pre_close < math.inf:
        before = to_decimal(quote.pre_close)
        above, below = rules.limits(symbol, session.date(), before, quote.status) or (None, None)
        upper, lower = above if upper is None else upper, below if lower is None else lower
    return upper, lower


@dataclass(slots=True)
class _Matching:
    """One call of :func:`match_order`. Its methods raise :class:`OrderRefused`."""

    order: Order
    account: Account
    quote: Quote | None
    rules: Rulebook
    session: pd.Timestamp
    others: Decimal | None
    traded: Quantity

    def fill(self) -> Fill:
        order, account, rules = self.order, self.account, self.rules
        name, size = order.size
        if name == "quantity" and size <= 0:
            raise OrderRefused("bad_quantity", f"{size} shares of {order.symbol}; must be > 0")
        if self.quote is None:
            raise OrderRefused("unknown_symbol", f"the data has no {order.symbol}")
        price = self._market_price(self.quote)
        sized = size_order(order, price, account, rules, self.session, self.others)
        self._check_quantity(sized)
        self._check_shares(sized)
        self._check_limits(sized, price, self.quote)
        allowed, rest = self._volume_allowed(sized, self.quote), None
        if allowed < sized.quantity:
            text = (
                f"{allowed} of {sized.quantity} shares of {order.symbol}; the cap is {rules.volume_share} of "
                f"the session's volume, {self.quote.volume:.0f}"
            )
            if not allowed:
                raise OrderRefused("volume_cap", text)
            rest = Rejection(order=order, session=self.session, code="volume_cap", message=text)
        fill = self._fill(sized.side, allowed, price)
        if account.cash + fill.cash_change < 0:
            text = f"{order.symbol} needs {-fill.cash_change} with fees, cash is {account.cash}"
            raise OrderRefused("insufficient_cash", text)
        return replace(fill, rest=rest) if rest else fill

    def _market_price(self, quote: Quote) -> Decimal:
        order, rules, session = self.order, self.rules, self.session
        symbol, limit = order.symbol, order.price
        try:
            rules.t_plus(symbol, session.date())  # needs the board, and the kind of a fund
        except UnknownSymbol as error:
            raise OrderRefused("unknown_symbol", error.message) from None
        if quote.suspended:
            raise OrderRefused("suspended", f"{symbol} does not trade in this session")
        if rules.halted(session.date(), order.type):
            text = f"the market was halted on {session:%Y-%m-%d}: no {order.type} orders"
            raise OrderRefused("market_closed", text)
        if limit is not None:
            self._check_tick(limit)
        side = side_of(order, self.account.quantity(symbol), reference_price(order, quote), self.others)
        price = quote.price(order.type, side, None if limit is None else float(limit))
        if price is None:
            text = f"{symbol} did not reach the {order.type} {limit} before the close"
            raise OrderRefused("market_closed", text)
        if not 0 < price < math.inf:
            raise OrderRefused("no_price", f"{symbol} has no {order.type} price ({price}); must be > 0")
        return to_decimal(price)

    def _check_tick(self, limit: Decimal) -> None:
        symbol = self.order.symbol
        name = f"{self.order.type}_price"
        if limit > LARGEST:
            raise OrderRefused("tick_size", f"{name}={limit} of {symbol}; must be <= {LARGEST}")
        tick = self.rules.tick(symbol, self.session.date(), limit)
        if limit % tick:
            raise OrderRefused("tick_size", f"{name}={limit} of {symbol}; must be a multiple of {tick}")

    def _check_quantity(self, sized: SizedOrder) -> None:
        symbol, quantity, step = self.order.symbol, sized.quantity, self.rules.fraction_step
        if not 0 < quantity <= LARGEST or quantity % step:
            valid = "a positive number" if step < 1 else "a positive whole number"
            raise OrderRefused("bad_quantity", f"{quantity} shares of {symbol}; must be {valid}")
        cap = self.rules.order_cap(symbol, self.session.date(), self.order.type)
        if cap is not None and quantity > cap:
            raise OrderRefused("order_size_cap", f"{quantity} shares of {symbol}; one order may have {cap}")

    def _check_shares(self, sized: SizedOrder) -> None:
        symbol, quantity = self.order.symbol, sized.quantity
        lots = self.rules.lots(symbol, self.session.date())
        position = self.account.positions.get(symbol)
        held = position.quantity if position else 0
        if sized.side == "sell":
            if position is None or quantity > held:
                raise OrderRefused(
                    "insufficient_shares", f"{quantity} shares of {symbol} to sell, {held} held"
                )
            if quantity > position.sellable:
                text = f"{position.bought_today} of {held} shares of {symbol} were bought in this session"
                raise OrderRefused("t_plus_one", text)
        if not fits_lots(sized.side, quantity, held, lots):
            text = f"{symbol}; lots are {lots.first}"
            text += f" and then steps of {lots.step}" if lots.step != lots.first else ""
            if sized.side == "buy":
                raise OrderRefused("lot_size", f"{quantity} shares of {text}")
            raise OrderRefused("lot_size", f"{quantity} of {held} shares of {text}, or the whole odd rest")

    def _check_limits(self, sized: SizedOrder, price: Decimal, quote: Quote) -> None:
        symbol, limit = self.order.symbol, self.order.limit_price
        upper, lower = price_band(symbol, self.session, quote, self.rules)
        if upper is not None and sized.side == "buy" and price >= upper:
            raise OrderRefused("limit_up", f"{symbol} is bought at {price}, its upper limit is {upper}")
        if lower is not None and sized.side == "sell" and price <= lower:
            raise OrderRefused("limit_down", f"{symbol} is sold at {price}, its lower limit is {lower}")
        if limit is not None and upper is not None and limit > upper:
            text = f"limit_price={limit} of {symbol} is above the upper limit {upper}"
            raise OrderRefused("limit_up", text)
        if limit is not None and lower is not None and limit < lower:
            text = f"limit_price={limit} of {symbol} is below the lower limit {lower}"
            raise OrderRefused("limit_down", text)

    def _volume_allowed(self, sized: SizedOrder, quote: Quote) -> Quantity:
        """Shares that the volume cap allows, in lots; 0 if the volume is unknown."""
        share = self.rules.volume_share
        if share is None or quote.volume is None:
            return sized.quantity
        if math.isnan(quote.volume):
            return 0
        cap = max(Decimal(0), to_decimal(quote.volume) * share - self.traded)
        if sized.quantity <= cap:
            return sized.quantity
        lots = self.rules.lots(self.order.symbol, self.session.date())
        allowed = (cap // lots.step) * lots.step
        return normalize_quantity(allowed) if allowed >= lots.first else 0

    def _within_range(self, charges: Charges, side: Side, quantity: Quantity, price: Decimal) -> Charges:
        """The slippage of a stop goes at most to the session's low, or to its high."""
        quote = self.quote
        worst = None if quote is None else quote.low if side == "sell" else quote.high
        if worst is None or math.isnan(worst):
            return charges
        most = notional(abs(price - to_decimal(worst)), quantity)
        return replace(charges, slippage=min(charges.slippage, most))

    def _fill(self, side: Side, quantity: Quantity, price: Decimal) -> Fill:
        symbol, day, amount = self.order.symbol, self.session.date(), notional(price, quantity)
        charges = self.rules.charges(symbol, side, quantity, amount, day)
        if self.order.type == "stop" and charges.slippage:
            charges = self._within_range(charges, side, quantity, price)
        return Fill(
            order=self.order,
            session=self.session,
            side=side,
            price=price,
            quantity=quantity,
            notional=amount,
            **vars(charges),
            t_plus=self.rules.t_plus(symbol, day),
        )
