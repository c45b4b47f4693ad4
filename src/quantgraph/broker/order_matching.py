"""Matching one order with a quote: a fill, or a rejection with its reason.

The pre-check of an order and its fill use the same function, :func:`submit`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.orders import Fill, Order, Quantity, Rejection, normalize_quantity
from quantgraph.broker.quotes import Quote
from quantgraph.broker.sizing import LARGEST, Refusal, SizedOrder, side_of, size_order
from quantgraph.errors import UnknownSymbol
from quantgraph.market.money import notional, to_decimal
from quantgraph.market.rulebook import Lots, Rulebook, Side

__all__ = ["fits_lots", "reference_price", "submit"]


def submit(
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

    All checks use the price of the fill. An order is filled in full, up to the volume cap, or not at all.

    Parameters
    ----------
    account
        In the open session (after :meth:`Account.open_session`).
    quote
        The symbol in the session, None if the data does not have it. With a quote of the open the outcome is
        the one that is known then.
    others
        The account's value without the symbol; with the holding at the fill's price it is the value that
        ``target_weight`` refers to.
    traded
        Shares of the symbol that the account traded in the session so far; they use up the volume cap.

    Raises
    ------
    BadWindow
        If the rulebook does not reach back to the session.
    """
    outcome = _matched(order, account, quote, rules, session, others, traded)
    if isinstance(outcome, Fill):
        return outcome
    code, message = outcome
    return Rejection(order=order, session=session, code=code, message=message)


def _matched(  # noqa: PLR0917 - the parameters of submit
    order: Order,
    account: Account,
    quote: Quote | None,
    rules: Rulebook,
    session: pd.Timestamp,
    others: Decimal | None,
    traded: Quantity,
) -> Fill | Refusal:
    name, size = order.size
    if name == "quantity" and size <= 0:
        return "bad_quantity", f"{size} shares of {order.symbol}; must be > 0"
    price = _market_price(order, account, quote, rules, session, others)
    if quote is None or isinstance(price, tuple):
        return price if isinstance(price, tuple) else ("unknown_symbol", order.symbol)
    sized = size_order(order, price, account, rules, session, others)
    if isinstance(sized, tuple):
        return sized
    refusal = (
        _check_quantity(order, sized, rules, session)
        or _check_shares(order, sized, account, rules, session)
        or _check_limits(order, sized, price, quote, rules, session)
    )
    if refusal:
        return refusal
    allowed = _volume_allowed(sized, order.symbol, quote, rules, session, traded)
    capped = _cap_message(order, sized, allowed, quote, rules) if allowed < sized.quantity else ""
    if not allowed:
        return "volume_cap", capped
    fill = _fill(order, sized.side, allowed, price, rules, session)
    if account.cash + fill.cash_change < 0:
        text = f"{order.symbol} needs {-fill.cash_change} with fees, cash is {account.cash}"
        return "insufficient_cash", text
    if capped:
        rest = Rejection(order=order, session=session, code="volume_cap", message=capped)
        return replace(fill, rest=rest)
    return fill


def _market_price(  # noqa: PLR0917
    order: Order,
    account: Account,
    quote: Quote | None,
    rules: Rulebook,
    session: pd.Timestamp,
    others: Decimal | None,
) -> Decimal | Refusal:
    symbol, limit = order.symbol, order.limit_price
    if quote is None:
        return "unknown_symbol", f"the data has no {symbol}"
    try:
        rules.t_plus(symbol, session.date())  # needs the board, and the kind of a fund
    except UnknownSymbol as error:
        return "unknown_symbol", error.message
    if quote.suspended:
        return "suspended", f"{symbol} does not trade in this session"
    if rules.halted(session.date(), order.type):
        return "market_closed", f"the market was halted on {session:%Y-%m-%d}: no {order.type} orders"
    if limit is not None and (refusal := _check_tick(symbol, limit, rules, session)):
        return refusal
    side = side_of(order, account.quantity(symbol), reference_price(order, quote), others)
    price = quote.price(order.type, side, None if limit is None else float(limit))
    if price is None:
        return "market_closed", f"{symbol} did not reach the limit {limit} before the close"
    if not 0 < price < math.inf:
        return "no_price", f"{symbol} has no {order.type} price ({price}); must be > 0"
    return to_decimal(price)


def _check_tick(symbol: str, limit: Decimal, rules: Rulebook, session: pd.Timestamp) -> Refusal | None:
    if limit > LARGEST:
        return "tick_size", f"limit_price={limit} of {symbol}; must be <= {LARGEST}"
    tick = rules.tick(symbol, session.date(), limit)
    return (
        ("tick_size", f"limit_price={limit} of {symbol}; must be a multiple of {tick}")
        if limit % tick
        else None
    )


def reference_price(order: Order, quote: Quote | None) -> Decimal | None:
    """The price that determines the side of a target."""
    if order.limit_price is not None:
        return order.limit_price
    if quote is None:
        return None
    price = quote.open if order.type == "open" or quote.close is None else quote.close
    return to_decimal(price) if 0 < price < math.inf else None


