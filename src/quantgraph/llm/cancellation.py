"""Waiting for a model, or until it may be asked again, and leaving off when there is a reason to.

``check`` is called every :data:`CHECK_SECONDS` seconds of a wait; what it raises ends the wait.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from langgraph.errors import GraphDrained
    from langgraph.runtime import RunControl

__all__ = [
    "AT_ONCE",
    "async_interruptible_sleep",
    "await_call",
    "current_run_control",
    "drain_error",
    "interruptible_sleep",
    "is_abandoned",
    "run_in_thread",
]

T = TypeVar("T")
Check = Callable[[], None]

AT_ONCE = "at once"
"""Reason of a drain that leaves a model call which is under way, too."""

CHECK_SECONDS = 0.05
_ABANDONED: ContextVar[tuple[threading.Event, ...]] = ContextVar("left", default=())


def current_run_control() -> RunControl | None:
    """Where the graph that runs here is told to stop; None outside of one."""
    from langgraph.runtime import get_runtime

    try:
        return getattr(get_runtime(), "control", None)  # a chain that is no graph has none
    except RuntimeError:
        return None


def drain_error(reason: str) -> GraphDrained:
    """The error of a run that was told to stop."""
    from langgraph.errors import GraphDrained

    return GraphDrained(reason)


def is_abandoned() -> bool:
    """Whether this runs inside of a call that nobody waits for any more: a model may ask others."""
    return any(event.is_set() for event in _ABANDONED.get())


def interruptible_sleep(seconds: float, check: Check) -> None:
    """Sleep."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(left, CHECK_SECONDS))


async def async_interruptible_sleep(seconds: float, check: Check) -> None:
    """Sleep in a task."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        await asyncio.sleep(min(left, CHECK_SECONDS))


def run_in_thread(call: Callable[[], T], check: Check) -> T:
    """What a call returns or raises; it is made in a thread of its own, which no process waits for.

    A call that is left goes on in its thread until its own timeout, and what it returns is dropped: nothing
    in Python can break it off.
    """
    under_way: Future[T] = Future()
    gone = threading.Event()

    def work() -> None:
        _ABANDONED.set((*_ABANDONED.get(), gone))
        try:
            under_way.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            under_way.set_exception(error)

    threading.Thread(target=copy_context().run, args=(work,), name="model call", daemon=True).start()
    try:
        while not wait([under_way], timeout=CHECK_SECONDS).done:
            check()
    except BaseException:
        gone.set()
        raise
    return under_way.result()


async def await_call(call: Awaitable[T], check: Check) -> T:
    """What a call returns or raises; one that is left is cancelled."""
    under_way = asyncio.ensure_future(call)
    try:
        while not (await asyncio.wait([under_way], timeout=CHECK_SECONDS))[0]:
            check()
    except BaseException:
        under_way.cancel()
        await asyncio.gather(under_way, return_exceptions=True)
        raise
    return under_way.result()
