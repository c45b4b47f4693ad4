"""How much a trade plan buys at an open: entries, additions, and holdings that are sized again."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from quantgraph.broker import DecisionContext, Session, TradePlan
from quantgraph.broker.accounts import Quantity, last_closes
from quantgraph.broker.session import Followed, largest_buy
from quantgraph.errors import NoData
from quantgraph.market.money import CENT, ZERO, to_decimal
from quantgraph.state import View

_REBALANCE = "rebalance"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """Cash for a purchase, in cents with its fees, at most so many shares, and why."""

    cents: int
    reason: str
    shares: Quantity | None = None


@dataclass(frozen=True, kw_only=True)
class Sizing:
    """The sizes of one open. Prices are today's opens, or without one the last known closes.

    ``after`` is a trial of the session after the exits, and ``traded`` the number of symbols with a signal.
    """

    context: DecisionContext
    after: Session
    traded: int
    prices: Mapping[str, Decimal]

    @property
    def plan(self) -> TradePlan:
        """The plan."""
        return self.context.plan

    @cached_property
    def total(self) -> int:
        """The equity at the open before any order, in cents."""
        account = self.context.account
        unknown = [symbol for symbol in account.positions if symbol not in self.prices]
        if unknown:
            message = f"{unknown[0]} is held and has neither an open nor an earlier close"
            raise NoData(message, symbol=unknown[0])
        worths = (self.prices[symbol] * each.quantity for symbol, each in account.positions.items())
        return math.floor((account.cash + account.owed + sum(worths, ZERO)) * 100)

    @cached_property
    def investable(self) -> int:
        """The equity without the reserve, in cents."""
        return math.floor(self.total * (1 - Fraction(self.plan.cash_reserve or 0)))

    def sized(self, symbol: str, kind: str, value: Any, count: int, reason: str) -> Wish:
        """The cash of a size; ``count`` positions share the equity where it is in equal weights."""
        if kind == "shares":
            return self._of_shares(symbol, value, reason)
        if kind == "equal_weight":
            return Wish(cents=self.investable // max(1, count), reason=reason)
        if kind == "cash":
            return Wish(cents=math.floor(value * 100), reason=reason)
        share = value.get(symbol, 0) if kind == "weights" else Fraction(value)
        return Wish(cents=math.floor(self.investable * share), reason=reason)

    def entries(self, symbols: Sequence[str]) -> dict[str, Wish]:
        """Cash for symbols that are not held."""
        kind, value = self.plan.sizing(self.traded)
        count = len(self.after.account.positions) + len(symbols)
        return {symbol: self.sized(symbol, kind, value, count, "signal 1") for symbol in symbols}

    def additions(
        self, view: View, followed: Mapping[str, Followed], *, leaving: Collection[str], today: bool
    ) -> dict[str, Wish]:
        """Cash for more of what is held and is not about to be sold."""
        adds, wishes = self.plan.accumulate, dict[str, Wish]()
        if adds is None or (adds["on"] == "schedule" and not today):
            return wishes
        kind, value = self.plan.addition
        held = [symbol for symbol in self.after.account.positions if symbol not in leaving]
        closes = {} if adds["on"] == "schedule" else last_closes(view, held)
        for symbol in sorted(held):
            before = followed.get(symbol)
            if before is None or symbol not in self.prices or before.purchases > adds.get("times", math.inf):
                continue
            if _is_reached(adds, closes.get(symbol), before.last):
                wishes[symbol] = self.sized(symbol, kind, value, 0, self.plan.addition_reason)
        return wishes

    def resized(
        self, entries: Sequence[str], leaving: Collection[str]
    ) -> tuple[dict[str, Quantity], dict[str, Wish]]:
        """What holdings have too much of, in shares, and what they lack, in cash."""
        kind, value = self.plan.sizing(self.traded)
        positions, band = self.after.account.positions, Fraction(self.plan.band or 0) * self.investable
        sales, wishes = dict[str, Quantity](), dict[str, Wish]()
        for symbol in sorted(positions.keys() - set(leaving)):
            if not self.prices.get(symbol) or (kind == "weights" and symbol not in value):
                continue
            wished = self.sized(symbol, kind, value, len(positions) + len(entries), _REBALANCE).cents
            price = self.prices[symbol]
            lacking = wished - math.floor(price * positions[symbol].quantity * 100)
            if abs(lacking) <= band:
                continue
            if lacking > 0:
                wishes[symbol] = Wish(cents=lacking, reason=_REBALANCE)
            elif shares := self.in_lots(symbol, -lacking * CENT / price):
                sales[symbol] = min(shares, positions[symbol].sellable)
        return sales, wishes

    def quantities(self, wishes: Mapping[str, Wish], cash: Decimal) -> dict[str, Quantity]:
        """Shares to buy; wishes beyond the free cash all shrink by the same factor, down to the cent."""
        free = max(0, math.floor(cash * 100) - (self.total - self.investable))
        needed = sum(wish.cents for wish in wishes.values())
        found = dict[str, Quantity]()
        for symbol, wish in wishes.items():
            if not self.prices.get(symbol):
                continue
            cents = wish.cents * free // needed if needed > free else wish.cents
            rules, day = self.context.rules, self.context.session
            shares = largest_buy(symbol, self.prices[symbol], cents * CENT, rules, day)
            found[symbol] = shares if wish.shares is None else min(shares, wish.shares)
        return found

    def _of_shares(self, symbol: str, shares: Decimal, reason: str) -> Wish:
        """The cash of a number of shares, whole lots of them, with fees."""
        quantity = self.in_lots(symbol, shares)
        amount = self.prices.get(symbol, ZERO) * quantity
        day = self.context.session.date()
        fees = self.context.rules.charges(symbol, "buy", quantity, amount, day).total if quantity else ZERO
        return Wish(cents=math.ceil((amount + fees) * 100), shares=quantity, reason=reason)

    def in_lots(self, symbol: str, shares: Decimal) -> Quantity:
        """The part of shares that one order may have; 0 if they are too few for one."""
        lots = self.context.rules.lots(symbol, self.context.session.date())
        quantity = Decimal(lots.step * int(shares // Decimal(lots.step))).normalize()
        return 0 if quantity < lots.first else int(quantity) if quantity % 1 == 0 else quantity


def open_prices(view: View, market: Session, symbols: Iterable[str]) -> dict[str, Decimal]:
    """Today's open, or without one the last known close; symbols without both are left out."""
    symbols, quotes = sorted(symbols), market.quotes
    opens = {symbol: quotes[symbol].open for symbol in symbols if symbol in quotes}
    found = {symbol: to_decimal(price) for symbol, price in opens.items() if 0 < price < math.inf}
    missing = [symbol for symbol in symbols if symbol not in found]
    return found | last_closes(view, missing) if missing else found


def _is_reached(adds: Mapping[str, Any], close: Decimal | None, last: Decimal) -> bool:
    """Whether the last close is as far from the price of the last purchase as the plan wants."""
    if adds["on"] == "schedule":
        return True
    if close is None:
        return False
    by: Decimal = adds["by"]
    return close >= last * (1 + by) if adds["on"] == "rise" else close <= last * (1 - by)
