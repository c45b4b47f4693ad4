"""Four deviations that go by the name of downside deviation, and the Sortino ratio over each.

They differ by tens of percent on the same returns, so a Sortino ratio means nothing without the name of
its deviation. With ``s = min(r - t, 0)`` for the ``n`` returns and the ``m`` of them below ``t``:

============== =============================== =====================================================
``rms_all``    ``sqrt(sum(s ** 2) / n)``       Sortino and van der Meer, "Downside Risk", Journal of
                                               Portfolio Management 17(4), 1991
``rms_losses`` ``sqrt(sum(s ** 2) / m)``       the same over the losing sessions alone
``std_losses`` ``std(s[s < 0], ddof)``         spread of the losses around their mean, not around the
                                               target; StockBench (arXiv 2510.02209) publishes this
``std_zeroed`` ``std(s, ddof)``                spread of the returns with gains set to zero
============== =============================== =====================================================
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.errors import BadOption
from quantgraph.report._series import deviation, mean_over, per_year, returns_array

__all__ = ["Downside", "downside_deviation", "sortino_ratio"]

Downside = Literal["rms_all", "rms_losses", "std_losses", "std_zeroed"]


def downside_deviation(
    returns: pd.Series[float],
    *,
    downside: Downside = "rms_all",
    target: float = 0.0,
    periods_per_year: int = 252,
    ddof: int = 1,
) -> float:
    """Compute the deviation of that name, times ``sqrt(periods_per_year)``.

    Parameters
    ----------
    returns
        One per session, no NaN.
    downside
        Which of the four, see the module.
    target
        A yearly rate; ``t = target / periods_per_year``.
    ddof
        Of the two that are standard deviations; a root mean square has none.

    Returns
    -------
    float
        0 or more. NaN where the formula divides by nothing: ``rms_all`` without returns, ``rms_losses``
        without a loss, ``std_losses`` with no more than ``ddof`` losses, ``std_zeroed`` with no more than
        ``ddof`` returns.

    Raises
    ------
    BadOption
        If ``downside`` is none of the four.
    """
    excess = returns_array(returns) - target / per_year(periods_per_year)
    return _deviation(excess, downside, ddof) * math.sqrt(periods_per_year)


def sortino_ratio(
    returns: pd.Series[float],
    *,
    downside: Downside = "rms_all",
    target: float = 0.0,
    periods_per_year: int = 252,
    ddof: int = 1,
) -> float:
    """``mean(r - t) / deviation * sqrt(periods_per_year)`` with ``t = target / periods_per_year``.

    Sortino and Price, "Performance Measurement in a Downside Risk Framework", Journal of Investing, 1994,
    for the default deviation. ``periods_per_year=1`` leaves it per session. NaN where
    :func:`downside_deviation` is NaN or zero, so without a loss.

    StockBench's number is ``sortino_ratio(returns, downside="std_losses", periods_per_year=1)``. Its code
    knows only the sessions: the first one's return is 0. So it is for values that begin with the initial
    cash, if they are bought and valued at the same open without cost; take
    ``session_returns(values.iloc[1:], leading_zero=True)`` for all others.

    >>> round(sortino_ratio(pd.Series([0.02, -0.01, 0.02, -0.01]), periods_per_year=1), 12)
    0.707106781187
    """
    excess = returns_array(returns) - target / per_year(periods_per_year)
    return mean_over(excess, _deviation(excess, downside, ddof)) * math.sqrt(periods_per_year)


def _deviation(excess: NDArray[np.float64], downside: Downside, ddof: int) -> float:
    shortfalls = np.minimum(excess, 0.0)
    losses = excess[excess < 0]
    match downside:
        case "rms_all":
            return _root_mean_square(shortfalls)
        case "rms_losses":
            return _root_mean_square(losses)
        case "std_losses":
            return deviation(losses, ddof)
        case "std_zeroed":
            return deviation(shortfalls, ddof)
    raise BadOption(f"downside={downside!r}; it is one of {get_args(Downside)}", parameter="downside")


def _root_mean_square(array: NDArray[np.float64]) -> float:
    return math.sqrt(float((array**2).mean())) if len(array) else math.nan