def _check_quantity(
    order: Order, sized: SizedOrder, rules: Rulebook, session: pd.Timestamp
) -> Refusal | None:
    quantity, day = sized.quantity, session.date()
    if not 0 < quantity <= LARGEST or quantity % rules.fraction_step:
        valid = "a positive number" if rules.fraction_step < 1 else "a positive whole number"
        return "bad_quantity", f"{quantity} shares of {order.symbol}; must be {valid}"
    cap = rules.order_cap(order.symbol, day, order.type)
    if cap is not None and quantity > cap:
        return "order_size_cap", f"{quantity} shares of {order.symbol}; one order may have {cap}"
    return None


def fits_lots(side: Side, quantity: Quantity, held: Quantity, lots: Lots) -> bool:
    """Whether a quantity is in lots; a sale may also take all that is held, or its odd rest."""
    if quantity % lots.step == 0 and quantity >= lots.first:
        return True
    if side == "buy":
        return False
    return quantity == held or (lots.step == lots.first and quantity % lots.step == held % lots.step)


def _check_shares(
    order: Order, sized: SizedOrder, account: Account, rules: Rulebook, session: pd.Timestamp
) -> Refusal | None:
    symbol, quantity, lots = order.symbol, sized.quantity, rules.lots(order.symbol, session.date())
    position = account.positions.get(symbol)
    held = position.quantity if position else 0
    if sized.side == "sell":
        if position is None or quantity > held:
            return "insufficient_shares", f"{quantity} shares of {symbol} to sell, {held} held"
        if quantity > position.sellable:
            text = f"{position.bought_today} of {held} shares of {symbol} were bought in this session"
            return "t_plus_one", text
    if fits_lots(sized.side, quantity, held, lots):
        return None
    if sized.side == "buy":
        return "lot_size", f"{quantity} shares of {symbol}; {_lots(lots)}"
    return "lot_size", f"{quantity} of {held} shares of {symbol}; {_lots(lots)}, or the whole odd rest"


def _lots(lots: Lots) -> str:
    return f"lots are {lots.first}" + (f" and then steps of {lots.step}" if lots.step != lots.first else "")


def _check_limits(  # noqa: PLR0917
    order: Order, sized: SizedOrder, price: Decimal, quote: Quote, rules: Rulebook, session: pd.Timestamp
) -> Refusal | None:
    symbol, limit = order.symbol, order.limit_price
    upper, lower = _band(symbol, quote, rules, session)
    if upper is not None and (sized.side == "buy" and price >= upper):
        return "limit_up", f"{symbol} is bought at {price}, its upper limit is {upper}"
    if lower is not None and (sized.side == "sell" and price <= lower):
        return "limit_down", f"{symbol} is sold at {price}, its lower limit is {lower}"
    if limit is not None and upper is not None and limit > upper:
        return "limit_up", f"limit_price={limit} of {symbol} is above the upper limit {upper}"
    if limit is not None and lower is not None and limit < lower:
        return "limit_down", f"limit_price={limit} of {symbol} is below the lower limit {lower}"
    return None


def _band(
    symbol: str, quote: Quote, rules: Rulebook, session: pd.Timestamp
) -> tuple[Decimal | None, Decimal | None]:
    """Upper and lower limit from the data, else from the rules; None where there is none."""
    given = [
        to_decimal(price) if 0 < price < math.inf else None for price in (quote.up_limit, quote.down_limit)
    ]
    if None in given and 0 < quote.pre_close < math.inf:
        band = rules.limits(symbol, session.date(), to_decimal(quote.pre_close), quote.status) or (None, None)
        given = [limit if known is None else known for known, limit in zip(given, band, strict=True)]
    upper, lower = given
    return upper, lower


def _volume_allowed(  # noqa: PLR0917
    sized: SizedOrder, symbol: str, quote: Quote, rules: Rulebook, session: pd.Timestamp, traded: Quantity
) -> Quantity:
    """Shares that the volume cap allows, in lots; 0 if the volume is unknown."""
    if rules.volume_share is None or quote.volume is None:
        return sized.quantity
    if math.isnan(quote.volume):
        return 0
    cap = max(Decimal(0), to_decimal(quote.volume) * rules.volume_share - traded)
    if sized.quantity <= cap:
        return sized.quantity
    lots = rules.lots(symbol, session.date())
    allowed = (cap // lots.step) * lots.step
    return normalize_quantity(allowed) if allowed >= lots.first else 0


def _cap_message(order: Order, sized: SizedOrder, allowed: Quantity, quote: Quote, rules: Rulebook) -> str:
    return (
        f"{allowed} of {sized.quantity} shares of {order.symbol}; the cap is {rules.volume_share} of the "
        f"session's volume, {quote.volume:.0f}"
    )


def _fill(  # noqa: PLR0917
    order: Order, side: Side, quantity: Quantity, price: Decimal, rules: Rulebook, session: pd.Timestamp
) -> Fill:
    amount = notional(price, quantity)
    charges = rules.charges(order.symbol, side, quantity, amount, session.date())
    return Fill(
        order=order,
        session=session,
        side=side,
        price=price,
        quantity=quantity,
        notional=amount,
        commission=charges.commission,
        stamp_duty=charges.stamp_duty,
        transfer_fee=charges.transfer_fee,
        regulatory=charges.regulatory,
        slippage=charges.slippage,
        t_plus=rules.t_plus(order.symbol, session.date()),
    )
