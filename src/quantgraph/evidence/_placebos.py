"""Accounts of rules that know nothing, traded as the run was, and where it stands among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, Decider, DecisionContext, Market, Order, RunContext, TradePlan
from quantgraph.broker.accounts import Block, quotes_at
from quantgraph.broker.session import advance, largest_buy
from quantgraph.market import Moment, sessions_in_a_year
from quantgraph.market.money import to_decimal
from quantgraph.state import DataState

_BLOCK = 20
"""Sessions of a block that stays together when blocks are shuffled."""
Kind = Literal["rotated", "shuffled", "permuted", "random"]
Array = NDArray[np.float64]
Made = Mapping[str, pd.DataFrame]
"""By panel the frame of a strategy: ``signal``, or ``weights``."""


@dataclass(frozen=True, kw_only=True)
class Placebos:
    """Yearly mean returns of accounts without knowledge, and where the run stands among them.

    ``rank`` is 1 where none is better; ``p`` is (1 + placebos at least as good) / (1 + placebos): of a rule
    without skill, with a signal of its own for each symbol, it is at most x in a part x of
    cases. ``returns`` are by kind: ``rotated``, the same entries
    and exits at other sessions; ``shuffled``, blocks of twenty sessions in another order; ``permuted``, the
    same plan on other symbols; ``random``, a decider with the run's number of fills each session.
    """

    own: float
    rank: int
    p: float
    returns: Mapping[str, tuple[float, ...]]

    @classmethod
    def of(cls, own: float, found: Mapping[str, Sequence[float]]) -> Placebos:
        """The standing of a run among placebos."""
        all_of_them = [each for returns in found.values() for each in returns]
        better = sum(each >= own for each in all_of_them)
        kept = {kind: tuple(returns) for kind, returns in found.items()}
        return cls(own=own, rank=1 + better, p=(1 + better) / (1 + len(all_of_them)), returns=kept)


def of_signal(
    market: Market,
    days: pd.DatetimeIndex,
    made: Made,
    *,
    name: str,
    plan: TradePlan,
    cash: Decimal,
    count: int,
    seed: int,
) -> Placebos:
    """Placebos of a signal that the signal rule trades, a third of each kind."""
    random, decider, market_with = np.random.default_rng(seed), SignalRule(signal=name), _markets(market)
    kinds = _KINDS if next(iter(made.values())).shape[1] > 1 else _KINDS[:2]
    found: dict[str, list[float]] = {kind: [] for kind, _ in kinds}

    def traded(frames: Made) -> float:
        own = market_with({panel: {name: frame} for panel, frame in frames.items()})
        return yearly_mean(own, days, decider, plan, cash)

    for place in range(count):
        kind, change = kinds[place % len(kinds)]
        found[kind].append(traded(change(made, days, random)))
    return Placebos.of(traded(made), found)


def of_decider(
    market: Market, days: pd.DatetimeIndex, fills: pd.DataFrame, values: Array, *, count: int, seed: int
) -> Placebos:
    """Placebos of a decider without a signal: random symbols, as many fills, its mean purchase."""
    bought = fills[fills["side"] == "buy"]
    amount = float((bought["quantity"] * bought["price"]).mean()) if len(bought) else 0.0
    traded = pd.crosstab(fills["trade_date"], fills["side"]).reindex(columns=["buy", "sell"], fill_value=0)
    counts = {day: (int(buys), int(sells)) for day, buys, sells in traded.itertuples()}
    cash = to_decimal(float(values[0]))
    found = [
        yearly_mean(market, days, RandomDecider(counts, amount, seed + place), TradePlan(), cash)
        for place in range(count)
    ]
    return Placebos.of(_yearly(values, days), {"random": found})


class RandomDecider(Decider):
    """Buys random symbols and sells random holdings, as many each session as a run did."""

    name = "random"
    uses_signal = False

    def __init__(self, counts: Mapping[Any, tuple[int, int]], amount: float, seed: int) -> None:
        self._counts, self._amount, self._random = counts, amount, np.random.default_rng(seed)

    def decide(self, context: DecisionContext) -> list[Order]:
        """Sales of whole holdings first; purchases of the mean amount, as far as the cash goes."""
        buys, sells = self._counts.get(context.session, (0, 0))
        quotes = {symbol: quote for symbol, quote in quotes_at(context.view).items() if quote.open > 0}
        held = [symbol for symbol in sorted(context.account.positions) if symbol in quotes]
        others = [symbol for symbol in sorted(quotes) if symbol not in held]
        orders: list[Order] = []
        for symbol in self._some(held, sells):
            quantity = context.account.positions[symbol].quantity
            orders.append(Order(symbol=symbol, side="sell", quantity=quantity, sequence=len(orders) + 1))
        for symbol in self._some(others, buys):
            price, cash = to_decimal(quotes[symbol].open), to_decimal(self._amount)
            if quantity := largest_buy(symbol, price, cash, context.rules, context.session):
                orders.append(Order(symbol=symbol, side="buy", quantity=quantity, sequence=len(orders) + 1))
        return orders

    def _some(self, symbols: Sequence[str], count: int) -> list[str]:
        chosen = self._random.permutation(len(symbols))[:count]
        return [symbols[place] for place in chosen]


def yearly_mean(
    market: Market, days: pd.DatetimeIndex, decider: Decider, plan: TradePlan, cash: Decimal
) -> float:
    """The mean of an account's returns times the sessions of a year."""
    run, values = RunContext(plan=plan, start=days[0]), [float(cash)]
    for done in advance(market, list(days), decider, account=Account.opening(cash), run=run):
        values += map(float, done.values if isinstance(done, Block) else (done.value,))
    return _yearly(np.array(values), days)


