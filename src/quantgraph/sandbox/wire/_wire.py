"""Messages between the host and a code process: a JSON header and float64 blocks.

Nothing is pickled: a reply of generated code is data to check, never an object to trust.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from quantgraph.state.frames import FrozenFrame

T = TypeVar("T")

_LENGTHS = struct.Struct("<QQ")
_HEADER_LIMIT = 32 << 20
_SMALL = 64 << 10
_ROWS = 64
"""Rows that are encoded at a time, so that they stay in a processor's cache."""
_NO_OPINION = 2
_OPINIONS = np.full(256, np.nan)
_OPINIONS[[0, 1, 255]] = 0.0, 1.0, -1.0
_IS_OPINION = np.isin(np.arange(256), [0, 1, _NO_OPINION, 255])
"""Values of the bytes of a signal, and which of them are valid."""

Frames = Mapping[str, Mapping[str, FrozenFrame]]
Block = bytes | memoryview
Read = Callable[[int], bytes | bytearray]
"""Returns exactly the requested number of bytes, or raises EOFError or OSError."""


def encode_message(header: Mapping[str, Any], blocks: Sequence[Block] = ()) -> list[Block]:
    """Return the parts of a message in order: lengths and header, then blocks; a small one is whole."""
    text, size = json.dumps(header).encode(), sum(memoryview(block).nbytes for block in blocks)
    begin = _LENGTHS.pack(len(text), size) + text
    # Each part wakes its reader.
    return [b"".join([begin, *blocks])] if size < _SMALL else [begin, *blocks]


def read_header(read: Read, *, limit: int, header_limit: int = _HEADER_LIMIT) -> tuple[dict[str, Any], int]:
    """Read a message's header, and return it with the number of bytes of the blocks that follow."""
    header, body = _LENGTHS.unpack(read(_LENGTHS.size))
    if header > header_limit or header + body > limit:
        raise ValueError(
            f"header of {header} bytes and body of {body}; limits are {header_limit} and {limit}"
        )
    return require_type(json.loads(read(header)), dict), body


def exact_reader(stream: IO[bytes]) -> Read:
    """Return a function that reads exactly as many bytes of a stream as requested."""

    def read(size: int) -> bytes:
        data = stream.read(size)
        if len(data) != size:
            raise EOFError("the message ended early")
        return data

    return read


def array_bytes(values: NDArray[Any]) -> Block:
    """Return the memory of a C-ordered array without a copy."""
    return values.data.cast("B") if values.size else b""


def frame_table(frames: Frames) -> tuple[dict[str, Any], list[FrozenFrame]]:
    """Describe frames as JSON, each distinct pair of axes once, and list them in the same order."""
    axes: dict[tuple[bytes, tuple[str, ...]], int] = {}
    entries: list[dict[str, Any]] = []
    listed: list[FrozenFrame] = []
    for panel, fields in frames.items():
        for name, frame in fields.items():
            axis = axes.setdefault((frame.sessions.tobytes(), frame.symbols), len(axes))
            entries.append({"panel": panel, "name": name, "axis": axis})
            listed.append(frame)
    described = [
        {"sessions": np.frombuffer(sessions, dtype="<i8").tolist(), "symbols": list(symbols)}
        for sessions, symbols in axes
    ]
    return {"frames": entries, "axes": described}, listed


def encode_frames(header: Mapping[str, Any], frames: Frames) -> list[Block]:
    """Return the parts of a message that carries frames."""
    table, listed = frame_table(frames)
    return encode_message({**header, **table}, [array_bytes(frame.values) for frame in listed])


def encode_signals(header: Mapping[str, Any], signals: Frames) -> list[Block]:
    """Return the parts of a message that carries signals: a byte a cell where all cells are opinions."""
    table, listed = frame_table(signals)
    blocks = []
    for entry, frame in zip(table["frames"], listed, strict=True):
        codes = _codes(frame.values) if entry["panel"] == "signal" else None
        entry["opinions"] = codes is not None
        blocks.append(array_bytes(frame.values if codes is None else codes))
    return encode_message({**header, **table}, blocks)


def _codes(values: NDArray[np.float64]) -> NDArray[np.uint8] | None:
    """A byte for each cell; None if one is not an opinion, which the host refuses."""
    codes = np.empty(values.shape, dtype=np.int8)
    for first in range(0, values.shape[0], _ROWS):
        part = values[first : first + _ROWS]
        unknown = np.isnan(part)
        if not (unknown | (np.abs(part) <= 1) & (part == np.rint(part))).all():
            return None
        codes[first : first + _ROWS] = np.where(unknown, _NO_OPINION, part)
    return codes.view(np.uint8)


def decode_frames(read: Read, *, limit: int) -> tuple[dict[str, Any], dict[str, dict[str, FrozenFrame]]]:
    """Read a message of :func:`encode_frames`; raises like :func:`read_header` and :func:`read_frames`."""
    header, body = read_header(read, limit=limit)
    frames: dict[str, dict[str, FrozenFrame]] = {}
    for panel, name, frame in read_frames(header, body, read):
        frames.setdefault(panel, {})[name] = frame
    return header, frames


def read_frames(header: Mapping[str, Any], body: int, read: Read) -> Iterator[tuple[str, str, FrozenFrame]]:
    """Read the ``body`` bytes of frames behind a header of :func:`encode_frames`, frame by frame.

    Checks the announced shapes and that symbols are text. Whether values and dates are valid is checked by
    :func:`~quantgraph.state.frames.freeze`.
    """
    axes = [_read_axis(require_type(axis, dict)) for axis in require_type(header["axes"], list)]
    for item in require_type(header["frames"], list):
        entry = require_type(item, dict)
        panel, name = require_type(entry["panel"], str), require_type(entry["name"], str)
        number = require_type(entry["axis"], int)
        if number < 0:
            raise ValueError(f"axis {number} does not exist")
        sessions, symbols = axes[number]
        opinions = entry.get("opinions") is True
        size = len(sessions) * len(symbols) * (1 if opinions else 8)
        body -= size
        if body < 0:
            raise ValueError("the announced frames are larger than the message")
        block = memoryview(read(size)).toreadonly()
        cells = _opinions(block) if opinions else np.frombuffer(block, dtype="<f8")
        values = cells.reshape(len(sessions), len(symbols))
        yield panel, name, FrozenFrame(sessions, symbols, values)
    if body:
        raise ValueError(f"the message has {body} bytes more than the announced frames")


def _opinions(block: memoryview) -> NDArray[np.float64]:
    codes = np.frombuffer(block, dtype=np.uint8)
    if not _IS_OPINION[codes].all():
        raise ValueError(f"{codes[np.argmin(_IS_OPINION[codes])]} is the code of no opinion")
    values = _OPINIONS[codes]
    values.flags.writeable = False
    return values


def _read_axis(axis: dict[str, Any]) -> tuple[NDArray[np.datetime64], tuple[str, ...]]:
    microseconds = [require_type(session, int) for session in require_type(axis["sessions"], list)]
    symbols = tuple(require_type(symbol, str) for symbol in require_type(axis["symbols"], list))
    sessions = np.array(microseconds, dtype="<i8")
    return np.frombuffer(sessions.tobytes(), dtype="datetime64[us]"), symbols


def require_type(value: Any, kind: type[T]) -> T:
    """Return the value if its type is exactly ``kind``, else raise TypeError."""
    if type(value) is not kind:
        raise TypeError(f"must be {kind.__name__}, not {type(value).__name__}")
    return value
