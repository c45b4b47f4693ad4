"""A session of a market: opened with an account, sent orders, closed and marked."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, cast

import pandas as pd

from quantgraph._util.canonical_json import content_hash
from quantgraph.broker._plan import TradePlan
from quantgraph.broker.accounts._account import Account, Event, action_book, apply_corporate_actions
from quantgraph.broker.accounts._orders import (
    Decision,
    Fill,
    Order,
    Outcome,
    Pending,
    Quantity,
    Rejection,
    RejectionCode,
    check_sequences,
)
from quantgraph.broker.accounts._quotes import Quote, quotes_at
from quantgraph.broker.accounts._results import (
    MarkAt,
    SessionResult,
    last_closes,
    last_prices,
    mark,
    value_of,
)
from quantgraph.broker.session._exits import ExitBook, Followed
from quantgraph.broker.session._matching import match_order, reference_price, side_of
from quantgraph.errors import BadOption, LedgerConflict
from quantgraph.market import Moment, Rulebook
from quantgraph.market.money import Side, to_decimal
from quantgraph.market.rules import OrderType
from quantgraph.state import BaseView, DataState

_AUCTION: dict[OrderType, int] = {"open": 0, "limit": 1, "stop": 1, "close": 2}
"""Opening auction, the day, closing auction."""
_ALWAYS_KNOWN: frozenset[RejectionCode] = frozenset({"not_a_session", "unknown_symbol", "tick_size"})
"""Rejections that neither the rest of the session nor the account can change."""
_KNOWN_OF_SHARES: frozenset[RejectionCode] = frozenset({"bad_quantity", "order_size_cap"})
"""Rejections that they cannot change if the order is for a number of shares."""


@dataclass(frozen=True, kw_only=True)
class Market:
    """Data and rules that sessions are traded with.

    Attributes
    ----------
    store, data_ref
        A commit of a data state.
    rules
        The rulebook in force.
    mark_at
        The price of a session that holdings are valued at.
    blocks_from
        Smallest number of cells (sessions times symbols) of the data for trading in blocks. The fills are the
        same; with fewer cells it is not worth the fifteen seconds that compiling takes once on each machine.
        None: 50,000, and 0 in a process that has the compiled code already.
    """

    store: DataState
    data_ref: str
    rules: Rulebook
    mark_at: MarkAt = "close"
    blocks_from: int | None = None

    def __post_init__(self) -> None:
        if self.rules.volume_share is not None and "vol" not in self.store.snapshot(self.data_ref)["ohlcv"]:
            raise BadOption(
                f"volume_share={self.rules.volume_share} needs the field 'vol', which the data do not have "
                "in a unit that they show: volume_unit of [tables] says it",
                parameter="volume_share",
            )

    @property
    def identity(self) -> dict[str, Any]:
        """What must not change within a run: rules with every fee, marks."""
        return {
            "rules": f"{self.rules.name} {content_hash(repr(self.rules), size=8)}",
            "mark_at": self.mark_at,
        }


class Session:
    """One session: each order is judged here, for the pre-check of a decider as for the fill.

    An order that is submitted at the open is filled, rejected, or :class:`.Pending` where the open does not
    tell. :meth:`close` judges the orders by the whole session. (One case is not known at the open: data
    with an open of a session whose volume turns out to be 0, which counts as suspended.)

    Parameters
    ----------
    account
        After the corporate actions before the open.
    quotes
        What is known of the session, by symbol, or a function that reads it when it is asked for.
    rules, day
        The rulebook in force, and the session's date.
    last_prices
        Returns the last known prices of holdings without a quote, for ``target_weight``.
    pending
        False judges each order as if nothing but ``quotes`` came of the session.
    is_session
        False rejects every order: the exchange does not trade on that day.

    Examples
    --------
    >>> days = pd.DatetimeIndex(["2024-01-02", "2024-01-03"])
    >>> prices, store = pd.DataFrame({"600000.SH": [10.0, 11.0]}, index=days), DataState()
    >>> ref = store.update("ohlcv", {"open": prices, "close": prices})
    >>> market = Market(store=store, data_ref=ref, rules=Rulebook.mainland())
    >>> session = Session.open(market, days[1], Account.opening(10_000))
    >>> session.submit(Order(symbol="600000.SH", side="buy", quantity=1000, sequence=1)).code
    'insufficient_cash'
    >>> session.submit(Order(symbol="600000.SH", side="buy", quantity=500, sequence=2)).price
    Decimal('11')
    >>> session.close().value
    Decimal('9994.94')
    """

    def __init__(
        self,
        account: Account,
        quotes: Mapping[str, Quote] | Callable[[], Mapping[str, Quote]],
        rules: Rulebook,
        day: pd.Timestamp,
        *,
        last_prices: Callable[[Iterable[str]], Mapping[str, Decimal]] = lambda _symbols: {},
        pending: bool = False,
        is_session: bool = True,
    ) -> None:
        self.rules = rules
        self.day = day
        self._at_open = self._account = account
        self._quotes = quotes
        self._last_prices = last_prices
        self._pending = pending
        self._is_session = is_session
        self._opened: tuple[Market, tuple[Event, ...]] | None = None
        self._exits: ExitBook | None = None
        self._known: dict[int, Fill | Rejection | Pending] = {}
        self._traded: defaultdict[str, Quantity] = defaultdict(int)
        self._bought: dict[str, Decimal] = {}
        self._unsettled = False
        self._lock = threading.Lock()  # two orders of two threads cannot both spend the same cash

    @classmethod
    def open(
        cls, market: Market, day: pd.Timestamp, account: Account, exits: ExitBook | None = None
    ) -> Session:
        """Open a session with the account at the end of the one before: corporate actions take effect.

        ``exits`` are a run's, as of the session before. Default: none are followed so far.
        """
        view = market.store.trusted_view(Moment(day, "open"), market.data_ref)
        book = action_book(market.store, market.data_ref)
        opens = _opens(view, account) if book.due.get(day) else {}
        account, events = apply_corporate_actions(account, day, book, market.rules, opens)
        session: Session = cls.at_open(view, account, market.rules)
        session._opened = market, events
        session._exits = exits or ExitBook(TradePlan(), market.store, market.data_ref, market.rules)
        session._exits.open(day)
        return session

    @classmethod
    def at_open(cls, view: BaseView, account: Account, rules: Rulebook) -> Session:
        """Open the session of a view for trials: it knows no more than the view, and cannot be closed."""
        day, quotes, prices = view.moment.session, partial(quotes_at, view), partial(last_prices, view)
        is_session = day.to_datetime64() in view["ohlcv"].frozen("open").sessions[-1:]
        return cls(account, quotes, rules, day, last_prices=prices, pending=True, is_session=is_session)

    def copy(self, *, pending: bool = True) -> Session:
        """Return a copy for trials, which cannot be closed: nothing of them is recorded here.

        ``pending=False`` judges limits, closes and capped orders too, as far as the open tells.
        """
        with self._lock:
            copied, known, bought = object.__new__(Session), dict(self._known), dict(self._bought)
            vars(copied).update(vars(self), _known=known, _bought=bought, _traded=self._traded.copy())
        copied._opened, copied._lock = None, threading.Lock()
        copied._pending = pending and self._pending
        return copied

    @cached_property
    def quotes(self) -> Mapping[str, Quote]:
        """What is known of the session, by symbol."""
        return self._quotes() if callable(self._quotes) else self._quotes

    @property
    def account(self) -> Account:
        """The account after the fills so far."""
        return self._account

    @cached_property
    def exits(self) -> tuple[Order, ...]:
        """The sales that a trade plan and exit rules send at this open."""
        exits = self._exits
        return tuple(exits.due(self.day, self._at_open, self.quotes)) if exits and exits.follows else ()

    @property
    def exited(self) -> Mapping[str, pd.Timestamp]:
        """The session of the last of such sales, of symbols that were not bought since."""
        return {} if self._exits is None else dict(self._exits.exited)

    @property
    def sold(self) -> Mapping[str, pd.Timestamp]:
        """The session of the last sale of all shares of a symbol, where positions are followed."""
        return {} if self._exits is None else dict(self._exits.sold)

    @property
    def followed(self) -> Mapping[str, Followed]:
        """What is followed of each position."""
        return {} if self._exits is None else dict(self._exits.followed)

    @property
    def outcomes(self) -> tuple[Fill | Rejection | Pending, ...]:
        """What is known of the orders so far, in the order of submission."""
        with self._lock:
            return tuple(self._known.values())

    @property
    def submitted(self) -> tuple[Order, ...]:
        """The orders so far, the rejected ones too, in the order of submission."""
        return tuple(each.order for each in self.outcomes)

    @property
    def orders(self) -> tuple[Order, ...]:
        """The orders so far that are not rejected, in the order of submission."""
        return tuple(each.order for each in self.outcomes if not isinstance(each, Rejection))

    def submit(self, order: Order) -> Fill | Rejection | Pending:
        """Fill or reject an order, if that is known. An order that is submitted again returns its outcome.

        Raises
        ------
        LedgerConflict
            If another order used the sequence.
        """
        with self._lock:
            return self._judge(order)

    def place(
        self, side: Side, symbol: str, quantity: Quantity, *, reason: str = ""
    ) -> Fill | Rejection | Pending:
        """Submit an order at the open under the next free number."""
        with self._lock:
            number = max(self._known, default=0) + 1
            return self._judge(
                Order(symbol=symbol, side=side, quantity=quantity, sequence=number, reason=reason)
            )

    def batch(self, orders: Iterable[Order], *, in_order: bool = False) -> None:
        """Submit orders, sells before buys in each auction: a buy may spend the proceeds of a sale.

        ``in_order`` submits each auction's orders as listed.

        Raises
        ------
        BadOption
            If two orders have the same sequence.
        """
        batch = list(orders)
        check_sequences(batch)
        with self._lock:
            batch.sort(key=self._auction if in_order else self._sells_first)
            for order in batch:
                self._judge(order)

    def close(self, decision: Decision | None = None, *, decider: str = "") -> SessionResult:
        """Judge the orders by the whole session, and mark what is held at its end; exits are followed.

        Parameters
        ----------
        decision
            The orders, notes and exit rules. Default: the orders that were submitted here, in their order.

        Raises
        ------
        BadOption
            If two orders have the same sequence, or the session was not opened by :meth:`open`.
        """
        if self._opened is None or self._exits is None:
            raise BadOption(
                "a session for trials cannot be closed; Session.open(market, day, account) opens one",
                parameter="session",
            )
        if decision is None:
            decision = Decision(self.submitted, in_order=True)
        market, events = self._opened
        view = market.store.trusted_view(Moment(self.day, "close"), market.data_ref)
        whole = Session(
            self._at_open,
            partial(quotes_at, view),
            self.rules,
            self.day,
            last_prices=self._last_prices,
            is_session=self._is_session,
        )
        for orders in self._exits.batches(self.day, decision, self.exits, whole):
            whole.batch(orders, in_order=decision.in_order)
        marks = mark(whole.account, view, at=market.mark_at)
        result = SessionResult(
            session=self.day,
            decider=decider,
            account=whole.account,
            events=events,
            outcomes=cast("tuple[Outcome, ...]", whole.outcomes),
            marks=marks,
            value=value_of(whole.account, marks),
            notes=decision.notes,
            exits=tuple(decision.exits),
        )
        self._exits.record(result)
        return result

    def _judge(self, order: Order) -> Fill | Rejection | Pending:
        """The outcome of an order: the only place where one comes about."""
        known = self._known.get(order.sequence)
        if known is not None:
            if known.order != order:
                raise LedgerConflict(
                    f"sequence={order.sequence} on {self.day:%Y-%m-%d} is used by an order of "
                    f"{known.order.symbol}",
                    sequence=order.sequence,
                )
            return known
        outcome: Outcome
        if self._is_session:
            outcome = match_order(
                order,
                self._account,
                self.quotes.get(order.symbol),
                self.rules,
                self.day,
                others=self._others(order),
                traded=self._traded[order.symbol],
            )
        else:
            text = f"{self.day:%Y-%m-%d} is not a session of the exchange"
            outcome = Rejection(order=order, session=self.day, code="not_a_session", message=text)
        known = self._known[order.sequence] = self._as_known(outcome) if self._pending else outcome
        if isinstance(known, Fill):
            self._account = self._account.apply(known)
            self._traded[order.symbol] += known.quantity
            self._bought.setdefault(order.symbol, known.price)
        return known

    def _as_known(self, outcome: Outcome) -> Fill | Rejection | Pending:
        """The outcome as far as the open tells it."""
        order, code = outcome.order, outcome.code if isinstance(outcome, Rejection) else None
        if code in _ALWAYS_KNOWN or (order.quantity is not None and code in _KNOWN_OF_SHARES):
            return outcome
        if order.type != "open":
            text = f"a {order.type} order of {order.symbol} meets prices that the open does not tell"
            return Pending(order=order, reason=order.type, message=text)
        if isinstance(outcome, Fill) and self.rules.volume_share is not None:
            self._unsettled = True
            text = f"the session's volume limits what is filled of {order.symbol}, and is not known yet"
            return Pending(order=order, reason="volume_cap", message=text)
        if isinstance(outcome, Rejection) and self._unsettled:
            text = f"it depends on a pending order; as it stands, {outcome.code}: {outcome.message}"
            return Pending(order=order, reason="earlier_order", message=text)
        return outcome

    def _auction(self, order: Order) -> tuple[int, ...]:
        return (_AUCTION[order.type],)

    def _sells_first(self, order: Order) -> tuple[int, ...]:
        """By auction, sells before buys, then by sequence."""
        held = self._account.quantity(order.symbol)
        price = reference_price(order, self.quotes.get(order.symbol))
        side = side_of(order, held, price, self._others(order))
        return _AUCTION[order.type], side == "buy", order.sequence

    def _others(self, order: Order) -> Decimal | None:
        """For a weight: the account's value without the symbol, at the close for a ``close`` order."""
        if order.target_weight is None:
            return None
        account = self._account
        holdings = (
            self._price(symbol, order.type) * position.quantity
            for symbol, position in account.positions.items()
            if symbol != order.symbol
        )
        return account.cash + account.owed + sum(holdings, Decimal(0))

    def _price(self, symbol: str, type: OrderType) -> Decimal:  # noqa: A002
        quote = self.quotes.get(symbol)
        price = math.nan if quote is None else quote.open
        if quote is not None and quote.close is not None and quote.close > 0 and type == "close":
            price = quote.close  # a bar without a close counts with its open
        if 0 < price < math.inf:
            return to_decimal(price)
        for known in (self._last_known, self._bought):
            if symbol in known:
                return known[symbol]
        raise BadOption(
            f"{symbol} is held without a known price, which target_weight needs", parameter="prices"
        )

    @cached_property
    def _last_known(self) -> Mapping[str, Decimal]:
        """Last known prices of positions at the open that have no open price."""
        held, quotes = self._at_open.positions, self.quotes
        return self._last_prices(
            [name for name in held if name not in quotes or not 0 < quotes[name].open < math.inf]
        )


def _opens(view: BaseView, account: Account) -> dict[str, Decimal]:
    """Opens of what is held, or last known closes."""
    quotes = quotes_at(view)
    opens = {symbol: quotes[symbol].open for symbol in account.positions if symbol in quotes}
    found = {symbol: to_decimal(price) for symbol, price in opens.items() if 0 < price < math.inf}
    return last_closes(view, account.positions.keys() - found.keys()) | found
