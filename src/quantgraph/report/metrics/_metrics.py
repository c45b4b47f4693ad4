"""Metrics of one value per session, alone and relative to a benchmark.

Values are positive, in one currency, without NaN, in ascending order of their index. Returns are simple
and one per session. Each function names its formula; nothing is rounded.

Metrics of a run and its benchmark: two series of simple returns over the same sessions.

Both series need equal indexes and no NaN; BadOption names the first label that differs. The result is NaN if
a divisor does not vary, and with too few returns. Rates are yearly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.errors import BadOption

_ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""A deviation of returns up to this is the rounding of equal returns."""


def values_array(values: pd.Series[float]) -> NDArray[np.float64]:
    """Read positive finite numbers, at least one; BadOption otherwise."""
    array = _numbers(values, "values")
    if not array.size or not (np.isfinite(array) & (array > 0)).all():
        raise BadOption("values must be positive numbers, at least one, without NaN", parameter="values")
    return array


def returns_array(returns: pd.Series[float], *, name: str = "returns") -> NDArray[np.float64]:
    """Read finite numbers; BadOption otherwise. The series may be empty."""
    array = _numbers(returns, name)
    if not np.isfinite(array).all():
        raise BadOption(f"{name} must be finite numbers, without NaN", parameter=name)
    return array


def require_index(series: pd.Series[float], expected: pd.Index, *, name: str, owner: str) -> None:
    """Check that a series has the index of another; BadOption names the first label that differs."""
    _numbers(series, name)
    index = series.index
    if index.equals(expected):
        return
    shared = min(len(index), len(expected))
    at = next((i for i in range(shared) if index[i] != expected[i]), shared)
    mine, theirs = (labels[at] if at < len(labels) else "no more" for labels in (index, expected))
    raise BadOption(
        f"{name} has {mine} where {owner} has {theirs} (place {at}); both need the same sessions",
        parameter=name,
    )


def deviation(array: NDArray[np.float64], ddof: int) -> float:
    """``std(array, ddof)``; NaN with at most ``ddof`` numbers. BadOption if ``ddof`` is not an int >= 0."""
    if not isinstance(ddof, int | np.integer) or ddof < 0:
        raise BadOption(f"ddof={ddof!r} must be a whole number >= 0", parameter="ddof")
    return float(array.std(ddof=int(ddof))) if len(array) > ddof else math.nan


def per_year(periods: object) -> float:
    """Read ``periods_per_year``; BadOption if it is not a finite number > 0."""
    if not isinstance(periods, int | float | np.number) or not 0 < periods < math.inf:
        raise BadOption(
            f"periods_per_year={periods!r} must be a number > 0, such as 252", parameter="periods_per_year"
        )
    return float(periods)


def mean_over(array: NDArray[np.float64], spread: float) -> float:
    """``mean(array) / spread``; NaN if the spread is NaN or rounding."""
    return float(array.mean()) / spread if spread > _ROUNDING else math.nan


def varies(array: NDArray[np.float64]) -> bool:
    """Whether the numbers differ by more than rounding."""
    return deviation(array, 0) > _ROUNDING


