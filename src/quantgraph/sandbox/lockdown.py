"""Sealing a code process: what generated code must not reach, and the self-test that finds the level.

Two steps. The fork server closes files and gives up its rights once, after its imports; each child takes its
limits and closes system calls before it reads the request. A sealed child cannot read the project, keys or
``/proc``, write anything, open a socket, or start or signal a process. What a system lacks lowers the level,
which :func:`self_test` finds by trying: ``full`` on Linux with Landlock (5.13) and seccomp, ``limits_only``
on macOS, ``none`` on Windows.

Not closed: whether a file exists and how large it is, the time, and what the processor's caches tell.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import math
import mmap
import os
import re
import socket
import sys
import sysconfig
import time
import zoneinfo
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from quantgraph._util.installed_packages import distributions_of
from quantgraph.sandbox import _linux
from quantgraph.sandbox._linux import close_files
from quantgraph.sandbox._seccomp import close_calls

if sys.platform != "win32":
    import resource


IsolationLevel = Literal["full", "limits_only", "none"]

_OPEN_FILES = 64
_STACK = 8 << 20
PACKAGES = ("numpy", "pandas", "talib", "dateutil", "six", "tzdata", "pyarrow")
"""Packages that generated code may read."""
_BUNDLED = tuple(f"{name}.libs" for name in ("numpy", "pandas", "ta_lib", "pyarrow"))
_OTHER_PACKAGES = ("site-packages", "dist-packages")

_weaknesses: list[str] = []  # why the level is not full; children inherit it
_parent: dict[str, int] = {}  # the fork server: its process id, threads, bytes of address space


def readable_places(packages: Sequence[str] = ()) -> tuple[Path, ...]:
    """Return the files and folders that generated code may read: the standard library and its packages.

    ``packages`` are those that are allowed beside ``PACKAGES``.

    The standard library's folder is listed entry by entry, because other packages lie in it. Shared libraries
    of the system are not listed: they are loaded with the packages, before files are closed.
    """
    found = {*_standard_library(), *_packages(packages), *map(Path, zoneinfo.TZPATH)}
    return tuple(sorted(path for path in found if path.exists()))


def _standard_library() -> Iterator[Path]:
    for name in ("stdlib", "platstdlib"):
        with contextlib.suppress(OSError):
            entries = list(Path(sysconfig.get_path(name)).iterdir())
            yield from (entry for entry in entries if entry.name not in _OTHER_PACKAGES)


def _packages(more: Sequence[str]) -> Iterator[Path]:
    bundled = {*_BUNDLED, *(name for package in more for name in _bundled(package))}
    for name in (*PACKAGES, *more):
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        for folder in spec.submodule_search_locations or ():
            yield Path(folder)
            beside = Path(folder).parent.glob("*.libs")
            yield from (libraries for libraries in beside if libraries.name.lower() in bundled)
        if not spec.submodule_search_locations:
            yield from (Path(file) for file in (spec.origin, spec.cached) if file)


def _bundled(package: str) -> Iterator[str]:
    """Names of the folders in which a wheel may have brought shared libraries."""
    for distribution in distributions_of(package):
        yield f"{re.sub(r'[-_.]+', '_', distribution).lower()}.libs"


def seal_parent(readable: Sequence[Path]) -> None:
    """Close all files but ``readable`` to this process and its children, and give up its rights; once.

    Call it after the imports. It closes files to the calling thread, the only one that a fork inherits; a
    process that runs code without a fork must have no other thread. Nothing is raised if the system lacks
    something.
    """
    _parent.update(pid=os.getpid(), size=_address_space(), threads=_threads())
    if sys.platform != "linux":
        _note(f"{sys.platform} has neither Landlock nor seccomp")
        return
    _try("capabilities are kept", _linux.drop_capabilities)
    _try("the memory is open to debuggers", _linux.hide_from_debuggers)
    _note(close_files(readable))


def seal_child(*, memory: int, seconds: float) -> None:
    """Take the limits and close the system calls, in each child before it reads the request.

    Parameters
    ----------
    memory
        Bytes that may be used beyond what the process has now.
    seconds
        Processor time that may be used from now; a second is added.
    """
    if sys.platform == "win32":
        return
    _set_limits(memory, seconds)
    if sys.platform != "linux":
        return
    _try("the memory is open to debuggers", _linux.hide_from_debuggers)
    parent = _parent.get("pid", os.getpid())
    if parent != os.getpid():
        _try("the process may outlive its parent", _linux.die_with_parent)
        if os.getppid() != parent:
            os._exit(1)  # the parent ended before that call
    elif _parent.get("threads", 1) > 1:
        _note("files are open to threads that were started before they were closed")
    _note(close_calls())


def self_test(canary: Path) -> tuple[IsolationLevel, str]:
    """Try in a sealed child what must fail.

    Parameters
    ----------
    canary
        A file that this user may read and that is not among the readable places.

    Returns
    -------
    tuple
        The level, and why it is not ``full``: what the code can still do, and what the system lacks.
    """
    if sys.platform == "win32":
        return "none", "win32 has no limits for processes"
    possible = [action for action, attempt in _ATTEMPTS.items() if not _is_denied(attempt, canary)]
    if not possible and not _weaknesses:
        return "full", ""
    abilities = [f"the code can {', '.join(possible)}"] if possible else []
    reason = "; ".join([*abilities, *_weaknesses])
    is_limited = resource.getrlimit(resource.RLIMIT_CPU)[1] != resource.RLIM_INFINITY
    is_limited = is_limited and resource.getrlimit(resource.RLIMIT_FSIZE)[1] == 0
    return ("limits_only" if is_limited else "none"), reason


def _set_limits(memory: int, seconds: float) -> None:
    limits = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_NOFILE": _OPEN_FILES,
        "RLIMIT_STACK": _STACK,
        "RLIMIT_CPU": math.ceil(time.process_time() + seconds) + 1,
    }
    size = _address_space() or _parent.get("size", 0)
    if size:
        limits["RLIMIT_AS"] = size + memory
    else:
        _note("no limit of memory")
    for name, value in limits.items():
        _try(f"no {name}", functools.partial(_lower_limit, name, value))


def _lower_limit(name: str, value: int) -> None:
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


def _try(weakness: str, step: Callable[[], object]) -> None:
    try:
        step()
    except (OSError, ValueError) as error:
        _note(f"{weakness}: {error}")


def _note(weakness: str) -> None:
    if weakness and weakness not in _weaknesses:
        _weaknesses.append(weakness)


def _is_denied(attempt: Callable[[Path], object], canary: Path) -> bool:
    try:
        attempt(canary)
    except (PermissionError, FileNotFoundError):  # under bubblewrap the file does not exist
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


# Each does no harm where it succeeds.
_ATTEMPTS: dict[str, Callable[[Path], object]] = {
    "read files": _read,
    "list folders": lambda _: os.listdir("/"),  # noqa: PTH208 - the call itself is tested
    "read /proc": lambda _: _read(Path("/proc/self/environ")),
    "open TCP sockets": lambda _: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close(),
    "open UDP sockets": lambda _: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
    "open UNIX sockets": lambda _: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close(),
    "make processes": lambda _: _fork(),
    "start programs": lambda _: os.execv(f"{__file__}/none", ["none"]),  # noqa: S606 - "not a directory"
    "send signals": lambda _: os.kill(os.getpid(), 0),
}
