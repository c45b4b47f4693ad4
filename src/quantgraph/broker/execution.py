"""Submitting orders in one session, one by one or as a batch."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.order_matching import reference_price, submit
from quantgraph.broker.orders import Fill, Order, Outcome, Quantity, Rejection
from quantgraph.broker.quotes import Quote
from quantgraph.broker.sizing import side_of
from quantgraph.errors import BadOption, LedgerConflict
from quantgraph.market.money import to_decimal
from quantgraph.market.rulebook import OrderType, Rulebook

__all__ = ["TradingSession", "submit", "submit_batch"]

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
        """Fill or reject an order, see :func:`~quantgraph.broker.order_matching.submit`.

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
        """What the order is matched with, see :func:`~quantgraph.broker.order_matching.submit`."""
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
