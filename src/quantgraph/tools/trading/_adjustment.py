"""One symbol's adjustment by its arrays: agents ask symbol by symbol, and a frame takes 5 ms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.errors import BadFrame

Floats = NDArray[np.float64]
Column = tuple[NDArray[np.datetime64], Floats]
"""One symbol of a field: ascending sessions and values, both (T,)."""
_FactorOf = Callable[[str, NDArray[np.datetime64], Mapping[str, Floats]], Floats]


def column_adjustment(
    symbol: str, columns: Mapping[str, Column], sessions: NDArray[np.datetime64]
) -> Floats | None:
    """What :func:`~quantgraph.market.actions.adjusted` multiplies one symbol's prices with, by its arrays.

    Parameters
    ----------
    columns
        By field, the symbol's column of each field of the panel that an adjustment reads.
    sessions
        Shape (T,): where the numbers are wanted; sessions of the data.

    Returns
    -------
    ndarray of shape (T,), or None
        NaN before the first factor; None if there is nothing to adjust by.

    Raises
    ------
    BadFrame
        If a dividend is not less than the close before it.
    """
    days = max((theirs for theirs, _ in columns.values()), key=len, default=sessions)
    for theirs in (sessions, *(each for each, _ in columns.values())):
        if not np.array_equal(days[: len(theirs)], theirs):
            days = np.union1d(days, theirs)
    aligned = {name: _align(column, days) for name, column in columns.items()}
    for names, factor_of in _COLUMN_METHODS:
        if names & aligned.keys():
            factor = _carry_forward(factor_of(symbol, days, aligned))
            if not np.isnan(factor).all():
                return np.asarray(factor / factor[-1])[np.searchsorted(days, sessions)]
    return None


def _align(column: Column, days: NDArray[np.datetime64]) -> Floats:
    sessions, values = column
    found = np.full(len(days), np.nan)
    if np.array_equal(days[: len(sessions)], sessions):
        found[: len(sessions)] = values
    else:
        found[np.searchsorted(days, sessions)] = values
    return found


def _carry_forward(values: Floats) -> Floats:
    """Values with NaN replaced by the last number before."""
    places = np.where(np.isnan(values), 0, np.arange(len(values)))
    return np.asarray(values[np.maximum.accumulate(places)], dtype=np.float64)


def _last_before(close: Floats) -> Floats:
    return np.concatenate(([np.nan], _carry_forward(close)[:-1]))


def _column_from_adj_factor(symbol: str, days: object, columns: Mapping[str, Floats]) -> Floats:  # noqa: ARG001
    return columns["adj_factor"]


def _column_from_pre_close(symbol: str, days: object, columns: Mapping[str, Floats]) -> Floats:  # noqa: ARG001
    reference = columns["pre_close"]
    step = _last_before(columns["close"]) / reference
    factor = np.cumprod(np.where(np.isnan(step), 1.0, step))
    seen = np.logical_or.accumulate(~np.isnan(reference))
    return np.asarray(np.where(seen, factor, np.nan), dtype=np.float64)


def _column_from_actions(symbol: str, days: NDArray[np.datetime64], columns: Mapping[str, Floats]) -> Floats:
    cash, ratio = (
        np.nan_to_num(columns.get(name, np.full(len(days), neutral)), nan=neutral)
        for name, neutral in (("dividend", 0.0), ("split", 1.0))
    )
    before = _last_before(columns["close"])
    too_much = np.flatnonzero(cash >= before)
    if too_much.size:
        row = too_much[0]
        day = f"{pd.Timestamp(days[row]):%Y-%m-%d}"
        raise BadFrame(
            f"ohlcv['dividend'] has {cash[row]:g} at ({day}, {symbol}), and the close before it is "
            f"{before[row]:g}; it must be less",
            session=day,
            symbol=symbol,
        )
    step = before * ratio / (before - cash)
    return np.asarray(np.cumprod(np.where(np.isnan(step), 1.0, step)), dtype=np.float64)


_COLUMN_METHODS: tuple[tuple[frozenset[str], _FactorOf], ...] = (
    (frozenset({"adj_factor"}), _column_from_adj_factor),
    (frozenset({"pre_close"}), _column_from_pre_close),
    (frozenset({"dividend", "split"}), _column_from_actions),
)
