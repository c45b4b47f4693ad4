"""Dates in other orders and shorter forms, put into the one that the reader of dates knows.

``10/31/2025`` has a number above 12 and so one order; ``3/1/2025`` has two, unless another date of the same line
settles it. What stays open is named as a whole and asked about.
"""

from __future__ import annotations

import re

__all__ = ["rewritten"]

_YEAR = r"(?:19|20)\d{2}"
_DAY = (
    rf"(?<![\d/.])(?:\d{{1,2}}/\d{{1,2}}/{_YEAR}|\d{{1,2}}\.\d{{1,2}}\.{_YEAR}|(?<!\d-)\d{{1,2}}-\d{{1,2}}-{_YEAR})"
    r"(?![\d/]|\.\d|-\d{1,2}-)"
)
_DATE = re.compile(_DAY)
_PARTS = re.compile(r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})")
_LINK = r"\s*(?:-|~|–|—|到|至|\bto\b|\buntil\b|\bthrough\b|\band\b|和)\s*"
_SPAN = re.compile(rf"{_DAY}(?:{_LINK}{_DAY})?", re.IGNORECASE)
_SHORT_SPAN = re.compile(
    rf"(?<![\d/.-])(?:\d{{1,2}}/\d{{1,2}}/\d{{2}}{_LINK}\d{{1,2}}/\d{{1,2}}/\d{{2}}"
    rf"|\d{{1,2}}/\d{{1,2}}{_LINK}\d{{1,2}}/\d{{1,2}})(?![\d/])",
    re.IGNORECASE,
)
_MONTH_YEAR = re.compile(
    r"(?<![\d/.-])(0?[1-9]|1[0-2])/((?:19|20)\d{2})(?![\d/-]|\.\d|\s*(?:日|天|均|线|-?\s*day|[se]?ma\b|倍|%))",
    re.IGNORECASE,
)
_TO_YEAR = r"\s*(?:到|至|-|~|–|—)\s*"
_YEAR_PAIR = re.compile(rf"(?<![\d.])(2\d|3\d)年?({_TO_YEAR})(2\d|3\d)年(?!线|均|期|新|内|后|来)")
_YEAR_PART = re.compile(
    r"(?<![\d.])(?<![近前满])([0-3]\d)(年\s*(?:[上下]半年|第?[1-4]季度|Q[1-4]|(?:1[0-2]|0?[1-9])月))",
    re.IGNORECASE,
)
_YEAR_ALONE = re.compile(
    r"(?<![\d.])(?<![近前满每第约])(?<!最近)(?<!过去)(?<!持有)(?<!连续)(?<!超过)(?<!不到)(2[1-9]|3\d)"
    r"(年(?:全年|度)?)(?!\d|线|均|期|新|内|以|之?[内前后]|来|的?(?:历史|均))"
)


def _orders(text: str) -> set[str]:
    """Orders of day and month that the dates of a text settle: ``md``, ``dm``, ``none`` for a date of neither."""
    found: set[str] = set()
    for match in _DATE.finditer(text):
        first, second = (int(number) for number in _PARTS.findall(match[0])[0][:2])
        if first > 12 or second > 12:
            found.add("md" if first <= 12 < second <= 31 else "dm" if second <= 12 < first <= 31 else "none")
    return found


def rewritten(text: str, mark: str) -> tuple[str, tuple[str, ...]]:
    """The text with these dates as ``YYYY-MM-DD`` or with years of four digits, and those that stay open.

    ``mark`` stands where an open one was.

    >>> rewritten("3/1/2025 - 10/31/2025", "*")
    ('2025-03-01 - 2025-10-31', ())
    >>> rewritten("3/1/2025 to 4/1/2025,23年到24年", "*")
    ('*,2023年到2024年', ('3/1/2025 to 4/1/2025',))
    """
    orders = _orders(text)
    order = next(iter(orders)) if len(orders) == 1 else "none"
    open_: list[str] = []

    def day(match: re.Match[str]) -> str:
        first, second, year = _PARTS.findall(match[0])[0]
        month, day_ = (second, first) if order == "dm" else (first, second)
        return f"{year}-{int(month):02d}-{int(day_):02d}"

    def left_open(match: re.Match[str]) -> str:
        same = all(first == second for first, second, _ in _PARTS.findall(match[0]))
        if match.re is _SPAN and (order != "none" or (same and not orders)):
            return _DATE.sub(day, match[0])
        open_.append(match[0])
        return mark

    text = _SPAN.sub(left_open, text)
    text = _SHORT_SPAN.sub(left_open, text)
    text = _MONTH_YEAR.sub(lambda m: f"{m[2]}-{int(m[1]):02d}", text)
    text = _YEAR_PAIR.sub(r"20\1年\g<2>20\3年", text)
    text = _YEAR_PART.sub(r"20\1\2", text)
    return _YEAR_ALONE.sub(r"20\1\2", text), tuple(open_)
