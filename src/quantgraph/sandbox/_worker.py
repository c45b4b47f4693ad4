"""The process in which generated code runs: ``python -P -s -m quantgraph.sandbox._worker``.

Given the number of an inherited socket it is the fork server; with ``--once`` it serves one request on stdin
and stdout. The number of the archive's descriptor may follow; without one it makes the archive itself. More
arguments are packages that code may import beside those that it always may. Its environment is
empty, and it receives nothing but the request.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import resource
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from quantgraph.sandbox._archive import import_from_archive
from quantgraph.sandbox._lockdown import seal_child, seal_parent, self_test
from quantgraph.sandbox._pandas_guards import allow_packages
from quantgraph.sandbox._requests import REQUEST_LIMIT, preload, serve_cells, serve_prefixes
from quantgraph.sandbox._result import DIED, STARTED, UNAVAILABLE, is_at_least
from quantgraph.sandbox._server import ForkRequest, ServerProcess
from quantgraph.sandbox.wire._shared_frames import FramesReader, map_shared_frames
from quantgraph.sandbox.wire._wire import (
    decode_frames,
    encode_frames,
    encode_message,
    exact_reader,
    read_header,
)

_TEST_SECONDS = 10.0
_TEST_MEMORY = 256 << 20


def run_fork_server(control: socket.socket) -> None:
    """Seal this process, report its isolation level, and serve until the host closes ``control``."""
    seal_parent()
    with contextlib.suppress(ConnectionError):
        control.sendall(_report_of_a_sealed_child())
        _ForkServer(control).serve()


def _report_of_a_sealed_child() -> bytes:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            seal_child(memory=_TEST_MEMORY, seconds=_TEST_SECONDS)
            level, reason = self_test(Path(__file__))
            os.write(writing, b"".join(encode_message({"level": level, "reason": reason})))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        report = stream.read()
    os.waitpid(child, 0)
    return report


@dataclass(kw_only=True)
class _Fork:
    connection: socket.socket
    deadline: float
    seconds: float
    is_late: bool = False
    is_killed: bool = False


class _ForkServer:
    """The loop over the control socket and the living children, by process id."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._forks: dict[int, _Fork] = {}
        # Every child begins with as many.
        self._kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # SIGCHLD writes to this pair, which wakes the loop when a child exits.
        self._wakeup, self._signals = socket.socketpair()
        for end in (self._wakeup, self._signals):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._signals.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        """Run until the host closes its end or dies, then kill all children."""
        while True:
            ready, hung_up = self._wait()
            for pid, fork in self._forks.items():
                fork.is_late = fork.is_late or time.monotonic() >= fork.deadline
                if (fork.is_late or pid in hung_up) and not fork.is_killed:
                    self._kill(pid)
            with contextlib.suppress(BlockingIOError):
                self._wakeup.recv(4096)
            self._reap()
            if self._control.fileno() in ready and not self._accept():
                break
        for pid in self._forks:
            self._kill(pid)

    def _wait(self) -> tuple[set[int], set[int]]:
        """Wait for an event; return the ready descriptors, and the children whose host has hung up."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        living = {pid: fork for pid, fork in self._forks.items() if not fork.is_killed}
        for fork in living.values():
            poll.register(fork.connection, select.POLLRDHUP if ServerProcess.SEES_HANG_UP else 0)
        first = min((fork.deadline for fork in living.values()), default=math.inf)
        timeout = None if first == math.inf else max(first - time.monotonic(), 0.0) * 1000 + 1
        ready = {descriptor for descriptor, _ in poll.poll(timeout)}
        return ready, {pid for pid, fork in living.items() if fork.connection.fileno() in ready}

    def _kill(self, pid: int) -> None:
        self._forks[pid].is_killed = True
        for kill in (os.killpg, os.kill):  # the child may not lead a group of its own yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Reap exited children, and send their exit status to a host that waits for a reply."""
        for pid, fork in list(self._forks.items()):
            reaped, status, used = os.wait4(pid, os.WNOHANG)
            if not reaped:
                continue
            self._kill(pid)  # processes that it may have started
            del self._forks[pid]
            is_late = fork.is_late or used.ru_utime + used.ru_stime >= fork.seconds
            error = {
                "code": DIED,
                "status": os.waitstatus_to_exitcode(status),
                "late": is_late,
                "kilobytes": max(used.ru_maxrss - self._kilobytes, 0),
            }
            _send_error(fork.connection, error)

    def _accept(self) -> bool:
        """Fork for the host's next request; return False if the host is gone."""
        packed, descriptors, flags, _ = socket.recv_fds(self._control, ForkRequest.SIZE, 2)
        if not packed:
            return False
        if len(descriptors) < 2 or flags & socket.MSG_CTRUNC:
            # No free descriptor was left to receive them: the host sees the connection close.
            for descriptor in descriptors:
                os.close(descriptor)
            return True
        self._fork(ForkRequest.read(packed), socket.socket(fileno=descriptors[0]), descriptors[1])
        return True

    def _fork(self, request: ForkRequest, connection: socket.socket, shared: int) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            _send_error(connection, {"code": UNAVAILABLE, "message": str(error)})
        else:
            if not pid:
                self._run_child(request, connection, shared)
            deadline = time.monotonic() + request.deadline
            self._forks[pid] = _Fork(connection=connection, deadline=deadline, seconds=request.seconds)
        os.close(shared)

    def _run_child(self, request: ForkRequest, connection: socket.socket, shared: int) -> None:
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # A child must not hold sockets of the server or of other children.
            for other in self._forks.values():
                other.connection.close()
            for end in (self._control, self._wakeup, self._signals):
                end.close()
            memory = map_shared_frames(shared)
            os.close(shared)
            seal_child(memory=request.memory + len(memory), seconds=request.seconds)
            with connection, connection.makefile("rb") as stream:
                read = exact_reader(stream)
                connection.sendall(b"".join(encode_message(STARTED)))
                header, _ = read_header(read, limit=REQUEST_LIMIT)
                if "prefixes" in header:
                    serve_prefixes(header, memory, read, connection.sendall)
                else:
                    frames = FramesReader(memory, header).read(header["rows"])
                    serve_cells(header, frames, connection.sendall)
        finally:
            os._exit(0)


