"""How the daily loop reads a commit: a walk for those who decide, readings for the desk."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantgraph.errors import BadOption
from quantgraph.market.moment import Moment, Phase, known_from
from quantgraph.state.commits import Commit
from quantgraph.state.frames import FrozenFrame
from quantgraph.state.views import (
    BaseView,
    Fields,
    GrowingViewId,
    Told,
    View,
    actions_at,
    actions_told,
    known_frame,
    known_rows,
    known_symbols,
    panel_of,
)

__all__ = ["GrowingView", "TrustedView"]

Key = tuple[str, str]


class GrowingView:
    """The views of one run, moment by moment, at the cost of the rows that became known in between.

    All its frames are over memory that grows: a row is written when it becomes known, and nothing later was
    ever written there. It has room for 16, 256, 4096 ... rows, whatever is to come; where that is full the
    walk goes on in new memory, and the views of before keep theirs. What is handed out can be read and not
    written. A view of an earlier moment may share the memory, so a walk belongs to one run and one thread at
    a time; another run has another walk.

    It holds the commit. The views do not lead to it.
    """

    def __init__(self, ref: str, tree: Commit) -> None:
        self.data_ref = ref
        self.moment: Moment | None = None
        self._tree = tree
        self._grown: list[_Grown] = []
        self._room = 0
        self._id = GrowingViewId()

    def reaches(self, moment: Moment) -> bool:
        """Whether it has not gone past a moment."""
        return self.moment is None or self.moment <= moment

    def at(self, moment: Moment) -> View:
        """The commit as known at a moment, which is not before the last one.

        Raises
        ------
        BadOption
            If it is before the last one; begin another walk.
        """
        if not self.reaches(moment):
            raise BadOption(
                f"moment={moment} comes before {self.moment}, where this walk stands; a walk only goes on: "
                "begin another one with store.growing_view(ref)",
                parameter="moment",
            )
        if self.moment is None:
            self._grown = _grown_of(self._tree)
        known = {part: part.known(moment) for part in self._grown}
        self._make_room(max(known.values(), default=0))
        # A copy, since who is handed the view may write into its moment by some trick.
        self.moment = Moment(moment.session, moment.phase)
        frames = {
            key: frame for part, rows in known.items() for key, frame in part.grow(self._tree, rows).items()
        }
        fields = {
            panel: {
                name: frames.get((panel, name)) or known_frame(self._tree, panel, name, moment)
                for name in named
            }
            for panel, named in self._tree.panels.items()
        }
        return View(
            self.data_ref,
            moment,
            fields=fields,
            actions=actions_told(self._tree, fields["ohlcv"], moment),
            records=self._tree.records.as_of(moment),
            growing_view_id=self._id,
        )

    def _make_room(self, rows: int) -> None:
        """Move to new memory where there is no room: of powers of 16, lest its size tells what is to come."""
        if rows > self._room:
            while self._room < rows:
                self._room = 16 * max(self._room, 1)
            memory = _Memory(self._room * sum(part.row_nbytes for part in self._grown))
            for part in self._grown:
                part.move(memory, self._room)


class _Grown:
    """Fields of the same sessions that become known in the same phase."""

    def __init__(self, sources: Mapping[Key, tuple[FrozenFrame, tuple[str, ...]]]) -> None:
        self._first = next(iter(sources))
        self._sessions = sources[self._first][0].sessions
        self._symbols = {key: symbols for key, (_, symbols) in sources.items()}
        self._places = {key: frame.places_of(symbols) for key, (frame, symbols) in sources.items()}
        self.row_nbytes = 8 * sum(1 + len(symbols) for symbols in self._symbols.values())
        self.move(_Memory(1), 0)

    def move(self, memory: _Memory, room: int) -> None:
        """Go on in other memory, in which nothing is written yet."""
        self._written, self._dates = memory.pair(room, self._sessions.dtype)
        self._blocks = {key: _block(memory, room, len(symbols)) for key, symbols in self._symbols.items()}
        self._rows = 0

    def known(self, moment: Moment) -> int:
        return known_rows(*self._first, self._sessions, moment)

    def grow(self, tree: Commit, rows: int) -> dict[Key, FrozenFrame]:
        """Write what is not written of the first ``rows``, and give them out."""
        fresh = slice(self._rows, rows)
        if rows > self._rows:
            self._written[fresh] = self._sessions[fresh]
            for (panel, name), (written, _) in self._blocks.items():
                written[fresh] = tree.panels[panel][name].cells(fresh, self._places[panel, name])
            self._rows = rows
        # Made anew for every view: no two share an object that could be written into by some trick.
        return {
            key: FrozenFrame.of(self._dates[:rows], self._symbols[key], values[:rows])
            for key, (_, values) in self._blocks.items()
        }


class _Memory:
    """Memory mapped twice: once to be written here, once to be handed out read-only.

    The system's pages of the second are read-only, so no array over them can be made writeable. Pages that
    nothing was written to take no room.
    """

    def __init__(self, nbytes: int) -> None:
        with _file() as file:
            file.truncate(nbytes)
            self._write = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_WRITE)
            self._read = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_READ)
        self._used = 0

    def pair(self, count: int, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Take an array, and give it writeable and read-only."""
        begin = self._used
        self._used += count * dtype.itemsize
        made = [np.frombuffer(memory, dtype, count, begin) for memory in (self._write, self._read)]
        return made[0], made[1]


def _file() -> Any:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("quantgraph"), "wb+")
    return tempfile.TemporaryFile()


def _block(memory: _Memory, rows: int, columns: int) -> tuple[NDArray[Any], NDArray[Any]]:
    written, read = memory.pair(rows * columns, np.dtype(np.float64))
    return written.reshape(rows, columns), read.reshape(rows, columns)


def _grown_of(tree: Commit) -> list[_Grown]:
    groups: dict[tuple[Phase, bytes], dict[Key, tuple[FrozenFrame, tuple[str, ...]]]] = {}
    for panel, named in tree.panels.items():
        for name, frame in named.items():
            symbols = known_symbols(tree.panels, panel, name)
            if symbols is not None:  # else its columns grow too, and it is cut anew at every moment
                group = groups.setdefault((known_from(panel, name), frame.sessions.tobytes()), {})
                group[panel, name] = frame, symbols
    return [_Grown(group) for group in groups.values()]


class TrustedView(BaseView):
    """A commit as known at a moment, for the desk, which is trusted: rows are cut when they are asked for.

    Nothing is copied, so whoever is given one can reach the whole commit. A decider is given a :class:`View`.
    """

    def __init__(self, ref: str, tree: Commit, moment: Moment) -> None:
        self.data_ref = ref
        self.moment = moment
        self._tree = tree

    def __getitem__(self, panel: str) -> Fields:
        return Fields(panel, _Prefixes(panel, panel_of(self._tree.panels, panel), self.moment))

    def _told(self) -> Told:
        return actions_at(self._tree.panels["ohlcv"], self.moment)


class _Prefixes(Mapping[str, FrozenFrame]):
    """Fields of a panel, each cut at a moment when it is asked for."""

    __slots__ = ("_fields", "_moment", "_panel")

    def __init__(self, panel: str, fields: Mapping[str, FrozenFrame], moment: Moment) -> None:
        self._panel, self._fields, self._moment = panel, fields, moment

    def __getitem__(self, name: str) -> FrozenFrame:
        frame = self._fields[name]
        return frame.prefix(known_rows(self._panel, name, frame.sessions, self._moment))

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)
