"""The host's end of a child that stays, and is asked one thing after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from quantgraph.sandbox.channel import Channel
from quantgraph.sandbox.result import Isolation, Limits, ended
from quantgraph.sandbox.wire import Block, Read

__all__ = ["Child"]

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
            raise ended(None, self.limits, time.perf_counter() - started) from error
        except BaseException:
            self.close()  # what is left of a reply is none to the next question
            raise

    def close(self) -> None:
        """End it."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
