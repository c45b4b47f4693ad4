"""Tasks side by side on threads: each waits for a process of its own, so that threads are enough."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def in_lanes(tasks: Iterable[Callable[[], T]], lanes: int) -> Iterator[T]:
    """Run tasks on ``lanes`` threads, and yield their results in the order of the tasks.

    Task i runs in lane ``i % lanes``, after the tasks of its lane before it. At most one task more than there
    are lanes is begun ahead of the results that were taken, so that a caller who stops early wastes little,
    and few results wait in memory. What a task raises is raised at its turn; the tasks behind it are dropped.
    """
    if lanes == 1:
        for task in tasks:
            yield task()
        return
    threads = [ThreadPoolExecutor(1, thread_name_prefix="quantgraph-trial") for _ in range(lanes)]
    begun: deque[Future[T]] = deque()
    try:
        for number, task in enumerate(tasks):
            begun.append(threads[number % lanes].submit(copy_context().run, task))
            if len(begun) > lanes:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for thread in threads:
            thread.shutdown(cancel_futures=True)
