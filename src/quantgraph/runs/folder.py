"""Folder of a run: made out of sight and then put in its place, locked by one process at a time.

A folder in the making is locked by its process. Process ids are used again, but a lock ends with its process:
the next start beside it removes the folder of a start that was killed.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from quantgraph._util.canonical_json import content_hash
from quantgraph.errors import BadOption
from quantgraph.runs.manifest import MANIFEST_FILE

if os.name == "posix":
    import fcntl

__all__ = ["lock_run", "make_run_folder", "staged_run_folder"]

_PREFIX = ".start-"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_DAY = 86_400.0


def make_run_folder(folder: Path) -> None:
    """Make the folder of a new run.

    Raises
    ------
    BadOption
        If it exists or cannot be made.
    """
    with _folder_errors(folder):
        folder.mkdir(parents=True)


@contextmanager
def staged_run_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder that becomes ``folder`` at the end, or is removed if there is an error.

    Folders that killed starts left beside it are removed.

    Raises
    ------
    BadOption
        As from :func:`make_run_folder`.
    """
    with ExitStack() as stack:
        with _folder_errors(folder):
            if not folder.parent.exists():
                folder.parent.mkdir(parents=True, exist_ok=True)
            staged = stack.enter_context(_staging_folder(folder.parent)) / folder.name
            staged.mkdir()
        yield staged
        with _folder_errors(folder):
            staged.rename(folder)


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Lock a run that has its ``run.json``; the lock ends with this process at the latest.

    Raises
    ------
    BadOption
        If another process has it locked: two would pay for every call twice.
    """
    with (folder / MANIFEST_FILE).open("rb") as file:
        if os.name == "posix":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BadOption(
                    f"run {folder.name} is going on in another process", parameter="run"
                ) from error
        yield


@contextmanager
def _folder_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadOption(
            f"out={str(folder.parent)!r} cannot hold a run: {error.strerror}: {folder}"
        ) from error


@contextmanager
def _staging_folder(parent: Path) -> Iterator[Path]:
    """A hidden, locked folder that is removed at the end."""
    _remove_killed_starts(parent)
    place, lock = _make_locked(parent)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)  # the next start tries again
        if lock is not None:
            os.close(lock)


def _make_locked(parent: Path) -> tuple[Path, int | None]:
    """A new folder and the file descriptor of its lock."""
    while True:
        place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{_machine()}-", dir=parent))
        if os.name != "posix":
            return place, None
        # Before the lock another start may have taken the folder for one of a killed start.
        with suppress(FileNotFoundError, BlockingIOError):
            lock = _lock(place)
            if place.exists():
                return place, lock
            os.close(lock)


def _remove_killed_starts(parent: Path) -> None:
    if os.name != "posix":
        return
    ours = f"{_PREFIX}{_machine()}-"
    for place in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # locked, already removed, or without permission
            # Locks of another machine may not be visible here; no start takes a day.
            if not place.name.startswith(ours) and time.time() - place.stat().st_mtime < _DAY:
                continue
            lock = _lock(place, required=True)
            try:
                shutil.rmtree(place, ignore_errors=True)
            finally:
                os.close(lock)


def _lock(place: Path, *, required: bool = False) -> int:
    """Lock a folder; return the file descriptor of the lock.

    Raises
    ------
    BlockingIOError
        If another process has it locked.
    OSError
        If it cannot be opened; if ``required``, also if the file system has no locks.
    """
    lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if required or isinstance(error, BlockingIOError):
            os.close(lock)
            raise
    return lock


@cache
def _machine() -> str:
    """Eight digits that identify this boot of this machine, or the machine where its boot id is unknown."""
    try:
        name = _BOOT_ID.read_text()
    except OSError:
        name = platform.node()
    return content_hash(name)[:8]
