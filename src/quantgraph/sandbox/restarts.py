"""Restarts of code processes that the machine ended: a few in each node, then the run ends, resumable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from quantgraph.errors import CodeUnavailable

MOST_RESTARTS = 3
"""Restarts in one node, or in one call outside of a node."""

T = TypeVar("T")

_restarts: ContextVar[list[CodeUnavailable] | None] = ContextVar("quantgraph_restarts", default=None)


@contextmanager
def counted_restarts() -> Iterator[None]:
    """Count the restarts of all calls inside together."""
    token = _restarts.set([])
    try:
        yield
    finally:
        _restarts.reset(token)


def with_restarts(work: Callable[[], T]) -> T:
    """Do work with a code process, and do it again if the machine ends the process.

    Raises
    ------
    CodeUnavailable
        If that happens more than :data:`MOST_RESTARTS` times.
    """
    counted = _restarts.get()
    ended = [] if counted is None else counted
    while True:
        try:
            return work()
        except CodeUnavailable as error:
            if not error.data["killed"] or len(ended) >= MOST_RESTARTS:
                raise
            ended.append(error)
