"""Compiled code that starts from a cache where there is room for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

__all__ = ["compiled"]

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile a function when it is first called, and keep the result beside its file or in the user's cache.

    Where neither can be written, each process compiles anew. Integers wrap at 64 bits. The cache is
    renewed when the function's own file changes: what it calls has to stand there, and who changes a constant
    that it takes from another file has to touch its file, too.
    """
    try:
        return cast("F", njit(cache=True, error_model="numpy")(function))
    except RuntimeError:  # numba found no folder for the cache
        return cast("F", njit(error_model="numpy")(function))
