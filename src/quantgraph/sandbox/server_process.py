"""The warm process that forks a child for each run: its start, its connections, its end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from quantgraph.errors import CodeFailed, SandboxTooWeak
from quantgraph.sandbox._bwrap import bwrap_prefix
from quantgraph.sandbox.lockdown import IsolationLevel
from quantgraph.sandbox.result import is_at_least

__all__ = [
    "PYTHON",
    "START_SECONDS",
    "ForkRequest",
    "ServerProcess",
    "WorkFolder",
    "check_level",
    "code_environment",
]

if os.name == "posix":
    import fcntl


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


_STRUCT = struct.Struct("<ddQ")


@dataclass(frozen=True, kw_only=True)
class ForkRequest:
    """The limits of one child.

    Attributes
    ----------
    deadline
        Seconds after which it is ended; infinite for one that the host ends.
    seconds
        Processor time that it may use.
    memory
        Bytes that it may use beyond the warm process and the frames it is given.
    """

    deadline: float
    seconds: float
    memory: int

    SIZE = _STRUCT.size

    def packed(self) -> bytes:
        """Always ``SIZE`` bytes, which a socket hands over whole."""
        return _STRUCT.pack(self.deadline, self.seconds, self.memory)

    @classmethod
    def read(cls, told: bytes) -> ForkRequest:
        """The job that :meth:`packed` wrote."""
        deadline, seconds, memory = _STRUCT.unpack(told)
        return cls(deadline=deadline, seconds=seconds, memory=memory)


PYTHON = (sys.executable, "-P", "-s", "-W", "ignore", "-m", "quantgraph.sandbox.worker")
START_SECONDS = 30.0
_READY_LIMIT = 4096


def code_environment() -> dict[str, str]:
    """All that generated code sees of the environment."""
    wanted = {
        # Fixed: the order of sets must not make a strategy differ from one process to the next.
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        # pyarrow's own pool starts a thread, and asks for half of the memory that there is.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
    }
    if sys.platform == "win32":
        wanted["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    return wanted


def check_level(level: Any, reason: object, least: IsolationLevel) -> IsolationLevel:
    """What a code process says of itself, if it is enough.

    Raises
    ------
    SandboxTooWeak
        If the level is below ``least``; says what is missing and how to accept it.
    """
    if level not in get_args(IsolationLevel):
        raise CodeFailed("the code process did not say how well it is locked in")
    if not is_at_least(level, least):
        raise SandboxTooWeak(
            f"generated code can be locked in here only to {level!r}, and {least!r} is asked for: {reason}; "
            f"to accept it set QUANTGRAPH_CODE_ISOLATION={level} or pass isolation={level!r}",
            level=level,
            reason=str(reason),
        )
    return cast(IsolationLevel, level)


class ServerProcess:
    """A process started when it is needed, and again when it has died.

    The lock protects its start and end, and the handing over of a connection, against threads that
    call at the same time.

    Attributes
    ----------
    level
        How well it is locked in, as it found when it started.
    """

    def __init__(self, least: IsolationLevel = "full", command: Sequence[str] = PYTHON) -> None:
        self._least = least
        self._command = command
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self.level: IsolationLevel = "none"
        self.process: subprocess.Popen[bytes] | None = None
        self.folder: WorkFolder | None = None

    def connect(self, job: ForkRequest, parcel: int | None = None) -> socket.socket:
        """A connection to a new child, which has the frames of ``parcel`` and the limits of ``job``.

        Raises
        ------
        SandboxTooWeak
            If the process is locked in less than is asked for.
        CodeFailed
            If the process does not start.
        """
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            for attempt in range(2):
                try:
                    handed = [theirs.fileno()] if parcel is None else [theirs.fileno(), parcel]
                    socket.send_fds(self._started(), [job.packed()], handed)
                    break
                except (BrokenPipeError, ConnectionResetError) as error:
                    self._stop()
                    if attempt:
                        ours.close()
                        raise self._no_start() from error
                except BaseException:
                    ours.close()
                    raise
        return ours

    def start(self) -> None:
        """Start the process unless it runs; what :meth:`connect` raises."""
        with self._lock:
            self._started()

    def close(self, *, patient: bool = True) -> None:
        """End the process and its children, and remove its folder; at once if it is not to be waited for."""
        with self._lock:
            self._stop(patient=patient)

    def _started(self) -> socket.socket:
        if self._control is not None and self.process is not None and self.process.poll() is None:
            return self._control
        self._stop()
        self._control, theirs = socket.socketpair()
        self.folder = WorkFolder()
        try:
            with theirs:
                self.process = subprocess.Popen(
                    [*bwrap_prefix(), *self._command, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=code_environment(),
                    cwd=self.folder.path,
                )
            self._control.settimeout(START_SECONDS)
            told = self._ready(self._control)
            self.level = check_level(told["level"], told["reason"], self._least)
        except SandboxTooWeak:
            self._stop()
            raise
        except (EOFError, OSError, ValueError, LookupError) as error:
            self._stop()
            raise self._no_start() from error
        self._control.settimeout(None)
        return self._control

    def _ready(self, control: socket.socket) -> dict[str, str]:
        said = b""
        while not said.endswith(b"\n"):
            piece = control.recv(_READY_LIMIT - len(said))
            if not piece:
                raise EOFError
            said += piece
        return dict(json.loads(said))

    def _no_start(self) -> CodeFailed:
        return CodeFailed(f"the code process did not start; try: {' '.join(PYTHON)} --once")

    def _stop(self, *, patient: bool = True) -> None:
        if self._control is not None:
            self._control.close()
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5 if patient else 0)
            self.process.kill()
            self.process.wait()
        if self.folder is not None:
            self.folder.close()
        self._control = self.process = self.folder = None
