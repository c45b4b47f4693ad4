"""What the metrics ask of their series, and where a number is nothing but rounding."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.errors import BadOption

__all__ = ["deviation", "mean_over", "per_year", "require_index", "returns_array", "values_array", "varies"]

_ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""A deviation of returns below this is what division leaves of equal returns."""


def values_array(values: pd.Series[float]) -> NDArray[np.float64]:
    """Read positive finite numbers, at least one.

    Raises
    ------
    BadOption
        If they are anything else, or no Series.
    """
    array = _numbers(values, "values")
    if not array.size or not (np.isfinite(array) & (array > 0)).all():
        raise BadOption("values must be positive numbers, at least one, without NaN", parameter="values")
    return array


def returns_array(returns: pd.Series[float], *, name: str = "returns") -> NDArray[np.float64]:
    """Read finite numbers, or none at all.

    Raises
    ------
    BadOption
        If one is NaN or infinite, or they are no Series.
    """
    array = _numbers(returns, name)
    if not np.isfinite(array).all():
        raise BadOption(f"{name} must be finite numbers, without NaN", parameter=name)
    return array


def require_index(series: pd.Series[float], wanted: pd.Index, *, name: str, owner: str) -> None:
    """See that two series speak of the same sessions.

    Raises
    ------
    BadOption
        If they do not; it names the first label where they part.
    """
    _numbers(series, name)
    index = series.index
    if index.equals(wanted):
        return
    shared = min(len(index), len(wanted))
    at = next((i for i in range(shared) if index[i] != wanted[i]), shared)
    mine, theirs = (labels[at] if at < len(labels) else "no more" for labels in (index, wanted))
    raise BadOption(
        f"{name} has {mine} where {owner} has {theirs} (place {at}); both need the same sessions",
        parameter=name,
    )


def deviation(array: NDArray[np.float64], ddof: int) -> float:
    """``std(array, ddof)``; NaN with no more than ``ddof`` numbers.

    Raises
    ------
    BadOption
        If ``ddof`` is no whole number of at least 0.
    """
    lost = _whole(ddof)
    return float(array.std(ddof=lost)) if len(array) > lost else math.nan


def per_year(periods: object) -> float:
    """Read how many periods a year has.

    Raises
    ------
    BadOption
        If it is no finite number above 0.
    """
    if not isinstance(periods, int | float | np.number) or not 0 < periods < math.inf:
        raise BadOption(
            f"periods_per_year={periods!r}; a number above 0 is wanted, such as 252",
            parameter="periods_per_year",
        )
    return float(periods)


def mean_over(array: NDArray[np.float64], spread: float) -> float:
    """``mean(array) / spread``; NaN where the spread is NaN or nothing but rounding."""
    return float(array.mean()) / spread if spread > _ROUNDING else math.nan


def varies(array: NDArray[np.float64]) -> bool:
    """Tell whether the numbers differ by more than rounding."""
    return deviation(array, 0) > _ROUNDING


def _whole(ddof: object) -> int:
    if not isinstance(ddof, int | np.integer) or ddof < 0:
        raise BadOption(f"ddof={ddof!r}; a whole number of at least 0 is wanted", parameter="ddof")
    return int(ddof)


def _numbers(series: object, name: str) -> NDArray[np.float64]:
    if not isinstance(series, pd.Series):
        kind = type(series).__name__
        raise BadOption(f"{name} is a {kind}; a pandas Series by session is wanted", parameter=name)
    try:
        return np.asarray(series, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadOption(f"{name} holds what is no number: {error}", parameter=name) from error
