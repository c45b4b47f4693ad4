"""The network, closed: while a replay runs, nobody is asked."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from quantgraph.errors import RunDiverged

__all__ = ["no_network"]

_CLOSED: ContextVar[bool] = ContextVar("closed", default=False)

_TO = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1}
"""Audit events of CPython in which an address is the second argument."""
_NAMED = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
)
"""Those that look up a name; host, or ``(host, port)``, comes first."""


class _Door:
    """The process's: an audit hook cannot be taken away again, so there is one, which asks each time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # the hook is set once, and no count is lost
        self._hooked = False
        self._everywhere = 0

    def shut(self, *, everywhere: int) -> None:
        with self._lock:
            if not self._hooked:
                sys.addaudithook(self._hear)
            self._hooked = True
            self._everywhere += everywhere

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not event.startswith("socket.") or not (self._everywhere or _CLOSED.get()):
            return
        if event in _TO:
            _refuse(event, arguments[_TO[event]])
        elif event in _NAMED:
            _refuse(event, arguments[:2] if event == "socket.getaddrinfo" else arguments[0])


_DOOR = _Door()


@contextmanager
def no_network(*, everywhere: bool = False) -> Iterator[None]:
    """Refuse every connection, every datagram and every look-up of a name.

    It holds for this context and those that inherit it, which a plain ``Thread`` does not; with
    ``everywhere`` for the whole process. What a library in C sends by itself is not seen, nor what goes over
    a connection that was open before.

    Raises
    ------
    RunDiverged
        From whatever reaches out; ``data`` has ``host`` and ``port``, None where there is none.
    """
    _DOOR.shut(everywhere=int(everywhere))
    token = _CLOSED.set(True)
    try:
        yield
    finally:
        _CLOSED.reset(token)
        _DOOR.shut(everywhere=-int(everywhere))


def _refuse(event: str, address: Any) -> None:
    host, port = address[:2] if isinstance(address, tuple) else (address, None)
    host = host.decode(errors="replace") if isinstance(host, bytes) else host
    where = str(host) if port is None else f"{host}:{port}"
    raise RunDiverged(
        f"{event.removeprefix('socket.')} {where}: refused, a replay asks nobody; what is asked there is not "
        "in the record",
        host=host,
        port=port,
    )
