"""Whether an order can be filled, and at what: everything is judged at the price it would fill at."""

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
    """Fill an order in a session, or say why not. Changes nothing: apply the fill to the account.

    Everything is judged at the price it would fill at. An order is filled whole, or up to the volume cap,
    or not at all.

    Parameters
    ----------
    order
        The wish.
    account
        As it stands in the open session (:meth:`Account.open_session` was called).
    quote
        The symbol in the session, None when the data does not have the symbol. At the open it says what
        would become of the order as far as can be known then.
    rules
        The rulebook in force.
    session
        The session.
    others
        What the account is worth without the symbol; with the holding at the fill's price it is what
        ``target_weight`` is a share of.
    traded
        Shares of the symbol traded for the account in the session so far; they use up the volume cap.

    Raises
    ------
    BadWindow
        If the rulebook does not reach back to the session.
    """
    outcome = _judged(order, account, quote, rules, session, others, traded)
    if isinstance(outcome, Fill):
        return outcome
    code, message = outcome
    return Rejection(order=order, session=session, code=code, message=message)


def _judged(  # noqa: PLR0917 - the parameters of submit
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
        return "bad_quantity", f"{size} shares of {order.symbol}; a positive number is wanted"
    price = _market_price(order, account, quote, rules, session, others)
    if quote is None or isinstance(price, tuple):
        return price if isinstance(price, tuple) else ("unknown_symbol", order.symbol)
    wish = size_order(order, price, account, rules, session, others)
    if isinstance(wish, tuple):
        return wish
    refusal = (
        _quantity(order, wish, rules, session)
        or _check_shares(order, wish, account, rules, session)
        or _limits(order, wish, price, quote, rules, session)
    )
    if refusal:
        return refusal
    allowed = _by_volume(wish, order.symbol, quote, rules, session, traded)
    capped = _capped(order, wish, allowed, quote, rules) if allowed < wish.quantity else ""
    if not allowed:
        return "volume_cap", capped
    fill = _fill(order, wish.side, allowed, price, rules, session)
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
        rules.t_plus(symbol, session.date())  # a board, and of a fund its kind
    except UnknownSymbol as error:
        return "unknown_symbol", error.message
    if quote.suspended:
        return "suspended", f"{symbol} does not trade in this session"
    if rules.halted(session.date(), order.type):
        return "market_closed", f"the market was halted on {session:%Y-%m-%d}: no {order.type} orders"
    if limit is not None and (refusal := _limit_price(symbol, limit, rules, session)):
        return refusal
    side = side_of(order, account.quantity(symbol), reference_price(order, quote), others)
    price = quote.price(order.type, side, None if limit is None else float(limit))
    if price is None:
        return "market_closed", f"{symbol} did not reach the limit {limit} before the close"
    if not 0 < price < math.inf:
        return "no_price", f"{symbol} has no {order.type} price ({price}); a positive one is wanted"
    return to_decimal(price)


def _limit_price(symbol: str, limit: Decimal, rules: Rulebook, session: pd.Timestamp) -> Refusal | None:
    if limit > LARGEST:
        return "tick_size", f"limit_price={limit} of {symbol}; at most {LARGEST} is wanted"
    tick = rules.tick(symbol, session.date(), limit)
    return (
        ("tick_size", f"limit_price={limit} of {symbol}; a multiple of {tick} is wanted")
        if limit % tick
        else None
    )


def reference_price(order: Order, quote: Quote | None) -> Decimal | None:
    """The price that tells a target's side."""
    if order.limit_price is not None:
        return order.limit_price
    if quote is None:
        return None
    price = quote.open if order.type == "open" or quote.close is None else quote.close
    return to_decimal(price) if 0 < price < math.inf else None


def _quantity(order: Order, wish: SizedOrder, rules: Rulebook, session: pd.Timestamp) -> Refusal | None:
    quantity, day = wish.quantity, session.date()
    if not 0 < quantity <= LARGEST or quantity % rules.fraction_step:
        wanted = "a positive number" if rules.fraction_step < 1 else "a positive whole number"
        return "bad_quantity", f"{quantity} shares of {order.symbol}; {wanted} is wanted"
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


def _limits(  # noqa: PLR0917
    order: Order, wish: SizedOrder, price: Decimal, quote: Quote, rules: Rulebook, session: pd.Timestamp
) -> Refusal | None:
    symbol, asked = order.symbol, order.limit_price
    upper, lower = _band(symbol, quote, rules, session)
    if upper is not None and (wish.side == "buy" and price >= upper):
        return "limit_up", f"{symbol} is bought at {price}, its upper limit is {upper}"
    if lower is not None and (wish.side == "sell" and price <= lower):
        return "limit_down", f"{symbol} is sold at {price}, its lower limit is {lower}"
    if asked is not None and upper is not None and asked > upper:
        return "limit_up", f"limit_price={asked} of {symbol} is above the upper limit {upper}"
    if asked is not None and lower is not None and asked < lower:
        return "limit_down", f"limit_price={asked} of {symbol} is below the lower limit {lower}"
    return None


def _band(
    symbol: str, quote: Quote, rules: Rulebook, session: pd.Timestamp
) -> tuple[Decimal | None, Decimal | None]:
    """Upper and lower limit: of the data, else by the rules; None where there is none."""
    given = [
        to_decimal(price) if 0 < price < math.inf else None for price in (quote.up_limit, quote.down_limit)
    ]
    if None in given and 0 < quote.pre_close < math.inf:
        band = rules.limits(symbol, session.date(), to_decimal(quote.pre_close), quote.status) or (None, None)
        given = [limit if known is None else known for known, limit in zip(given, band, strict=True)]
    upper, lower = given
    return upper, lower


def _by_volume(  # noqa: PLR0917
    wish: SizedOrder, symbol: str, quote: Quote, rules: Rulebook, session: pd.Timestamp, traded: Quantity
) -> Quantity:
    """Shares that the volume cap lets through, in steps that may be traded; none where no volume is known."""
    if rules.volume_share is None or quote.volume is None:
        return wish.quantity
    if math.isnan(quote.volume):
        return 0
    cap = max(Decimal(0), to_decimal(quote.volume) * rules.volume_share - traded)
    if wish.quantity <= cap:
        return wish.quantity
    lots = rules.lots(symbol, session.date())
    allowed = (cap // lots.step) * lots.step
    return normalize_quantity(allowed) if allowed >= lots.first else 0


def _capped(order: Order, wish: SizedOrder, allowed: Quantity, quote: Quote, rules: Rulebook) -> str:
    return (
        f"{allowed} of {wish.quantity} shares of {order.symbol}; the cap is {rules.volume_share} of the "
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
