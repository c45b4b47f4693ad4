"""What the metrics ask of their series, and where a number is nothing but rounding."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.errors import BadOption

__all__ = ["deviation", "mean_over", "require_index", "returns_array", "values_array", "varies"]

_ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""A deviation of returns below this is what division leaves of equal returns."""


def values_array(values: pd.Series[float]) -> NDArray[np.float64]:
    """Read positive finite numbers, at least one.

    Raises
    ------
    BadOption
        If they are anything else.
    """
    array = np.asarray(values, dtype=np.float64)
    if not array.size or not (np.isfinite(array) & (array > 0)).all():
        raise BadOption("values must be positive numbers, at least one, without NaN", parameter="values")
    return array


def returns_array(returns: pd.Series[float], *, name: str = "returns") -> NDArray[np.float64]:
    """Read finite numbers, or none at all.

    Raises
    ------
    BadOption
        If one is NaN or infinite.
    """
    array = np.asarray(returns, dtype=np.float64)
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
    """``std(array, ddof)``; NaN with no more than ``ddof`` numbers."""
    return float(array.std(ddof=ddof)) if len(array) > ddof else math.nan


def mean_over(array: NDArray[np.float64], spread: float) -> float:
    """``mean(array) / spread``; NaN where the spread is NaN or nothing but rounding."""
    return float(array.mean()) / spread if spread > _ROUNDING else math.nan


def varies(array: NDArray[np.float64]) -> bool:
    """Tell whether the numbers differ by more than rounding."""
    return deviation(array, 0) > _ROUNDING
