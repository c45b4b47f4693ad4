"""The rule that trades a signal: no opinion of its own, every number reproducible by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from decimal import Decimal
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pandas as pd

from quantgraph.broker import (
    Account,
    BlockRule,
    Order,
    Quantity,
    Quotes,
    TradingSession,
    largest_buy,
    last_closes,
    quotes_at,
    submit_batch,
)
from quantgraph.broker.decider import require_rules
from quantgraph.errors import BadOption, NoData, NoSignal
from quantgraph.market.money import CENT, ZERO, money, to_decimal
from quantgraph.market.rulebook import Rulebook, Side
from quantgraph.state import View

__all__ = ["SignalRule"]


class SignalRule:
    """Long-only trading of a signal of 1, 0, -1 and NaN.

    Parameters
    ----------
    signal
        Name of the signal in the panel ``signal``; None means the only one there is.
    weights
        Share of the investable equity by symbol, each in [0, 1], together at most 1. A symbol that is
        not in it is not bought. None means equal shares.
    max_positions
        Most positions held, at least 1; None means no limit.
    max_weight
        Largest share of the investable equity that one entry may take, in (0, 1]. It bounds what is bought,
        not what a holding grows to.
    ticket
        Cash for one entry, fees included, instead of a share of the equity; above 0. ``weights`` then only
        says which symbols may be bought.
    cash_reserve
        Share of the equity that stays in cash, in [0, 1).
    rules
        The rulebook that the sizes are computed with: that of the market, and given it must be the same. None
        takes it.

    Raises
    ------
    BadOption
        If an option is outside its range.

    Notes
    -----
    It decides at the open of session *t*. *The row* is the signal's row of the session before *t*.

    Exit
        A held symbol is sold whole when its last signal that is neither 0 nor NaN, up to the row, is -1
        and stands at the session of its entry or later. So an exit that was rejected (suspended, lower
        limit) is tried again in the next session, until a later 1 takes it back.
    Entry
        Symbols whose value in the row is exactly 1 and that are not held, in ascending order of
        ``ts_code``. With ``max_positions`` only as many as there is room for beside the positions that
        are *kept*: those still held after the exits, an exit that the desk would reject among them.
        What is held and has 1, 0 or NaN is left alone; nothing is rebalanced.
    Size
        ``equity`` = cash + dividends on their way + holdings at today's open (at the last known close where
        there is none); ``investable = equity * (1 - cash_reserve)``; ``n`` = kept + entries; a ticket is
        ``investable / n``, or ``investable * weights[symbol]``, or the fixed ``ticket``, and never more than
        ``investable * max_weight``. ``free`` = the cash after the exits, net of fees (an exit that the desk
        would reject brings nothing) - ``(equity - investable)``. Tickets that together exceed ``free`` all
        shrink by the same factor. Each of these amounts is rounded down to the cent. The quantity is the
        most that may be bought so that notional and fees fit the ticket at today's open, and no more than
        one order may have. Where there is no open, the last close sizes it, and the desk rejects the order
        as suspended. A ticket too small for a lot makes no order.

    Exits come before entries, both in ascending order of ``ts_code``, numbered from 1. An exit above the
    size that one order may have is several orders.

    Examples
    --------
    100,000 CNY and two 1s: each ticket is 50,000. At an open of 10 that is 4,900 shares, because 5,000
    would cost 50,000 and 13 in fees; at an open of 30, 1,600 shares.

    >>> from quantgraph.market.moment import Moment
    >>> from quantgraph.state import DataState
    >>> days = pd.DatetimeIndex(["2024-01-02", "2024-01-03"])
    >>> prices = pd.DataFrame({"600000.SH": [10.0, 10.0], "600036.SH": [30.0, 30.0]}, index=days)
    >>> store = DataState()
    >>> store.update("ohlcv", {"open": prices, "close": prices}) == store.head
    True
    >>> ref = store.update("signal", {"demo": prices * 0 + 1})
    >>> view = store.view(Moment.at("2024-01-03", "open"), ref)
    >>> for order in SignalRule().decide(view, Account.opening(100_000), days[1]):
    ...     print(order.sequence, order.side, order.symbol, order.quantity)
    1 buy 600000.SH 4900
    2 buy 600036.SH 1600
    """

    def __init__(
        self,
        *,
        signal: str | None = None,
        weights: Mapping[str, float] | None = None,
        max_positions: int | None = None,
        max_weight: float = 1.0,
        ticket: Decimal | float | str | None = None,
        cash_reserve: float = 0.0,
        rules: Rulebook | None = None,
    ) -> None:
        self._signal = signal
        self._weights = None if weights is None else _shares(weights)
        self._max_positions = _at_least_one(max_positions)
        self._max_weight = _max_weight(max_weight)
        self._ticket = None if ticket is None else _ticket(ticket)
        self._reserve = _reserve(cash_reserve)
        self._given, self._rules = rules, rules or Rulebook.mainland()

    @property
    def name(self) -> str:
        """Name under which the ledger keeps its days."""
        return "signal_rule"

    @property
    def options(self) -> dict[str, Any]:
        """The options as plain JSON: a run that goes on with others is refused."""
        weights = None
        if self._weights is not None:
            weights = {symbol: str(share) for symbol, share in sorted(self._weights.items())}
        return {
            "signal": self._signal,
            "weights": weights,
            "max_positions": self._max_positions,
            "max_weight": str(self._max_weight),
            "ticket": None if self._ticket is None else str(self._ticket),
            "cash_reserve": str(self._reserve),
        }

    def under(self, rules: Rulebook) -> SignalRule:
        """The rule, sizing by a market's rules.

        Raises
        ------
        BadOption
            If it was made with others.
        """
        require_rules(self._given, rules)
        if self._rules == rules:
            return self
        bound = copy(self)
        bound._rules = rules  # noqa: SLF001 - its own
        return bound

    def block_rule(self, account: Account) -> BlockRule:  # noqa: ARG002 - the same whatever is held
        """The rule as plain data: nobody needs to be asked between two sessions."""
        return BlockRule(
            name=self.name,
            trades=True,
            signal=self._signal,
            weights=self._weights,
            max_positions=self._max_positions,
            max_weight=self._max_weight,
            cash_reserve=self._reserve,
            ticket=self._ticket,
            rules=self._rules,
        )

    def decide(self, view: View, account: Account, session: pd.Timestamp) -> list[Order]:
        """Orders for the session, see the class.

        Raises
        ------
        NoSignal
            If the data has no signal.
        BadOption
            If the signal was not named and there are several.
        UnknownField
            If there is no signal of that name.
        """
        signal, numbers = view["signal"][self._name_in(view)], count(1)
        quotes = quotes_at(view)
        leaving = _leaving(signal, account)
        exits = self._orders("sell", leaving, "signal -1", session, numbers)
        desk = TradingSession(account, quotes, self._rules, session)
        submit_batch(desk, exits)
        entries = self._entries(view, signal, account, kept=len(desk.account.positions))
        if not entries:
            return exits
        prices = _prices(view, quotes, {*account.positions, *entries})
        tickets = self._tickets(entries, _equity(account, prices), desk.account)
        sizes = {
            symbol: largest_buy(symbol, prices[symbol], ticket, self._rules, session)
            for symbol, ticket in tickets.items()
            if symbol in prices
        }
        return exits + self._orders("buy", sizes, "signal 1", session, numbers)

    def _name_in(self, view: View) -> str:
        names = list(view["signal"])
        if not names:
            raise NoSignal("the data has no signal; generate one first")
        if self._signal is None and len(names) > 1:
            raise BadOption(f"signal must be named: there are {', '.join(names)}", parameter="signal")
        return self._signal or names[0]

    def _entries(self, view: View, signal: pd.DataFrame, account: Account, *, kept: int) -> list[str]:
        row = _row_before(view, signal)
        wanted = sorted(
            symbol
            for symbol in row
            if symbol not in account.positions and (self._weights is None or symbol in self._weights)
        )
        return wanted if self._max_positions is None else wanted[: max(0, self._max_positions - kept)]

    def _tickets(self, entries: Sequence[str], equity: Decimal, after: Account) -> dict[str, Decimal]:
        worth = _cents(equity)
        investable = math.floor(worth * (1 - self._reserve))
        n, most = len(after.positions) + len(entries), math.floor(investable * self._max_weight)
        tickets = {symbol: min(most, self._wished(symbol, investable, n)) for symbol in entries}
        free = max(0, _cents(after.cash) - (worth - investable))
        wished = sum(tickets.values())
        if wished > free:
            tickets = {symbol: cents * free // wished for symbol, cents in tickets.items()}
        return {symbol: cents * CENT for symbol, cents in tickets.items()}

    def _wished(self, symbol: str, investable: int, n: int) -> int:
        if self._ticket is not None:
            return _cents(self._ticket)
        return math.floor(investable * self._weights[symbol]) if self._weights else investable // n

    def _orders(
        self,
        side: Side,
        sizes: Mapping[str, Quantity],
        reason: str,
        session: pd.Timestamp,
        numbers: Iterator[int],
    ) -> list[Order]:
        orders = []
        for symbol, quantity in sizes.items():
            cap = self._rules.order_cap(symbol, session.date(), "open") or quantity
            left = quantity if side == "sell" else min(quantity, cap)
            while left > 0:
                part = min(left, cap)
                orders.append(
                    Order(symbol=symbol, side=side, quantity=part, sequence=next(numbers), reason=reason)
                )
                left -= part
        return orders


def _leaving(signal: pd.DataFrame, account: Account) -> dict[str, Quantity]:
    """Holdings whose last opinion since their entry is -1."""
    values, places = (
        signal.to_numpy(),
        signal.columns.get_indexer(pd.Index(list(account.positions), dtype="str")),
    )
    leaving = {}
    for (symbol, position), place in zip(account.positions.items(), places, strict=True):
        first = signal.index.searchsorted(position.entered)
        opinions = values[first:, place] if place >= 0 else np.empty(0)
        opinions = opinions[np.abs(opinions) == 1]
        if opinions.size and opinions[-1] == -1:
            leaving[symbol] = position.quantity
    return leaving


def _row_before(view: View, signal: pd.DataFrame) -> list[str]:
    """Symbols with a 1 in the signal's row of the session before the view's; none when it has no such row."""
    sessions = view["ohlcv"]["close"].index
    if not len(sessions) or not len(signal) or signal.index[-1] != sessions[-1]:
        return []
    return [str(symbol) for symbol in signal.columns[signal.to_numpy()[-1] == 1]]


def _prices(view: View, quotes: Quotes, symbols: Iterable[str]) -> dict[str, Decimal]:
    """Today's open, or the last known close; a symbol with neither is left out."""
    symbols = sorted(symbols)
    opens = {symbol: quotes[symbol].open for symbol in symbols if symbol in quotes}
    found = {symbol: to_decimal(price) for symbol, price in opens.items() if 0 < price < math.inf}
    missing = [symbol for symbol in symbols if symbol not in found]
    return found | last_closes(view, missing) if missing else found


