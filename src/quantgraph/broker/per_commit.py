"""A cache of what is computed from a commit, kept while its data state lives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from quantgraph.state import DataState

P = ParamSpec("P")
R = TypeVar("R")

_MOST = 128
"""Results kept for one data state; the oldest is removed first."""


def per_commit(read: Callable[Concatenate[DataState, P], R]) -> Callable[Concatenate[DataState, P], R]:
    """Cache a function of a data state, a commit and more hashable arguments: commits never change.

    The state is referenced weakly, so its frames can be freed. The lock protects the cached results.
    """
    caches: WeakKeyDictionary[DataState, dict[tuple[Any, ...], R]] = WeakKeyDictionary()
    lock = threading.Lock()

    @wraps(read)
    def cached(store: DataState, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with lock:
            results = caches.setdefault(store, {})
            if args in results:
                return results[args]
        result = read(store, *args, **kwargs)
        with lock:
            if len(results) >= _MOST:
                del results[next(iter(results))]
            return results.setdefault(args, result)

    return cached
