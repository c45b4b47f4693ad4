"""Taking from a code process what generated code has no business with.

Two steps. The warm process closes files and gives up its rights once, after its imports; each child takes
its limits and closes the system calls before it touches the request. A child that was sealed cannot read
the project, keys or ``/proc``, write anything, open a socket, or start or signal a process. What a system
does not have lowers the level, which :func:`self_test` finds by trying: on Linux with Landlock (5.13) and
seccomp it is ``full``, on macOS ``limits_only``, on Windows ``none``.

Not closed: whether a file exists and how large it is, the time, and what the processor's caches tell.
"""

from __future__ import annotations

import functools
import math
import mmap
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from quantgraph.sandbox import _linux
from quantgraph.sandbox._landlock import close_files, readable_places
from quantgraph.sandbox._seccomp import close_calls

if sys.platform != "win32":
    import resource

__all__ = ["IsolationLevel", "readable_places", "seal_child", "seal_parent", "self_test"]

IsolationLevel = Literal["full", "limits_only", "none"]

_OPEN_FILES = 64
_STACK = 8 << 20

_lacking: list[str] = []  # why the level is not full; children inherit it
_parent: dict[str, int] = {}  # the warm process: its number, its threads, the bytes of its address space


def seal_parent(readable: Sequence[Path]) -> None:
    """Close all files but ``readable`` to this process and its children, and give up its rights; once.

    Call it after the imports. It closes them to the thread that calls, which is all that a fork takes along;
    a process that is to become its own child must not have another. It never raises because the system
    lacks something.
    """
    _parent.update(number=os.getpid(), size=_address_space(), threads=_threads())
    if sys.platform != "linux":
        _note(f"{sys.platform} has neither Landlock nor seccomp")
        return
    _try("capabilities are kept", _linux.drop_capabilities)
    _try("the memory is open to debuggers", _linux.hide_from_debuggers)
    _note(close_files(readable))


def seal_child(*, memory: int, seconds: float) -> None:
    """Take the limits and close the system calls, in each child before it touches the request.

    Parameters
    ----------
    memory
        Bytes that may be used beyond what the process has now.
    seconds
        Processor time that may be used from now; a second is added.
    """
    if sys.platform == "win32":
        return
    _limit(memory, seconds)
    if sys.platform != "linux":
        return
    _try("the memory is open to debuggers", _linux.hide_from_debuggers)
    parent = _parent.get("number", os.getpid())
    if parent != os.getpid():
        _try("the process may outlive the one that made it", _linux.die_with_parent)
        if os.getppid() != parent:
            os._exit(1)  # it was gone before it could be asked for
    elif _parent.get("threads", 1) > 1:
        _note("files are open to threads that were there before they were closed")
    _note(close_calls())


def self_test(canary: Path) -> tuple[IsolationLevel, str]:
    """Try in a sealed child what must not work.

    Parameters
    ----------
    canary
        A file that the host made and this user may read.

    Returns
    -------
    tuple
        The level, and why it is not ``full``: what the code could still do, and what the system lacks.
    """
    if sys.platform == "win32":
        return "none", "win32 has no limits for processes"
    possible = [what for what, attempt in _ATTEMPTS.items() if not _is_denied(attempt, canary)]
    if not possible and not _lacking:
        return "full", ""
    told = [f"the code can {', '.join(possible)}"] if possible else []
    reason = "; ".join([*told, *_lacking])
    held = resource.getrlimit(resource.RLIMIT_CPU)[1] != resource.RLIM_INFINITY
    held = held and resource.getrlimit(resource.RLIMIT_FSIZE)[1] == 0
    return ("limits_only" if held else "none"), reason


def _limit(memory: int, seconds: float) -> None:
    wanted = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_NOFILE": _OPEN_FILES,
        "RLIMIT_STACK": _STACK,
        "RLIMIT_CPU": math.ceil(time.process_time() + seconds) + 1,
    }
    size = _address_space() or _parent.get("size", 0)
    if size:
        wanted["RLIMIT_AS"] = size + memory
    else:
        _note("no limit of memory")
    for name, value in wanted.items():
        _try(f"no {name}", functools.partial(_lower, name, value))


def _lower(name: str, value: int) -> None:
    number = getattr(resource, name)
    hard = resource.getrlimit(number)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(number, (value, value))


def _address_space() -> int:
    """Bytes of the address space; 0 where it cannot be read, as on macOS or behind closed files."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[0])
    except OSError:
        return 0
    return pages * mmap.PAGESIZE


def _threads() -> int:
    """Threads of this process, those of libraries included."""
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return 1


def _try(otherwise: str, step: Callable[[], object]) -> None:
    try:
        step()
    except (OSError, ValueError) as error:
        _note(f"{otherwise}: {error}")


def _note(reason: str) -> None:
    if reason and reason not in _lacking:
        _lacking.append(reason)


def _is_denied(attempt: Callable[[Path], object], canary: Path) -> bool:
    try:
        attempt(canary)
    except (PermissionError, FileNotFoundError):  # it may lie outside of what the process can see at all
        return True
    except OSError:
        return False
    return False


def _read(file: Path) -> None:
    with file.open("rb"):
        pass


def _fork() -> None:
    if not os.fork():
        os._exit(0)
    os.wait()


# Each is harmless where it works.
_ATTEMPTS: dict[str, Callable[[Path], object]] = {
    "read files": _read,
    "list folders": lambda _: os.listdir("/"),  # noqa: PTH208 - the call itself is what is tried
    "read /proc": lambda _: _read(Path("/proc/self/environ")),
    "open TCP sockets": lambda _: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close(),
    "open UDP sockets": lambda _: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
    "open UNIX sockets": lambda _: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close(),
    "make processes": lambda _: _fork(),
    "start programs": lambda _: os.execv(f"{__file__}/none", ["none"]),  # noqa: S606 - "not a directory"
    "send signals": lambda _: os.kill(os.getpid(), 0),
}
