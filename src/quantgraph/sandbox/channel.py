"""The host's end of a connection to a code process: every read and write has a deadline."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence

from quantgraph.sandbox.wire import Block

__all__ = ["Channel"]


class Channel:
    """A connection to one child.

    Attributes
    ----------
    deadline
        Reading on ``time.perf_counter`` after which nothing is read.
    """

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self.deadline = deadline

    def send(self, parts: Sequence[Block]) -> None:
        """Send a message. A child that does not listen to its end may still have said why."""
        with contextlib.suppress(OSError):
            for part in parts:
                self._connection.settimeout(self._left())
                self._connection.sendall(part)

    def read(self, size: int) -> bytearray:
        """Exactly ``size`` bytes.

        Raises
        ------
        EOFError, OSError
            If the child has closed its end, or the deadline has passed; TimeoutError if nothing came then.
        """
        # It grows with what comes: a reply that only announces a gigabyte does not take one.
        part, filled = bytearray(min(size, 1 << 20)), 0
        while filled < size:
            if filled == len(part):
                part += bytes(min(size - filled, 3 * filled))
            self._connection.settimeout(self._left())
            with memoryview(part)[filled:] as room:
                count = self._connection.recv_into(room)
            if not count:
                raise EOFError
            filled += count
            if time.perf_counter() > self.deadline:
                raise EOFError
        return part

    def _left(self) -> float:
        return max(self.deadline - time.perf_counter(), 0.001)

    def close(self) -> None:
        """Hang up, which ends the child."""
        self._connection.close()
