"""The fork server as the host sees it: its start, its connections, its end."""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

from quantgraph.errors import CodeFailed, CodeUnavailable, QuantGraphError, SandboxTooWeak
from quantgraph.sandbox.lockdown import IsolationLevel
from quantgraph.sandbox.process_setup import PYTHON, WorkFolder, bwrap_prefix, code_environment
from quantgraph.sandbox.result import is_at_least, read_handshake
from quantgraph.sandbox.wire import exact_reader

START_SECONDS = 60.0
"""How long a start is waited for, unless a node's time is given: a busy machine may need long."""
_REQUEST = struct.Struct("<ddQ")


@dataclass(frozen=True, kw_only=True)
class ForkRequest:
    """The limits of a child, sent to the fork server with the child's socket.

    Attributes
    ----------
    deadline
        Seconds after which the child is killed; infinite for one that the host ends.
    seconds
        Processor time that it may use.
    memory
        Bytes that it may use beyond the fork server's and those of the frames it is given.
    """

    deadline: float
    seconds: float
    memory: int

    SIZE = _REQUEST.size

    def packed(self) -> bytes:
        """Return ``SIZE`` bytes, which a socket delivers whole."""
        return _REQUEST.pack(self.deadline, self.seconds, self.memory)

    @classmethod
    def read(cls, packed: bytes) -> ForkRequest:
        """Read the bytes of :meth:`packed`."""
        deadline, seconds, memory = _REQUEST.unpack(packed)
        return cls(deadline=deadline, seconds=seconds, memory=memory)


def check_level(level: Any, reason: object, least: IsolationLevel) -> IsolationLevel:
    """Return the isolation level that a code process reports, if it is at least ``least``.

    Raises
    ------
    SandboxTooWeak
        If it is not; the message says what is missing and how to accept it.
    CodeFailed
        If the level is unknown.
    """
    if level not in get_args(IsolationLevel):
        raise CodeFailed("the code process did not report its isolation level")
    if not is_at_least(level, least):
        raise SandboxTooWeak(
            f"this system isolates generated code only at level {level!r}, but {least!r} is required: "
            f"{reason}; "
            f"to accept it set QUANTGRAPH_CODE_ISOLATION={level} or pass isolation={level!r}",
            level=level,
            reason=str(reason),
        )
    return cast(IsolationLevel, level)


@contextlib.contextmanager
def no_room() -> Iterator[None]:
    """Raise an OSError of this process, such as one that has no free descriptor, as CodeUnavailable."""
    try:
        yield
    except QuantGraphError:
        raise
    except OSError as error:
        raise CodeUnavailable(f"no process can be made for the code: {error}", killed=False) from error


class ServerProcess:
    """The fork server's process: started on first use, and again after it has died.

    The lock guards start, stop and :meth:`connect` against threads that call at the same time.

    Attributes
    ----------
    level
        Its isolation level, as it found when it started.
    closed
        How often the host has ended it; not where it hung.
    start_seconds
        How long a start is waited for, its own or that of a child.
    """

    SEES_HANG_UP = hasattr(select, "POLLRDHUP")
    """Whether it kills and reaps a child as soon as the host's end no longer writes: on Linux."""

    def __init__(
        self,
        least: IsolationLevel = "full",
        command: Sequence[str] = PYTHON,
        packages: Sequence[str] = (),
        start_seconds: float = START_SECONDS,
    ) -> None:
        self._least = least
        self.start_seconds = start_seconds
        self._command = command
        self._packages = packages
        self._lock = threading.RLock()  # a child may be closed by the collector, at any place
        self._control: socket.socket | None = None
        self.level: IsolationLevel = "none"
        self.closed = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.folder: WorkFolder | None = None

    def connect(self, request: ForkRequest, shared_frames: int | None = None) -> socket.socket:
        """Return a socket to a new child, which may be given the descriptor of shared frames.

        Raises
        ------
        SandboxTooWeak
            If the process's isolation level is too low.
        CodeUnavailable
            If the process does not start.
        """
        with no_room():
            ours, theirs = socket.socketpair()
        with theirs, self._lock:
            for attempt in range(2):
                try:
                    descriptors = [theirs.fileno()]
                    if shared_frames is not None:
                        descriptors.append(shared_frames)
                    socket.send_fds(self._running(), [request.packed()], descriptors)
                    break
                except (BrokenPipeError, ConnectionResetError) as error:
                    self._stop()
                    if attempt:
                        ours.close()
                        raise self._not_started() from error
                except BaseException:
                    ours.close()
                    raise
        return ours

    def start(self) -> None:
        """Start the process unless it runs; raises like :meth:`connect`."""
        with self._lock:
            self._running()

    def close(self, *, patient: bool = True) -> None:
        """End the process with its children, and remove its folder.

        Parameters
        ----------
        patient
            Whether to wait for the process before it is killed.
        """
        with self._lock:
            self.closed += patient
            self._stop(patient=patient)

    def _running(self) -> socket.socket:
        if self._control is not None and self.process is not None and self.process.poll() is None:
            return self._control
        self._stop()
        with no_room():
            self._control, theirs = socket.socketpair()
            self.folder = WorkFolder()
        try:
            with theirs:
                # OSError: the machine has no room for another process.
                self.process = subprocess.Popen(
                    [*bwrap_prefix(), *self._command, str(theirs.fileno()), *self._packages],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=code_environment(),
                    cwd=self.folder.path,
                )
            self._control.settimeout(self.start_seconds)
            with self._control.makefile("rb") as stream:
                self.level = check_level(*read_handshake(exact_reader(stream)), self._least)
        except SandboxTooWeak:
            self._stop()
            raise
        except (EOFError, OSError) as error:
            process, late = self.process, isinstance(error, TimeoutError)
            self._stop(patient=not late)
            killed = not late and process is not None and process.returncode == -signal.SIGKILL
            raise self._not_started(late=late, killed=killed) from error
        self._control.settimeout(None)
        return self._control

    def _not_started(self, *, late: bool = False, killed: bool = False) -> CodeUnavailable:
        when = f" within {self.start_seconds:g} s" if late else ""
        command = "python -m quantgraph.sandbox.worker --once"
        return CodeUnavailable(f"the code process did not start{when}; try: {command}", killed=killed)

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
