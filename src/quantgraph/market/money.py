"""Exact money: decimals, rounded half up to the cent; floats are for ratios."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from quantgraph.errors import BadOption

CENT = Decimal("0.01")
ZERO = Decimal("0.00")
_DUST = Decimal("1e-8")


def to_decimal(value: Decimal | float | str, *, name: str = "value") -> Decimal:
    """Read a number exactly: a float by its shortest text, not by its binary expansion.

    >>> to_decimal(1.15), to_decimal("0.00025")
    (Decimal('1.15'), Decimal('0.00025'))

    Raises
    ------
    BadOption
        If it is not a finite number.
    """
    try:
        number = value if isinstance(value, Decimal) else Decimal(_text(value))
    except (InvalidOperation, TypeError, ValueError, OverflowError):
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


def notional(price: Decimal, quantity: int | Decimal) -> Decimal:
    """Price of a number of shares: half up to the cent, for fractions of a share to a millionth of a cent.

    Fractions are bought for a round amount of money; rounding to the cent would lose part of it.

    >>> notional(Decimal("0.125"), 1), notional(Decimal("0.125"), Decimal("0.5"))
    (Decimal('0.13'), Decimal('0.06250000'))
    """
    return money(price * quantity) if quantity == int(quantity) else market_value(price, quantity)


def market_value(price: Decimal, quantity: int | Decimal) -> Decimal:
    """Value of shares: exact, for fractions of a share to a millionth of a cent as they are paid."""
    amount = price * quantity
    return amount if quantity == int(quantity) else amount.quantize(_DUST, rounding=ROUND_HALF_UP)


def trim_zeros(amount: Decimal) -> Decimal:
    """Write an exact amount with two decimals, or with as many more as it needs.

    >>> trim_zeros(Decimal("10.5")), trim_zeros(Decimal("10.1230"))
    (Decimal('10.50'), Decimal('10.123'))
    """
    cents = amount.quantize(CENT, rounding=ROUND_HALF_UP)
    return cents if cents == amount else amount.normalize()


def _text(value: float | str) -> str:
    if isinstance(value, (str, int)):
        return str(value)
    number = float(value)
    return repr(int(number)) if math.isfinite(number) and number == int(number) else repr(number)
