"""The host's end of a child that stays, and is asked one thing after the other."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from quantgraph.sandbox.result import Isolation, Limits, exit_error
from quantgraph.sandbox.wire import Block, Read

__all__ = ["Channel", "Child"]


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


T = TypeVar("T")


class Child:
    """One child at a time: when it has ended, or was given up, another is begun.

    Attributes
    ----------
    limits
        Of one question.
    """

    def __init__(
        self, connect: Callable[[], Channel], limits: Limits, level: Callable[[], Isolation]
    ) -> None:
        self._connect, self._level = connect, level
        self._channel: Channel | None = None
        self.limits = limits

    @property
    def level(self) -> Isolation:
        """How well it is locked in."""
        return self._level()

    @property
    def lives(self) -> bool:
        """Whether there is one that knows what it was told before."""
        return self._channel is not None

    def ask(self, parts: Sequence[Block], read: Callable[[Read, float], T]) -> T:
        """Send a message and read the reply with ``read``, which is given the time at which it was asked.

        Whatever is raised, it is given up then.

        Raises
        ------
        CodeFailed, CodeTimeout
            If it ends without a reply, or gives none in time.
        """
        if self._channel is None:
            self._channel = self._connect()
        started = time.perf_counter()
        self._channel.deadline = started + self.limits.timeout
        self._channel.send(parts)
        try:
            return read(self._channel.read, started)
        except (EOFError, OSError) as error:
            self.close()
            raise exit_error(None, self.limits, time.perf_counter() - started) from error
        except BaseException:
            self.close()  # what is left of a reply is none to the next question
            raise

    def close(self) -> None:
        """End it."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
