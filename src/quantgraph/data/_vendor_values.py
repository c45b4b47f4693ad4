"""What vendors without an account share: the table of a symbol's days, and prices without float noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from quantgraph.data._vendor_tables import Endpoint


def daily_series(name: str, numbers: tuple[str, ...]) -> Endpoint:
    """The table of a symbol's days, asked for by code; an answer without rows is not kept."""
    return Endpoint(
        name=name,
        text=("code",),
        dates=("date",),
        numbers=numbers,
        key="code",
        order=("date", "code"),
        access="series",
        keeps_empty=False,
    )


def shortest_decimals(
    values: npt.NDArray[np.float64], places: Sequence[int] = (2, 3, 4), *, room: float = 2.0**-22
) -> npt.NDArray[np.float64]:
    """The shortest decimal within a relative ``room`` of each value, else the value; NaN stays.

    The default is the error of a quotient of two float32 numbers.

    >>> shortest_decimals(np.array([12.340000152587891, 1.23456789])).tolist()
    [12.34, 1.23456789]
    """
    found = values.copy()
    for decimals in reversed(places):
        near = np.round(values, decimals)
        found = np.where(np.abs(near - values) <= room * np.abs(values), near, found)
    return found
