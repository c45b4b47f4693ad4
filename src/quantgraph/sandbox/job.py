"""What the warm process is told of a child before it forks it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = ["Job"]

_STRUCT = struct.Struct("<ddQ")


@dataclass(frozen=True, kw_only=True)
class Job:
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
    def read(cls, told: bytes) -> Job:
        """The job that :meth:`packed` wrote."""
        deadline, seconds, memory = _STRUCT.unpack(told)
        return cls(deadline=deadline, seconds=seconds, memory=memory)
