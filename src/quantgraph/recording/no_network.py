"""Refuses network access while a replay runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from quantgraph.errors import RunDiverged

_REFUSED: ContextVar[bool] = ContextVar("refused", default=False)

_ADDRESS_EVENTS = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1}
"""CPython's audit events with an address, and its place among the arguments."""
_LOOKUP_EVENTS = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
)
"""Audit events that look up a name; the host, or ``(host, port)``, is the first argument."""


class _AuditHook:
    """The process's one audit hook, which cannot be removed and so checks each time whether to refuse."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # the hook is set once, and no count is lost
        self._hooked = False
        self._everywhere = 0

    def install(self, *, everywhere: int) -> None:
        with self._lock:
            if not self._hooked:
                sys.addaudithook(self._check)
            self._hooked = True
            self._everywhere += everywhere

    def _check(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not event.startswith("socket.") or not (self._everywhere or _REFUSED.get()):
            return
        if event in _ADDRESS_EVENTS:
            _refuse(event, arguments[_ADDRESS_EVENTS[event]])
        elif event in _LOOKUP_EVENTS:
            _refuse(event, arguments[:2] if event == "socket.getaddrinfo" else arguments[0])


_HOOK = _AuditHook()


@contextmanager
def no_network(*, everywhere: bool = False) -> Iterator[None]:
    """Refuse every connection, datagram and name look-up.

    This holds for the current context and those that inherit it, which a plain ``Thread`` does not; with
    ``everywhere``, for the whole process. Traffic of C libraries, and over connections that are open already,
    is not detected.

    Raises
    ------
    RunDiverged
        In the code that uses the network; ``data`` has ``host`` and ``port``, None if unknown.
    """
    _HOOK.install(everywhere=int(everywhere))
    token = _REFUSED.set(True)
    try:
        yield
    finally:
        _REFUSED.reset(token)
        _HOOK.install(everywhere=-int(everywhere))


def _refuse(event: str, address: Any) -> None:
    host, port = address[:2] if isinstance(address, tuple) else (address, None)
    host = host.decode(errors="replace") if isinstance(host, bytes) else host
    where = str(host) if port is None else f"{host}:{port}"
    raise RunDiverged(
        f"{event.removeprefix('socket.')} {where}: refused: a replay uses no network; the request is "
        "not in the recording",
        host=host,
        port=port,
    )
