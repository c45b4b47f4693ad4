"""What the rulebook is asked with: days and amounts in the forms that callers have them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from quantgraph.errors import BadOption, BadWindow
from quantgraph.market.moment import session_of
from quantgraph.market.money import ZERO, to_decimal

__all__ = ["amount_of", "day_of"]


def day_of(day: object) -> dt.date:
    """Read a day: a date, which costs nothing, or anything else that is a session label.

    >>> day_of("2024-01-02"), day_of(dt.datetime(2024, 1, 2))
    (datetime.date(2024, 1, 2), datetime.date(2024, 1, 2))

    Raises
    ------
    BadOption
        If it is no date, or carries a time of day or a time zone.
    """
    if type(day) is dt.date:
        return day
    try:
        return session_of(day, name="day").date()
    except BadWindow as error:
        raise BadOption(error.message, parameter="day") from error


def amount_of(name: str, value: Decimal | float | str) -> Decimal:
    """Read a price, an amount of money or shares.

    Raises
    ------
    BadOption
        If it is not a finite number of at least 0.
    """
    number = Decimal(value) if type(value) is int else to_decimal(value, name=name)
    if number < ZERO:
        raise BadOption(f"{name}={value}; at least 0 is wanted", parameter=name)
    return number
