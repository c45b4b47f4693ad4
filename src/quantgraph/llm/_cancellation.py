"""Waits that can be cancelled: for a model's reply, or until the next attempt.

``check`` is called every :data:`CHECK_SECONDS` seconds of a wait; an exception from it ends the wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from langgraph.errors import GraphDrained
    from langgraph.runtime import RunControl


T = TypeVar("T")
Check = Callable[[], None]

AT_ONCE = "at once"
"""Reason of a drain that also abandons a model call in flight."""

CHECK_SECONDS = 0.05
_ABANDONED: ContextVar[tuple[threading.Event, ...]] = ContextVar("left", default=())


def current_run_control() -> RunControl | None:
    """The control of the running graph, which can request a stop; None outside of a graph."""
    from langgraph.runtime import get_runtime

    try:
        return getattr(get_runtime(), "control", None)  # a chain without a graph has none
    except RuntimeError:
        return None


def drain_error(reason: str) -> GraphDrained:
    """The error of a run that was requested to stop."""
    from langgraph.errors import GraphDrained

    return GraphDrained(reason)


def is_abandoned() -> bool:
    """Whether this code runs inside an abandoned model call, such as a model that calls another."""
    return any(event.is_set() for event in _ABANDONED.get())


def interruptible_sleep(seconds: float, check: Check) -> None:
    """Sleep in a thread."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(left, CHECK_SECONDS))


def run_in_thread(call: Callable[[], T], check: Check) -> T:
    """Return or raise the outcome of a call, made in a daemon thread of its own.

    An abandoned call goes on in its thread until its own timeout, since Python cannot stop a thread; its
    result is dropped.
    """
    under_way: Future[T] = Future()
    gone = threading.Event()

    def work() -> None:
        _ABANDONED.set((*_ABANDONED.get(), gone))
        try:
            under_way.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            under_way.set_exception(error)

    threading.Thread(target=copy_context().run, args=(work,), name="model call", daemon=True).start()
    try:
        while not wait([under_way], timeout=CHECK_SECONDS).done:
            check()
    except BaseException:
        gone.set()
        raise
    return under_way.result()
