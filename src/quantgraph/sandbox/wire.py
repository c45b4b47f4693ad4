"""How frames and results travel to and from a code process: a JSON header and raw float64 blocks.

Never pickle: what comes back from generated code is data to be checked, not objects to be trusted.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from quantgraph.state.frames import FrozenFrame

__all__ = [
    "Block",
    "Frames",
    "Read",
    "array_bytes",
    "decode_frames",
    "encode_frames",
    "encode_message",
    "read_frames",
    "read_header",
    "require_type",
]

T = TypeVar("T")

_LENGTH = struct.Struct("<QQ")
_HEADER_LIMIT = 32 << 20

Frames = Mapping[str, Mapping[str, FrozenFrame]]
Block = bytes | memoryview
Read = Callable[[int], bytes | bytearray]
"""Returns exactly as many bytes as asked for, or raises EOFError or OSError."""


def encode_message(header: Mapping[str, Any], blocks: Sequence[Block] = ()) -> list[Block]:
    """Parts of a message, in order: two lengths, the header, the blocks."""
    text = json.dumps(header).encode()
    return [_LENGTH.pack(len(text), sum(memoryview(block).nbytes for block in blocks)), text, *blocks]


def read_header(read: Read, *, limit: int, header_limit: int = _HEADER_LIMIT) -> tuple[dict[str, Any], int]:
    """Read a message's header, and say how many bytes of blocks follow.

    Raises
    ------
    ValueError, TypeError, RecursionError
        If the message is larger than ``limit`` bytes, its header larger than ``header_limit``, or no header.
    """
    head, body = _LENGTH.unpack(read(_LENGTH.size))
    if head > header_limit or head + body > limit:
        raise ValueError(
            f"a message of {head} and {body} bytes; at most {header_limit} and {limit} are taken"
        )
    return require_type(json.loads(read(head)), dict), body


def array_bytes(values: NDArray[Any]) -> Block:
    """The memory of a C-ordered array, without a copy."""
    return values.data.cast("B") if values.size else b""


def encode_frames(header: Mapping[str, Any], frames: Frames) -> list[Block]:
    """Parts of a message that carries frames, in order."""
    axes: dict[tuple[bytes, tuple[str, ...]], int] = {}
    table: list[dict[str, Any]] = []
    blocks: list[Block] = []
    for panel, fields in frames.items():
        for name, frame in fields.items():
            axis = axes.setdefault((frame.sessions.tobytes(), frame.symbols), len(axes))
            table.append({"panel": panel, "name": name, "axis": axis})
            blocks.append(array_bytes(frame.values))
    listed = [
        {"sessions": np.frombuffer(days, dtype="<i8").tolist(), "symbols": list(symbols)}
        for days, symbols in axes
    ]
    return encode_message({**header, "frames": table, "axes": listed}, blocks)


def decode_frames(read: Read, *, limit: int) -> tuple[dict[str, Any], dict[str, dict[str, FrozenFrame]]]:
    """Read a message of :func:`encode_frames`; raises like :func:`read_header` and :func:`read_frames`."""
    header, body = read_header(read, limit=limit)
    frames: dict[str, dict[str, FrozenFrame]] = {}
    for panel, name, frame in read_frames(header, body, read):
        frames.setdefault(panel, {})[name] = frame
    return header, frames


def read_frames(header: Mapping[str, Any], body: int, read: Read) -> Iterator[tuple[str, str, FrozenFrame]]:
    """Read the ``body`` bytes of frames behind a header of :func:`encode_frames`, frame by frame.

    Frames are checked to be what they say they are, arrays of the announced shape with text for symbols;
    whether they are good frames is for :func:`~quantgraph.state.frames.freeze` to say.

    Raises
    ------
    ValueError, TypeError, LookupError, OverflowError
        If its parts are malformed or do not fit together.
    """
    axes = [_axis(require_type(told, dict)) for told in require_type(header["axes"], list)]
    for told in require_type(header["frames"], list):
        entry = require_type(told, dict)
        panel, name, number = (
            require_type(entry["panel"], str),
            require_type(entry["name"], str),
            require_type(entry["axis"], int),
        )
        if number < 0:
            raise ValueError(f"there is no axis {number}")
        sessions, symbols = axes[number]
        size = len(sessions) * len(symbols) * 8
        body -= size
        if body < 0:
            raise ValueError("the frames announced are larger than the message")
        block = memoryview(read(size)).toreadonly()
        values = np.frombuffer(block, dtype="<f8").reshape(len(sessions), len(symbols))
        yield panel, name, FrozenFrame(sessions, symbols, values)
    if body:
        raise ValueError(f"{body} bytes more than the frames announced")


def _axis(told: dict[str, Any]) -> tuple[NDArray[np.datetime64], tuple[str, ...]]:
    days = [require_type(day, int) for day in require_type(told["sessions"], list)]
    symbols = tuple(require_type(symbol, str) for symbol in require_type(told["symbols"], list))
    sessions = np.array(days, dtype="<i8")
    return np.frombuffer(sessions.tobytes(), dtype="datetime64[us]"), symbols


def require_type(thing: Any, kind: type[T]) -> T:
    """The thing itself if it is exactly of that type, else TypeError."""
    if type(thing) is not kind:
        raise TypeError(f"{type(thing).__name__} where {kind.__name__} is wanted")
    return thing
