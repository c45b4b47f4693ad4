"""The fork server as the host sees it: how it is started, its connections to children, its end."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast, get_args

from quantgraph.errors import CodeFailed, CodeUnavailable, QuantGraphError, SandboxTooWeak
from quantgraph.sandbox._archive import open_archive
from quantgraph.sandbox._lockdown import IsolationLevel
from quantgraph.sandbox._result import DIED, STARTED, Call, Isolation, Limits, is_at_least, read_handshake
from quantgraph.sandbox.wire._shared_frames import SharedFrames
from quantgraph.sandbox.wire._wire import Block, Read, exact_reader, read_header

# The garbage collector finds nothing while modules are imported, and takes a tenth of the start.
_MAIN = "import gc, sys; gc.disable(); from quantgraph.sandbox._worker import main; main(sys.argv[1:])"
PYTHON = (sys.executable, "-P", "-s", "-W", "ignore", "-c", _MAIN)


def code_environment() -> dict[str, str]:
    """Return the environment variables of a code process."""
    variables = {
        # Fixed, so that the order of sets does not make a strategy differ from process to process.
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",  # the clock of the code is set in it, wherever the host is
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        # pyarrow's own pool starts a thread and reserves half of the machine's memory.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
        # Memory of arrays is used again instead of returned to the system after each operation. That of
        # large ones is returned: kept, it makes a whole market's proof need a panel more.
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        # Large pages: a fresh process takes a hundredth of the page faults for its first arrays.
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    }
    if sys.platform == "win32":
        variables["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    return variables


START_SECONDS = 60.0
"""How long a start is waited for, unless a node's time is set: a busy machine may need long."""
_REQUEST = struct.Struct("<ddQ")


@dataclass(frozen=True, kw_only=True)
class ForkRequest:
    """The limits of a child, sent to the fork server with the child's socket.

    After ``deadline`` seconds the child is killed (infinite: the host ends it); ``memory`` are bytes beyond
    the fork server's and its frames'.
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
    """Return the isolation level that a code process reports, if it is at least ``least``."""
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

    def connect(self, request: ForkRequest, shared_frames: int) -> socket.socket:
        """Return a socket to a new child, which receives the descriptor of shared frames."""
        with no_room():
            ours, theirs = socket.socketpair()
        with theirs, self._lock:
            for attempt in range(2):
                try:
                    descriptors = [theirs.fileno(), shared_frames]
                    socket.send_fds(self._running(), [request.packed()], descriptors)
                    break
                except (BrokenPipeError, ConnectionResetError) as error:
                    self._stop()
                    if attempt:
                        ours.close()
                        raise self._start_failure() from error
                except BaseException:
                    ours.close()
                    raise
        return ours

    def start(self) -> None:
        """Start the process unless it runs; raises like :meth:`connect`."""
        with self._lock:
            self._running()

    def close(self, *, patient: bool = True) -> None:
        """End the process with its children."""
        with self._lock:
            self.closed += patient
            self._stop(patient=patient)

    def _running(self) -> socket.socket:
        if self._control is not None and self.process is not None and self.process.poll() is None:
            return self._control
        self._stop()
        with no_room():
            self._control, theirs = socket.socketpair()
        try:
            with theirs:
                # OSError: the machine has no room for another process.
                inherited = [theirs.fileno(), *open_archive(self._packages)]
                self.process = subprocess.Popen(
                    [*self._command, *map(str, inherited), *self._packages],
                    pass_fds=inherited,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=code_environment(),
                    cwd=os.sep,
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
            raise self._start_failure(late=late, killed=killed) from error
        self._control.settimeout(None)
        return self._control

    def _start_failure(self, *, late: bool = False, killed: bool = False) -> CodeUnavailable:
        when = f" within {self.start_seconds:g} s" if late else ""
        command = "python -m quantgraph.sandbox._worker --once"
        return CodeUnavailable(f"the code process did not start{when}; try: {command}", killed=killed)

    def _stop(self, *, patient: bool = True) -> None:
        if self._control is not None:
            self._control.close()
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5 if patient else 0)
            self.process.kill()
            self.process.wait()
        self._control = self.process = None


_START_LIMIT = 1 << 16
_REAP_SECONDS = 30.0
_LAST_SECONDS = 1.0
_LATE_SECONDS = 1.0
"""For what has arrived while the host was busy with something else."""

T = TypeVar("T")


class Channel:
    """A socket to a new child; after ``deadline`` (``time.perf_counter``) nothing is read."""

    def __init__(self, server: ServerProcess, request: ForkRequest, shared_frames: int) -> None:
        self._server, self._closed = server, server.closed
        self._connection = server.connect(request, shared_frames)
        self._has_read = False
        self.deadline = time.perf_counter() + server.start_seconds
        try:
            self._wait_for_start()
        except BaseException:
            self.close()
            raise
        self.deadline = math.inf

    def _wait_for_start(self) -> None:
        """Wait until the child is sealed and reads; the code's time begins then."""
        try:
            header, size = read_header(self.read, limit=_START_LIMIT)
            self.read(size)
        except TimeoutError as error:
            seconds = self._server.start_seconds
            self._server.close(patient=False)  # it hangs
            raise CodeUnavailable(
                f"the code process did not start within {seconds:g} s", killed=False
            ) from error
        except (EOFError, OSError) as error:
            raise self._server_failure() from error
        if header != STARTED:
            reply = header["error"]
            if reply["code"] == DIED:
                raise CodeUnavailable("the machine ended the code's process at its start", killed=True)
            raise CodeUnavailable(f"no process can be made for the code: {reply['message']}", killed=False)

    def send(self, parts: Sequence[Block]) -> None:
        """Send a message. Errors are ignored: a child that stopped listening may have sent the reason."""
        self._has_read = False
        with contextlib.suppress(OSError):
            for part in parts:
                self._connection.settimeout(self._remaining())
                self._connection.sendall(part)

    def read(self, size: int) -> bytearray:
        """Return exactly ``size`` bytes."""
        # The buffer grows with what arrives: a reply that only announces a gigabyte does not allocate one.
        buffer, filled = bytearray(min(size, 1 << 20)), 0
        while filled < size:
            if filled == len(buffer):
                buffer += bytes(min(size - filled, 3 * filled))
            self._connection.settimeout(self._remaining())
            with memoryview(buffer)[filled:] as room:
                count = self._connection.recv_into(room)
            if not count:
                raise EOFError
            self._has_read = True
            filled += count
            if time.perf_counter() > self.deadline:
                raise EOFError
        return buffer

    def error(self, call: Call) -> CodeFailed | CodeUnavailable:
        """Return the error of a call whose reply is missing or incomplete.

        The fork server tells how each child ended: if not even that came, it has ended itself.
        """
        if self._has_read or call.seconds >= call.limits.timeout:
            return call.end_error()
        return self._server_failure()

    def _server_failure(self) -> CodeUnavailable:
        killed = self._closed == self._server.closed
        return CodeUnavailable("the process that starts code processes was ended", killed=killed)

    def is_last(self) -> bool:
        """Whether the fork server has hung up, and nothing is left to read."""
        try:
            self._connection.settimeout(_LAST_SECONDS)
            return not self._connection.recv(1)
        except TimeoutError:
            return False
        except OSError:
            return True

    def _remaining(self) -> float:
        return max(self.deadline - time.perf_counter(), 0.001)

    def close(self) -> None:
        """End the child, and wait until it has been reaped: nothing that it knew is alive then."""
        with self._connection:
            if self._is_reaped():
                return
            self._server.close(patient=False)  # it hangs; its children end with it
            if not self._is_reaped():
                raise CodeUnavailable("a code process does not end", killed=False)

    def _is_reaped(self) -> bool:
        """Hang up: the fork server kills the child, reaps it, and then closes its end."""
        if not ServerProcess.SEES_HANG_UP:
            return True
        self.deadline = time.perf_counter() + _REAP_SECONDS
        try:
            self._connection.shutdown(socket.SHUT_WR)
            self._connection.settimeout(_REAP_SECONDS)
            while self._connection.recv(1 << 20):
                self._connection.settimeout(self._remaining())
        except TimeoutError:
            return False
        except OSError:  # the other end is closed
            pass
        return True


