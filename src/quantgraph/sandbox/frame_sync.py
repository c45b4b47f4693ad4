"""Frames that grow in a child that stays: the host sends rows, and the child has nothing behind their end."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantgraph.sandbox.shared_frames import with_token
from quantgraph.sandbox.wire import Block, Frames, bytes_of
from quantgraph.state.frames import FrozenFrame

__all__ = ["GrowingFrames", "SentFrames"]


class SentFrames:
    """The host's end: what was sent of frames, and what is to be sent next."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Nothing was sent yet."""
        self._table: list[tuple[str, str, tuple[str, ...]]] = []
        self._sent: list[int] = []

    def next(self, frames: Frames) -> tuple[dict[str, Any], list[Block]]:
        """Header and blocks that bring a child to ``frames``, which begin with the rows sent before.

        Where there are other fields or symbols than before, everything is sent anew.
        """
        listed = [(panel, name, frame) for panel, fields in frames.items() for name, frame in fields.items()]
        table = [(panel, name, frame.symbols) for panel, name, frame in listed]
        header: dict[str, Any] = {}
        if table != self._table:
            self._table, self._sent = table, [0] * len(table)
            axes = {symbols: number for number, symbols in enumerate(dict.fromkeys(row[2] for row in table))}
            header["symbols"] = list(axes)
            header["fields"] = [(panel, name, axes[symbols]) for panel, name, symbols in table]
        blocks: list[Block] = []
        for (_, _, frame), first in zip(listed, self._sent, strict=True):
            blocks += [bytes_of(frame.sessions[first:].view("<i8")), bytes_of(frame.values[first:])]
        now = [len(frame.sessions) for _, _, frame in listed]
        header["rows"] = [last - first for first, last in zip(self._sent, now, strict=True)]
        self._sent = now
        return header, [block for block in blocks if len(block)]


class GrowingFrames:
    """The child's end: the frames as far as they were sent."""

    def __init__(self) -> None:
        self._symbols: list[tuple[str, ...]] = []
        self._fields: list[tuple[str, str, int]] = []
        self._sessions: list[_Rows] = []
        self._values: list[_Rows] = []
        self._step = 0

    def add(self, header: dict[str, Any], body: bytes | bytearray) -> dict[str, dict[str, FrozenFrame]]:
        """Append what became known, and return all that is known now."""
        if "fields" in header:
            self._symbols = [tuple(symbols) for symbols in header["symbols"]]
            self._fields = [tuple(entry) for entry in header["fields"]]
            self._sessions = [_Rows("<i8", 1) for _ in self._fields]
            self._values = [_Rows("<f8", len(self._symbols[axis])) for _, _, axis in self._fields]
        self._step += 1
        start = 0
        frames: dict[str, dict[str, FrozenFrame]] = {}
        told = zip(self._fields, self._sessions, self._values, header["rows"], strict=True)
        for place, ((panel, name, axis), sessions, values, rows) in enumerate(told):
            for part in (sessions, values):
                start += part.append(body, start, rows)
            days = sessions.known()[:, 0].view("datetime64[us]")
            frame = FrozenFrame.of(days, self._symbols[axis], values.known())
            frames.setdefault(panel, {})[name] = with_token(frame, f"{self._step}-{place}")
        return frames


class _Rows:
    """Rows in memory that doubles when it is full. What it shows of it ends with the last row."""

    def __init__(self, dtype: str, width: int) -> None:
        self._dtype = np.dtype(dtype)
        self._width = width
        self._rows = self._room = 0
        self._memory: mmap.mmap | None = None

    def append(self, body: bytes | bytearray, start: int, count: int) -> int:
        """Append ``count`` rows that begin at a place of ``body``, and return their bytes."""
        rows, row = self._rows + count, self._width * self._dtype.itemsize
        if rows > self._room and row:
            known, self._room = self.known(), 1 << max(rows - 1, 15).bit_length()
            self._memory = mmap.mmap(-1, self._room * row)
            self._memory[: known.nbytes] = known.data.cast("B") if known.size else b""
        if self._memory is not None:
            self._memory[self._rows * row : rows * row] = memoryview(body)[start : start + count * row]
        self._rows = rows
        return count * row

    def known(self) -> NDArray[Any]:
        """All rows, read-only down to the last base."""
        if self._memory is None:
            return np.zeros((self._rows, self._width), self._dtype)
        size = self._rows * self._width
        shown = memoryview(self._memory)[: size * self._dtype.itemsize].toreadonly()
        return np.frombuffer(shown, self._dtype).reshape(self._rows, self._width)
