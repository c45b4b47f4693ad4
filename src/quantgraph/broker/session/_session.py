"""Submitting orders in one session, and the market that a decider meets at the open."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pandas as pd

from quantgraph.broker.accounts._account import Account
from quantgraph.broker.accounts._orders import Fill, Order, Outcome, Quantity, Rejection, RejectionCode
from quantgraph.broker.accounts._quotes import Quote, quotes_at
from quantgraph.broker.accounts._valuation import last_closes
from quantgraph.broker.session._matching import reference_price, side_of, submit
from quantgraph.errors import BadOption, LedgerConflict
from quantgraph.market import Rulebook
from quantgraph.market.money import Side, to_decimal
from quantgraph.market.rules import OrderType
from quantgraph.state import View

_AUCTION: dict[OrderType, int] = {"open": 0, "limit": 1, "close": 2}
"""Opening auction, the day, closing auction."""


class TradingSession:
    """One open session: orders are submitted one by one, from any thread.

    Parameters
    ----------
    account
        After the corporate actions of the morning.
    quotes
        What is known of the session, by symbol.
    rules, session
        The rulebook in force, and the session.
    prices
        Last known prices of holdings without a quote, for ``target_weight``.
    is_session
        False rejects every order: the exchange does not trade on that day.

    Notes
    -----
    The lock protects the account and the outcomes: two orders cannot both spend the same cash. An order that
    is submitted again returns its outcome.
    """

    def __init__(
        self,
        account: Account,
        quotes: Mapping[str, Quote],
        rules: Rulebook,
        session: pd.Timestamp,
        *,
        prices: Mapping[str, Decimal] | None = None,
        is_session: bool = True,
    ) -> None:
        self._account = account
        self._quotes = quotes
        self._rules = rules
        self._session = session
        self._prices = dict(prices or {})
        self._is_session = is_session
        self._outcomes: dict[int, Outcome] = {}
        self._traded: defaultdict[str, Quantity] = defaultdict(int)
        self._lock = threading.Lock()

    @property
    def account(self) -> Account:
        """The account after the orders so far."""
        return self._account

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes so far, in the order of submission."""
        with self._lock:
            return tuple(self._outcomes.values())

    def submit(self, order: Order) -> Fill | Rejection:
        """Fill or reject an order, see :func:`~quantgraph.broker.session._matching.submit`.

        Raises
        ------
        LedgerConflict
            If another order used the sequence.
        """
        with self._lock:
            known = self._outcomes.get(order.sequence)
            if known is not None:
                if known.order != order:
                    raise LedgerConflict(
                        f"sequence={order.sequence} on {self._session:%Y-%m-%d} is used by an order of "
                        f"{known.order.symbol}",
                        sequence=order.sequence,
                    )
                return known
            outcome = self._refused(order) or submit(order, **self._terms(order))
            self._outcomes[order.sequence] = outcome
            if isinstance(outcome, Fill):
                self._account = self._account.apply(outcome)
                self._traded[order.symbol] += outcome.quantity
                self._prices.setdefault(order.symbol, outcome.price)
            return outcome

    def check(self, order: Order) -> Outcome:
        """The outcome that the order would have now."""
        with self._lock:
            return self._refused(order) or submit(order, **self._terms(order))

    def _refused(self, order: Order) -> Rejection | None:
        """Reject an order on a day on which the exchange does not trade."""
        if self._is_session:
            return None
        text = f"{self._session:%Y-%m-%d} is not a session of the exchange"
        return Rejection(order=order, session=self._session, code="not_a_session", message=text)

    def _terms(self, order: Order) -> dict[str, Any]:
        """What the order is matched with, see :func:`~quantgraph.broker.session._matching.submit`."""
        return {
            "account": self._account,
            "quote": self._quotes.get(order.symbol),
            "rules": self._rules,
            "session": self._session,
            "others": self._others(order),
            "traded": self._traded[order.symbol],
        }

    def equity(self) -> Decimal:
        """Cash, dividends that are owed, and holdings at the open, or else at the last known price."""
        return self._worth(self._account.positions, "open")

    def _others(self, order: Order) -> Decimal | None:
        """For a weight: the account's value without the symbol, at the close for a ``close`` order."""
        if order.target_weight is None:
            return None
        return self._worth([name for name in self._account.positions if name != order.symbol], order.type)

    def _worth(self, symbols: Iterable[str], type: OrderType) -> Decimal:  # noqa: A002
        account = self._account
        holdings = (self._price(symbol, type) * account.quantity(symbol) for symbol in symbols)
        return account.cash + account.owed + sum(holdings, Decimal(0))

    def _price(self, symbol: str, type: OrderType) -> Decimal:  # noqa: A002
        quote = self._quotes.get(symbol)
        price = math.nan if quote is None else quote.open
        if quote is not None and quote.close is not None and type == "close":
            price = quote.close
        if 0 < price < math.inf:
            return to_decimal(price)
        if symbol not in self._prices:
            raise BadOption(
                f"{symbol} is held without a known price, which target_weight needs", parameter="prices"
            )
        return self._prices[symbol]

    def priority(self, order: Order) -> tuple[int, bool, int]:
        """Sort key of an order in a batch: by auction, sells before buys, then by sequence."""
        quote = self._quotes.get(order.symbol)
        held = self._account.quantity(order.symbol)
        side = side_of(order, held, reference_price(order, quote), self._others(order))
        return _AUCTION[order.type], side == "buy", order.sequence


