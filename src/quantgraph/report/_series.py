"""Checks of the series that metrics take, and statistics that are NaN where they are not defined."""

from __future__ import annotations

import math

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
            f"periods_per_year={periods!r} must be a number > 0, such as 252",
            parameter="periods_per_year",
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
