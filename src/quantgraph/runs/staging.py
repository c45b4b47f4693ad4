"""Hidden folders in which runs are made before they are put in their place.

A folder is locked by the process that made it for as long as that lives; a process id may be given anew, a
lock goes with its process. A folder whose process was killed is removed by the next start beside it.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from quantgraph.recording import digest

if os.name == "posix":
    import fcntl

__all__ = ["staging_folder"]

_PREFIX = ".start-"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_DAY = 86_400.0


@contextmanager
def staging_folder(parent: Path) -> Iterator[Path]:
    """A hidden folder, removed in the end with all that is in it; first those that killed starts left.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    _remove_killed(parent)
    place, lock = _made(parent)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)  # what resists is tried again by the next start
        if lock is not None:
            os.close(lock)


def _made(parent: Path) -> tuple[Path, int | None]:
    """A new folder, and the descriptor that holds it."""
    while True:
        place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{_machine()}-", dir=parent))
        if os.name != "posix":
            return place, None
        # Before it was locked another start may have taken it for one that was killed.
        with suppress(FileNotFoundError, BlockingIOError):
            lock = _locked(place)
            if place.exists():
                return place, lock
            os.close(lock)


def _remove_killed(parent: Path) -> None:
    if os.name != "posix":
        return
    ours = f"{_PREFIX}{_machine()}-"
    for place in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it lives, is gone already, or is not ours to remove
            # One of another machine may be locked without showing it here; no start takes a day.
            if not place.name.startswith(ours) and time.time() - place.stat().st_mtime < _DAY:
                continue
            lock = _locked(place, sure=True)
            try:
                shutil.rmtree(place, ignore_errors=True)
            finally:
                os.close(lock)


def _locked(place: Path, *, sure: bool = False) -> int:
    """Lock a folder.

    Raises
    ------
    BlockingIOError
        If another process has it locked.
    OSError
        If it cannot be opened; if ``sure``, also where the file system has no locks.
    """
    lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if sure or isinstance(error, BlockingIOError):
            os.close(lock)
            raise
    return lock


@cache
def _machine() -> str:
    """Name of this machine since it was started, in 8 digits; where that is not told, of the machine."""
    try:
        told = _BOOT.read_text()
    except OSError:
        told = platform.node()
    return digest(told)[:8]