def _send_error(connection: socket.socket, error: dict[str, object]) -> None:
    """Send a reply in the child's place, without waiting for a host that has hung up or does not read."""
    header = {"stdout": "", "value": "", "error": error}
    with connection, contextlib.suppress(OSError):
        connection.send(b"".join(encode_frames(header, {})), socket.MSG_DONTWAIT)


def _serve_once() -> None:
    """Seal the process, report its isolation level, and run the code if that is enough."""
    reply = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (1, 2):
        os.dup2(null, standard)
    seal_parent()
    header, frames = decode_frames(exact_reader(sys.stdin.buffer), limit=REQUEST_LIMIT)
    os.dup2(null, 0)
    os.close(null)
    if hasattr(os, "fork"):
        _continue_in_fork(reply)
    seal_child(memory=header["memory"], seconds=header["seconds"])
    level, reason = self_test(Path(__file__))
    with reply:
        for part in encode_message({"level": level, "reason": reason}):
            reply.write(part)
        reply.flush()
        if is_at_least(level, header["isolation"]):
            serve_cells(header, frames, reply.write)


def _continue_in_fork(reply: BinaryIO) -> None:
    """Return in a child, which has no threads that libraries started; the parent exits as the child does."""
    child = os.fork()
    if child:
        reply.close()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status < 0:
            os.kill(os.getpid(), -status)
        os._exit(status)


def main(arguments: list[str]) -> None:
    """Serve one request with ``--once``, else forks on the inherited socket of that number."""
    how, *named = arguments
    archive = int(named.pop(0)) if named and named[0].isdigit() else None
    packages = allow_packages(named)
    preload()
    import_from_archive(archive, packages)
    gc.enable()
    if how == "--once":
        _serve_once()
        return
    # Objects made so far are in every child: a collector that visits them would copy their pages.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(how)) as control:
        run_fork_server(control)


if __name__ == "__main__":
    main(sys.argv[1:])
