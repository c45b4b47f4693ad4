"""The numbers that a model gives as the result of its own calculation, and how near they must be."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

RELATIVE = 0.0001
"""A number may be off by this share of the exact one, or by half a unit of its own last decimal."""

_FILLERS = {"value", "current", "latest", "last", "now", "today", "line", "当前", "最新", "值"}
_WORDS = re.compile(r"[a-z]+|\d+|[\u4e00-\u9fff]+")
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True, kw_only=True)
class ModelNumber:
    """A number under its key.

    Attributes
    ----------
    words
        The words of the key in lower case, without those that say nothing.
    digits
        The whole numbers in the key: ``(30,)`` of ``ma30``.
    half_unit
        Half a unit of the last decimal that was written.
    """

    key: str
    value: float
    half_unit: float
    words: tuple[str, ...]
    digits: tuple[int, ...]

    def matches(self, exact: float) -> bool:
        """Whether it is near enough to an exact number."""
        # One part in a million more: the exact number is itself rounded in binary.
        return abs(self.value - exact) <= self.tolerance(exact) * (1 + 1e-6)

    def tolerance(self, exact: float) -> float:
        """How far it may be from an exact number."""
        return max(self.half_unit, RELATIVE * abs(exact))


def numbers_of(result: Any) -> list[ModelNumber]:
    """Return the finite numbers of a result, a number or an object of numbers, one level of nesting deep.

    >>> found = numbers_of({"ma30": 50200, "rsi": "65.2", "up": True})
    >>> [(each.key, each.value, each.half_unit) for each in found]
    [('ma30', 50200.0, 0.5), ('rsi', 65.2, 0.05)]
    """
    return [number for key, value in _leaves(result) if (number := _number(key, value))]


def keys_of(result: Any) -> list[str]:
    """Return the keys of a result's values, as :func:`numbers_of` names those that are numbers.

    >>> keys_of({"rsi": 47.9, "is_oversold": True, "macd": {"dif": 1}})
    ['rsi', 'is_oversold', 'macd dif']
    """
    return [key or "result" for key, _ in _leaves(result)]


def _leaves(result: Any) -> Iterator[tuple[str, Any]]:
    """The values of a result under their keys, one level of nesting deep."""
    if not isinstance(result, Mapping):
        yield "", result
        return
    for key, value in result.items():
        for part, leaf in (value if isinstance(value, Mapping) else {"": value}).items():
            yield " ".join(filter(None, (str(key), str(part)))), leaf


def number_named(numbers: Collection[ModelNumber], names: Collection[str]) -> ModelNumber | None:
    """Return the first number whose key is one of some names: ``signal line`` is named ``signalline``.

    A name in front of it is allowed to be said too: of ``macd signal`` the last word counts.
    """
    for number in numbers:
        if "".join(number.words) in names:
            return number
    for number in numbers:
        if len(number.words) > 1 and "".join(number.words[1:]) in names:
            return number
    return None


def _number(key: str, value: Any) -> ModelNumber | None:
    written = value.strip() if isinstance(value, str) else value
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        return None
    if isinstance(written, str) and not _PLAIN_NUMBER.fullmatch(written):
        return None
    try:
        exact = Decimal(str(written))
        number = float(exact)
    except (InvalidOperation, OverflowError, ValueError):
        return None
    exponent = exact.as_tuple().exponent
    if not math.isfinite(number) or not isinstance(exponent, int):
        return None
    digits = tuple(int(word) for word in _WORDS.findall(key) if word.isdecimal() and len(word) < 5)
    return ModelNumber(
        key=key or "result",
        value=number,
        half_unit=0.5 * 10.0 ** min(0, exponent),
        words=words_of(key) or ("result",),
        digits=digits,
    )


def words_of(key: str) -> tuple[str, ...]:
    """Return the words of a key in lower case, without numbers and, beside others, words that say nothing.

    >>> words_of("current_RSI14"), words_of("value")
    (('rsi',), ('value',))
    """
    words = [word for word in _WORDS.findall(key.casefold()) if not word.isdecimal()]
    return tuple(word for word in words if word not in _FILLERS) or tuple(words)
