"""Where in a run a question is asked: set by the node that runs, read by whoever asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from quantgraph.recording.entry import Entry, Key, Kind, canonical, digest
from quantgraph.recording.run import Recording
from quantgraph.state import decided_at

__all__ = ["Scope", "current_scope", "in_scope", "recorded", "replaying"]

T = TypeVar("T")

_SCOPE: ContextVar[Scope | None] = ContextVar("scope", default=None)


@dataclass(kw_only=True)
class Scope:
    """One execution of a node in a run.

    Attributes
    ----------
    path
        The node's, see :class:`~quantgraph.recording.Key`.
    calls
        Model calls made at each path before this execution, from the graph's state; it grows with each call,
        and the node's update takes it back to the state.
    request
        How many requests of the thread ended before this one.
    begun
        When it began, on the monotonic clock.
    heard
        Told of each model call when it has ended, and whether it was served instead of made.
    """

    recording: Recording
    path: str
    calls: dict[str, int] = field(default_factory=dict)
    request: int = 0
    heard: Callable[[Entry, bool], None] | None = None
    begun: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def session(self) -> str | None:
        """The session that is being decided, ``YYYYMMDD``."""
        moment = decided_at()
        return None if moment is None else f"{moment.session:%Y%m%d}"

    def place(self) -> tuple[str, int]:
        """The path asked from, and how many model calls were made there before."""
        session = self.session
        path = f"{self.path}/{session}" if session else self.path
        with self._lock:
            return path, self.calls.get(path, 0)

    def next_call(self) -> tuple[str, int]:
        """The path asked from, and the number of the model call that is made now."""
        path, before = self.place()
        with self._lock:
            self.calls[path] = max(self.calls.get(path, 0), before) + 1
            return path, self.calls[path]


def current_scope() -> Scope | None:
    """The scope of the node that runs; None outside of one."""
    return _SCOPE.get()


def replaying() -> bool:
    """Whether the node that runs is served everything, and nothing may be asked."""
    scope = current_scope()
    return scope is not None and scope.recording.replays


@contextmanager
def in_scope(scope: Scope) -> Iterator[Scope]:
    """While a node runs. It holds for the thread and for what inherits its context."""
    token = _SCOPE.set(scope)
    try:
        with scope.recording.tally.working():
            yield scope
    finally:
        _SCOPE.reset(token)


def recorded(kind: Kind, request: Mapping[str, Any], ask: Callable[[], T]) -> T:
    """What ``ask`` answers, a JSON value: asked once in a run, and from its record ever after.

    Errors of ours are answers too. Outside of a scope it is asked and that is all.

    Raises
    ------
    RunDiverged
        In a replay, if the recorded run did not ask this here.
    """
    scope = current_scope()
    if scope is None:
        return ask()
    text = canonical(request)
    path, seq = scope.place()
    return scope.recording.once(Key(path, seq, kind, digest(text)), text, ask, session=scope.session)
