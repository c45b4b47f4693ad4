"""How frames and results travel to and from a code process: a JSON header and raw float64 blocks.

Never pickle: what comes back from generated code is data to be checked, not objects to be trusted.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from quantgraph._frames import FrozenFrame

__all__ = ["Frames", "pack", "unpack"]

T = TypeVar("T")

_LENGTH = struct.Struct("<QQ")
_HEADER_LIMIT = 32 << 20

Frames = Mapping[str, Mapping[str, FrozenFrame]]


def pack(header: Mapping[str, Any], frames: Frames) -> list[bytes | memoryview]:
    """Parts of a message, in order."""
    axes: dict[tuple[bytes, tuple[str, ...]], int] = {}
    table: list[dict[str, Any]] = []
    blocks: list[memoryview] = []
    for panel, fields in frames.items():
        for name, frame in fields.items():
            axis = axes.setdefault((frame.sessions.tobytes(), frame.symbols), len(axes))
            table.append({"panel": panel, "name": name, "axis": axis})
            blocks.append(frame.values.data.cast("B"))
    listed = [
        {"sessions": np.frombuffer(days, dtype="<i8").tolist(), "symbols": list(symbols)}
        for days, symbols in axes
    ]
    text = json.dumps({**header, "frames": table, "axes": listed}).encode()
    return [_LENGTH.pack(len(text), sum(block.nbytes for block in blocks)), text, *blocks]


def unpack(
    read: Callable[[int], bytes | bytearray], *, limit: int, header_limit: int = _HEADER_LIMIT
) -> tuple[dict[str, Any], dict[str, dict[str, FrozenFrame]]]:
    """Read a message with ``read(n)``, which returns exactly n bytes or raises.

    Frames are checked to be what they say they are, arrays of the announced shape with text for symbols;
    whether they are good frames is for :func:`~quantgraph._frames.freeze` to say.

    Raises
    ------
    ValueError, TypeError, LookupError, OverflowError, RecursionError
        If the message is larger than ``limit`` bytes, its header larger than ``header_limit``, or if its
        parts are malformed or do not fit together.
    """
    head, body = _LENGTH.unpack(read(_LENGTH.size))
    if head > header_limit or head + body > limit:
        raise ValueError(
            f"a message of {head} and {body} bytes; at most {header_limit} and {limit} are taken"
        )
    header = _typed(json.loads(read(head)), dict)
    axes = [_axis(_typed(told, dict)) for told in _typed(header.pop("axes"), list)]
    frames: dict[str, dict[str, FrozenFrame]] = {}
    for told in _typed(header.pop("frames"), list):
        entry = _typed(told, dict)
        panel, name, number = (_typed(entry["panel"], str), _typed(entry["name"], str), entry["axis"])
        sessions, symbols = axes[_typed(number, int)]
        size = len(sessions) * len(symbols) * 8
        body -= size
        if body < 0:
            raise ValueError("the frames announced are larger than the message")
        values = np.frombuffer(bytes(read(size)), dtype="<f8").reshape(len(sessions), len(symbols))
        frames.setdefault(panel, {})[name] = FrozenFrame.of(sessions, symbols, values)
    if body:
        raise ValueError(f"{body} bytes more than the frames announced")
    return header, frames


def _axis(told: dict[str, Any]) -> tuple[NDArray[np.datetime64], tuple[str, ...]]:
    days = [_typed(day, int) for day in _typed(told["sessions"], list)]
    symbols = tuple(_typed(symbol, str) for symbol in _typed(told["symbols"], list))
    sessions = np.array(days, dtype="<i8")
    return np.frombuffer(sessions.tobytes(), dtype="datetime64[us]"), symbols


def _typed(thing: Any, kind: type[T]) -> T:
    if type(thing) is not kind:
        raise TypeError(f"{type(thing).__name__} where {kind.__name__} is wanted")
    return thing
