"""Decisions become orders: each is tried alone while its model can answer, then all by their cash."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import groupby
from typing import Any, Final

from quantgraph._util.texts import say
from quantgraph.agents.execution._steps import ExecutionOptions
from quantgraph.agents.loop._facts import OpenFacts
from quantgraph.broker import DecisionContext, Order, Pending, Rejection
from quantgraph.broker.accounts import Quantity
from quantgraph.broker.session import largest_buy
from quantgraph.market.money import CENT, ZERO, notional, to_decimal

Decided = Mapping[str, Any]

_SHOWN_REASON: Final = 200
_STEP: Final = Decimal("0.01")


@dataclass(frozen=True, kw_only=True)
class Orders:
    """The sizes of a session's decisions, and what the market at the open says to them."""

    context: DecisionContext
    facts: OpenFacts
    options: ExecutionOptions

    def target(self, confidence: float) -> Decimal:
        """The value that a buy aims at."""
        return self.options.target(self.facts.account.value, confidence, len(self.facts.symbols))

    def size_text(self, symbol: str) -> str:
        """Say what a buy aims at, what the least one costs, and from which confidence on there is one."""
        scaled = self.options.size == "confidence"
        text = say(
            self.context.language,
            zh=f"买入把持仓补到 {self.target(1.0)}{' 乘以 confidence' if scaled else ''}",
            en=f"a buy raises the position to {self.target(1.0)}{' x confidence' if scaled else ''}",
        )
        return "; ".join(filter(None, (text, self._least_text(symbol))))

    def tried(self, symbol: str, decision: Decided) -> dict[str, str] | None:
        """What a decision alone is answered: an error, or that it is pending; None where nothing is to say.

        The cash is not looked at: sales of other symbols may pay.
        """
        if decision["action"] == "sell" and not self.context.account.quantity(symbol):
            nothing = say(
                self.context.language, zh=f"没有持有 {symbol}，没有可卖的", en=f"no {symbol} is held to sell"
            )
            return {"error": nothing}
        order = self.order(symbol, decision, 1)
        outcome = order and self.context.market.copy().submit(order)
        if isinstance(outcome, Pending):
            return {"pending": outcome.message}
        if not isinstance(outcome, Rejection) or outcome.code == "insufficient_cash":
            return None
        least = self._least_text(symbol) if outcome.code == "lot_size" else ""
        return {"error": "; ".join(filter(None, (outcome.message, least)))}

    def order(self, symbol: str, decision: Decided, number: int, room: Decimal | None = None) -> Order | None:
        """The order of a decision; None where nothing would change. ``room`` is the cash of a smaller buy."""
        action, held = decision["action"], self.context.account.quantity(symbol)
        if action == "hold" or (action == "sell" and not held):
            return None
        wish = self.target(decision["confidence"]) if action == "buy" else ZERO
        if action == "buy" and (price := self._price(symbol)):
            wish = wish if room is None else (price * held + room).quantize(CENT, ROUND_FLOOR)
            if held and not self._most(symbol, price, wish - price * held):
                return None
        reason = decision["reason"][:_SHOWN_REASON]
        return Order(symbol=symbol, target_value=wish, sequence=number, reason=reason)

    def settled(
        self, decisions: Mapping[str, Decided], late: Collection[str] = ()
    ) -> tuple[list[Order], dict[str, str]]:
        """The orders of all decisions, and what is told to those whose buy the cash does not reach.

        Sales come first, the plan's too. Then the buys by their confidence, those of ``late`` symbols last:
        each has what it asks for, or what is left if that buys a lot. Buys of equal confidence share what is
        left in proportion to what they ask for: the order of the symbols decides nothing.
        """
        market, lost, orders = self.context.market.copy(pending=False), dict[str, str](), list[Order]()
        for name, each in decisions.items():
            sale = self.order(name, each, len(orders) + 1) if each["action"] == "sell" else None
            orders += [sale] if sale else []
        sold = {order.symbol for order in orders}
        market.batch([*orders, *(due for due in self.context.exits if due.symbol not in sold)])
        costs = {name: self._cost(name, each) for name, each in decisions.items() if each["action"] == "buy"}
        ranks = {name: (name in late, -decisions[name]["confidence"]) for name in costs}
        for _, names in groupby(sorted(costs, key=ranks.__getitem__), key=ranks.__getitem__):
            group, cash = list(names), max(ZERO, market.account.cash)
            asked = sum((costs[name] for name in group), ZERO)
            for name in group:
                room = costs[name] * cash / asked if costs[name] and asked > cash else None
                price = self._price(name)
                if room is not None and price and not self._most(name, price, room):
                    lost[name] = self._lost_text(name, costs[name], cash)
                elif order := self.order(name, decisions[name], len(orders) + 1, room):
                    orders.append(order)
                    market.submit(order)
        return orders, lost

    def _cost(self, symbol: str, decision: Decided) -> Decimal:
        """What a buy takes of the cash, with its fees; 0 where nothing is bought."""
        price, held = self._price(symbol), self.context.account.quantity(symbol)
        room = self.target(decision["confidence"]) - (price or ZERO) * held
        return self._paid(symbol, price, self._most(symbol, price, room)) if price else ZERO

    def _most(self, symbol: str, price: Decimal, budget: Decimal) -> Quantity:
        return largest_buy(symbol, price, budget, self.context.rules, self.context.session)

    def _paid(self, symbol: str, price: Decimal, shares: Quantity) -> Decimal:
        amount, day = notional(price, shares), self.context.session.date()
        return (
            amount + self.context.rules.charges(symbol, "buy", shares, amount, day).total if shares else ZERO
        )

    def _least_text(self, symbol: str, *, reach: bool = True) -> str:
        """What the least buy costs, and the confidence that reaches it; "" without a price."""
        price, least = self._price(symbol), self.facts.symbols[symbol].least_shares
        if price is None or least is None:
            return ""
        cost, full, language = self._paid(symbol, price, least), self.target(1.0), self.context.language
        needed = (cost + price * self.context.account.quantity(symbol)) / full if full else Decimal(2)
        where = say(language, zh="，达不到", en=", which it does not reach")
        if needed <= 1:
            from_here = needed.quantize(_STEP, ROUND_CEILING)
            where = say(language, zh=f"，需 confidence {from_here} 起", en=f", from confidence {from_here}")
            where = where if self.options.size == "confidence" else ""
        text = say(
            language,
            zh=f"最少买 {least} 股，含费用 {cost}",
            en=f"least buy: {least} shares, {cost} with fees",
        )
        return text + where * reach

    def _lost_text(self, symbol: str, cost: Decimal, cash: Decimal) -> str:
        least = self._least_text(symbol, reach=False)
        return say(
            self.context.language,
            zh=f"现金不够：{symbol} 的买入要 {cost}；卖出和 confidence 更高的买入之后剩 {cash:.2f}，"
            f"confidence 相同的按比例分，分到的不够一手（{least}）。其他买入都排在前面，再高的 confidence "
            "也不会提前：请重新决策，例如 hold",
            en=f"the cash does not reach it: a buy of {symbol} takes {cost}; {cash:.2f} is left after "
            "sales and the buys of more confidence, those of equal confidence have a part of it each, and "
            f"this part buys no lot ({least}). The other buys stand before it now, whatever its confidence: "
            "decide again, for example to hold",
        )

    def _price(self, symbol: str) -> Decimal | None:
        price = self.facts.symbols[symbol].open
        return None if price is None else to_decimal(price)
