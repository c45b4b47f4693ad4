"""The one way an order meets the market: pre-check and fill are the same function."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal

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

_TURN: dict[OrderType, int] = {"open": 0, "limit": 1, "close": 2}
"""Opening auction, the day, closing auction."""


class TradingSession:
    """The desk of one open session: orders come one by one, or many at once, from any thread.

    Parameters
    ----------
    account
        As it stands on the session's morning.
    quotes
        What the desk knows of the session, by symbol.
    rules, session
        The rulebook in force, and the session.
    prices
        Last known prices of what is held, for weights of the account's value where a quote has none.
    is_session
        False refuses every order: the exchange does not trade on that day.

    Notes
    -----
    The lock protects the account and the outcomes: two orders cannot both spend the same cash. A sequence
    that comes again with the same order returns what became of it.
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
        """What became of the orders so far, in the order they came."""
        with self._lock:
            return tuple(self._outcomes.values())

    def submit(self, order: Order) -> Fill | Rejection:
        """Fill an order or say why not; see :func:`submit`.

        Raises
        ------
        LedgerConflict
            If the sequence was used by another order.
        """
        with self._lock:
            known = self._outcomes.get(order.sequence)
            if known is not None:
                if known.order != order:
                    raise LedgerConflict(
                        f"sequence={order.sequence} on {self._session:%Y-%m-%d} is another order's: "
                        f"{known.order.symbol}",
                        sequence=order.sequence,
                    )
                return known
            outcome = self._outcome(order)
            self._outcomes[order.sequence] = outcome
            if isinstance(outcome, Fill):
                self._account = self._account.apply(outcome)
                self._traded[order.symbol] += outcome.quantity
                self._prices.setdefault(order.symbol, outcome.price)
            return outcome

    def _outcome(self, order: Order) -> Outcome:
        if not self._is_session:
            text = f"{self._session:%Y-%m-%d} is not a session of the exchange"
            return Rejection(order=order, session=self._session, code="not_a_session", message=text)
        quote, traded = self._quotes.get(order.symbol), self._traded[order.symbol]
        others = self._others(order)
        return submit(order, self._account, quote, self._rules, self._session, others=others, traded=traded)

    def equity(self) -> Decimal:
        """Cash, dividends on their way, and holdings at the open, or else at the last known price."""
        return self._worth(self._account.positions, "open")

    def _others(self, order: Order) -> Decimal | None:
        """What the account is worth without the order's symbol, for a weight; at the close for one there."""
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
            raise BadOption(f"{symbol} is held and has no known price; weights need one", parameter="prices")
        return self._prices[symbol]

    def turn(self, order: Order) -> tuple[int, bool, int]:
        """Where an order of a batch stands: by auction, sells before buys, then by sequence."""
        quote = self._quotes.get(order.symbol)
        held = self._account.quantity(order.symbol)
        side = side_of(order, held, reference_price(order, quote), self._others(order))
        return _TURN[order.type], side == "buy", order.sequence


def submit_batch(desk: TradingSession, orders: Iterable[Order]) -> None:
    """Submit a batch: sells before buys in each auction, so that a buy may spend what a sale brings.

    Raises
    ------
    BadOption
        If two orders carry the same sequence.
    """
    batch, turns = list(orders), {}
    for order in batch:
        if order.sequence in turns:
            raise BadOption(
                f"sequence={order.sequence} of {order.symbol} is used twice in one session",
                parameter="sequence",
            )
        turns[order.sequence] = desk.turn(order)
    for order in sorted(batch, key=lambda order: turns[order.sequence]):
        desk.submit(order)
