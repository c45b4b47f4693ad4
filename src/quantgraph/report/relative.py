"""Metrics of a run and its benchmark: two series of simple returns over the same sessions.

Both series need equal indexes and no NaN; BadOption names the first label that differs. The result is NaN if
a divisor does not vary, and with too few returns. Rates are yearly.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.report._series import deviation, mean_over, per_year, require_index, returns_array, varies


def tracking_error(
    returns: pd.Series[float], benchmark: pd.Series[float], *, periods_per_year: int = 252, ddof: int = 1
) -> float:
    """``std(r - b, ddof) * sqrt(periods_per_year)``; NaN with at most ``ddof`` returns."""
    ours, theirs = _pair(returns, benchmark)
    return deviation(ours - theirs, ddof) * math.sqrt(per_year(periods_per_year))


def information_ratio(
    returns: pd.Series[float], benchmark: pd.Series[float], *, periods_per_year: int = 252, ddof: int = 1
) -> float:
    """``mean(r - b) / std(r - b, ddof) * sqrt(periods_per_year)``.

    Goodwin, "The Information Ratio", Financial Analysts Journal 54(4), 1998, with the difference of
    returns as the excess. NaN if the difference does not vary.
    """
    ours, theirs = _pair(returns, benchmark)
    active = ours - theirs
    return mean_over(active, deviation(active, ddof)) * math.sqrt(per_year(periods_per_year))


def beta(returns: pd.Series[float], benchmark: pd.Series[float]) -> float:
    """``cov(r, b) / var(b)``, the slope of the regression on the benchmark.

    Sharpe, "Capital Asset Prices", Journal of Finance 19(3), 1964. A constant risk-free rate changes
    nothing. NaN if the benchmark does not vary.
    """
    return _slope(*_pair(returns, benchmark))


def alpha(
    returns: pd.Series[float],
    benchmark: pd.Series[float],
    *,
    periods_per_year: int = 252,
    risk_free: float = 0.0,
) -> float:
    """``(mean(r - f) - beta * mean(b - f)) * periods_per_year`` with ``f = risk_free / periods_per_year``.

    Jensen, "The Performance of Mutual Funds in the Period 1945-1964", Journal of Finance 23(2), 1968: the
    intercept of the CAPM regression, times the sessions of a year. NaN where :func:`beta` is.
    """
    ours, theirs, periods = *_pair(returns, benchmark), per_year(periods_per_year)
    rate, slope = risk_free / periods, _slope(ours, theirs)
    if math.isnan(slope):
        return math.nan
    return float((ours - rate).mean() - slope * (theirs - rate).mean()) * periods


def correlation(returns: pd.Series[float], benchmark: pd.Series[float]) -> float:
    """``cov(r, b) / (std(r) * std(b))`` (Pearson); NaN if one of the two does not vary."""
    ours, theirs = _pair(returns, benchmark)
    if not varies(ours):
        return math.nan
    return _slope(ours, theirs) * deviation(theirs, 0) / deviation(ours, 0)


def _pair(
    returns: pd.Series[float], benchmark: pd.Series[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ours, theirs = returns_array(returns), returns_array(benchmark, name="benchmark")
    require_index(benchmark, returns.index, name="benchmark", owner="returns")
    return ours, theirs


def _slope(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    if not varies(theirs):
        return math.nan
    centred = theirs - theirs.mean()
    # Not by BLAS, whose last bits depend on the processor: a replay on another one must give the same.
    return math.fsum((ours - ours.mean()) * centred) / math.fsum(centred * centred)
