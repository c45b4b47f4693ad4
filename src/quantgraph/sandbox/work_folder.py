"""The empty working folder of a warm process."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

if os.name == "posix":
    import fcntl

__all__ = ["WorkFolder"]

_PREFIX = "quantgraph-code-"
_SECONDS = 60.0


class WorkFolder:
    """A temporary folder, held by a lock that ends with this process.

    A sealed process cannot remove the folder of a host that was killed. So whoever makes the next one
    removes those that nobody holds.
    """

    def __init__(self) -> None:
        for old in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            _remove_forgotten(old)
        self.path = tempfile.mkdtemp(prefix=_PREFIX)
        self._held = _hold(self.path)

    def close(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
            self._held = None


def _hold(path: str | Path) -> int | None:
    if os.name != "posix":
        return None
    held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise
    return held


def _remove_forgotten(path: Path) -> None:
    # Another user's, or one that is held; or so new that its maker may not hold it yet.
    with contextlib.suppress(OSError):
        if path.lstat().st_mtime > time.time() - _SECONDS:
            return
        held = _hold(path)
        shutil.rmtree(path, ignore_errors=True)
        if held is not None:
            os.close(held)
