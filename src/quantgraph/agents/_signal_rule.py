"""A decider that trades a signal by fixed rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np
import pandas as pd

from quantgraph._util.values import is_whole
from quantgraph.broker import Account, BlockRule, Decider, DecisionContext, Order, Quantity, Session
from quantgraph.broker.accounts import last_closes
from quantgraph.broker.session import largest_buy
from quantgraph.errors import BadOption, NoData, NoSignal
from quantgraph.market import Rulebook
from quantgraph.market.money import CENT, ZERO, Side, money, to_decimal
from quantgraph.state import View

_NAME = "signal_rule"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SignalRuleOptions:
    """The options of :class:`SignalRule`, which is made of them, with their defaults."""

    signal: str | None = None
    weights: Mapping[str, float] | None = None
    max_positions: int | None = None
    max_weight: float = 1.0
    ticket: Decimal | float | str | None = None
    cash_reserve: float = 0.0
    rule: BlockRule = field(init=False)

    def __post_init__(self) -> None:
        rule = BlockRule(
            name=_NAME,
            trades=True,
            signal=self.signal,
            weights=None if self.weights is None else _check_weights(self.weights),
            max_positions=_check_max_positions(self.max_positions),
            max_weight=_check_fraction("max_weight", self.max_weight, "(0, 1]"),
            cash_reserve=_check_fraction("cash_reserve", self.cash_reserve, "[0, 1)"),
            ticket=None if self.ticket is None else _check_ticket(self.ticket),
        )
        object.__setattr__(self, "rule", rule)


class SignalRule(SignalRuleOptions, Decider):
    """Trades a signal of 1, 0, -1 and NaN long-only.

    Parameters
    ----------
    signal
        Name of the signal in the panel ``signal``; None if there is only one.
    weights
        Fraction of the investable equity by symbol, each in [0, 1], with a sum of at most 1. Other symbols
        are not bought. None means equal fractions.
    max_positions
        Largest number of positions, at least 1; None means no limit.
    max_weight
        Largest fraction of the investable equity for one entry, in (0, 1]. A holding may grow beyond it.
    ticket
        Cash for one entry, fees included, in whole cents and above 0, instead of a fraction of the equity.
        ``weights`` then only lists the symbols that may be bought.
    cash_reserve
        Fraction of the equity that stays in cash, in [0, 1).

    Raises
    ------
    BadOption
        If an option is outside its range.

    Notes
    -----
    It decides at the open of session *t*. *The row* is the signal's row of the session before *t*.

    Exit
        A position is sold whole if its last signal up to the row that is neither 0 nor NaN is -1 and is not
        from before the session of its entry. So a rejected exit (suspended, lower limit) is tried again in
        each session until a later 1 revokes it.
    Entry
        Symbols that are not held and whose value in the row is exactly 1, in ascending order of
        ``ts_code``. ``max_positions`` limits them together with the *kept* positions: those still held
        after the exits, including positions whose exit the market would reject. Positions with 1, 0 or NaN
        are left alone; nothing is rebalanced.
    Size
        ``equity`` = cash + receivable dividends + holdings at today's open (without an open, at the last
        known close); ``investable = equity * (1 - cash_reserve)``; ``n`` = kept + entries. The cash for an
        entry is ``investable / n``, or ``investable * weights[symbol]``, or ``ticket``, and at most
        ``investable * max_weight``. ``free`` = cash after the exits, net of fees (an exit that the market
        would reject brings nothing) - ``(equity - investable)``. If entries together exceed ``free``, all
        shrink by the same factor. Each of these amounts is rounded down to the cent. The quantity is the
        largest whose notional and fees at today's open fit the cash, and at most the size limit of one
        order. Without an open it is sized at the last close, and the market rejects the order as suspended.
        Cash too small for a lot makes no order.

    Exits come before entries, both in ascending order of ``ts_code``, numbered from 1. An exit larger than
    the size limit of one order is split into several.

    Examples
    --------
    100,000 CNY and two 1s: each entry gets 50,000. At an open of 10 that is 4,900 shares, because 5,000
    would cost 50,000 and 13 in fees; at an open of 30, 1,600 shares.

    >>> from quantgraph.market import Moment
    >>> from quantgraph.state import DataState
    >>> days = pd.DatetimeIndex(["2024-01-02", "2024-01-03"])
    >>> prices = pd.DataFrame({"600000.SH": [10.0, 10.0], "600036.SH": [30.0, 30.0]}, index=days)
    >>> store = DataState()
    >>> store.update("ohlcv", {"open": prices, "close": prices}) == store.head
    True
    >>> ref = store.update("signal", {"demo": prices * 0 + 1})
    >>> view = store.view(Moment.at("2024-01-03", "open"), ref)
    >>> context = DecisionContext(view, Account.opening(100_000))
    >>> for order in SignalRule().decide(context):
    ...     print(order.sequence, order.side, order.symbol, order.quantity)
    1 buy 600000.SH 4900
    2 buy 600036.SH 1600
    """

    name: Final = _NAME

    @property
    def options(self) -> dict[str, Any]:
        """Options as plain JSON; a run is not continued with others."""
        rule = self.rule
        weights = None
        if rule.weights is not None:
            weights = {symbol: str(weight) for symbol, weight in sorted(rule.weights.items())}
        return {
            "signal": rule.signal,
            "weights": weights,
            "max_positions": rule.max_positions,
            "max_weight": str(rule.max_weight),
            "ticket": None if rule.ticket is None else str(rule.ticket),
            "cash_reserve": str(rule.cash_reserve),
        }

    def block_rule(self, context: DecisionContext) -> BlockRule:  # noqa: ARG002 - the same on any day
        """Return the rule as data."""
        return self.rule

    def decide(self, context: DecisionContext) -> list[Order]:
        """Return the orders for the session, see the class.

        Raises
        ------
        NoSignal
            If the data has no signal.
        BadOption
            If there are several signals and ``signal`` is None.
        UnknownField
            If there is no signal of that name.
        """
        view, account, rules, session = context.view, context.account, context.rules, context.session
        signal, market = view["signal"][self._signal_name(view)], context.market
        listed = partial(_orders, rules=rules, session=session, numbers=count(1))
        exits = listed("sell", _positions_to_exit(signal, account), reason="signal -1")
        after_exits = market.copy(pending=False)
        sold = {order.symbol for order in exits}
        after_exits.batch([*exits, *(order for order in context.exits if order.symbol not in sold)])
        left = len(after_exits.account.positions)
        waiting = _waiting(signal, context.exited) if context.plan.reentry == "new_signal" else set()
        entries = self._entries(view, signal, account, kept=left, waiting=waiting)
        if not entries:
            return exits
        prices = _prices(view, market, {*account.positions, *entries})
        cash = self._entry_cash(entries, _equity(account, prices), after_exits.account)
        quantities = {
            symbol: largest_buy(symbol, prices[symbol], amount, rules, session)
            for symbol, amount in cash.items()
            if symbol in prices
        }
        return exits + listed("buy", quantities, reason="signal 1")

    def _signal_name(self, view: View) -> str:
        names = list(view["signal"])
        if not names:
            raise NoSignal("the data has no signal; generate one first")
        if self.rule.signal is None and len(names) > 1:
            raise BadOption(f"signal must be one of {', '.join(names)}", parameter="signal")
        return self.rule.signal or names[0]

    def _entries(
        self, view: View, signal: pd.DataFrame, account: Account, *, kept: int, waiting: AbstractSet[str]
    ) -> list[str]:
        entries = sorted(
            symbol
            for symbol in _long_symbols(view, signal)
            if symbol not in account.positions
            and symbol not in waiting
            and (self.rule.weights is None or symbol in self.rule.weights)
        )
        return (
            entries if self.rule.max_positions is None else entries[: max(0, self.rule.max_positions - kept)]
        )

    def _entry_cash(self, entries: Sequence[str], equity: Decimal, after: Account) -> dict[str, Decimal]:
        """Cash for each entry, given the account after the exits."""
        total = _cents(equity)
        investable = math.floor(total * (1 - self.rule.cash_reserve))
        n, largest = len(after.positions) + len(entries), math.floor(investable * self.rule.max_weight)
        cents = {symbol: min(largest, self._entry_cents(symbol, investable, n)) for symbol in entries}
        free = max(0, _cents(after.cash) - (total - investable))
        needed = sum(cents.values())
        if needed > free:
            cents = {symbol: amount * free // needed for symbol, amount in cents.items()}
        return {symbol: amount * CENT for symbol, amount in cents.items()}

    def _entry_cents(self, symbol: str, investable: int, n: int) -> int:
        if self.rule.ticket is not None:
            return _cents(self.rule.ticket)
        return math.floor(investable * self.rule.weights[symbol]) if self.rule.weights else investable // n


def _orders(
    side: Side,
    quantities: Mapping[str, Quantity],
    *,
    reason: str,
    rules: Rulebook,
    session: pd.Timestamp,
    numbers: Iterator[int],
) -> list[Order]:
    orders = []
    for symbol, quantity in quantities.items():
        cap = rules.order_cap(symbol, session.date(), "open") or quantity
        rest = quantity if side == "sell" else min(quantity, cap)
        while rest > 0:
            part = min(rest, cap)
            orders.append(
                Order(symbol=symbol, side=side, quantity=part, sequence=next(numbers), reason=reason)
            )
            rest -= part
    return orders


def _positions_to_exit(signal: pd.DataFrame, account: Account) -> dict[str, Quantity]:
    """Quantities of positions whose last signal of 1 or -1 since their entry is -1."""
    values, columns, exits = signal.to_numpy(), signal.columns, {}
    for symbol, position in account.positions.items():
        if symbol in columns:
            since_entry = values[signal.index.searchsorted(position.entered) :, columns.get_loc(symbol)]
            since_entry = since_entry[np.abs(since_entry) == 1]
            if since_entry.size and since_entry[-1] == -1:
                exits[symbol] = position.quantity
    return exits


def _waiting(signal: pd.DataFrame, exited: Mapping[str, pd.Timestamp]) -> set[str]:
    """Symbols that a plan has sold and whose row was 1 ever since: they wait for a new signal."""
    return {
        symbol
        for symbol, day in exited.items()
        if symbol in signal.columns
        and (signal[symbol].to_numpy()[signal.index.searchsorted(day) :] == 1).all()
    }


def _long_symbols(view: View, signal: pd.DataFrame) -> list[str]:
    """Symbols with a 1 in the signal's row of the session before the view's; none without such a row."""
    sessions = view["ohlcv"]["close"].index
    if not len(sessions) or not len(signal) or signal.index[-1] != sessions[-1]:
        return []
    return [str(signal.columns[int(place)]) for place in np.flatnonzero(signal.to_numpy()[-1] == 1)]


def _prices(view: View, market: Session, symbols: Iterable[str]) -> dict[str, Decimal]:
    """Today's open, or without one the last known close; symbols without both are left out."""
    symbols, quotes = sorted(symbols), market.quotes
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


