"""Frames that grow between messages: both ends send and keep only the rows that were not sent before."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantgraph.sandbox.wire._wire import Block, Frames, array_bytes, with_token
from quantgraph.state import GrowingBuffer, private_mapping
from quantgraph.state.frames import FrozenFrame


class FramesSender:
    """The host's end: sends the rows of frames that were not sent before."""

    def __init__(self) -> None:
        self._table: list[tuple[str, str, tuple[str, ...]]] = []
        self._sent: list[int] = []

    def send(self, frames: Frames) -> tuple[dict[str, Any], list[Block]]:
        """Return header and blocks that bring a child to ``frames``, which begin with the rows sent before.

        If fields or symbols differ from those before, all rows are sent again.
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
            blocks += [array_bytes(frame.sessions[first:].view("<i8")), array_bytes(frame.values[first:])]
        rows = [len(frame.sessions) for _, _, frame in listed]
        header["rows"] = [last - first for first, last in zip(self._sent, rows, strict=True)]
        self._sent = rows
        return header, [block for block in blocks if len(block)]


class FramesReceiver:
    """The child's end: the frames as far as they were sent."""

    def __init__(self) -> None:
        self._symbols: list[tuple[str, ...]] = []
        self._fields: list[tuple[str, str, int]] = []
        self._buffer = GrowingBuffer[tuple[str, int]]({}, memory=private_mapping)
        self._step = 0

    def receive(self, header: dict[str, Any], body: bytes | bytearray) -> dict[str, dict[str, FrozenFrame]]:
        """Append the rows of a message, and return all frames."""
        if "fields" in header:
            self._symbols = [tuple(symbols) for symbols in header["symbols"]]
            self._fields = [tuple(entry) for entry in header["fields"]]
            self._buffer = GrowingBuffer(self._shapes(), memory=private_mapping, growth=2)
        self._step += 1
        self._buffer.append(self._rows(header["rows"], body))
        arrays = self._buffer.arrays()
        frames: dict[str, dict[str, FrozenFrame]] = {}
        for place, (panel, name, axis) in enumerate(self._fields):
            days, values = (_alone(arrays[part, place]) for part in ("sessions", "values"))
            frame = FrozenFrame(days, self._symbols[axis], values)
            frames.setdefault(panel, {})[name] = with_token(frame, f"{self._step}-{place}")
        return frames

    def _shapes(self) -> dict[tuple[str, int], tuple[np.dtype[Any], int | None]]:
        shapes: dict[tuple[str, int], tuple[np.dtype[Any], int | None]] = {}
        for place, (_, _, axis) in enumerate(self._fields):
            shapes["sessions", place] = np.dtype("<M8[us]"), None
            shapes["values", place] = np.dtype("<f8"), len(self._symbols[axis])
        return shapes

    def _rows(self, counts: list[int], body: bytes | bytearray) -> dict[tuple[str, int], NDArray[Any]]:
        rows: dict[tuple[str, int], NDArray[Any]] = {}
        start = 0
        for (part, place), (dtype, width) in self._shapes().items():
            shape = (counts[place],) if width is None else (counts[place], width)
            block = np.frombuffer(body, dtype, math.prod(shape), start).reshape(shape)
            start += block.nbytes
            rows[part, place] = block
        return rows


def _alone(array: NDArray[Any]) -> NDArray[Any]:
    """The array over a memoryview of it alone: the last base of a frame ends with its last row."""
    rows = array.view("<i8").data if array.size else b""
    return np.frombuffer(rows, array.dtype, array.size).reshape(array.shape)
