"""Exact money: decimals of a cent, rounded half up; floats are for ratios."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from quantgraph.errors import BadOption

__all__ = ["CENT", "ZERO", "exact", "money"]

CENT = Decimal("0.01")
ZERO = Decimal("0.00")


def exact(value: Decimal | float | str, *, name: str = "value") -> Decimal:
    """Read a number as a person would: the shortest text of a float, not its binary expansion.

    >>> exact(1.15), exact("0.00025")
    (Decimal('1.15'), Decimal('0.00025'))

    Raises
    ------
    BadOption
        If it is not a finite number.
    """
    try:
        number = value if isinstance(value, Decimal) else Decimal(_text(value))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise BadOption(f"{name}={value!r} is not a finite number", parameter=name)
    return number


def money(amount: Decimal) -> Decimal:
    """Round an amount to the cent, half up.

    >>> money(Decimal("1.005")), money(Decimal("2.004999"))
    (Decimal('1.01'), Decimal('2.00'))
    """
    return amount.quantize(CENT, rounding=ROUND_HALF_UP)


def _text(value: float | str) -> str:
    if isinstance(value, str):
        return value
    number = float(value)
    return repr(int(number)) if math.isfinite(number) and number == int(number) else repr(number)
