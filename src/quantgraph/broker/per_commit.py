"""What is read from a commit once and kept while its data state lives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from quantgraph.state import DataState

__all__ = ["per_commit"]

P = ParamSpec("P")
R = TypeVar("R")

_MOST = 128
"""Answers kept for one data state; the oldest goes first."""


def per_commit(read: Callable[Concatenate[DataState, P], R]) -> Callable[Concatenate[DataState, P], R]:
    """Remember what a function of a data state, a commit's name and more reads: commits never change.

    The state is held weakly: its frames go with it. The lock protects what is remembered of a state.
    """
    kept: WeakKeyDictionary[DataState, dict[tuple[Any, ...], R]] = WeakKeyDictionary()
    lock = threading.Lock()

    @wraps(read)
    def remembered(store: DataState, /, *given: P.args, **named: P.kwargs) -> R:
        with lock:
            answers = kept.setdefault(store, {})
            if given in answers:
                return answers[given]
        answer = read(store, *given, **named)
        with lock:
            if len(answers) >= _MOST:
                del answers[next(iter(answers))]
            return answers.setdefault(given, answer)

    return remembered
