"""Values by month and year, the drawdowns below their peaks, and the tail of their returns.

Values begin with the initial cash. Months and years are the calendar's.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from quantgraph.report.metrics._metrics import (
    Drawdown,
    max_drawdown,
    returns_array,
    total_return,
    values_array,
)


def deepest_drawdowns(values: pd.Series[float], count: int = 5) -> list[Drawdown]:
    """The deepest falls that do not overlap, the deepest first."""
    array = values.to_numpy(dtype=np.float64)
    highest = np.maximum.accumulate(array)
    below = np.concatenate([[False], array < highest, [False]])
    edges = np.flatnonzero(below[1:] != below[:-1])
    episodes = []
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        trough = first + int(np.argmin(array[first:end] / highest[first:end]))
        episodes.append(
            Drawdown(
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
    """Returns by year (rows, ascending) and month (columns 1 to 12); NaN for months without a session."""
    months = months_of(values)
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


def time_under_water(values: pd.Series[float]) -> int:
    """The most sessions from a peak until its value is reached again, or until the last session."""
    array = values_array(values)
    peaks = np.flatnonzero(array >= np.maximum.accumulate(array))
    return int(np.diff([*peaks, len(array) - 1]).max(initial=0)) if len(peaks) < len(array) else 0


def recovery_factor(values: pd.Series[float]) -> float:
    """``total_return / -max_drawdown``; NaN if the values never fell."""
    fall = max_drawdown(values).depth
    return total_return(values) / -fall if fall else math.nan


def months_of(values: pd.Series[float]) -> pd.Series[float]:
    """Returns of the calendar months that have a session, ascending."""
    return _by_period(_from_first_session(values), "M")


def value_at_risk(returns: pd.Series[float], *, level: float = 0.05) -> float:
    """The ``level`` quantile of the returns, linear between two of them; NaN without a return.

    What is below it happened in that share of the sessions (historical simulation; J.P. Morgan, RiskMetrics
    Technical Document, 1996).
    """
    array = returns_array(returns)
    return float(np.quantile(array, level)) if len(array) else math.nan


def expected_shortfall(returns: pd.Series[float], *, level: float = 0.05) -> float:
    """The mean of the returns at or below :func:`value_at_risk`; NaN without a return.

    Acerbi and Tasche, "On the coherence of expected shortfall", Journal of Banking & Finance, 2002.
    """
    array = returns_array(returns)
    if not len(array):
        return math.nan
    return float(array[array <= np.quantile(array, level)].mean())
