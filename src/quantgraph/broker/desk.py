"""The one way an order meets the market: pre-check and fill are the same function."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.orders import Fill, Order, Outcome, Rejection, RejectionCode
from quantgraph.broker.quotes import Quote
from quantgraph.errors import BadOption, UnknownSymbol
from quantgraph.market.money import exact, money
from quantgraph.market.rulebook import Rulebook, board_of

__all__ = ["DayResult", "execute", "largest_buy", "submit"]

_Refusal = tuple[RejectionCode, str]


@dataclass(frozen=True, kw_only=True)
class DayResult:
    """The account after a session's orders, and what became of each, in the order they were submitted."""

    account: Account
    outcomes: tuple[Outcome, ...]


def submit(
    order: Order, account: Account, quote: Quote | None, rules: Rulebook, session: pd.Timestamp
) -> Fill | Rejection:
    """Fill an order at the session's open, or say why not. Changes nothing: apply the fill to the account.

    Everything is judged at the price it would fill at. An order is filled whole or not at all.

    Parameters
    ----------
    order
        The wish.
    account
        As it stands in the open session (:meth:`Account.open_session` was called).
    quote
        The symbol at the open, None when the data does not have the symbol.
    rules
        The rulebook in force.
    session
        The session.

    Raises
    ------
    BadWindow
        If the rulebook does not reach back to the session.
    """
    refusal = _without_price(order, quote)
    if quote is None or refusal:
        return _rejected(order, session, refusal or ("unknown_symbol", order.symbol))
    price = exact(quote.open)
    refusal = _shares(order, account, rules) or _limits(order, price, quote, rules, session)
    if refusal:
        return _rejected(order, session, refusal)
    fill = _fill(order, price, rules, session)
    if account.cash + fill.cash_change < 0:
        text = f"{order.symbol} needs {-fill.cash_change} with fees, cash is {account.cash}"
        return _rejected(order, session, ("insufficient_cash", text))
    return fill


def execute(
    orders: Sequence[Order],
    account: Account,
    quotes: Mapping[str, Quote],
    rules: Rulebook,
    session: pd.Timestamp,
) -> DayResult:
    """Submit a session's orders: sells before buys, each in the order of ``sequence``.

    What a sale brings may be spent by a buy of the same session.

    Raises
    ------
    BadOption
        If two orders carry the same sequence.
    """
    outcomes: dict[int, Outcome] = {}
    for order in sorted(orders, key=lambda order: (order.side != "sell", order.sequence)):
        if order.sequence in outcomes:
            raise BadOption(
                f"sequence={order.sequence} is used twice on {session:%Y-%m-%d}", parameter="sequence"
            )
        outcome = submit(order, account, quotes.get(order.symbol), rules, session)
        outcomes[order.sequence] = outcome
        if isinstance(outcome, Fill):
            account = account.apply(outcome)
    return DayResult(account=account, outcomes=tuple(outcomes[order.sequence] for order in orders))


def largest_buy(price: Decimal, budget: Decimal, rules: Rulebook, session: pd.Timestamp) -> int:
    """Find the largest multiple of the lot whose notional and fees together fit the budget.

    Examples
    --------
    >>> day = pd.Timestamp("2024-01-02")
    >>> largest_buy(Decimal("10"), Decimal("5005.05"), Rulebook(), day)
    500
    >>> largest_buy(Decimal("10"), Decimal("5005.04"), Rulebook(), day)
    400
    """

    def paid(lots: int) -> Decimal:
        notional = money(price * (lots * rules.lot))
        return notional + rules.fees.of("buy", notional, day).total

    day = session.date()
    most = int(budget // (price * rules.lot)) if budget > 0 else 0
    return bisect_right(range(1, most + 1), budget, key=paid) * rules.lot


def _without_price(order: Order, quote: Quote | None) -> _Refusal | None:
    if order.quantity <= 0:
        return "bad_quantity", f"{order.quantity} shares of {order.symbol}; a positive number is wanted"
    if quote is None:
        return "unknown_symbol", f"the data has no {order.symbol}"
    try:
        board_of(order.symbol)
    except UnknownSymbol as error:
        return "unknown_symbol", error.message
    if quote.suspended:
        return "suspended", f"{order.symbol} has no open price in this session"
    if not 0 < quote.open < math.inf:
        return "no_price", f"{order.symbol} opens at {quote.open}; a positive price is wanted"
    return None


def _shares(order: Order, account: Account, rules: Rulebook) -> _Refusal | None:
    odd = order.quantity % rules.lot
    if order.side == "buy":
        return ("lot_size", f"{order.quantity} shares; buys are in lots of {rules.lot}") if odd else None
    position = account.positions.get(order.symbol)
    held = position.quantity if position else 0
    if position is None or order.quantity > held:
        return "insufficient_shares", f"{order.quantity} shares of {order.symbol} wished, {held} held"
    if order.quantity > position.sellable:
        text = f"{position.bought_today} of {held} shares of {order.symbol} were bought in this session"
        return "t_plus_one", text
    if odd and odd != held % rules.lot:
        return (
            "lot_size",
            f"{order.quantity} of {held} shares; sells are lots of {rules.lot} or hold the whole odd rest",
        )
    return None


def _limits(
    order: Order, price: Decimal, quote: Quote, rules: Rulebook, session: pd.Timestamp
) -> _Refusal | None:
    limit = _limit(order, quote, rules, session)
    if limit is None:
        return None
    if order.side == "buy" and price >= limit:
        return "limit_up", f"{order.symbol} opens at {price}, its upper limit is {limit}"
    if order.side == "sell" and price <= limit:
        return "limit_down", f"{order.symbol} opens at {price}, its lower limit is {limit}"
    return None


def _limit(order: Order, quote: Quote, rules: Rulebook, session: pd.Timestamp) -> Decimal | None:
    given = quote.up_limit if order.side == "buy" else quote.down_limit
    if not math.isnan(given):
        return exact(given)
    if math.isnan(quote.pre_close):
        return None
    upper, lower = rules.limits(order.symbol, session.date(), exact(quote.pre_close))
    return upper if order.side == "buy" else lower


def _fill(order: Order, price: Decimal, rules: Rulebook, session: pd.Timestamp) -> Fill:
    notional = money(price * order.quantity)
    charges = rules.fees.of(order.side, notional, session.date())
    return Fill(
        order=order,
        session=session,
        price=price,
        quantity=order.quantity,
        notional=notional,
        commission=charges.commission,
        stamp_duty=charges.stamp_duty,
        transfer_fee=charges.transfer_fee,
    )


def _rejected(order: Order, session: pd.Timestamp, refusal: _Refusal) -> Rejection:
    code, message = refusal
    return Rejection(order=order, session=session, code=code, message=message)
