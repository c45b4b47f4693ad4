"""An open session: its orders and their outcomes; results of one session and of a block of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
from typing_extensions import TypedDict

from quantgraph.broker._decider import Decider, Decision, DecisionContext, validate_decision
from quantgraph.broker.accounts._account import Account
from quantgraph.broker.accounts._corporate_actions import Event, action_book, apply_corporate_actions
from quantgraph.broker.accounts._orders import (
    Fill,
    Order,
    Outcome,
    Rejection,
    RejectionCode,
    escape_surrogates,
    number_text,
)
from quantgraph.broker.accounts._quotes import Quotes, quotes_at
from quantgraph.broker.accounts._results import SessionResult
from quantgraph.broker.accounts._valuation import last_closes, last_prices, mark, value_of
from quantgraph.broker.session._matching import reference_price
from quantgraph.broker.session._session import TradingSession, submit_batch
from quantgraph.errors import BudgetExceeded
from quantgraph.market import Moment
from quantgraph.market.money import Side, to_decimal
from quantgraph.market.rules import OrderType
from quantgraph.state import TrustedView, deciding

if TYPE_CHECKING:
    from quantgraph.broker.session._market import Market


@dataclass(frozen=True, kw_only=True)
class OpenSession:
    """A session that is open."""

    market: Market
    session: pd.Timestamp
    account: Account
    events: tuple[Event, ...]
    at_open: TrustedView
    at_close: TrustedView


class OrderProposal(TypedDict):
    """An order with what is known of it at the open. Numbers are exact texts."""

    sequence: int
    symbol: str
    side: Side | None
    """None for a target that would be refused."""
    shares: str | None
    """None for a target that would be refused."""
    price: str | None
    """The open, or the limit where the open is not as good; None where there is no price."""
    type: OrderType
    wish: str
    """The size as the decider gave it, ``target_weight 0.5``."""
    reason: str
    """The decider's reason."""
    refused: str | None
    """Why it would be refused, ``code: message``; None if it would be filled."""


def open_session(market: Market, session: pd.Timestamp, account: Account) -> OpenSession:
    """Open a session with the account at the end of the one before."""
    store, ref = market.store, market.data_ref
    at_open, at_close = (store.trusted_view(Moment(session, phase), ref) for phase in ("open", "close"))
    book = action_book(store, ref)
    opens: dict[str, Decimal] = {}
    if book.due.get(session):
        opens = _opens(quotes_at(at_open), account)
        opens = last_closes(at_open, account.positions.keys() - opens.keys()) | opens
    account, events = apply_corporate_actions(account, session, book, market.rules, opens)
    return OpenSession(
        market=market, session=session, account=account, events=events, at_open=at_open, at_close=at_close
    )


def collect_decision(decider: Decider, context: DecisionContext) -> Decision:
    """Call the decider, and copy what it returns.

    If it leaves the end of its session's budget to the run, the session has no orders, and the notes say why.

    Raises
    ------
    BadOption
        If it returns neither a decision nor a list of orders.
    """
    with deciding(context.view.moment):
        try:
            returned = decider.decide(context)
        except BudgetExceeded as error:
            if error.data.get("of") != "session":
                raise
            returned = Decision(notes={"error": error.line})
        context.check()
        return validate_decision(decider.name, returned, context.session)


def fill_orders(opened: OpenSession, decider: str, decision: Decision) -> SessionResult:
    """Fill or reject the orders, with quotes of the whole session."""
    trading = _trading_session(opened, quotes_at(opened.at_close), decision)
    submit_batch(trading, decision.orders, in_order=decision.in_order)
    return _result(opened, decider, trading.account, trading.outcomes, decision.notes)


def precheck(opened: OpenSession, decision: Decision) -> tuple[Outcome, ...]:
    """The outcomes as far as they are known at the open, in the order of submission."""
    trading = _trading_session(opened, quotes_at(opened.at_open), decision)
    submit_batch(trading, decision.orders, in_order=decision.in_order)
    return trading.outcomes


def propose_orders(opened: OpenSession, decision: Decision) -> list[OrderProposal]:
    """The orders as shown to a person who approves them, in the order of submission.

    Raises
    ------
    BadOption
        If two orders have the same sequence.
    """
    quotes = quotes_at(opened.at_open)
    return [_proposal(outcome, quotes) for outcome in precheck(opened, decision)]


def reject_orders(
    opened: OpenSession, decider: str, orders: Iterable[Order], code: RejectionCode, message: str
) -> SessionResult:
    """Reject all of the orders without submitting them."""
    outcomes = [
        Rejection(order=order, session=opened.session, code=code, message=message) for order in orders
    ]
    return _result(opened, decider, opened.account, tuple(outcomes))


def _trading_session(opened: OpenSession, quotes: Quotes, decision: Decision) -> TradingSession:
    account = opened.account
    unpriced = account.positions.keys() - _opens(quotes, account).keys() if decision.orders else set()
    prices = last_prices(opened.at_open, unpriced) if unpriced else None
    return TradingSession(account, quotes, opened.market.rules, opened.session, prices=prices)


def _result(
    opened: OpenSession,
    decider: str,
    account: Account,
    outcomes: tuple[Outcome, ...],
    notes: Mapping[str, Any] | None = None,
) -> SessionResult:
    marks = mark(account, opened.at_close, at=opened.market.mark_at)
    return SessionResult(
        session=opened.session,
        decider=decider,
        account=account,
        events=opened.events,
        outcomes=outcomes,
        marks=marks,
        value=value_of(account, marks),
        notes=notes or {},
    )


def _opens(quotes: Quotes, account: Account) -> dict[str, Decimal]:
    opens = {symbol: quotes[symbol].open for symbol in account.positions if symbol in quotes}
    return {symbol: to_decimal(price) for symbol, price in opens.items() if 0 < price < math.inf}


def _proposal(outcome: Outcome, quotes: Quotes) -> OrderProposal:
    order = outcome.order
    name, size = order.size
    side, shares = order.side, order.quantity
    price, refused = reference_price(order, quotes.get(order.symbol)), None
    if isinstance(outcome, Fill):
        side, shares, price = outcome.side, outcome.quantity, outcome.price
    else:
        refused = f"{outcome.code}: {escape_surrogates(outcome.message)}"
    return {
        "sequence": order.sequence,
        "symbol": escape_surrogates(order.symbol),
        "side": side,
        "shares": None if shares is None else number_text(shares),
        "price": None if price is None else number_text(price),
        "type": order.type,
        "wish": f"{name} {number_text(size)}",
        "reason": escape_surrogates(order.reason),
        "refused": refused,
    }
