"""Intervals of an account's numbers: the stationary bootstrap, whose blocks keep what follows what.

Politis and Romano (1994); the mean length of a block by Politis and White (2004) with the correction of
Patton, Politis and White (2009); limits by BCa (Efron, 1987). Draws are of a fixed seed: equal returns have
equal intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
"""Of returns in the last axis, a number for each of the others."""
_DRAWS, _SEED, _CONFIDENCE = 1_000, 20_251_128, 0.95
_NORMAL = NormalDist()
_ROUNDING = 1e-30
"""A variance up to this is the rounding of equal returns."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value, its limits, and the standard error of it."""

    value: float
    low: float
    high: float
    error: float


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """How returns are drawn: the mean length of a block, and by how much intervals are too narrow with it.

    Blocks of random length lose a part of what follows what; ``widening`` is the root of the long-run
    variance over the one that the blocks keep, at least 1.
    """

    length: float = 1.0
    widening: float = 1.0


def blocks_of(returns: Array) -> Blocks:
    """The blocks of returns that vary, in one axis."""
    count, centred = len(returns), returns - returns.mean()
    most = math.ceil(min(3 * math.sqrt(count), count / 3))
    few = max(5, int(math.log10(count)))
    lags = min(math.ceil(math.sqrt(count)) + few, count - 2)
    covariances = np.array([centred[lag:] @ centred[: count - lag] for lag in range(lags + 1)]) / count
    if lags <= few or not covariances[0] > _ROUNDING:
        return Blocks()
    small = np.abs(covariances / covariances[0]) < 2 * math.sqrt(math.log10(count) / count)
    quiet = [lag for lag in range(1, lags - few + 2) if small[lag : lag + few].all()]
    width = min(2 * quiet[0], lags) if quiet else lags
    lag = np.arange(1, width + 1)
    flat_top = np.minimum(1.0, 2 * (1 - lag / width)) * covariances[1 : width + 1]
    slope, variance = 2 * float(lag @ flat_top), covariances[0] + 2 * float(flat_top.sum())
    if not variance > 0:
        return Blocks()
    length = min(max((slope**2 / variance**2 * count) ** (1 / 3), 1.0), most)
    kept = covariances[0] + 2 * float((1 - 1 / length) ** lag @ flat_top)
    return Blocks(length=float(length), widening=math.sqrt(max(1.0, variance / kept) if kept > 0 else 1.0))


def places(count: int, blocks: Blocks, draws: int = _DRAWS) -> NDArray[np.int64]:
    """Places of the returns in each draw: draws x count."""
    length, random = blocks.length, np.random.default_rng(_SEED)
    begins = random.random((draws, count)) < 1 / length
    begins[:, 0] = True
    starts = random.integers(count, size=(draws, count))
    at = np.arange(count)
    last = np.maximum.accumulate(np.where(begins, at, 0), axis=1)
    found: NDArray[np.int64] = (np.take_along_axis(starts, last, axis=1) + at - last) % count
    return found


def interval(
    returns: Array, statistic: Statistic, drawn: NDArray[np.int64], widening: float = 1.0
) -> Interval:
    """The BCa interval of 95 % of a statistic of returns, from the places of :func:`places`.

    All is NaN where the statistic is not defined for a draw.
    """
    value, found = float(statistic(returns)), np.sort(statistic(returns[drawn]))
    if not np.isfinite(found).all() or not math.isfinite(value):
        return Interval(value=value, low=math.nan, high=math.nan, error=math.nan)
    draws, error = len(found), float(found.std()) * widening
    below = min(max(float((found < value).mean()), 1 / draws), 1 - 1 / draws)
    bias, pull = _NORMAL.inv_cdf(below), _acceleration(returns, statistic)

    def limit(part: float) -> float:
        z = bias + _NORMAL.inv_cdf(part)
        drawn_to = float(np.quantile(found, _NORMAL.cdf(bias + z / (1 - pull * z))))
        return value + (drawn_to - value) * widening

    tail = (1 - _CONFIDENCE) / 2
    return Interval(value=value, low=limit(tail), high=limit(1 - tail), error=error)


def _acceleration(returns: Array, statistic: Statistic) -> float:
    """From the statistic without each part of the returns in turn, at most fifty."""
    parts = np.array_split(np.arange(len(returns)), min(len(returns), 50))
    left = np.array([float(statistic(np.delete(returns, part))) for part in parts])
    apart = left.mean() - left
    spread = float((apart**2).sum())
    return float((apart**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0
