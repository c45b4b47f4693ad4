"""The host's connection to a child process of the fork server."""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from quantgraph.errors import CodeFailed
from quantgraph.sandbox.result import Call, Isolation, Limits
from quantgraph.sandbox.server_process import ForkRequest, ServerProcess
from quantgraph.sandbox.wire import Block, Read

__all__ = ["Channel", "Child"]

T = TypeVar("T")


class Channel:
    """A socket to one child on which every read and write has a deadline.

    Attributes
    ----------
    deadline
        In seconds of ``time.perf_counter``; nothing is read after it.
    """

    def __init__(self, connection: socket.socket, deadline: float = math.inf) -> None:
        self._connection = connection
        self.deadline = deadline

    def send(self, parts: Sequence[Block]) -> None:
        """Send a message. Errors are ignored: a child that stopped listening may have sent the reason."""
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
            filled += count
            if time.perf_counter() > self.deadline:
                raise EOFError
        return buffer

    def _remaining(self) -> float:
        return max(self.deadline - time.perf_counter(), 0.001)

    def close(self) -> None:
        """Close the socket, which ends the child."""
        self._connection.close()


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
        """Send a message and return what ``read`` makes of the reply. Any exception closes the child.

        Raises
        ------
        CodeFailed, CodeTimeout
            If the child ends without a reply, or sends none in time.
        """
        if self._channel is None:
            self._channel = Channel(self._server.connect(self._request))
        call = Call(limits=self.limits, isolation=self.level)
        self._channel.deadline = call.started + self.limits.timeout
        self._channel.send(parts)
        try:
            return read(call, self._channel.read)
        except BaseException as error:
            self.close()  # the rest of a reply must not be read as the next one
            # CodeRefused and CodeTimeout are OSErrors too.
            if isinstance(error, EOFError | OSError) and not isinstance(error, CodeFailed):
                raise call.ended() from error
            raise

    def close(self) -> None:
        """End the child."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
