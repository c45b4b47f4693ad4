"""How frames and results travel to and from a code process: a JSON header and raw float64 blocks.

Never pickle: what comes back from generated code is data to be checked, not objects to be trusted.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from quantgraph._frames import FrozenFrame

__all__ = ["pack", "unpack"]

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
    read: Callable[[int], bytes | bytearray], *, limit: int
) -> tuple[dict[str, Any], dict[str, dict[str, FrozenFrame]]]:
    """Read a message with ``read(n)``, which returns exactly n bytes or raises.

    Raises
    ------
    ValueError
        If the message is larger than ``limit`` bytes, or its parts do not fit together.
    """
    head, body = _LENGTH.unpack(read(_LENGTH.size))
    if head > _HEADER_LIMIT or head + body > limit:
        raise ValueError(f"a message of {head + body} bytes; at most {limit} are taken")
    header: dict[str, Any] = json.loads(read(head))
    axes = [
        (np.array(axis["sessions"], dtype="<i8").view("datetime64[us]"), tuple(axis["symbols"]))
        for axis in header.pop("axes")
    ]
    frames: dict[str, dict[str, FrozenFrame]] = {}
    for entry in header.pop("frames"):
        sessions, symbols = axes[entry["axis"]]
        size = len(sessions) * len(symbols) * 8
        body -= size
        if body < 0:
            raise ValueError("the frames announced are larger than the message")
        values = np.frombuffer(bytes(read(size)), dtype="<f8").reshape(len(sessions), len(symbols))
        frames.setdefault(entry["panel"], {})[entry["name"]] = FrozenFrame.of(
            np.frombuffer(sessions.tobytes(), dtype="datetime64[us]"), symbols, values
        )
    return header, frames
