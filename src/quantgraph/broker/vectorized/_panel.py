"""The data of a block: its sessions, and panels with the columns of ``open``.

Panels are views of the stored frames where these have the sessions and symbols of ``open``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.broker.corporate_actions import ActionBook, action_book
from quantgraph.broker.decider import BlockRule
from quantgraph.broker.per_commit import per_commit
from quantgraph.broker.valuation import MarkAt
from quantgraph.broker.vectorized._arrays import Floats, Ints
from quantgraph.broker.vectorized._rule_tables import exact_rates
from quantgraph.market.rulebook import Rulebook
from quantgraph.state import DataState

STATUS_FIELDS = ("is_st", "listing_day", "delisting_day")
_QUOTED = ("open", "high", "low", "close", "vol", "pre_close", "up_limit", "down_limit", *STATUS_FIELDS)
_MOST_SYMBOLS = 20_000

Dates = NDArray[np.datetime64]


class FallbackRequired(Exception):
    """The arrays cannot do the first session; it must be traded order by order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """Sessions and symbols of ``open``, the layout of all panels.

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
        Whether it has the sessions and symbols of ``open``.
    within
        Whether all of its sessions are sessions of ``open``.
    extra
        Its columns that ``open`` does not have.
    """

    rows: Ints
    columns: Ints
    same: bool
    within: bool
    extra: Ints


@dataclass(frozen=True, kw_only=True)
class BlockTask:
    """A block to be traded: consecutive sessions of the data, the first of them in row ``first``."""

    store: DataState
    data_ref: str
    sessions: Sequence[pd.Timestamp]
    first: int
    layout: Layout
    rule: BlockRule
    rules: Rulebook
    book: ActionBook
    mark_at: MarkAt

    @classmethod
    def of(
        cls,
        store: DataState,
        data_ref: str,
        sessions: Sequence[pd.Timestamp],
        rule: BlockRule,
        *,
        rules: Rulebook,
        book: ActionBook,
        mark_at: MarkAt,
    ) -> BlockTask:
        """Take as many of the sessions as are consecutive in the data and have a row in every field.

        Raises
        ------
        FallbackRequired
            If the arrays do not support the rules, the book or the data.
        """
        fields, layout = store.snapshot(data_ref)["ohlcv"], layout_of(store, data_ref)
        if (
            rules.market != "cn"
            or rules.volume_share is not None
            or not exact_rates(rules)
            or {"open", "close", mark_at} - {*fields}
            or book is not action_book(store, data_ref)
            or len(layout.symbols) > _MOST_SYMBOLS
        ):
            raise FallbackRequired
        days = np.array([session.asm8 for session in sessions], "datetime64[us]")
        first = int(np.searchsorted(layout.sessions, days[0]))
        there = layout.sessions[first : first + len(days)] == days[: len(layout.sessions) - first]
        for name in _QUOTED:
            if name in fields:
                rows = placing_of(store, data_ref, "ohlcv", name).rows
                there &= rows[first : first + len(days)] >= 0
        count = int(np.cumprod(there).sum())
        if not count:
            raise FallbackRequired
        return cls(
            store=store,
            data_ref=data_ref,
            sessions=sessions[:count],
            first=first,
            layout=layout,
            rule=rule,
            rules=rules,
            book=book,
            mark_at=mark_at,
        )

    @property
    def end(self) -> int:
        """Row after the last session."""
        return self.first + len(self.sessions)

    @property
    def days(self) -> Dates:
        """The sessions as an array."""
        return self.layout.sessions[self.first : self.end]


def field_of(task: BlockTask, panel: str, name: str) -> tuple[Floats, Placing]:
    """All cells of a field, and where they are.

    Raises
    ------
    FallbackRequired
        If it has sessions that ``open`` does not have.
    """
    placing = placing_of(task.store, task.data_ref, panel, name)
    if not placing.within:
        raise FallbackRequired
    return cells_of(task.store, task.data_ref, panel, name), placing


def signal_of(task: BlockTask) -> tuple[Floats, Placing]:
    """The signal's cells; without one the fallback raises the error."""
    names = list(task.store.snapshot(task.data_ref)["signal"])
    name = task.rule.signal or (names[0] if len(names) == 1 else None)
    if name not in names:
        raise FallbackRequired
    return field_of(task, "signal", name)


def last_known(task: BlockTask, name: str, column: int, end: int) -> tuple[float, pd.Timestamp] | None:
    """The last price of a field before row ``end``, and its session."""
    values, where = field_of(task, "ohlcv", name)
    rows = np.flatnonzero(where.rows[:end] >= 0)
    place = where.columns[column]
    known = np.flatnonzero(~np.isnan(values[: len(rows), place])) if place >= 0 else rows[:0]
    if not known.size:
        return None
    return float(values[known[-1], place]), pd.Timestamp(task.layout.sessions[rows[known[-1]]])


@per_commit
def layout_of(store: DataState, data_ref: str) -> Layout:
    """Layout of a commit."""
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
        extra=np.flatnonzero(_places(layout.symbols, symbols) < 0),
    )


def cells_of(store: DataState, data_ref: str, panel: str, name: str) -> Floats:
    """All cells of a field as they are stored: C order, read-only."""
    return store.snapshot(data_ref)[panel][name].to_numpy()


def panel_of(values: Floats, placing: Placing, first: int, end: int) -> Floats:
    """Cells of the session before row ``first`` and of rows ``first`` to ``end - 1``.

    Returns
    -------
    numpy.ndarray
        Shape (end - first + 1, N), read-only, NaN where the field has no such cell; a view where possible.
    """
    if placing.same and first:
        return values[first - 1 : end]
    panel = np.full((end - first + 1, len(placing.columns)), np.nan)
    if placing.same:
        panel[1:] = values[:end]
        panel.flags.writeable = False
        return panel
    rows = np.array([-1, *placing.rows[:end]])[first:]
    there, known = np.flatnonzero(rows >= 0), np.flatnonzero(placing.columns >= 0)
    panel[np.ix_(there, known)] = values[np.ix_(rows[there], placing.columns[known])]
    panel.flags.writeable = False
    return panel


@lru_cache(maxsize=4)
def no_panel(rows: int, columns: int) -> Floats:
    """The panel of a field that the data does not have: NaN."""
    panel = np.full((rows, columns), np.nan)
    panel.flags.writeable = False
    return panel


def _dates(frame: pd.DataFrame) -> Dates:
    return frame.index.to_numpy().astype("datetime64[us]")


def _places(keys: Any, wanted: Any) -> Ints:
    """Place of each ``wanted`` key among the keys, -1 for none."""
    places: Ints = pd.Index(keys).get_indexer(pd.Index(wanted)).astype(np.int64)
    return places
