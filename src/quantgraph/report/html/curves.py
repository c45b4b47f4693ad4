"""The arithmetic of a page's pictures: drawdowns, months, rolling ratios, fewer points for a curve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

ROLLING = 63
"""Sessions of a rolling ratio: a quarter."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Episode:
    """A fall of a value from a peak and its way back.

    Attributes
    ----------
    depth
        The largest fall as a fraction of the peak, negative.
    recovery
        The first session at or above the peak again, None if there is none.
    """

    peak: pd.Timestamp
    trough: pd.Timestamp
    recovery: pd.Timestamp | None
    depth: float


def drawdown(values: pd.Series[float]) -> pd.Series[float]:
    """Value over the highest so far, less 1."""
    return values / values.cummax() - 1


def deepest_drawdowns(values: pd.Series[float], count: int = 5) -> list[Episode]:
    """The deepest falls that do not overlap, the deepest first."""
    array = values.to_numpy(dtype=np.float64)
    highest = np.maximum.accumulate(array)
    below = np.concatenate([[False], array < highest, [False]])
    edges = np.flatnonzero(below[1:] != below[:-1])
    episodes = []
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        trough = first + int(np.argmin(array[first:end] / highest[first:end]))
        episodes.append(
            Episode(
                peak=values.index[first - 1],
                trough=values.index[trough],
                recovery=values.index[end] if end < len(array) else None,
                depth=float(array[trough] / highest[trough] - 1),
            )
        )
    return sorted(episodes, key=lambda episode: episode.depth)[:count]


def _by_period(values: pd.Series[float], frequency: str) -> pd.Series[float]:
    """Return of each calendar period: its last value over the last one before it."""
    last = values.groupby(pd.DatetimeIndex(values.index).to_period(frequency)).last()
    begun = pd.concat([values.iloc[:1], last]).to_numpy(dtype=np.float64)
    return pd.Series(begun[1:] / begun[:-1] - 1, index=last.index)


def monthly_returns(values: pd.Series[float]) -> pd.DataFrame:
    """Returns by year (rows, ascending) and month (columns 1 to 12); NaN for months without a session.

    Parameters
    ----------
    values
        By session; the first one is the initial cash, which belongs to the first month.
    """
    months = _by_period(_from_first_session(values), "M")
    periods = pd.PeriodIndex(months.index)
    table = pd.DataFrame({"year": periods.year, "month": periods.month, "return": months.to_numpy()})
    return table.pivot_table(index="year", columns="month", values="return").reindex(columns=range(1, 13))


def yearly_returns(values: pd.Series[float]) -> pd.Series[float]:
    """Returns by calendar year, ascending."""
    years = _by_period(_from_first_session(values), "Y")
    return pd.Series(years.to_numpy(), index=pd.PeriodIndex(years.index).year)


def _from_first_session(values: pd.Series[float]) -> pd.Series[float]:
    """The initial cash stands on the day before the first session, perhaps in the month before: move it."""
    index = values.index.to_series()
    index.iloc[0] = index.iloc[min(1, len(index) - 1)]
    return pd.Series(values.to_numpy(), index=pd.DatetimeIndex(index))


def rolling_ratios(
    values: pd.Series[float], benchmark: pd.Series[float] | None, *, periods_per_year: int
) -> dict[str, pd.Series[float]]:
    """Sharpe ratio, volatility and beta of the last :data:`ROLLING` returns; NaN before there are so many.

    Of a year as the numbers of the summary: mean over standard deviation (ddof 1) times its root; beta is the
    covariance with the benchmark's returns over their variance.
    """
    returns = values.pct_change(fill_method=None)
    window = returns.rolling(ROLLING)
    spread, root = window.std(), periods_per_year**0.5
    found = {"sharpe": window.mean() / spread.where(spread > 0) * root, "volatility": spread * root}
    if benchmark is not None:
        theirs = benchmark.pct_change(fill_method=None)
        variance = theirs.rolling(ROLLING).var()
        found["beta"] = window.cov(theirs) / variance.where(variance > 0)
    return found


def largest_triangles(y: Floats, count: int) -> NDArray[np.int64]:
    """Places of ``count`` points that keep a curve's shape; all of them if there are no more.

    The first and the last one stay; of each block of equal length the point that makes the largest triangle
    with the point kept before it and the mean of the block behind. (Sveinn Steinarsson, Downsampling Time
    Series for Visual Representation, 2013: Largest-Triangle-Three-Buckets.)

    Parameters
    ----------
    y
        (n,) at equal distances; NaN counts as 0.
    count
        At least 3.
    """
    if len(y) <= count:
        return np.arange(len(y))
    heights = np.nan_to_num(y)
    edges = np.linspace(1, len(y) - 1, count - 1).astype(np.int64)
    kept = [0]
    for (first, end), mean_x, mean_y in zip(pairwise(edges), *_behind(heights, edges), strict=True):
        x = np.arange(first, end)
        before = kept[-1]
        area = np.abs(
            (before - mean_x) * (heights[first:end] - heights[before])
            - (before - x) * (mean_y - heights[before])
        )
        kept.append(first + int(np.argmax(area)))
    return np.array([*kept, len(y) - 1])


def _behind(heights: Floats, edges: NDArray[np.int64]) -> Iterator[list[float]]:
    """Mean place and mean height of the block behind each block; behind the last one is the last point."""
    blocks = [*pairwise(edges[1:]), (len(heights) - 1, len(heights))]
    yield [(first + end - 1) / 2 for first, end in blocks]
    yield [float(heights[first:end].mean()) for first, end in blocks]
