"""Numbers that come from outside: from JSON, a model, a caller."""

from __future__ import annotations

import math
from typing import TypeGuard

from quantgraph.errors import BadOption


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is an int; True and False are not.

    >>> is_whole(3), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool)


def check_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Require an option to be an int from ``least`` on, to ``most`` if there is one."""
    if not is_whole(value) or value < least or (most is not None and value > most):
        valid = f">= {least}" if most is None else f"from {least} to {most}"
        raise BadOption(f"{name}={value!r:.40}; must be a whole number {valid}", parameter=name)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is an int or a float, NaN and infinity among them; True and False are not."""
    return isinstance(value, float) or is_whole(value)


def finite_number(value: object) -> float | None:
    """Return a finite number as a float; None for anything else, an int beyond the floats among it.

    >>> finite_number(2), finite_number("2"), finite_number(float("inf")), finite_number(10**400)
    (2.0, None, None, None)
    """
    try:
        number = float(value) if is_number(value) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
