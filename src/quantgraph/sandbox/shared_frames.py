"""Frames for a code process: written once into memory that nobody can change, mapped by every child."""

from __future__ import annotations

import json
import mmap
import os
import struct
import tempfile
import threading
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from quantgraph.sandbox.wire import Block, Frames, array_bytes
from quantgraph.state.frames import FrozenFrame

__all__ = ["SharedFramesCache", "map_shared_frames", "read_shared_frames", "with_token"]

_LENGTH = struct.Struct("<Q")
_ALIGN = 64
_KEPT = 4
_LARGE = 256 << 20


class SharedFramesCache:
    """The parcels of the last few sets of frames, each kept as long as all its frames live.

    The lock protects the list against threads that run code at the same time; it is held while a parcel is
    written, so that the same frames are not written twice.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[object, tuple[int, list[weakref.ref[FrozenFrame]]]] = OrderedDict()

    def lend(self, frames: Frames) -> int:
        """A descriptor of the frames' parcel, with a place of its own in it, to be closed by the caller."""
        listed = [(panel, name, frame) for panel, fields in frames.items() for name, frame in fields.items()]
        key = tuple((panel, name, id(frame)) for panel, name, frame in listed)
        with self._lock:
            if key not in self._kept:
                made = _write(listed)
                living = [weakref.ref(frame, lambda _: self._drop(key)) for *_, frame in listed]
                self._kept[key] = made, living
            self._kept.move_to_end(key)
            lent = _reopened(self._kept[key][0])
            self._shrink(1 if os.fstat(lent).st_size > _LARGE else _KEPT)
            return lent

    def close(self) -> None:
        """Let go of all parcels."""
        with self._lock:
            self._shrink(0)

    def _shrink(self, most: int) -> None:
        while len(self._kept) > most:
            os.close(self._kept.popitem(last=False)[1][0])

    def _drop(self, key: object) -> None:
        # Called when a frame has died, at any time and in any thread: no lock, one atomic step.
        found = self._kept.pop(key, None)
        if found:
            os.close(found[0])


def _write(listed: list[tuple[str, str, FrozenFrame]]) -> int:
    axes: dict[tuple[bytes, tuple[str, ...]], int] = {}
    table: list[dict[str, Any]] = []
    offset = 0
    for panel, name, frame in listed:
        axis = axes.setdefault((frame.sessions.tobytes(), frame.symbols), len(axes))
        table.append({"panel": panel, "name": name, "axis": axis, "offset": offset})
        offset = _aligned(offset + frame.values.nbytes)
    told = [
        {"sessions": np.frombuffer(days, dtype="<i8").tolist(), "symbols": symbols} for days, symbols in axes
    ]
    text = json.dumps({"frames": table, "axes": told}).encode()
    start = _aligned(_LENGTH.size + len(text))
    blocks: list[tuple[int, Block]] = [(0, _LENGTH.pack(len(text)) + text)]
    blocks += [
        (start + entry["offset"], array_bytes(frame.values))
        for entry, (_, _, frame) in zip(table, listed, strict=True)
    ]
    return _sealed(blocks)


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _sealed(blocks: list[tuple[int, Block]]) -> int:
    if hasattr(os, "memfd_create"):
        import fcntl

        memory = os.memfd_create("quantgraph-frames", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        _fill(memory, blocks)
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
        return memory
    # A descriptor that can only be read, of a file that has no name any more.
    with tempfile.NamedTemporaryFile(prefix="quantgraph-frames-") as file:
        _fill(file.fileno(), blocks)
        return os.open(file.name, os.O_RDONLY | os.O_CLOEXEC)


def _reopened(descriptor: int) -> int:
    # Where a copy of it reads next is one number for all copies, which one call could leave to a later one.
    same = Path(f"/proc/self/fd/{descriptor}")
    return os.open(same, os.O_RDONLY | os.O_CLOEXEC) if same.exists() else os.dup(descriptor)


def _fill(descriptor: int, blocks: list[tuple[int, Block]]) -> None:
    for offset, block in blocks:
        rest = memoryview(block)
        while rest:
            done = os.pwrite(descriptor, rest, offset)
            offset, rest = offset + done, rest[done:]  # noqa: PLW2901


def map_shared_frames(descriptor: int) -> mmap.mmap:
    """Map a parcel, to be read and not to be written."""
    # A private mapping: Linux before 6.7 refuses a shared one of memory that is sealed against writing.
    return mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)


def read_shared_frames(memory: mmap.mmap) -> dict[str, dict[str, FrozenFrame]]:
    """The frames of a mapped parcel, without a copy."""
    (length,) = _LENGTH.unpack_from(memory)
    head = json.loads(memory[_LENGTH.size : _LENGTH.size + length])
    start = _aligned(_LENGTH.size + length)
    axes = [
        (np.array(axis["sessions"], dtype="<i8").view("datetime64[us]"), tuple(axis["symbols"]))
        for axis in head["axes"]
    ]
    frames: dict[str, dict[str, FrozenFrame]] = {}
    for number, entry in enumerate(head["frames"]):
        sessions, symbols = axes[entry["axis"]]
        shape = len(sessions), len(symbols)
        values = np.zeros(shape)
        if values.size:
            values = np.frombuffer(memory, "<f8", values.size, start + entry["offset"]).reshape(shape)
        frame = with_token(FrozenFrame(sessions, symbols, values), f"given-{number}")
        frames.setdefault(entry["panel"], {})[entry["name"]] = frame
    return frames


def with_token(frame: FrozenFrame, token: str) -> FrozenFrame:
    """Name a frame by a made-up token, so that a store in a code process need not read all of it."""
    vars(frame)["digest"] = token
    return frame