def submit_batch(trading: TradingSession, orders: Iterable[Order], *, in_order: bool = False) -> None:
    """Submit orders, sells before buys in each auction: a buy may spend the proceeds of a sale.

    ``in_order`` submits those of each auction as listed.

    Raises
    ------
    BadOption
        If two orders have the same sequence.
    """
    batch, priorities = list(orders), dict[int, Any]()
    for order in batch:
        if order.sequence in priorities:
            raise BadOption(
                f"sequence={order.sequence} of {order.symbol} is used twice in one session",
                parameter="sequence",
            )
        priorities[order.sequence] = _AUCTION[order.type] if in_order else trading.priority(order)
    for order in sorted(batch, key=lambda order: priorities[order.sequence]):
        trading.submit(order)


_ALWAYS_KNOWN: frozenset[RejectionCode] = frozenset({"unknown_symbol", "tick_size"})
"""Rejections that neither the rest of the session nor the account can change."""
_KNOWN_OF_SHARES: frozenset[RejectionCode] = frozenset({"bad_quantity", "order_size_cap"})
"""Rejections that they cannot change if the order is for a number of shares."""


@dataclass(frozen=True, kw_only=True)
class Pending:
    """An order whose outcome the open does not tell, and why.

    Attributes
    ----------
    reason
        ``limit`` or ``close``: the type of the order, which meets prices of later; ``volume_cap``: the market
        limits fills to a share of the session's volume; ``earlier_order``: it depends on a pending order.
    """

    order: Order
    reason: str
    message: str


Told = Fill | Rejection | Pending
"""What the open tells of an order."""


class SessionMarket:
    """Orders are submitted to a scratch copy of the morning's account, by the rules of the real fills.

    Nothing is recorded: only the orders that the decider returns are traded. If it returns them in the order
    in which they were submitted here, as ``Decision(market.orders, in_order=True)``, each fill and rejection
    is the one that it was told. (One case cannot be told: data with an open of a session whose volume turns
    out to be 0, which counts as suspended.)

    Notes
    -----
    The lock lets threads submit side by side; the sequence of the orders' submission is theirs to settle,
    unless :meth:`place` numbers them.
    """

    def __init__(self, view: View, account: Account, rules: Rulebook) -> None:
        quotes = quotes_at(view)
        unpriced = [
            symbol
            for symbol in account.positions
            if symbol not in quotes or not 0 < quotes[symbol].open < math.inf
        ]
        prices = last_closes(view, unpriced) if unpriced else None
        session = view.moment.session
        is_session = session.to_datetime64() in view["ohlcv"].frozen("open").sessions[-1:]
        self._trading = TradingSession(account, quotes, rules, session, prices=prices, is_session=is_session)
        self._capped = rules.volume_share is not None
        self._told: dict[int, Told] = {}
        self._orders: list[Order] = []
        self._unsettled = False
        self._lock = threading.Lock()

    @property
    def account(self) -> Account:
        """The scratch account after the fills so far."""
        return self._trading.account

    @property
    def orders(self) -> tuple[Order, ...]:
        """The orders submitted so far and not rejected, in their order."""
        with self._lock:
            told = self._told
            return tuple(one for one in self._orders if not isinstance(told[one.sequence], Rejection))

    @property
    def submitted(self) -> tuple[Order, ...]:
        """The orders submitted so far, the rejected ones too, in their order."""
        with self._lock:
            return tuple(self._orders)

    def place(self, side: Side, symbol: str, quantity: Quantity, *, reason: str = "") -> Told:
        """Submit an order at the open under the next free number, and return its outcome."""
        with self._lock:
            order = Order(
                symbol=symbol,
                side=side,
                quantity=quantity,
                sequence=max(self._told, default=0) + 1,
                reason=reason,
            )
            return self._tell(order)

    def submit(self, order: Order) -> Told:
        """Return the order's outcome, if the open tells it. An order that is submitted again returns its own.

        Raises
        ------
        LedgerConflict
            If another order used the sequence.
        """
        with self._lock:
            if order.sequence not in self._told:
                self._tell(order)
            elif order not in self._orders:
                raise LedgerConflict(
                    f"sequence={order.sequence} is used by another order", sequence=order.sequence
                )
            return self._told[order.sequence]

    def _tell(self, order: Order) -> Told:
        outcome = self._told[order.sequence] = self._outcome(order)
        self._orders.append(order)
        return outcome

    def _outcome(self, order: Order) -> Told:
        outcome = self._trading.check(order)
        if isinstance(outcome, Rejection) and _is_final(outcome):
            return outcome
        if order.type != "open":
            return Pending(
                order=order,
                reason=order.type,
                message=f"a {order.type} order of {order.symbol} meets prices that the open does not tell",
            )
        if isinstance(outcome, Fill) and self._capped:
            self._unsettled = True
            return Pending(
                order=order,
                reason="volume_cap",
                message=f"the session's volume limits what is filled of {order.symbol}, and is not known yet",
            )
        if isinstance(outcome, Rejection) and self._unsettled:
            return Pending(
                order=order,
                reason="earlier_order",
                message=f"it depends on a pending order; as it stands, {outcome.code}: {outcome.message}",
            )
        return self._trading.submit(order) if isinstance(outcome, Fill) else outcome


def _is_final(rejection: Rejection) -> bool:
    if rejection.code in _ALWAYS_KNOWN:
        return True
    return rejection.order.quantity is not None and rejection.code in _KNOWN_OF_SHARES
