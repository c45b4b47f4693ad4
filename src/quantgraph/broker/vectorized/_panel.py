"""Panels for the arrays: the columns of ``open`` in its sessions, not copied where they are so already."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.broker.per_commit import per_commit
from quantgraph.broker.vectorized._arrays import Floats, Ints
from quantgraph.state import DataState

__all__ = ["Layout", "Placing", "cells_of", "layout_of", "no_panel", "panel_of", "placing_of"]

Dates = NDArray[np.datetime64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """Sessions and symbols of ``open``, which all panels are brought to.

    Attributes
    ----------
    place
        Column of each symbol.
    rank
        Place of each column's symbol in ascending order.
    """

    sessions: Dates
    symbols: tuple[str, ...]
    place: dict[str, int]
    rank: Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class Placing:
    """Where a field's cells are: its row of each session, its column of each symbol, -1 for none.

    Attributes
    ----------
    same
        Its sessions and symbols are those of ``open``.
    within
        All of its sessions are.
    strangers
        Its columns that ``open`` does not have.
    """

    rows: Ints
    columns: Ints
    same: bool
    within: bool
    strangers: Ints


@per_commit
def layout_of(store: DataState, data_ref: str) -> Layout:
    """Layout of a commit; a commit never changes."""
    frame = store.snapshot(data_ref)["ohlcv"]["open"]
    symbols = tuple(frame.columns.tolist())
    rank = np.empty(len(symbols), np.int64)
    rank[sorted(range(len(symbols)), key=symbols.__getitem__)] = np.arange(len(symbols))
    return Layout(
        sessions=_dates(frame),
        symbols=symbols,
        place={symbol: place for place, symbol in enumerate(symbols)},
        rank=rank,
    )


@per_commit
def placing_of(store: DataState, data_ref: str, panel: str, name: str) -> Placing:
    """Where a field's cells are in the layout of its commit."""
    layout, frame = layout_of(store, data_ref), store.snapshot(data_ref)[panel][name]
    sessions, symbols = _dates(frame), frame.columns.tolist()
    rows, columns = _places(sessions, layout.sessions), _places(symbols, layout.symbols)
    return Placing(
        rows=rows,
        columns=columns,
        same=np.array_equal(sessions, layout.sessions) and tuple(symbols) == layout.symbols,
        within=bool(np.isin(sessions, layout.sessions).all()),
        strangers=np.flatnonzero(_places(layout.symbols, symbols) < 0),
    )


def cells_of(store: DataState, data_ref: str, panel: str, name: str) -> Floats:
    """All cells of a field as they are stored: C order, read-only."""
    return store.snapshot(data_ref)[panel][name].to_numpy()


def panel_of(values: Floats, placing: Placing, first: int, end: int) -> Floats:
    """Cells of the session before ``first`` and of those up to before ``end``, in the layout's columns.

    Returns
    -------
    numpy.ndarray
        Shape (end - first + 1, N), read-only, NaN where the field has no such cell; a view where it can be.
    """
    if placing.same and first:
        return values[first - 1 : end]
    panel = np.full((end - first + 1, len(placing.columns)), np.nan)
    rows = np.array([-1, *placing.rows[:end]])[first:]
    there, known = np.flatnonzero(rows >= 0), np.flatnonzero(placing.columns >= 0)
    panel[np.ix_(there, known)] = values[np.ix_(rows[there], placing.columns[known])]
    panel.flags.writeable = False
    return panel


@lru_cache(maxsize=4)
def no_panel(rows: int, columns: int) -> Floats:
    """Stands for a field that the data does not have."""
    panel = np.full((rows, columns), np.nan)
    panel.flags.writeable = False
    return panel


def _dates(frame: pd.DataFrame) -> Dates:
    return frame.index.to_numpy().astype("datetime64[us]")


def _places(keys: Any, wanted: Any) -> Ints:
    """Place of each wanted one among the keys, -1 for none."""
    places: Ints = pd.Index(keys).get_indexer(pd.Index(wanted)).astype(np.int64)
    return places
