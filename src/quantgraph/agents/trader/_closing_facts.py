"""Whether the numbers in the text with which a day closes are those of the ledger, the prices or the day."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from quantgraph.broker import Account, DecisionContext, Fill
from quantgraph.tools import NumberFacts, numbers_in, unresolved_numbers

_MOST = 20


def unexplained_numbers(text: str, context: DecisionContext, answers: Iterable[str]) -> list[str]:
    """Return the numbers of a day's closing text that nothing of the day explains, at most 20."""
    return unresolved_numbers(text, closing_facts(context, answers))[:_MOST] if text else []


def closing_facts(context: DecisionContext, answers: Iterable[str]) -> NumberFacts:
    """Return what a closing text may say: the account, the fills, the prices, and ratios of them."""
    day = _day_of(context)
    totals, gains = _totals(day), _gains(context, day)
    bases = [each for each in (day.worth, float(day.before.cash)) if each]
    shares, money, percents = (defaultdict[str, list[float]](list) for _ in range(3))
    for symbol in {*day.opens, *day.closes, *day.before.positions, *day.after.positions}:
        shares[symbol] += [float(each.quantity(symbol)) for each in (day.before, day.after)]
        prices, costs, values = _amounts(symbol, day)
        others = [*prices, *costs]
        money[symbol] += [*others, *values, *(one - other for one in prices for other in others)]
        percents[symbol] += [100 * (one / other - 1) for one in prices for other in others if other]
        percents[symbol] += [100 * each / day.worth for each in values if day.worth]
    for fill in day.fills:
        symbol, amount = fill.order.symbol, float(fill.notional)
        shares[symbol].append(float(fill.quantity))
        money[symbol] += [float(fill.price), amount, float(fill.cost), float(-fill.cash_change)]
        percents[symbol] += [100 * amount / each for each in bases]
    return NumberFacts(
        money=[*totals, *(base for base, _ in gains), *(gain for _, gain in gains)],
        percents=[
            *(100 * each / base for each in totals for base in bases),
            *(100 * gain / base for base, gain in gains if base),
        ],
        shares_of=shares,
        money_of=money,
        percents_of=percents,
        told={number for answer in answers for number in numbers_in(answer)},
        main={*day.before.positions, *day.after.positions, *(fill.order.symbol for fill in day.fills)},
    )


@dataclass(frozen=True, kw_only=True)
class _Day:
    """The account before and after the day's trades, today's opens and yesterday's closes."""

    before: Account
    after: Account
    fills: list[Fill]
    opens: Mapping[str, float]
    closes: Mapping[str, float]

    def stocks(self, account: Account, *, by_close: bool = False) -> float:
        """What shares are worth, at today's opens or yesterday's closes."""
        first, other = (self.closes, self.opens) if by_close else (self.opens, self.closes)
        return math.fsum(
            float(held.quantity) * first.get(symbol, other.get(symbol, 0.0))
            for symbol, held in account.positions.items()
        )

    @property
    def worth(self) -> float:
        """The value of the account now."""
        return float(self.after.cash) + self.stocks(self.after)


def _day_of(context: DecisionContext) -> _Day:
    view, market = context.view, context.market
    outcomes = [market.submit(order) for order in market.submitted]
    sessions = view["ohlcv"].frozen("close").sessions
    closes = view.numbers("ohlcv", "close", pd.Timestamp(sessions[-1])) if len(sessions) else {}
    return _Day(
        before=context.account,
        after=market.account,
        fills=[each for each in outcomes if isinstance(each, Fill)],
        opens=_known(view.numbers("ohlcv", "open", context.session)),
        closes=_known(closes),
    )


def _totals(day: _Day) -> list[float]:
    """Amounts of the whole account."""
    bought, sold = (
        math.fsum(float(fill.notional) for fill in day.fills if fill.side == side) for side in ("buy", "sell")
    )
    costs = math.fsum(float(fill.cost) for fill in day.fills)
    cash = [float(each.cash) for each in (day.before, day.after)]
    stocks = [day.stocks(day.after), day.stocks(day.before), day.stocks(day.before, by_close=True)]
    return [day.worth, *cash, cash[1] - cash[0], *stocks, bought, sold, bought + sold, bought - sold, costs]


def _gains(context: DecisionContext, day: _Day) -> list[tuple[float, float]]:
    """Earlier values of the account, and what it has gained since."""
    cash = float(day.before.cash)
    values = [cash + day.stocks(day.before), cash + day.stocks(day.before, by_close=True)]
    if context.history:
        first = context.history[0]
        spent = math.fsum(float(fill.cash_change) for fill in first.fills)
        values += [float(context.history[-1].value), float(first.account.cash) - spent]
    return [(value, day.worth - value) for value in values]


def _amounts(symbol: str, day: _Day) -> tuple[list[float], list[float], list[float]]:
    """Prices of a symbol, average costs, and what the shares of it cost, are worth and have gained."""
    prices = [each[symbol] for each in (day.opens, day.closes) if symbol in each]
    costs, values = [], []
    for account in (day.before, day.after):
        held = account.positions.get(symbol)
        if held is not None:
            quantity, cost = float(held.quantity), float(held.average_cost)
            costs.append(cost)
            values += [quantity * cost, *(quantity * price for price in prices)]
            values += [quantity * (price - cost) for price in prices]
    return prices, costs, values


def _known(numbers: Mapping[str, float]) -> dict[str, float]:
    return {symbol: price for symbol, price in numbers.items() if math.isfinite(price)}
