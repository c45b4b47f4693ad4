"""Views for ascending moments, over memory to which only the rows that became known are added."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from quantgraph._util.texts import NewsUntil
from quantgraph.errors import BadOption
from quantgraph.market import Moment, Phase, known_from
from quantgraph.state._commits import Commit
from quantgraph.state._views import GrowingViewId, View
from quantgraph.state.frames._cut import FieldKey, cut, known_rows, known_symbols
from quantgraph.state.frames._frames import FrozenFrame
from quantgraph.state.frames._records import KnownRecords

_FIRST_CAPACITY = 16

K = TypeVar("K")


class GrowingView:
    """The views of one run, moment by moment, at the cost of the rows that became known in between.

    All its frames are over a :class:`_GrowingBuffer`: a row is written when it becomes known, and nothing
    later was ever there. A view of an earlier moment may share the memory, so a growing view belongs to one
    run and one thread at a time.

    It holds the commit. The views do not lead to it.
    """

    def __init__(self, ref: str, commit: Commit, news_until: NewsUntil = "previous_day") -> None:
        self.data_ref = ref
        self.moment: Moment | None = None
        self._news_until: NewsUntil = news_until
        self._commit = commit
        self._axes: list[_Axis] = []
        self._records = KnownRecords()
        self._id = GrowingViewId()

    def __repr__(self) -> str:
        return f"GrowingView({self.data_ref[:12]} at {self.moment or 'no moment yet'})"

    def reaches(self, moment: Moment) -> bool:
        """Whether it has not gone past a moment."""
        return self.moment is None or self.moment <= moment

    def at(self, moment: Moment) -> View:
        """The commit as known at a moment, which is not before the last one.

        Raises
        ------
        BadOption
            If the moment is before the last one.
        """
        if not self.reaches(moment):
            raise BadOption(
                f"moment={moment} comes before {self.moment}, which this growing view has reached; begin "
                "another one with store.growing_view(ref)",
                parameter="moment",
            )
        if self.moment is None:
            self._axes = _axes_of(self._commit)
            self._buffer = _GrowingBuffer(
                {key: shape for axis in self._axes for key, shape in axis.shapes().items()}
            )
        # A copy: the reader of the view must not be able to move the moment.
        self.moment = Moment(moment.session, moment.phase)
        self._buffer.append(
            {key: rows for axis in self._axes for key, rows in axis.fresh(self._commit, moment).items()}
        )
        arrays = self._buffer.arrays()
        # Made anew for every view: no two share an object that could be written into.
        frames = {
            field: FrozenFrame(arrays[axis], symbols, arrays[field])
            for axis in self._axes
            for field, symbols in axis.symbols.items()
        }
        news_moment = moment.of_news(self._news_until)
        self._records = self._records.plus(
            self._commit.records.as_of(news_moment, first=len(self._records.entries))
        )
        known = cut(self._commit, moment, frames, self._records.plus(()))
        return View(self.data_ref, moment, known, self._id, news_moment)


class _Axis:
    """Fields with the same sessions that become known in the same phase."""

    def __init__(self, sources: Mapping[FieldKey, tuple[FrozenFrame, tuple[str, ...]]]) -> None:
        self._field = next(iter(sources))
        self._sessions = sources[self._field][0].sessions
        self._positions = {field: frame.positions(symbols) for field, (frame, symbols) in sources.items()}
        self._rows = 0
        self.symbols = {field: symbols for field, (_, symbols) in sources.items()}

    def shapes(self) -> dict[Any, tuple[np.dtype[Any], int | None]]:
        """What the buffer has of it: the sessions, named by the axis itself, and the values of each field."""
        floats = np.dtype(np.float64)
        return {self: (self._sessions.dtype, None)} | {
            field: (floats, len(symbols)) for field, symbols in self.symbols.items()
        }

    def fresh(self, commit: Commit, moment: Moment) -> dict[Any, NDArray[Any]]:
        """The rows that became known since the moment asked for before."""
        known = known_rows(*self._field, self._sessions, moment)
        if known == self._rows:
            return {}
        rows, self._rows = slice(self._rows, known), known
        return {self: self._sessions[rows]} | {
            (panel, name): commit.panels[panel][name].rows(rows, positions)
            for (panel, name), positions in self._positions.items()
        }


def _axes_of(commit: Commit) -> list[_Axis]:
    axes: dict[tuple[Phase, bytes], dict[FieldKey, tuple[FrozenFrame, tuple[str, ...]]]] = {}
    for panel, fields in commit.panels.items():
        for name, frame in fields.items():
            symbols = known_symbols(commit.panels, panel, name)
            if symbols is not None:  # else its columns grow too, and it is cut anew at every moment
                axis = axes.setdefault((known_from(panel, name), frame.sessions.tobytes()), {})
                axis[panel, name] = frame, symbols
    return [_Axis(axis) for axis in axes.values()]


class _GrowingBuffer(Generic[K]):
    """Named arrays to which rows are appended, all in one memory.

    Arrays that were handed out stay as they were and cannot be written to. A full memory is replaced by one
    for 16 times as many rows; arrays of before keep theirs.

    Parameters
    ----------
    shapes
        By name, the data type and the number of columns; None for an array of one dimension.
    """

    def __init__(self, shapes: Mapping[K, tuple[np.dtype[Any], int | None]]) -> None:
        self._shapes = dict(shapes)
        self._rows = dict.fromkeys(self._shapes, 0)
        self._readable: dict[K, NDArray[Any]] = {}
        self._capacity = 0
        self._make_room(_FIRST_CAPACITY)

    def append(self, rows: Mapping[K, NDArray[Any]]) -> None:
        """Append rows to some of the arrays."""
        last = {name: self._rows[name] + len(fresh) for name, fresh in rows.items()}
        self._make_room(max(last.values(), default=0))
        for name, fresh in rows.items():
            self._writable[name][self._rows[name] : last[name]] = fresh
        self._rows |= last

    def arrays(self) -> dict[K, NDArray[Any]]:
        """All arrays as far as they were appended."""
        return {name: array[: self._rows[name]] for name, array in self._readable.items()}

    def _make_room(self, rows: int) -> None:
        if rows <= self._capacity:
            return
        before = self.arrays()
        self._capacity = self._capacity or _FIRST_CAPACITY
        while self._capacity < rows:
            self._capacity *= _FIRST_CAPACITY
        shapes = {
            name: (dtype, (self._capacity,) if width is None else (self._capacity, width))
            for name, (dtype, width) in self._shapes.items()
        }
        sizes = [math.prod(shape) * dtype.itemsize for dtype, shape in shapes.values()]
        begins = dict(zip(shapes, accumulate(sizes, initial=0), strict=False))
        self._writable, self._readable = (
            {
                name: np.frombuffer(buffer, dtype, math.prod(shape), begins[name]).reshape(shape)
                for name, (dtype, shape) in shapes.items()
            }
            for buffer in _double_mapping(max(1, sum(sizes)))
        )
        for name, array in before.items():
            self._writable[name][: len(array)] = array


def _double_mapping(nbytes: int) -> tuple[Any, Any]:
    """Map a nameless file twice, to be written and to be read.

    The system's pages of the second mapping are read-only, so no array over them can be made writable. Pages
    that nothing was written to take no memory.
    """
    with _nameless_file() as file:
        file.truncate(nbytes)
        return (
            mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_WRITE),
            mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_READ),
        )


def _nameless_file() -> Any:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("quantgraph"), "wb+")
    return tempfile.TemporaryFile()