class Child:
    """A child that answers many requests; after it has ended, the next request starts another.

    Each is sent ``opening`` first, and maps ``memory``, as large as all that will be written to it.
    """

    def __init__(
        self,
        server: ServerProcess,
        request: ForkRequest,
        limits: Limits,
        opening: Sequence[Block],
        memory: SharedFrames,
    ) -> None:
        self._server, self._request, self._limits = server, request, limits
        self._opening, self._memory = opening, memory
        self._channel: Channel | None = None

    @property
    def level(self) -> Isolation:
        """Isolation of its process."""
        return self._server.level

    @property
    def is_alive(self) -> bool:
        """Whether there is a child."""
        return self._channel is not None

    def send(self, parts: Sequence[Block]) -> None:
        """Send a message, to a new child if there is none; its time limit begins."""
        if self._channel is None:
            self._channel = self._start()
            parts = [*self._opening, *parts]
        self._call = Call(
            limits=self._limits,
            isolation=self.level,
            memory=self._request.memory + self._memory.size,
            is_last=self._channel.is_last,
        )
        self._channel.deadline = self._call.started + self._limits.timeout
        self._channel.send(parts)

    def _start(self) -> Channel:
        with no_room():
            shared = self._memory.open()
        try:
            return Channel(self._server, self._request, shared)
        finally:
            os.close(shared)

    def receive(self, read: Callable[[Call, Read], T]) -> T:
        """Return what ``read`` makes of the reply to the last message. Any exception closes the child."""
        channel, call = self._channel, self._call
        assert channel is not None  # noqa: S101 - a message was sent
        channel.deadline = max(channel.deadline, time.perf_counter() + _LATE_SECONDS)
        try:
            return read(call, channel.read)
        except BaseException as error:
            self.close()  # the rest of a reply must not be read as the next one
            # CodeRefused, CodeTimeout and CodeUnavailable are OSErrors too.
            if isinstance(error, EOFError | OSError) and not isinstance(error, CodeFailed | CodeUnavailable):
                raise channel.error(call) from error
            raise

    def close(self) -> None:
        """End the child, and wait until it has been reaped."""
        if self._channel is not None:
            channel, self._channel = self._channel, None
            channel.close()
