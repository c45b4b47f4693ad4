"""Benchmarks, traded by the same rules and valued by the same function as a run."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_DOWN, Decimal

import pandas as pd

from quantgraph.broker import Account, BlockRule, Decider, DecisionContext, Market, Order
from quantgraph.broker.accounts import Block, MarkAt, quotes_at, value_series
from quantgraph.broker.session import advance, split_buys
from quantgraph.errors import BadWindow, NoData
from quantgraph.market.money import CENT, to_decimal


class BuyAndHold(Decider):
    """A decider that buys equal amounts of everything that trades when it holds nothing, and keeps it.

    Lots, limits and fees apply as to any decider; what does not fill a lot stays in cash.
    """

    name = "buy_and_hold"
    uses_signal = False

    def block_rule(self, context: DecisionContext) -> BlockRule | None:
        """Once something is held it makes no orders."""
        return BlockRule(name=self.name, trades=False) if context.account.positions else None

    def decide(self, context: DecisionContext) -> list[Order]:
        """Orders for an account that holds nothing."""
        if context.account.positions:
            return []
        opens = {symbol: quote.open for symbol, quote in quotes_at(context.view).items() if quote.open > 0}
        ticket = (context.account.cash / max(1, len(opens))).quantize(CENT, rounding=ROUND_DOWN)
        buys = [
            (symbol, quantity)
            for symbol, price in sorted(opens.items())
            for quantity in split_buys(symbol, to_decimal(price), ticket, context.rules, context.session)
        ]
        return [
            Order(symbol=symbol, side="buy", quantity=quantity, sequence=sequence, reason="buy and hold")
            for sequence, (symbol, quantity) in enumerate(buys, start=1)
        ]


def equal_weight_buy_and_hold(
    market: Market, sessions: Iterable[pd.Timestamp], *, cash: Decimal | float | str
) -> pd.Series[float]:
    """Equal cash into every symbol that trades at the first open at which any does, held to the end."""
    return buy_and_hold_values(market, sessions, cash=cash)[0]


def buy_and_hold_values(
    market: Market, sessions: Iterable[pd.Timestamp], *, cash: Decimal | float | str
) -> tuple[pd.Series[float], int]:
    """The values of :func:`equal_weight_buy_and_hold`, and the number of symbols it could buy."""
    start = Account.opening(cash)
    values: list[tuple[pd.Timestamp, Decimal]] = []
    bought: set[str] = set()
    for done in advance(market, list(sessions), BuyAndHold(), account=start):
        if isinstance(done, Block):
            values += zip(done.sessions, done.values, strict=True)
        else:
            values.append((done.session, done.value))
            bought |= {fill.order.symbol for fill in done.fills}
    if not values:
        raise BadWindow("a benchmark needs at least one session", parameter="sessions")
    return value_series(start.cash, values), len(bought)


def index_buy_and_hold(
    levels: pd.DataFrame,
    sessions: Iterable[pd.Timestamp],
    *,
    cash: Decimal | float | str,
    at: MarkAt = "close",
) -> pd.Series[float]:
    """A price index bought at the first session's open level, without costs or dividends."""
    index = pd.DatetimeIndex(list(sessions))
    if not len(index):
        raise BadWindow("a benchmark needs at least one session", parameter="sessions")
    marks = levels[at].reindex(index).ffill()
    base = levels["open"].reindex(index[:1]).iloc[0]
    if not base > 0 or marks.isna().any():
        raise NoData(f"the index has no level on {index[0]:%Y-%m-%d}")
    start, growth = to_decimal(cash), (marks / base).tolist()
    return value_series(start, [(day, start * to_decimal(x)) for day, x in zip(index, growth, strict=True)])
