"""What a Sharpe ratio says: its error, its probability after so many tries, the time that it needs.

A ratio of sessions and one of years are two types: a yearly one in a formula of sessions is refused.
"Classic" is Bailey and López de Prado (2012, 2014), whose variance is taken at the observed ratio; "null" is
López de Prado, Lipton and Zoonekynd (2025, SSRN 5520741), who take it under the hypothesis that is tested.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from quantgraph.errors import BadOption

Variance = Literal["classic", "null"]
_NORMAL = NormalDist()
_EULER = 0.5772156649015329
_CONFIDENCE, _POWER = 0.95, 0.80


class SessionSharpe(float):
    """Mean of the returns of sessions over their deviation; not annualised."""

    def per_year(self, periods: float) -> YearSharpe:
        """The ratio of a year of so many sessions."""
        return YearSharpe(self * math.sqrt(periods))


class YearSharpe(float):
    """A Sharpe ratio of a year: that of sessions times the root of the sessions of a year."""

    def per_session(self, periods: float) -> SessionSharpe:
        """The ratio of one session, of so many in a year."""
        return SessionSharpe(self / math.sqrt(periods))


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Length and form of a sample of returns; ``kurtosis`` is 3 for normal returns."""

    sessions: float
    skewness: float = 0.0
    kurtosis: float = 3.0

    def error(self, at: SessionSharpe) -> float:
        """The standard error of a ratio whose true value is ``at``, of so many sessions."""
        return math.sqrt(max(self._spread(at), 0.0) / self.sessions)

    def _spread(self, at: SessionSharpe) -> float:
        return 1 - self.skewness * at + (self.kurtosis - 1) / 4 * at**2


def returns_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Simple returns of values; 0 after all was lost."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = values[1:] / values[:-1] - 1
    return np.where(np.isfinite(found), found, 0.0)


def sharpe_of(returns: NDArray[np.float64]) -> tuple[SessionSharpe, Shape]:
    """The ratio of returns of sessions (deviation with ddof 1), and their shape (biased moments).

    The ratio is NaN where nothing varies, or with fewer than two.

    Raises
    ------
    BadOption
        If ``returns`` has not one axis: whether rows or columns are sessions is not known.
    """
    if returns.ndim != 1:
        raise BadOption(
            f"returns has the shape {returns.shape}; give the returns of one account, an axis of sessions",
            parameter="returns",
        )
    count = len(returns)
    deviation = float(returns.std(ddof=1)) if count > 1 else 0.0
    if not deviation > 1e-15:
        return SessionSharpe(math.nan), Shape(sessions=count)
    scores = (returns - returns.mean()) / returns.std()
    skewness, kurtosis = float((scores**3).mean()), float((scores**4).mean())
    shape = Shape(sessions=count, skewness=skewness, kurtosis=kurtosis)
    return SessionSharpe(returns.mean() / deviation), shape


def probabilistic_sharpe(
    sharpe: SessionSharpe,
    shape: Shape,
    *,
    above: SessionSharpe = SessionSharpe(0),  # noqa: B008 - a number
    variance: Variance = "classic",
) -> float:
    """One minus the p-value of the hypothesis that the true ratio is ``above`` or less.

    The classic one takes n - 1 sessions, as its paper does. It is not the probability that the true ratio is
    larger.
    """
    _check_sessions(sharpe, above)
    if variance == "classic":
        error = Shape(sessions=shape.sessions - 1, skewness=shape.skewness, kurtosis=shape.kurtosis).error(
            sharpe
        )
    else:
        error = shape.error(above)
    return _NORMAL.cdf((sharpe - above) / error) if error > 0 else math.nan


def expected_best(tries: float) -> float:
    """The expected largest of so many independent standard normal numbers; 0 for one.

    >>> round(expected_best(10), 3)
    1.575
    """
    if tries <= 1:
        return 0.0
    first, second = _NORMAL.inv_cdf(1 - 1 / tries), _NORMAL.inv_cdf(1 - 1 / (tries * math.e))
    return (1 - _EULER) * first + _EULER * second


def deflated_sharpe(
    sharpe: SessionSharpe, shape: Shape, *, tries: float, spread: float | None = None
) -> float:
    """The classic probabilistic ratio above what the best of so many tries without skill would have.

    Parameters
    ----------
    spread
        Variance of the ratios of the tries, of sessions. Default: 1 / sessions, that of no skill.
    """
    variance = 1 / shape.sessions if spread is None else spread
    best = SessionSharpe(math.sqrt(variance) * expected_best(tries))
    return probabilistic_sharpe(sharpe, shape, above=best)


def least_track_record(
    sharpe: SessionSharpe,
    shape: Shape,
    *,
    above: SessionSharpe = SessionSharpe(0),  # noqa: B008 - a number
    confidence: float = _CONFIDENCE,
    variance: Variance = "classic",
) -> float:
    """Sessions after which the observed ratio would be significant; infinite if it is not above ``above``."""
    _check_sessions(sharpe, above)
    if not sharpe > above:
        return math.inf
    z = _NORMAL.inv_cdf(confidence) / (sharpe - above)
    at, more = (sharpe, 1.0) if variance == "classic" else (above, 0.0)
    return more + Shape(sessions=1, skewness=shape.skewness, kurtosis=shape.kurtosis).error(at) ** 2 * z**2


def least_backtest_years(tries: float, *, target: YearSharpe = YearSharpe(1)) -> float:  # noqa: B008
    """Years below which the best of so many tries without skill is expected to reach the target.

    >>> round(least_backtest_years(45), 1)
    5.0
    """
    return (expected_best(tries) / target) ** 2


def power_of(
    true: SessionSharpe,
    shape: Shape,
    *,
    above: SessionSharpe = SessionSharpe(0),  # noqa: B008 - a number
    confidence: float = _CONFIDENCE,
) -> float:
    """How often a true ratio is found significant by the null's test over so many sessions."""
    _check_sessions(true, above)
    critical = above + _NORMAL.inv_cdf(confidence) * shape.error(above)
    return 1 - _NORMAL.cdf((critical - true) / shape.error(true))


def sessions_needed(true: SessionSharpe, *, confidence: float = _CONFIDENCE, power: float = _POWER) -> float:
    """Sessions in which a true ratio is found so often, of normal returns; infinite for one of 0 or less."""
    z = _NORMAL.inv_cdf(confidence) + _NORMAL.inv_cdf(power)
    return (z / true) ** 2 if true > 0 else math.inf


def false_discovery(*, significance: float, power: float, prior: float) -> float:
    """Of rules that pass a test, the part without skill, where ``prior`` of all have some (planned FDR)."""
    false, true = (1 - prior) * significance, prior * power
    return false / (false + true)


def observed_false_discovery(
    sharpe: SessionSharpe, shape: Shape, *, with_skill: SessionSharpe, prior: float
) -> float:
    """The same of rules with at least the observed ratio, whose true one is 0 or ``with_skill``."""
    without, skilled = (
        1 - probabilistic_sharpe(sharpe, shape, above=at, variance="null")
        for at in (SessionSharpe(0), with_skill)
    )
    return false_discovery(significance=without, power=skilled, prior=prior)


def _check_sessions(*ratios: float) -> None:
    for ratio in ratios:
        if not isinstance(ratio, SessionSharpe):
            raise BadOption(
                f"{ratio!r} is no ratio of sessions: make it with SessionSharpe(…), or "
                "YearSharpe(…).per_session(252) of a yearly one",
                parameter="sharpe",
            )
