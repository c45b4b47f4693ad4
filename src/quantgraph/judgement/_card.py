"""What a run's account says about its rule: differences, intervals, what the gain rests on and survives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.broker.accounts import Delisting, Dividend, Event, Split
from quantgraph.broker.ledger import CHARGES, OrderTable
from quantgraph.judgement._bootstrap import Array, Interval, blocks_of, interval, places
from quantgraph.judgement._sharpe import (
    YearSharpe,
    deflated_sharpe,
    power_of,
    probabilistic_sharpe,
    returns_of,
    sessions_needed,
    sharpe_of,
)
from quantgraph.judgement._tries import Tries
from quantgraph.market import session_of

_LEAST_SIDE = 3
"""Sessions on a side of a date from which it is judged."""
DELAYS, COST_MULTIPLES = (1, 2), (2, 5)
_VISIBLE = 1.959964 + 0.841621
"""Standard errors of a difference that a two-sided test at 5 % finds in four of five samples."""
_CHUNK = 500
"""Symbols whose positions are in memory at a time."""


class JudgedRun(Protocol):
    """What the ledger tells of a run; :func:`~quantgraph.report.summarise` reads it."""

    @property
    def values(self) -> pd.Series[float]:
        """One value a session, the initial cash first."""

    @property
    def days(self) -> pd.DataFrame:
        """The sums of each session."""

    @property
    def orders(self) -> OrderTable:
        """All orders and their fills."""

    @property
    def events(self) -> Sequence[Event]:
        """Dividends, splits and delistings."""

    @property
    def bars(self) -> Mapping[str, pd.DataFrame]:
        """The prices, sessions x symbols."""

    @property
    def round_trips(self) -> Mapping[str, Any]:
        """Their number and their profits."""


def card(
    run: JudgedRun, against: pd.Series[float], *, tries: Tries, periods: int, split: str = ""
) -> dict[str, Any]:
    """The numbers of the card as plain JSON, fractions and money; None where one is not defined.

    ``against`` are the values of what the account is compared with, the initial cash first; ``split`` is a
    date whose two sides are compared.
    """
    account = Account(run)
    exposure = float((run.days["stocks"] / run.days["value"]).mean()) if len(run.days) else 0.0
    benchmark = returns_of(np.asarray(against, np.float64))
    held = benchmark * exposure
    excess = account.returns - held
    result = {
        "sessions": len(excess),
        "periods": periods,
        "net": {
            "return": account.total,
            "exposure": exposure,
            "same_exposure": _finite(np.prod(1 + held) - 1),
        },
        "tries": {"counted": tries.counted, "effective": tries.effective},
        "shares": account.shares_of_gain(),
        "delays": {str(late): account.delayed(late) for late in DELAYS},
        "costs": {
            **{str(times): account.at_costs(times) for times in COST_MULTIPLES},
            "break_even": account.break_even,
            "paid": account.paid,
        },
        "split": _sides(run, account.returns, benchmark, split, periods),
        "opened": account.opened,
        "gain": account.gain,
    }
    return result | _inference(account.returns, excess, tries, periods)


def _sides(
    run: JudgedRun, returns: Array, benchmark: Array, split: str, periods: int
) -> dict[str, Any] | None:
    """Both sides of a date, and the gap between their yearly differences with its interval of 95 %."""
    if not split:
        return None
    invested = (run.days["stocks"] / run.days["value"]).to_numpy(np.float64)
    later = np.asarray(run.days.index >= session_of(split))
    if later.sum() < _LEAST_SIDE or (~later).sum() < _LEAST_SIDE:
        return None
    sides, draws, means = {}, [], []
    for name, side in (("before", ~later), ("after", later)):
        held = benchmark[side] * invested[side].mean()
        apart = returns[side] - held
        blocks = blocks_of(apart)
        drawn = apart[places(len(apart), blocks)].mean(axis=1) * periods
        mean = float(apart.mean()) * periods
        means.append(mean)
        draws.append(mean + (drawn - mean) * blocks.widening)
        sides[name] = {
            "sessions": int(side.sum()),
            "return": _finite(np.prod(1 + returns[side]) - 1),
            "same_exposure": _finite(np.prod(1 + held) - 1),
            "difference": mean,
        }
    low, high = np.quantile(draws[1] - np.random.default_rng(0).permutation(draws[0]), (0.025, 0.975))
    return {
        "date": split,
        **sides,
        "gap": {"value": means[1] - means[0], "low": float(low), "high": float(high)},
    }


def _inference(returns: Array, excess: Array, tries: Tries, periods: int) -> dict[str, Any]:
    """The two Sharpe ratios and the difference, each with its interval."""
    own, own_shape = sharpe_of(returns)
    found, shape = sharpe_of(excess)
    nothing = dict.fromkeys(("difference", "sharpe", "excess", "power", "years_needed"))
    if math.isnan(own) or math.isnan(found) or len(returns) < 3:
        return nothing
    spread = tries.spread(periods, len(returns))
    blocks, same = blocks_of(excess), blocks_of(returns)
    difference = interval(excess, _yearly_mean(periods), places(len(excess), blocks), blocks.widening)
    ratio = interval(returns, _yearly_sharpe(periods), places(len(returns), same), same.widening)
    one = YearSharpe(1).per_session(periods)
    needed = sessions_needed(found, confidence=0.975)
    return {
        "difference": {**_limits(difference), "smallest": _finite(_VISIBLE * difference.error)},
        "sharpe": {
            **_limits(ratio),
            "skewness": own_shape.skewness,
            "kurtosis": own_shape.kurtosis,
            "probabilistic": _finite(probabilistic_sharpe(own, own_shape)),
            "deflated": _finite(deflated_sharpe(own, own_shape, tries=tries.counted, spread=spread)),
        },
        "excess": {
            "value": float(found.per_year(periods)),
            "probabilistic": _finite(probabilistic_sharpe(found, shape)),
            "deflated": _finite(deflated_sharpe(found, shape, tries=tries.counted, spread=spread)),
        },
        "power": _finite(power_of(one, shape, confidence=0.975)),
        "years_needed": _finite(needed / periods),
    }


def _yearly_mean(periods: int) -> Callable[[Array], Array]:
    return lambda drawn: np.asarray(drawn.mean(axis=-1) * periods)


def _yearly_sharpe(periods: int) -> Callable[[Array], Array]:
    def ratio(drawn: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(drawn.mean(axis=-1) / drawn.std(axis=-1, ddof=1) * math.sqrt(periods))

    return ratio


def _limits(found: Interval) -> dict[str, float | None]:
    return {"value": _finite(found.value), "low": _finite(found.low), "high": _finite(found.high)}


def _finite(number: float | np.floating[Any]) -> float | None:
    return float(number) if math.isfinite(number) else None


@dataclass(frozen=True, kw_only=True)
class _Moves:
    """The fills by place of their session and symbol."""

    day: NDArray[np.int64]
    symbol: NDArray[np.int64]
    shares: Array
    paid: Array
    """What each cost, or brought as a negative number, charges included."""


class Account:
    """The numbers of the card that need no statistics. ``run`` is read when one is asked for."""

    def __init__(self, run: JudgedRun) -> None:
        self._run = run
        self._values = np.asarray(run.values, np.float64)

    @cached_property
    def returns(self) -> Array:
        """Simple returns of the sessions."""
        return returns_of(self._values)

    @cached_property
    def gain(self) -> float:
        """The last value less the initial cash."""
        return float(self._values[-1] - self._values[0])

    @cached_property
    def total(self) -> float:
        """The return of the whole run."""
        return self.gain / float(self._values[0])

    @cached_property
    def _moves(self) -> _Moves:
        orders = self._run.orders
        place = {f"{day:%Y-%m-%d}": at for at, day in enumerate(self._run.days.index)}
        day = np.array([place[each] for each in orders.days], np.int64)[orders.day]
        shares, scale = orders.shares, 10**orders.digits
        costs = np.array(orders.cost, np.float64) / scale
        paid = shares * (np.array(orders.price, np.float64) / scale) + costs
        return _Moves(day=day, symbol=orders.symbol, shares=shares, paid=paid)

    @cached_property
    def opened(self) -> int:
        """Positions that were begun from nothing."""
        held, count = dict[int, float](), 0
        for symbol, shares in zip(self._moves.symbol.tolist(), self._moves.shares.tolist(), strict=True):
            count += shares > 0 and held.get(symbol, 0.0) < 1e-6
            held[symbol] = held.get(symbol, 0.0) + shares
        return count

    def shares_of_gain(self) -> dict[str, float | None]:
        """Part of the gain that the best trade, five trades, symbol, month, year have; None without one."""
        profits = sorted(self._run.round_trips["profits"], reverse=True)
        change = pd.Series(np.diff(self._values), self._run.days.index)
        index = pd.DatetimeIndex(change.index)
        parts = {
            "trade": math.fsum(profits[:1]),
            "five_trades": math.fsum(profits[:5]),
            "symbol": max(self._by_symbol(), default=0.0),
            "month": max(change.groupby([index.year, index.month]).sum(), default=0.0),
            "year": max(change.groupby(index.year).sum(), default=0.0),
        }
        return {name: part / self.gain if self.gain > 0 else None for name, part in parts.items()}

    def _by_symbol(self) -> list[float]:
        """The profit of each symbol, what is still held at its last close."""
        symbols = self._run.orders.symbols
        profits = -np.bincount(self._moves.symbol, self._moves.paid, len(symbols))
        for begin in range(0, len(symbols), _CHUNK):
            part = slice(begin, begin + _CHUNK)
            last = self._closes(symbols[part])[-1:]
            profits[part] += (self._positions(part)[-1:] * np.nan_to_num(last)).sum(axis=0)
        at = {symbol: place for place, symbol in enumerate(symbols)}
        for event in self._run.events:
            if isinstance(event, Dividend | Delisting):
                profits[at[event.symbol]] += float(event.amount)
        return list(map(float, profits))

    def _positions(self, part: slice) -> Array:
        """Shares at the end of each session, sessions x symbols of the part."""
        count, symbols = len(self._run.days), self._run.orders.symbols[part]
        found = np.zeros((count, len(symbols)))
        inside = (self._moves.symbol >= part.start) & (self._moves.symbol < part.start + len(symbols))
        where = (self._moves.day[inside], self._moves.symbol[inside] - part.start)
        np.add.at(found, where, self._moves.shares[inside])
        place = {symbol: at for at, symbol in enumerate(symbols)}
        index = self._run.days.index
        for event in self._run.events:
            if event.symbol in place and isinstance(event, Split | Delisting):
                more = (event.after - event.before) if isinstance(event, Split) else -event.quantity
                found[index.searchsorted(event.session), place[event.symbol]] += float(more)
        return found.cumsum(axis=0)

    def _closes(self, symbols: Sequence[str]) -> Array:
        """Closes of the run's sessions, the last known ones where a symbol does not trade."""
        close = self._run.bars["close"].loc[: self._run.days.index[-1], list(symbols)].ffill()
        return close.reindex(self._run.days.index).to_numpy(np.float64)

    @cached_property
    def _later(self) -> dict[int, Array]:
        """Returns from open to open of the positions of so many sessions before."""
        count, symbols = len(self._run.days), self._run.orders.symbols
        found = {late: np.zeros(count) for late in (0, *DELAYS)}
        for begin in range(0, len(symbols), _CHUNK):
            part = slice(begin, begin + _CHUNK)
            opens, moved = self._open_to_open(list(symbols[part]))
            with np.errstate(divide="ignore", invalid="ignore"):
                weights = self._positions(part) * opens / self._values[:-1, None]
            weights = np.nan_to_num(weights, posinf=0.0, neginf=0.0)
            for late, sums in found.items():
                sums[late:] += (weights[: count - late] * moved[late:]).sum(axis=1)
        return found

    def _open_to_open(self, symbols: list[str]) -> tuple[Array, Array]:
        """Opens, and returns from each to the next session's, without the jump of a split or dividend."""
        rows = self._run.days.index
        bars = {name: self._run.bars[name].reindex(index=rows, columns=symbols) for name in ("open", "close")}
        before = self._run.bars.get("pre_close", bars["close"].shift()).reindex(index=rows, columns=symbols)
        inside = (bars["close"] / bars["open"]).to_numpy(np.float64)
        over = (bars["open"] / before).shift(-1).to_numpy(np.float64)
        found = np.nan_to_num(inside, nan=1.0) * np.nan_to_num(over, nan=1.0) - 1
        opens = bars["open"].fillna(bars["close"].ffill()).to_numpy(np.float64)
        return opens, np.where(np.isfinite(found), found, 0.0)

    def delayed(self, late: int) -> float | None:
        """The return if each position had been taken and left so many sessions later."""
        return self._compound(self.returns + self._later[late] - self._later[0])

    def at_costs(self, times: int) -> float | None:
        """The return of the same fills at so many times the costs."""
        before = np.where(self._values[:-1] > 0, self._values[:-1], np.inf)
        return self._compound(self.returns - (times - 1) * self._costs / before)

    @cached_property
    def _costs(self) -> Array:
        return self._run.days[list(CHARGES)].sum(axis=1).to_numpy(np.float64)

    def _per_traded(self, money: float) -> float | None:
        traded = float(self._run.days["traded"].sum())
        return money / traded if traded > 0 else None

    @property
    def break_even(self) -> float | None:
        """The costs at which nothing would be left, as a fraction of what was traded."""
        return self._per_traded(self.gain + float(self._costs.sum()))

    @property
    def paid(self) -> float | None:
        """The costs, as a fraction of what was traded."""
        return self._per_traded(float(self._costs.sum()))

    @staticmethod
    def _compound(returns: Array) -> float | None:
        return _finite(np.prod(1 + np.maximum(returns, -1.0)) - 1)
