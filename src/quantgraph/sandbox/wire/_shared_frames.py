"""Frames in memory that the host writes and a child maps: all at once, or each row when it becomes known."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantgraph.errors import StorageUnavailable
from quantgraph.sandbox.wire._wire import Block, Frames, array_bytes
from quantgraph.state.frames import FrozenFrame

Layout = dict[str, Any]
"""JSON: lists of ``symbols``, ``fields`` of panel, name and number of their symbols, ``capacity`` in rows."""

_ALIGNMENT = 64
_CACHE_SIZE = 4
_LARGE = 256 << 20


class SharedFrames:
    """The host's end: memory with room for ``frames``, which holds the rows that were written.

    If it ``grows``, the room is a power of two of rows, which hides how many are still to come.
    """

    def __init__(self, frames: Frames, *, grows: bool = False) -> None:
        listed = _listed(frames)
        axes = [*dict.fromkeys(frame.symbols for *_, frame in listed)]
        longest = max((len(frame.sessions) for *_, frame in listed), default=0)
        self.layout: Layout = {
            "symbols": axes,
            "fields": [(panel, name, axes.index(frame.symbols)) for panel, name, frame in listed],
            "capacity": 1 << longest.bit_length() if grows else longest,
        }
        *self._places, (self.size, _) = _places(self.layout)
        self.rows = [0] * len(listed)
        with _storage_failure(self.size):
            self._descriptors = _nameless_file()
            self.close = weakref.finalize(self, _close, self._descriptors)
            os.ftruncate(self._descriptors[0], max(1, self.size))

    def write(self, known: Frames) -> None:
        """Write the rows of ``known`` that were not written before."""
        listed, file = [frame for *_, frame in _listed(known)], self._descriptors[0]
        with _storage_failure(self.size):
            for frame, first, (days, values) in zip(listed, self.rows, self._places, strict=True):
                _write(file, array_bytes(frame.sessions[first:].view("<i8")), days + 8 * first)
                _write(file, array_bytes(frame.values[first:]), values + 8 * first * len(frame.symbols))
        self.rows = [len(frame.sessions) for frame in listed]

    def seal(self) -> None:
        """Let nobody write any more, where the system can do it."""
        if hasattr(os, "memfd_create"):
            import fcntl

            seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
            fcntl.fcntl(self._descriptors[0], fcntl.F_ADD_SEALS, seals)

    def open(self) -> int:
        """Return a descriptor that cannot write, with a file offset of its own; the caller closes it."""
        return _reopened(self._descriptors[1])


class FramesReader:
    """The child's end."""

    def __init__(self, memory: mmap.mmap, layout: Layout) -> None:
        self._memory, self._fields = memory, layout["fields"]
        *self._places, _ = _places(layout)
        self._symbols = [tuple(symbols) for symbols in layout["symbols"]]
        self._numbers = count()

    def read(self, rows: list[int]) -> dict[str, dict[str, FrozenFrame]]:
        """Return the first ``rows`` of each field, without a copy."""
        frames: dict[str, dict[str, FrozenFrame]] = {}
        for (panel, name, axis), (begin, cells), length in zip(self._fields, self._places, rows, strict=True):
            symbols = self._symbols[axis]
            days = _array(self._memory, begin, length).view("<M8[us]")
            values = _array(self._memory, cells, length * len(symbols)).view("<f8")
            frame = FrozenFrame(days, symbols, values.reshape(length, len(symbols)))
            frames.setdefault(panel, {})[name] = with_token(frame, f"given-{next(self._numbers)}")
        return frames


def map_shared_frames(descriptor: int) -> mmap.mmap:
    """Map the memory read-only; what the host writes there later is seen."""
    try:
        return mmap.mmap(descriptor, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    except PermissionError:  # of Linux before 6.7 for memory that is sealed against writing
        return mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)


def with_token(frame: FrozenFrame, token: str) -> FrozenFrame:
    """Set a made-up digest, so that a data state in a code process does not hash the whole frame."""
    vars(frame)["digest"] = token
    return frame


class SharedFramesCache:
    """Shared memory of the last few sets of frames; a set is dropped when one of its frames is garbage.

    The lock guards the cache against threads that run code at the same time. It is held while memory is
    written, so that the same frames are not written twice.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: OrderedDict[object, tuple[SharedFrames, list[weakref.ref[FrozenFrame]]]] = OrderedDict()

    def open(self, frames: Frames) -> tuple[int, Layout]:
        """Return a descriptor of the memory, for the caller to close, and its layout with ``rows``."""
        listed = _listed(frames)
        key = tuple((panel, name, id(frame)) for panel, name, frame in listed)
        with self._lock:
            if key not in self._cached:
                memory = SharedFrames(frames)
                memory.write(frames)
                memory.seal()
                alive = [weakref.ref(frame, lambda _: self._drop(key)) for *_, frame in listed]
                self._cached[key] = memory, alive
            self._cached.move_to_end(key)
            memory = self._cached[key][0]
            opened = memory.open()
            self._shrink(1 if memory.size > _LARGE else _CACHE_SIZE)
            return opened, memory.layout | {"rows": memory.rows}

    def close(self) -> None:
        """Drop all memory."""
        with self._lock:
            self._shrink(0)

    def _shrink(self, size: int) -> None:
        while len(self._cached) > size:
            self._cached.popitem(last=False)[1][0].close()

    def _drop(self, key: object) -> None:
        # Called when a frame is collected, at any time and in any thread: no lock, one atomic step.
        found = self._cached.pop(key, None)
        if found:
            found[0].close()


def _listed(frames: Frames) -> list[tuple[str, str, FrozenFrame]]:
    return [(panel, name, frame) for panel, fields in frames.items() for name, frame in fields.items()]


def _places(layout: Layout) -> Iterator[tuple[int, int]]:
    """Where the sessions and the values of each field begin, in bytes; at last where the memory ends."""
    end, days = 0, _aligned(8 * layout["capacity"])
    for _, _, axis in layout["fields"]:
        yield end, end + days
        end += days + _aligned(8 * layout["capacity"] * len(layout["symbols"][axis]))
    yield end, end


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _array(memory: mmap.mmap, place: int, length: int) -> NDArray[np.int64]:
    """Cells over a memoryview of them alone: the last base of a frame ends with its last row."""
    return np.frombuffer(memoryview(memory)[place : place + 8 * length], "<i8")


def _nameless_file() -> tuple[int, int]:
    """Descriptors of a new file, to write to and to read from."""
    if hasattr(os, "memfd_create"):
        writable = os.memfd_create("quantgraph-frames", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        return writable, _reopened(writable)
    writable, name = tempfile.mkstemp(prefix="quantgraph-frames-")
    try:
        return writable, os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        Path(name).unlink()


def _reopened(descriptor: int) -> int:
    # Duplicates share one file offset, by which a call could leave a number to a later one.
    same = Path(f"/proc/self/fd/{descriptor}")
    return os.open(same, os.O_RDONLY | os.O_CLOEXEC) if same.exists() else os.dup(descriptor)


def _close(descriptors: tuple[int, int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _write(descriptor: int, block: Block, offset: int) -> None:
    rest = memoryview(block)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        offset, rest = offset + written, rest[written:]


@contextmanager
def _storage_failure(size: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageUnavailable(
            f"the frames of the code take {size / (1 << 20):,.0f} MB of shared memory, which cannot be had "
            f"({error.strerror or error}): free memory, or name fewer symbols or a shorter window"
        ) from error
