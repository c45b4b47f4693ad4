"""The host's connection to a child process of the fork server."""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from quantgraph.errors import CodeFailed, CodeUnavailable
from quantgraph.sandbox.result import DIED, STARTED, Call, Isolation, Limits
from quantgraph.sandbox.server_process import ForkRequest, ServerProcess
from quantgraph.sandbox.wire import Block, Read, read_header

_START_LIMIT = 1 << 16
_REAP_SECONDS = 30.0
_LAST_SECONDS = 1.0
_LATE_SECONDS = 1.0
"""For what has arrived while the host was busy with something else."""

T = TypeVar("T")


class Channel:
    """A socket to one new child on which every read and write has a deadline.

    Parameters
    ----------
    server, request, shared_frames
        See :meth:`.ServerProcess.connect`.

    Attributes
    ----------
    deadline
        In seconds of ``time.perf_counter``; nothing is read after it. It begins as that of the child's start.

    Raises
    ------
    CodeUnavailable, SandboxTooWeak
        If no child can be had.
    """

    def __init__(self, server: ServerProcess, request: ForkRequest, shared_frames: int | None = None) -> None:
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
            raise self._server_ended() from error
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
        """Return exactly ``size`` bytes.

        Raises
        ------
        EOFError, OSError
            If the child closed its end or the deadline passed; TimeoutError if nothing arrived by then.
        """
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
            return call.ended()
        return self._server_ended()

    def _server_ended(self) -> CodeUnavailable:
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
        """End the child, and wait until it has been reaped: nothing that it knew is alive then.

        Raises
        ------
        CodeUnavailable
            If it cannot be ended.
        """
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

    Attributes
    ----------
    limits
        Limits of one request.
    """

    def __init__(self, server: ServerProcess, request: ForkRequest, limits: Limits) -> None:
        self._server, self._request = server, request
        self._channel: Channel | None = None
        self.limits = limits

    @property
    def level(self) -> Isolation:
        """Isolation of its process."""
        return self._server.level

    @property
    def is_alive(self) -> bool:
        """Whether there is a child that still knows the requests before."""
        return self._channel is not None

    def request(self, parts: Sequence[Block], read: Callable[[Call, Read], T]) -> T:
        """Send a message and return what ``read`` makes of the reply; raises like :meth:`receive`."""
        self.send(parts)
        return self.receive(read)

    def send(self, parts: Sequence[Block]) -> None:
        """Send a message, to a new child if there is none; its time limit begins.

        Raises
        ------
        CodeUnavailable, SandboxTooWeak
            If no child can be had.
        """
        if self._channel is None:
            self._channel = Channel(self._server, self._request)
        self._call = Call(
            limits=self.limits,
            isolation=self.level,
            memory=self._request.memory,
            is_last=self._channel.is_last,
        )
        self._channel.deadline = self._call.started + self.limits.timeout
        self._channel.send(parts)

    def receive(self, read: Callable[[Call, Read], T]) -> T:
        """Return what ``read`` makes of the reply to the last message. Any exception closes the child.

        Raises
        ------
        CodeFailed, CodeTimeout
            If the child ends without a reply, or sends none in time.
        CodeUnavailable
            If the machine ended it.
        """
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
        """End the child."""
        if self._channel is not None:
            channel, self._channel = self._channel, None
            channel.close()