def _yearly(values: Array, days: pd.DatetimeIndex) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        returns = values[1:] / values[:-1] - 1
    return float(np.nan_to_num(returns, posinf=0.0, neginf=0.0).mean()) * sessions_in_a_year(days)


def _markets(market: Market) -> Callable[[Mapping[str, Mapping[str, pd.DataFrame]]], Market]:
    """Makes the market with other frames of a strategy, in a store that ends with it."""
    last = market.store.snapshot(market.data_ref)["ohlcv"]["close"].index[-1]
    whole = market.store.view(Moment(last, "post_close"), market.data_ref)
    frames, records = whole.frozen(), whole.all_records()

    def made(named: Mapping[str, Mapping[str, pd.DataFrame]]) -> Market:
        store = DataState()
        ref = store.record(records, base=store.adopt(frames))
        for panel, strategy in named.items():
            ref = store.update(panel, strategy, base=ref)
        return replace(market, store=store, data_ref=ref)

    return made


Change = Callable[[Made, pd.DatetimeIndex, np.random.Generator], dict[str, pd.DataFrame]]


def _rotated(made: Made, days: pd.DatetimeIndex, random: np.random.Generator) -> dict[str, pd.DataFrame]:
    """The rows of each symbol begin elsewhere within the window; spacing and holding stay."""
    count = len(days)
    offsets = random.integers(1, max(count, 2), next(iter(made.values())).shape[1])
    rows = (np.arange(count)[:, None] + offsets) % count
    return {
        panel: _replaced(frame, days, lambda inside: np.take_along_axis(inside, rows, axis=0))
        for panel, frame in made.items()
    }


def _shuffled(made: Made, days: pd.DatetimeIndex, random: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Blocks of sessions in another order, of all symbols together."""
    blocks = [np.arange(begin, min(begin + _BLOCK, len(days))) for begin in range(0, len(days), _BLOCK)]
    rows = np.concatenate([blocks[place] for place in random.permutation(len(blocks))])
    return {panel: _replaced(frame, days, lambda inside: inside[rows]) for panel, frame in made.items()}


def _permuted(made: Made, days: pd.DatetimeIndex, random: np.random.Generator) -> dict[str, pd.DataFrame]:
    """The columns of other symbols."""
    columns = random.permutation(next(iter(made.values())).shape[1])
    return {panel: _replaced(frame, days, lambda inside: inside[:, columns]) for panel, frame in made.items()}


_KINDS: Final[tuple[tuple[Kind, Change], ...]] = (
    ("rotated", _rotated),
    ("shuffled", _shuffled),
    ("permuted", _permuted),
)


def _replaced(frame: pd.DataFrame, days: pd.DatetimeIndex, change: Callable[[Array], Array]) -> pd.DataFrame:
    """A frame whose rows of the window are changed."""
    inside = frame.index.isin(days)
    values = frame.to_numpy(np.float64, copy=True)
    values[inside] = change(values[inside])
    return pd.DataFrame(values, frame.index, frame.columns)
