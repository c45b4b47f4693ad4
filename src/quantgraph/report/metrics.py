"""Metrics of one value per session, beginning with the initial cash.

Values are positive, in CNY, without NaN, in ascending order of their index. Returns are simple and
per session: one fewer than values. Each function names its formula; nothing is rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.errors import BadOption

__all__ = [
    "Drawdown",
    "annual_return",
    "max_drawdown",
    "session_returns",
    "sharpe_ratio",
    "total_return",
    "volatility",
]

_ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""A deviation of returns below this is what division leaves of equal returns."""


@dataclass(frozen=True, kw_only=True)
class Drawdown:
    """The deepest fall from a peak.

    Attributes
    ----------
    depth
        ``value / running peak - 1`` at the trough: 0 or negative.
    peak, trough
        When it began and when it was deepest, the earliest where several are equal; None when the
        values never fell.
    """

    depth: float
    peak: pd.Timestamp | None
    trough: pd.Timestamp | None


def session_returns(values: pd.Series[float]) -> pd.Series[float]:
    """Compute simple returns ``V[i] / V[i-1] - 1``, labelled by the later session."""
    array = _values(values)
    return pd.Series(array[1:] / array[:-1] - 1, index=values.index[1:], name="return")


def total_return(values: pd.Series[float]) -> float:
    """``V[-1] / V[0] - 1``.

    >>> round(total_return(pd.Series([100.0, 110.0, 121.0])), 12)
    0.21
    """
    array = _values(values)
    return float(array[-1] / array[0] - 1)


def annual_return(values: pd.Series[float], *, periods_per_year: int = 252) -> float:
    """``(V[-1] / V[0]) ** (periods_per_year / n) - 1`` over ``n`` sessions; NaN without a session."""
    array = _values(values)
    sessions = len(array) - 1
    return float((array[-1] / array[0]) ** (periods_per_year / sessions) - 1) if sessions else math.nan


def volatility(returns: pd.Series[float], *, periods_per_year: int = 252, ddof: int = 1) -> float:
    """``std(returns, ddof) * sqrt(periods_per_year)``; NaN with no more than ``ddof`` returns."""
    return _deviation(_returns(returns), ddof) * math.sqrt(periods_per_year)


def sharpe_ratio(
    returns: pd.Series[float], *, periods_per_year: int = 252, ddof: int = 1, risk_free: float = 0.0
) -> float:
    """``mean(r - f) / std(r - f, ddof) * sqrt(periods_per_year)`` with ``f = risk_free / periods_per_year``.

    Sharpe, "The Sharpe Ratio", Journal of Portfolio Management, 1994. ``risk_free`` is a yearly rate.
    NaN when the returns do not vary, and with no more than ``ddof`` of them.

    >>> sharpe_ratio(pd.Series([0.0, 0.0, 0.0]))
    nan
    """
    excess = _returns(returns) - risk_free / periods_per_year
    deviation = _deviation(excess, ddof)
    if math.isnan(deviation) or deviation <= _ROUNDING:
        return math.nan
    return float(excess.mean()) / deviation * math.sqrt(periods_per_year)


def max_drawdown(values: pd.Series[float]) -> Drawdown:
    """Find the smallest ``V[i] / max(V[:i+1]) - 1``, with its dates.

    >>> max_drawdown(pd.Series([100.0, 120.0, 90.0, 130.0])).depth
    -0.25
    """
    array = _values(values)
    falls = array / np.maximum.accumulate(array) - 1
    trough = int(np.argmin(falls))
    if falls[trough] == 0:
        return Drawdown(depth=0.0, peak=None, trough=None)
    peak = int(np.argmax(array[: trough + 1]))
    return Drawdown(depth=float(falls[trough]), peak=values.index[peak], trough=values.index[trough])


def _values(values: pd.Series[float]) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if not array.size or not (np.isfinite(array) & (array > 0)).all():
        raise BadOption("values must be positive numbers, at least one, without NaN", parameter="values")
    return array


def _returns(returns: pd.Series[float]) -> NDArray[np.float64]:
    array = np.asarray(returns, dtype=np.float64)
    if not np.isfinite(array).all():
        raise BadOption("returns must be finite numbers, without NaN", parameter="returns")
    return array


def _deviation(returns: NDArray[np.float64], ddof: int) -> float:
    return float(returns.std(ddof=ddof)) if len(returns) > ddof else math.nan
