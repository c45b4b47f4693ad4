"""The market as a decider meets it at the open: what becomes of an order, before anything is recorded."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

from quantgraph.broker.account import Account
from quantgraph.broker.execution import TradingSession
from quantgraph.broker.orders import Fill, Order, Quantity, Rejection, RejectionCode
from quantgraph.broker.quotes import quotes_at
from quantgraph.broker.valuation import last_closes
from quantgraph.errors import LedgerConflict
from quantgraph.market.rulebook import Rulebook, Side
from quantgraph.state import View

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
