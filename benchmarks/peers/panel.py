"""A synthetic panel like the mainland's main board, and the 5/20 crossover signal on it.

The same size and seed make the same panel with the same numpy: prices are whole cents all the way, divided by
100 once. A market factor, Student-t returns, overnight gaps, and jumps that open at the price limit, so that
every part of the rule has work to do. No corporate actions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd

from quantgraph.market import sessions

FAST, SLOW = 5, 20
PRICES = ("open", "close", "pre_close", "up_limit", "down_limit")


@dataclass(frozen=True, kw_only=True)
class Size:
    """Symbols, sessions, and the first session; each window crosses a change of the dated fees."""

    symbols: int
    sessions: int
    start: str


SIZES = {
    "s": Size(symbols=50, sessions=500, start="2022-01-04"),
    "m": Size(symbols=300, sessions=1250, start="2019-01-02"),
    "l": Size(symbols=5000, sessions=2500, start="2015-08-03"),
    "xl": Size(symbols=5000, sessions=5000, start="2005-01-04"),
}


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Prices in CNY, float64 of shape (sessions, symbols), C order; all five NaN where there is no bar.

    ``signal`` is int8: 1, -1, 0. ``symbols`` are valid codes in ascending order.
    """

    days: np.ndarray
    symbols: np.ndarray
    open: np.ndarray
    close: np.ndarray
    pre_close: np.ndarray
    up_limit: np.ndarray
    down_limit: np.ndarray
    signal: np.ndarray

    @property
    def index(self) -> pd.DatetimeIndex:
        """The sessions, as pandas wants them."""
        return pd.DatetimeIndex(self.days, name="trade_date")

    def frame(self, values: np.ndarray) -> pd.DataFrame:
        """Return an array of the panel's shape as a frame, not copied."""
        return pd.DataFrame(values, index=self.index, columns=self.symbols, copy=False)

    def save(self, folder: Path) -> None:
        """Write one file per array."""
        for field in fields(self):
            np.save(folder / f"{field.name}.npy", getattr(self, field.name))

    @classmethod
    def load(cls, folder: Path) -> Panel:
        """Read what :meth:`save` wrote."""
        return cls(**{field.name: np.load(folder / f"{field.name}.npy") for field in fields(cls)})


def make_panel(size: Size, *, gappy: bool = False, seed: int = 7) -> Panel:
    """Make the panel of a size; ``gappy``: a tenth is listed late, and 1 % of the bars are missing."""
    rng = np.random.default_rng(seed)
    shape = size.sessions, size.symbols
    traded = _traded(rng, shape) if gappy else np.ones(shape, dtype=bool)
    cents = {name: np.empty(shape, dtype=np.int32) for name in PRICES}
    factor = rng.standard_t(4, shape[0]) * 0.007
    beta = rng.uniform(0.6, 1.4, shape[1])
    last = np.rint(np.exp(rng.uniform(np.log(400), np.log(8000), shape[1]))).astype(np.int64)
    for t in range(shape[0]):
        gap = beta * factor[t] * 0.4 + rng.standard_t(4, shape[1]) * 0.006
        gap += np.where(rng.random(shape[1]) < 0.002, rng.choice([-0.2, 0.2], shape[1]), 0)
        way = beta * factor[t] * 0.6 + rng.standard_t(4, shape[1]) * 0.012
        up, down = (last * 110 + 50) // 100, (last * 90 + 50) // 100
        opened = _cents(last * np.exp(gap), down, up)
        closed = _cents(opened * np.exp(way), down, up)
        for name, row in zip(cents, (opened, closed, last, up, down), strict=True):
            cents[name][t] = row
        last = np.where(traded[t], closed, last)
    signal = crossover(cents["close"], traded)
    prices = {name: np.where(traded, values / 100, np.nan) for name, values in cents.items()}
    days = sessions(size.start, "2025-12-31")[: size.sessions].to_numpy()
    return Panel(days=days, symbols=_codes(size.symbols), signal=signal, **prices)


def crossover(close: np.ndarray, traded: np.ndarray) -> np.ndarray:
    """Signal of the 5 and the 20 session mean of closes in cents: 1 at the cross above, -1 below, else 0.

    The means are compared as ``4 * sum5`` and ``sum20``, whole numbers: a tie is neither above nor below, and
    no rounding makes one. A missing bar keeps the last close; both means need 20 closes since the listing.
    """
    signal = np.zeros(close.shape, dtype=np.int8)
    held = np.zeros((SLOW, close.shape[1]), dtype=np.int64)
    ages = np.zeros(close.shape[1], dtype=np.int64)
    above = below = np.zeros(close.shape[1], dtype=bool)
    ready = above
    for t in range(len(close)):
        held[t % SLOW] = np.where(traded[t], close[t], held[(t - 1) % SLOW])
        ages += (ages > 0) | traded[t]
        fast = sum(held[(t - back) % SLOW] for back in range(FAST))
        difference = fast * (SLOW // FAST) - held.sum(axis=0)
        crossed_up, crossed_down = (difference > 0) & ~above, (difference < 0) & ~below
        signal[t] = np.where(ready, crossed_up.astype(np.int8) - crossed_down, 0)
        above, below, ready = difference > 0, difference < 0, ages >= SLOW
    return signal


def _traded(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    traded = rng.random(shape) >= 0.01
    late = np.where(rng.random(shape[1]) < 0.1, rng.integers(1, shape[0] * 6 // 10, shape[1]), 0)
    return traded & (np.arange(shape[0])[:, None] >= late)


def _cents(price: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Whole cents inside the limits, and not below one yuan."""
    return np.clip(np.rint(price).astype(np.int64), np.maximum(low, 100), high)


def _codes(count: int) -> np.ndarray:
    """Codes of the main board, Shenzhen's before Shanghai's."""
    shanghai = [f"{prefix}{number:03d}.SH" for prefix in (600, 601, 603, 605) for number in range(1000)]
    shenzhen = [f"{number:06d}.SZ" for number in range(1, 4000)]
    half = count // 2
    return np.array(shenzhen[:half] + shanghai[: count - half])
