"""What this process may use of the machine: processors and memory."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_GROUP = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 62


def usable_processors() -> int:
    """Number of processors that this process may run on, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def available_memory() -> int | None:
    """Bytes that can be taken before the machine or the container has no more; None where it is not known.

    Sources: ``MemAvailable`` of ``/proc/meminfo``; ``memory.max`` and ``memory.current`` of the control group
    (Linux ``Documentation/admin-guide/cgroup-v2.rst``).
    """
    free = _NO_LIMIT
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    with contextlib.suppress(OSError, ValueError):
        limit, used = ((_GROUP / f"memory.{name}").read_text(encoding="ascii") for name in ("max", "current"))
        free = min(free, max(0, int(limit) - int(used)))
    return None if free == _NO_LIMIT else free