def _check_weights(weights: Mapping[str, float]) -> dict[str, Fraction]:
    checked = {
        symbol: _check_fraction(f"weights[{symbol!r}]", weight, "[0, 1]")
        for symbol, weight in weights.items()
    }
    total = sum(checked.values())
    if total > 1:
        raise BadOption(f"weights add up to {float(total)}; the sum must be at most 1", parameter="weights")
    return checked


def _check_fraction(name: str, value: float, interval: str) -> Fraction:
    """Return the exact value if it is in an interval between 0 and 1, such as ``(0, 1]``."""
    number = Fraction(to_decimal(value, name=name))
    is_above = number > 0 or (number == 0 and interval[0] == "[")
    is_below = number < 1 or (number == 1 and interval[-1] == "]")
    if not (is_above and is_below):
        parameter = name.partition("[")[0]
        raise BadOption(f"{name}={value!r}; must be a number in {interval}", parameter=parameter)
    return number


def _check_max_positions(value: int | None) -> int | None:
    if value is not None and (not is_whole(value) or value < 1):
        raise BadOption(
            f"max_positions={value!r}; must be a whole number >= 1, or None", parameter="max_positions"
        )
    return value


def _check_ticket(value: Decimal | float | str) -> Decimal:
    amount = to_decimal(value, name="ticket")
    if amount <= 0 or money(amount) != amount:
        raise BadOption(f"ticket={value!r}; must be an amount above 0 in whole cents", parameter="ticket")
    return amount