def _equity(account: Account, prices: Mapping[str, Decimal]) -> Decimal:
    unknown = [symbol for symbol in account.positions if symbol not in prices]
    if unknown:
        raise NoData(f"{unknown[0]} is held and has neither an open nor an earlier close", symbol=unknown[0])
    holdings = (prices[symbol] * position.quantity for symbol, position in account.positions.items())
    return account.cash + account.owed + sum(holdings, ZERO)


def _cents(amount: Decimal) -> int:
    return math.floor(amount * 100)


def _shares(weights: Mapping[str, float]) -> dict[str, Fraction]:
    shares = {
        symbol: Fraction(to_decimal(weight, name=f"weights[{symbol!r}]"))
        for symbol, weight in weights.items()
    }
    for symbol, share in shares.items():
        if not 0 <= share <= 1:
            raise BadOption(
                f"weights[{symbol!r}]={float(share)}; a number in [0, 1] is wanted", parameter="weights"
            )
    if sum(shares.values()) > 1:
        raise BadOption(
            f"weights add up to {float(sum(shares.values()))}; at most 1 is wanted", parameter="weights"
        )
    return shares


def _at_least_one(value: int | None) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise BadOption(
            f"max_positions={value!r}; a whole number of at least 1 is wanted", parameter="max_positions"
        )
    return value


def _max_weight(value: float) -> Fraction:
    weight = Fraction(to_decimal(value, name="max_weight"))
    if not 0 < weight <= 1:
        raise BadOption(f"max_weight={value!r}; a number in (0, 1] is wanted", parameter="max_weight")
    return weight


def _reserve(value: float) -> Fraction:
    reserve = Fraction(to_decimal(value, name="cash_reserve"))
    if not 0 <= reserve < 1:
        raise BadOption(f"cash_reserve={value!r}; a number in [0, 1) is wanted", parameter="cash_reserve")
    return reserve


def _ticket(value: Decimal | float | str) -> Decimal:
    amount = to_decimal(value, name="ticket")
    if amount <= 0 or money(amount) != amount:
        raise BadOption(f"ticket={value!r}; an amount above 0 in whole cents is wanted", parameter="ticket")
    return amount
