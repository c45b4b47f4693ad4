"""The warm process: one sealed child for each connection that the host hands over."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import shutil
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from quantgraph.sandbox.decider_child import serve_decider
from quantgraph.sandbox.lockdown import readable_places, seal_child, seal_parent, self_test
from quantgraph.sandbox.request_loop import REQUEST_LIMIT, exact_reader, serve_cells, serve_walk
from quantgraph.sandbox.result import DIED
from quantgraph.sandbox.server_process import ForkRequest
from quantgraph.sandbox.shared_frames import map_shared_frames, read_shared_frames
from quantgraph.sandbox.wire import encode_frames, read_header

__all__ = ["canary_file", "serve_forks"]

_TEST_SECONDS = 10.0
_TEST_MEMORY = 256 << 20


def canary_file() -> Path:
    """A file of the host's that sealed code must not be able to read: quantgraph's own."""
    return Path(__file__)


def serve_forks(control: socket.socket) -> None:
    """Seal this process, say how well that went, and serve until the host is gone."""
    seal_parent([*readable_places(), Path.cwd()])
    with contextlib.suppress(ConnectionError):
        control.sendall(_tested() + b"\n")
        _Forks(control).serve()
    # The host removes this folder, with all that is in it; one that was killed could not.
    with contextlib.suppress(OSError):
        Path.cwd().rmdir()


def _tested() -> bytes:
    """What a sealed child finds that it can do."""
    told, telling = os.pipe()
    if not os.fork():
        try:
            seal_child(memory=_TEST_MEMORY, seconds=_TEST_SECONDS)
            level, reason = self_test(canary_file())
            os.write(telling, json.dumps({"level": level, "reason": reason}).encode())
        finally:
            os._exit(0)
    os.close(telling)
    with os.fdopen(told, "rb") as stream:
        said = stream.read()
    os.wait()
    return said


@dataclass(kw_only=True)
class _Child:
    connection: socket.socket
    deadline: float
    seconds: float
    late: bool = False
    ending: bool = False


class _Forks:
    """The children that live, by their number."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, _Child] = {}
        # A child's end wakes the loop.
        self._awake, self._bell = socket.socketpair()
        for end in (self._awake, self._bell):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        """Until the host has closed its end, or is no more."""
        while True:
            events, left = self._events()
            for number, child in self._children.items():
                child.late = child.late or time.monotonic() >= child.deadline
                if (child.late or number in left) and not child.ending:
                    self._end(number)
            with contextlib.suppress(BlockingIOError):
                self._awake.recv(4096)
            self._bury()
            if self._control.fileno() in events and not self._accept():
                break
        for number in self._children:
            self._end(number)

    def _events(self) -> tuple[set[int], set[int]]:
        """Wait; the descriptors on which something happened, and the children whose host has hung up."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._awake, select.POLLIN)
        living = {n: child for n, child in self._children.items() if not child.ending}
        for child in living.values():
            poll.register(child.connection, 0)
        first = min((child.deadline for child in living.values()), default=math.inf)
        wait = None if first == math.inf else max(first - time.monotonic(), 0.0) * 1000 + 1
        found = {descriptor for descriptor, _ in poll.poll(wait)}
        return found, {number for number, child in living.items() if child.connection.fileno() in found}

    def _end(self, number: int) -> None:
        self._children[number].ending = True
        for kill in (os.killpg, os.kill):  # it may not lead a group of its own yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(number, signal.SIGKILL)

    def _bury(self) -> None:
        """Take leave of children that have ended; a host that still waits for a reply is told how."""
        for number, child in list(self._children.items()):
            found, status, used = os.wait4(number, os.WNOHANG)
            if not found:
                continue
            self._end(number)  # whatever it may have started
            del self._children[number]
            late = child.late or used.ru_utime + used.ru_stime >= child.seconds
            told = {"code": DIED, "status": os.waitstatus_to_exitcode(status), "late": late}
            _tell(child.connection, told)
            shutil.rmtree(str(number), ignore_errors=True)

    def _accept(self) -> bool:
        """Fork for what the host hands over; False if it has gone."""
        told, descriptors, flags, _ = socket.recv_fds(self._control, ForkRequest.SIZE, 2)
        if not told:
            return False
        if not descriptors or flags & socket.MSG_CTRUNC:
            # Lost for want of a free number: its other end sees the connection close.
            for descriptor in descriptors:
                os.close(descriptor)
            return True
        self._fork(ForkRequest.read(told), socket.socket(fileno=descriptors[0]), descriptors[1:])
        return True

    def _fork(self, job: ForkRequest, connection: socket.socket, parcel: list[int]) -> None:
        try:
            number = os.fork()
        except OSError as error:
            words = f"no process could be made for the code: {error}"
            told = {"code": "code_failed", "type": type(error).__name__, "message": words}
            _tell(connection, told | {"line": None, "text": ""})
        else:
            if not number:
                self._be_child(job, connection, parcel)
            deadline = time.monotonic() + job.deadline
            self._children[number] = _Child(connection=connection, deadline=deadline, seconds=job.seconds)
        for descriptor in parcel:
            os.close(descriptor)

    def _be_child(self, job: ForkRequest, connection: socket.socket, parcel: list[int]) -> None:
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # A child must not have what belongs to others.
            for other in self._children.values():
                other.connection.close()
            for end in (self._control, self._awake, self._bell):
                end.close()
            with contextlib.suppress(OSError):  # behind closed files nothing can be left, and none is needed
                os.mkdir(str(os.getpid()))  # noqa: PTH102
                os.chdir(str(os.getpid()))
            memory = [map_shared_frames(descriptor) for descriptor in parcel]
            for descriptor in parcel:
                os.close(descriptor)
            seal_child(memory=job.memory + sum(map(len, memory)), seconds=job.seconds)
            with connection, connection.makefile("rb") as stream:
                read = exact_reader(stream)
                header, _ = read_header(read, limit=REQUEST_LIMIT)
                if memory:
                    serve_cells(header, read_shared_frames(memory[0]), connection.sendall)
                elif "decider" in header:
                    serve_decider(header, read, connection.sendall, limit=REQUEST_LIMIT)
                else:
                    serve_walk(header, read, connection.sendall)
        finally:
            os._exit(0)


def _tell(connection: socket.socket, error: dict[str, object]) -> None:
    """A reply in place of the child's; a host that has hung up, or does not read, is not waited for."""
    header = {"stdout": "", "value": "", "error": error, "kilobytes": 0}
    with connection, contextlib.suppress(OSError):
        connection.send(b"".join(encode_frames(header, {})), socket.MSG_DONTWAIT)