def _numbers(series: object, name: str) -> NDArray[np.float64]:
    if not isinstance(series, pd.Series):
        kind = type(series).__name__
        raise BadOption(f"{name} must be a pandas Series by session, not {kind}", parameter=name)
    try:
        return np.asarray(series, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadOption(f"{name} holds something that is not a number: {error}", parameter=name) from error


Downside = Literal["rms_all", "rms_losses", "std_losses", "std_zeroed"]
"""Names of the deviations of :func:`downside_deviation`."""


@dataclass(frozen=True, kw_only=True)
class Drawdown:
    """The deepest fall from a peak, and the way back.

    Attributes
    ----------
    depth
        ``value / running peak - 1`` at the trough: 0 or negative.
    peak, trough
        The last session at the peak, and the session that was deepest, the earliest where several are
        equally deep; None if the values never fell.
    recovery
        The first session after the trough that is at the peak's value or above; None if there is none.
    falling
        Sessions from peak to trough; 0 if the values never fell.
    recovering
        Sessions from trough to recovery; None without a recovery.
    """

    depth: float
    peak: pd.Timestamp | None = None
    trough: pd.Timestamp | None = None
    recovery: pd.Timestamp | None = None
    falling: int = 0
    recovering: int | None = None


def session_returns(values: pd.Series[float], *, leading_zero: bool = False) -> pd.Series[float]:
    """Compute simple returns ``V[i] / V[i-1] - 1``, labelled by the later session.

    ``leading_zero`` puts a 0 in front, for values that begin with a session instead of the initial cash:
    ``values.pct_change().fillna(0)``. Means and deviations then count that session as well.
    """
    array = values_array(values)
    returns = array[1:] / array[:-1] - 1
    if leading_zero:
        return pd.Series(np.insert(returns, 0, 0.0), index=values.index, name="return")
    return pd.Series(returns, index=values.index[1:], name="return")


def total_return(values: pd.Series[float]) -> float:
    """``V[-1] / V[0] - 1``.

    >>> round(total_return(pd.Series([100.0, 110.0, 121.0])), 12)
    0.21
    """
    array = values_array(values)
    return float(array[-1] / array[0] - 1)


def annual_return(values: pd.Series[float], *, periods_per_year: int = 252) -> float:
    """``(V[-1] / V[0]) ** (periods_per_year / n) - 1`` over ``n`` sessions; NaN without a session."""
    array = values_array(values)
    sessions, periods = len(array) - 1, per_year(periods_per_year)
    return float((array[-1] / array[0]) ** (periods / sessions) - 1) if sessions else math.nan


def volatility(returns: pd.Series[float], *, periods_per_year: int = 252, ddof: int = 1) -> float:
    """``std(returns, ddof) * sqrt(periods_per_year)``; NaN with at most ``ddof`` returns."""
    return deviation(returns_array(returns), ddof) * math.sqrt(per_year(periods_per_year))


def sharpe_ratio(
    returns: pd.Series[float], *, periods_per_year: int = 252, ddof: int = 1, risk_free: float = 0.0
) -> float:
    """``mean(r - f) / std(r - f, ddof) * sqrt(periods_per_year)`` with ``f = risk_free / periods_per_year``.

    Sharpe, "The Sharpe Ratio", Journal of Portfolio Management, 1994. ``risk_free`` is a yearly rate.
    NaN if the returns do not vary, and with at most ``ddof`` of them.

    >>> sharpe_ratio(pd.Series([0.0, 0.0, 0.0]))
    nan
    """
    excess = returns_array(returns) - risk_free / per_year(periods_per_year)
    return mean_over(excess, deviation(excess, ddof)) * math.sqrt(periods_per_year)


def downside_deviation(
    returns: pd.Series[float],
    *,
    downside: Downside = "rms_all",
    target: float = 0.0,
    periods_per_year: int = 252,
    ddof: int = 1,
) -> float:
    """Four deviations go by this name; each times ``sqrt(periods_per_year)``.

    They differ by tens of percent on the same returns, so a Sortino ratio means nothing without the name
    of its deviation.

    ============== =========================== =====================================================
    ``rms_all``    ``sqrt(sum(s ** 2) / n)``   Sortino and van der Meer, "Downside Risk", Journal of
                                               Portfolio Management 17(4), 1991
    ``rms_losses`` ``sqrt(sum(s ** 2) / m)``   the same over the losing sessions alone
    ``std_losses`` ``std(s[s < 0], ddof)``     spread of the losses around their mean, not around the
                                               target; StockBench (arXiv 2510.02209) publishes this
    ``std_zeroed`` ``std(s, ddof)``            spread of the returns with gains set to zero
    ============== =========================== =====================================================

    Parameters
    ----------
    returns
        One per session, no NaN.

    Returns
    -------
    float
        >= 0. NaN where the formula divides by 0: ``rms_all`` without returns, ``rms_losses`` without a loss,
        ``std_losses`` with at most ``ddof`` losses, ``std_zeroed`` with at most ``ddof`` returns.
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

    StockBench's number is ``sortino_ratio(returns, downside="std_losses", periods_per_year=1)`` with a return
    of 0 in the first session. Values that begin with the initial cash have it if stocks are bought and valued
    at the same open without cost; for others take ``session_returns(values.iloc[1:], leading_zero=True)``.

    >>> round(sortino_ratio(pd.Series([0.02, -0.01, 0.02, -0.01]), periods_per_year=1), 12)
    0.707106781187
    """
    excess = returns_array(returns) - target / per_year(periods_per_year)
    return mean_over(excess, _deviation(excess, downside, ddof)) * math.sqrt(periods_per_year)


def max_drawdown(values: pd.Series[float]) -> Drawdown:
    """Find the smallest ``V[i] / max(V[:i+1]) - 1``, with its dates.

    >>> max_drawdown(pd.Series([100.0, 120.0, 90.0, 130.0])).depth
    -0.25
    """
    array = values_array(values)
    falls = array / np.maximum.accumulate(array) - 1
    trough = int(np.argmin(falls))
    if falls[trough] == 0:
        return Drawdown(depth=0.0)
    peak = int(np.flatnonzero(falls[:trough] == 0)[-1])
    back = np.flatnonzero(falls[trough:] == 0)
    recovering = int(back[0]) if back.size else None
    return Drawdown(
        depth=float(falls[trough]),
        peak=values.index[peak],
        trough=values.index[trough],
        recovery=None if recovering is None else values.index[trough + recovering],
        falling=trough - peak,
        recovering=recovering,
    )


def calmar_ratio(values: pd.Series[float], *, periods_per_year: int = 252) -> float:
    """``annual_return / -max_drawdown``, both over all values.

    Young, "Calmar Ratio: A Smoother Tool", Futures, October 1991, takes the last 36 months: cut the values
    for that. NaN if the values never fell.
    """
    fall = max_drawdown(values).depth
    return annual_return(values, periods_per_year=periods_per_year) / -fall if fall else math.nan


def exposure(stocks: pd.Series[float], values: pd.Series[float]) -> float:
    """``mean(S[i] / V[i])`` over the sessions: the mean share of the value that is in stocks.

    Parameters
    ----------
    stocks
        What the holdings are worth at each session's close, 0.0 without any; no NaN.
    values
        One more: they begin with the initial cash, which does not count as a session.

    Returns
    -------
    float
        NaN without a session.

    Raises
    ------
    BadOption
        If the sessions of the two differ.
    """
    array = values_array(values)[1:]
    require_index(stocks, values.index[1:], name="stocks", owner="values")
    held = returns_array(stocks, name="stocks")
    return float((held / array).mean()) if len(array) else math.nan


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
    raise BadOption(
        f"downside={downside!r} must be one of {', '.join(get_args(Downside))}", parameter="downside"
    )


def _root_mean_square(array: NDArray[np.float64]) -> float:
    return math.sqrt(float((array**2).mean())) if len(array) else math.nan


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
