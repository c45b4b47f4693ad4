"""A session in its three parts: it is opened, somebody is asked for orders, they meet the market."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.corporate_actions import Event, action_book, apply_corporate_actions
from quantgraph.broker.decider import Decider, validate_orders
from quantgraph.broker.execution import TradingSession, submit_batch
from quantgraph.broker.orders import Order, Outcome, Rejection, RejectionCode
from quantgraph.broker.quotes import Quotes, quotes_at
from quantgraph.broker.session_result import SessionResult
from quantgraph.broker.valuation import last_closes, mark, value_of
from quantgraph.market.moment import Moment
from quantgraph.market.money import to_decimal
from quantgraph.state import TrustedView, View, deciding

if TYPE_CHECKING:
    from quantgraph.broker.simulate import Market

__all__ = ["OpenSession", "collect_orders", "fill_orders", "open_session", "precheck", "reject_orders"]


@dataclass(frozen=True, kw_only=True)
class OpenSession:
    """A session that is open.

    Attributes
    ----------
    account
        After what corporate actions did, which are the ``events``.
    at_open, at_close
        The data as known then.
    """

    market: Market
    session: pd.Timestamp
    account: Account
    events: tuple[Event, ...]
    at_open: TrustedView
    at_close: TrustedView


def open_session(market: Market, session: pd.Timestamp, account: Account) -> OpenSession:
    """Open a session with the account that the one before it left."""
    store, ref = market.store, market.data_ref
    at_open, at_close = (store.trusted_view(Moment(session, phase), ref) for phase in ("open", "close"))
    book = action_book(store, ref)
    opens = _prices(quotes_at(at_open), account, at_open) if book.due.get(session) else {}
    morning, events = apply_corporate_actions(account, session, book, market.rules, opens)
    return OpenSession(
        market=market, session=session, account=morning, events=events, at_open=at_open, at_close=at_close
    )


def collect_orders(decider: Decider, view: View, account: Account) -> list[Order]:
    """Ask the decider. It is given an account of its own, and keeps no hold of the orders."""
    session = view.moment.session
    with deciding(view.moment):
        return validate_orders(decider.name, decider.decide(view, account.copy(), session), session)


def fill_orders(morning: OpenSession, decider: str, orders: Sequence[Order]) -> SessionResult:
    """Fill the orders, by a desk that knows the whole session."""
    desk = _executed(morning, quotes_at(morning.at_close), orders)
    return _result(morning, decider, desk.account, desk.outcomes)


def precheck(morning: OpenSession, orders: Sequence[Order]) -> tuple[Outcome, ...]:
    """What becomes of the orders as far as can be known at the open, in the order they are submitted."""
    return _executed(morning, quotes_at(morning.at_open), orders).outcomes


def reject_orders(
    morning: OpenSession, decider: str, orders: Iterable[Order], code: RejectionCode, message: str
) -> SessionResult:
    """Send none of the orders: each is a rejection."""
    outcomes = [
        Rejection(order=order, session=morning.session, code=code, message=message) for order in orders
    ]
    return _result(morning, decider, morning.account, tuple(outcomes))


def _executed(morning: OpenSession, quotes: Quotes, orders: Sequence[Order]) -> TradingSession:
    account = morning.account
    unpriced = account.positions.keys() - _opens(quotes, account).keys() if orders else set()
    prices = last_closes(morning.at_open, unpriced) if unpriced else None
    desk = TradingSession(account, quotes, morning.market.rules, morning.session, prices=prices)
    submit_batch(desk, orders)
    return desk


def _result(
    morning: OpenSession, decider: str, account: Account, outcomes: tuple[Outcome, ...]
) -> SessionResult:
    marks = mark(account, morning.at_close, at=morning.market.mark_at)
    return SessionResult(
        session=morning.session,
        decider=decider,
        account=account,
        events=morning.events,
        outcomes=outcomes,
        marks=marks,
        value=value_of(account, marks),
    )


def _prices(quotes: Quotes, account: Account, view: TrustedView) -> dict[str, Decimal]:
    """Opens of what is held, or else the last known closes."""
    opens = _opens(quotes, account)
    return last_closes(view, account.positions.keys() - opens.keys()) | opens


def _opens(quotes: Quotes, account: Account) -> dict[str, Decimal]:
    opens = {symbol: quotes[symbol].open for symbol in account.positions if symbol in quotes}
    return {symbol: to_decimal(price) for symbol, price in opens.items() if 0 < price < math.inf}
