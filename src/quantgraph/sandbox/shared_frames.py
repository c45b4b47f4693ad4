"""Frames in sealed shared memory: written once by the host, mapped read-only by every child."""

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

import numpy as np

from quantgraph.errors import StorageUnavailable
from quantgraph.sandbox.wire import Block, Frames, array_bytes, frame_table
from quantgraph.state.frames import FrozenFrame

_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 64
_CACHE_SIZE = 4
_LARGE = 256 << 20


class SharedFramesCache:
    """Shared memory of the last few sets of frames; a set is dropped when one of its frames is garbage.

    The lock guards the cache against threads that run code at the same time. It is held while memory is
    written, so that the same frames are not written twice.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: OrderedDict[object, tuple[int, list[weakref.ref[FrozenFrame]]]] = OrderedDict()

    def open(self, frames: Frames) -> int:
        """Return a descriptor of the frames' memory with a file offset of its own; the caller closes it."""
        listed = [(panel, name, frame) for panel, fields in frames.items() for name, frame in fields.items()]
        key = tuple((panel, name, id(frame)) for panel, name, frame in listed)
        with self._lock:
            if key not in self._cached:
                memory = _write(frames)
                alive = [weakref.ref(frame, lambda _: self._drop(key)) for *_, frame in listed]
                self._cached[key] = memory, alive
            self._cached.move_to_end(key)
            opened = _reopen(self._cached[key][0])
            self._shrink(1 if os.fstat(opened).st_size > _LARGE else _CACHE_SIZE)
            return opened

    def close(self) -> None:
        """Drop all memory."""
        with self._lock:
            self._shrink(0)

    def _shrink(self, size: int) -> None:
        while len(self._cached) > size:
            os.close(self._cached.popitem(last=False)[1][0])

    def _drop(self, key: object) -> None:
        # Called when a frame is collected, at any time and in any thread: no lock, one atomic step.
        found = self._cached.pop(key, None)
        if found:
            os.close(found[0])


def _write(frames: Frames) -> int:
    table, listed = frame_table(frames)
    offset = 0
    for entry, frame in zip(table["frames"], listed, strict=True):
        entry["offset"] = offset
        offset = _align(offset + frame.values.nbytes)
    header = json.dumps(table).encode()
    start = _align(_LENGTH.size + len(header))
    blocks: list[tuple[int, Block]] = [(0, _LENGTH.pack(len(header)) + header)]
    blocks += [
        (start + entry["offset"], array_bytes(frame.values))
        for entry, frame in zip(table["frames"], listed, strict=True)
    ]
    try:
        return _sealed_memory(blocks)
    except OSError as error:
        megabytes = sum(len(block) for _, block in blocks) / (1 << 20)
        raise StorageUnavailable(
            f"the frames of the code take {megabytes:,.0f} MB of shared memory, which cannot be had "
            f"({error.strerror or error}): free memory, or name fewer symbols or a shorter window"
        ) from error


def _align(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _sealed_memory(blocks: list[tuple[int, Block]]) -> int:
    if hasattr(os, "memfd_create"):
        import fcntl

        memory = os.memfd_create("quantgraph-frames", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            _fill(memory, blocks)
        except OSError:
            os.close(memory)
            raise
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
        return memory
    # A read-only descriptor of a file that no longer has a name.
    with tempfile.NamedTemporaryFile(prefix="quantgraph-frames-") as file:
        _fill(file.fileno(), blocks)
        return os.open(file.name, os.O_RDONLY | os.O_CLOEXEC)


def _reopen(descriptor: int) -> int:
    # Duplicates share one file offset, by which a call could leave a number to a later one.
    same = Path(f"/proc/self/fd/{descriptor}")
    return os.open(same, os.O_RDONLY | os.O_CLOEXEC) if same.exists() else os.dup(descriptor)


def _fill(descriptor: int, blocks: list[tuple[int, Block]]) -> None:
    for offset, block in blocks:
        rest = memoryview(block)
        while rest:
            written = os.pwrite(descriptor, rest, offset)
            offset, rest = offset + written, rest[written:]  # noqa: PLW2901


def map_shared_frames(descriptor: int) -> mmap.mmap:
    """Map the memory read-only."""
    # A private mapping: Linux before 6.7 refuses a shared one of memory that is sealed against writing.
    return mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)


def read_shared_frames(memory: mmap.mmap) -> dict[str, dict[str, FrozenFrame]]:
    """Return the frames of mapped memory without a copy."""
    (length,) = _LENGTH.unpack_from(memory)
    table = json.loads(memory[_LENGTH.size : _LENGTH.size + length])
    start = _align(_LENGTH.size + length)
    axes = [
        (np.array(axis["sessions"], dtype="<i8").view("datetime64[us]"), tuple(axis["symbols"]))
        for axis in table["axes"]
    ]
    frames: dict[str, dict[str, FrozenFrame]] = {}
    for number, entry in enumerate(table["frames"]):
        sessions, symbols = axes[entry["axis"]]
        shape = len(sessions), len(symbols)
        values = np.zeros(shape)
        if values.size:
            values = np.frombuffer(memory, "<f8", values.size, start + entry["offset"]).reshape(shape)
        frame = with_token(FrozenFrame(sessions, symbols, values), f"given-{number}")
        frames.setdefault(entry["panel"], {})[entry["name"]] = frame
    return frames


def with_token(frame: FrozenFrame, token: str) -> FrozenFrame:
    """Set a made-up digest, so that a data state in a code process does not hash the whole frame."""
    vars(frame)["digest"] = token
    return frame
