"""Periods and dates as written: days, months, quarters, halves, years, the last six months, 10/31/2025."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, timedelta

from quantgraph.errors import BadWindow

EARLIEST = "19000101"
"""The start of *the full history*: the request begins with the first session of its data."""
_YEAR_DIGITS = r"(?:19|20)\d{2}"
_DAY = (
    rf"(?<![\d/.])(?:\d{{1,2}}/\d{{1,2}}/{_YEAR_DIGITS}|\d{{1,2}}\.\d{{1,2}}\.{_YEAR_DIGITS}|(?<!\d-)\d{{1,2}}-\d{{1,2}}-{_YEAR_DIGITS})"
    r"(?![\d/]|\.\d|-\d{1,2}-)"
)
_DATE = re.compile(_DAY)  # "10/31/2025"
_PARTS = re.compile(r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})")  # "10/31/2025"
_LINK = r"\s*(?:-|~|–|—|到|至|\bto\b|\buntil\b|\bthrough\b|\band\b|和)\s*"
_SPAN = re.compile(rf"{_DAY}(?:{_LINK}{_DAY})?", re.IGNORECASE)  # "1/2/2024 - 6/30/2024"
_SHORT_SPAN = re.compile(  # "1/2到6/30"
    rf"(?<![\d/.-])(?:\d{{1,2}}/\d{{1,2}}/\d{{2}}{_LINK}\d{{1,2}}/\d{{1,2}}/\d{{2}}"
    rf"|\d{{1,2}}/\d{{1,2}}{_LINK}\d{{1,2}}/\d{{1,2}})(?![\d/])",
    re.IGNORECASE,
)
_MONTH_YEAR = re.compile(  # "3/2024"
    r"(?<![\d/.-])(0?[1-9]|1[0-2])/((?:19|20)\d{2})(?![\d/-]|\.\d|\s*(?:日|天|均|线|-?\s*day|[se]?ma\b|倍|%))",
    re.IGNORECASE,
)
_TO_YEAR = r"\s*(?:到|至|-|~|–|—)\s*"
_YEAR_PAIR = re.compile(rf"(?<![\d.])(2\d|3\d)年?({_TO_YEAR})(2\d|3\d)年(?!线|均|期|新|内|后|来)")
_YEAR_PART = re.compile(  # "24年上半年"
    r"(?<![\d.])(?<![近前满])([0-3]\d)(年\s*(?:[上下]半年|第?[1-4]季度|Q[1-4]|(?:1[0-2]|0?[1-9])月))",
    re.IGNORECASE,
)
_YEAR_ALONE = re.compile(  # "24年全年"
    r"(?<![\d.])(?<![近前满每第约])(?<!最近)(?<!过去)(?<!持有)(?<!连续)(?<!超过)(?<!不到)(2[1-9]|3\d)"
    r"(年(?:全年|度)?)(?!\d|线|均|期|新|内|以|之?[内前后]|来|的?(?:历史|均))"
)


def _orders(text: str) -> set[str]:
    """Orders of day and month that the dates of a text prove: ``md``, ``dm``, or ``none`` if neither fits."""
    found: set[str] = set()
    for match in _DATE.finditer(text):
        first, second = (int(number) for number in _PARTS.findall(match[0])[0][:2])
        if first > 12 or second > 12:
            found.add("md" if first <= 12 < second <= 31 else "dm" if second <= 12 < first <= 31 else "none")
    return found


def normalise_dates(text: str, mark: str) -> tuple[str, tuple[str, ...]]:
    """The text with dates as ``YYYY-MM-DD`` and years of four digits, and the ambiguous dates.

    ``10/31/2025`` has only one order; ``3/1/2025`` has two, unless another date of the line proves one.

    >>> normalise_dates("3/1/2025 - 10/31/2025", "*")
    ('2025-03-01 - 2025-10-31', ())
    >>> normalise_dates("3/1/2025 to 4/1/2025,23年到24年", "*")
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


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_YEAR = r"(?<!\d)((?:19|20)\d{2})"


@dataclass(frozen=True, kw_only=True)
class Period:
    """A period as written. ``year`` is 0 if another period names it; ``relative``: it counts back."""

    unit: str
    year: int = 0
    month: int = 0
    day: int = 0
    start: str = ""
    end: str = ""
    relative: bool = False

    def with_year(self, year: int) -> Period:
        """The period in a year, if it was written without."""
        return self if self.year or self.unit == "fixed" else _period(self.unit, year, self.month, self.day)


def _period(unit: str, year: int, month: int = 0, day: int = 0) -> Period:
    """A day, or a period of one, three, six or twelve months from ``month`` on."""
    if unit == "day":
        if not (1 <= month <= 12 and 1 <= day <= 31):
            raise BadWindow(
                f"{year:04d}-{month:02d}-{day:02d} is not a date; write YYYYMMDD, for example 20240105",
                parameter="window",
            )
        text = f"{year:04d}{month:02d}{day:02d}"
        return Period(unit=unit, year=year, month=month, day=day, start=text, end=text)
    last = month + {"month": 1, "quarter": 3, "half": 6, "year": 12}[unit] - 1
    if not 1 <= month <= last <= 12:
        raise BadWindow(
            f"{year:04d} has no {unit} that starts in month {month}; months go from 1 to 12",
            parameter="window",
        )
    start = f"{year:04d}{month:02d}01"
    end = f"{year:04d}{last:02d}{calendar.monthrange(year or 2024, last)[1]:02d}"
    return Period(unit=unit, year=year, month=month, start=start, end=end)


def _month_of(name: str) -> int:
    return _MONTHS.index(name[:3].lower()) + 1


_Reader = Callable[[re.Match[str]], Period]


def _half(word: str) -> int:
    return 1 if word.lower() in ("上", "1", "first") else 7


def _quarter(word: str) -> int:
    number = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": 4}.get(word.lower())
    return 3 * ((int(word) if number is None else number) - 1) + 1


_ROWS: tuple[tuple[str, _Reader], ...] = (
    (_YEAR + r"(\d{2})(\d{2})(?!\d)", lambda m: _period("day", int(m[1]), int(m[2]), int(m[3]))),
    (
        _YEAR + r"\s*[-/.年]\s*(\d{1,2})\s*[-/.月]\s*(\d{1,2})(?!\d)\s*[日号]?",
        lambda m: _period("day", int(m[1]), int(m[2]), int(m[3])),
    ),
    (_YEAR + r"\s*年?\s*[-]?\s*第?([1-4])\s*季度?", lambda m: _period("quarter", int(m[1]), _quarter(m[2]))),
    (_YEAR + r"\s*年?\s*[-/]?\s*Q([1-4])(?!\d)", lambda m: _period("quarter", int(m[1]), _quarter(m[2]))),
    (r"Q([1-4])\s*(?:of\s*|/|-)?\s*" + _YEAR + r"(?!\d)", lambda m: _period("quarter", int(m[2]), _quarter(m[1]))),
    (
        r"(?:the\s+)?(first|second|third|fourth|last)\s+quarter\s+(?:of\s+)?" + _YEAR + r"(?!\d)",
        lambda m: _period("quarter", int(m[2]), _quarter(m[1])),
    ),
    (_YEAR + r"\s*年?\s*(上|下)半年", lambda m: _period("half", int(m[1]), _half(m[2]))),
    (_YEAR + r"\s*[-/]?\s*H([12])(?!\d)", lambda m: _period("half", int(m[1]), _half(m[2]))),
    (r"H([12])\s*(?:of\s*|/|-)?\s*" + _YEAR + r"(?!\d)", lambda m: _period("half", int(m[2]), _half(m[1]))),
    (
        r"(?:the\s+)?(first|second)\s+half\s+(?:of\s+)?" + _YEAR + r"(?!\d)",
        lambda m: _period("half", int(m[2]), _half(m[1])),
    ),
    (_YEAR + r"\s*年\s*(\d{1,2})\s*月份?", lambda m: _period("month", int(m[1]), int(m[2]))),
    (_YEAR + r"[-/.](\d{1,2})(?![\d%]|\s*[-/.]\d{1,2}(?!\d))", lambda m: _period("month", int(m[1]), int(m[2]))),
    (_YEAR + r"(0[1-9]|1[0-2])(?!\d)", lambda m: _period("month", int(m[1]), int(m[2]))),
    (
        _MONTH + r"\s*(\d{1,2})(?:st|nd|rd|th)?\s*,?\s+" + _YEAR + r"(?!\d)",
        lambda m: _period("day", int(m[3]), _month_of(m[1]), int(m[2])),
    ),
    (
        r"(?<!\d)(\d{1,2})(?:st|nd|rd|th)?\s+" + _MONTH + r",?\s+" + _YEAR + r"(?!\d)",
        lambda m: _period("day", int(m[3]), _month_of(m[2]), int(m[1])),
    ),
    (_MONTH + r",?\s+" + _YEAR + r"(?!\d)", lambda m: _period("month", int(m[2]), _month_of(m[1]))),
    (_YEAR + r"\s*年(?:全年|度)?", lambda m: _period("year", int(m[1]), 1)),
    (
        r"(?:full[\s-]year\s+|all\s+of\s+|year\s+|calendar\s+year\s+)?" + _YEAR
        + r"(?![\d%倍]|\.\d|\s*-?\s*(?:d|day|days|session|sessions)\b|\s*[日天只])(?:全年)?",
        lambda m: _period("year", int(m[1]), 1),
    ),
    (r"(?<!\d)(\d{1,2})月(\d{1,2})[日号]?", lambda m: _period("day", 0, int(m[1]), int(m[2]))),
    (r"(?<!\d)(\d{1,2})月份?", lambda m: _period("month", 0, int(m[1]))),
    (r"(上|下)半年", lambda m: _period("half", 0, _half(m[1]))),
    (r"第?([1-4])季度", lambda m: _period("quarter", 0, _quarter(m[1]))),
    (r"(?<![A-Za-z0-9])Q([1-4])(?![A-Za-z0-9])", lambda m: _period("quarter", 0, _quarter(m[1]))),
    (r"(?<![A-Za-z0-9])H([12])(?![A-Za-z0-9])", lambda m: _period("half", 0, _half(m[1]))),
    (
        r"(?<![A-Za-z])" + _MONTH + r"\s+(\d{1,2})(?:st|nd|rd|th)?(?![\d%-])",
        lambda m: _period("day", 0, _month_of(m[1]), int(m[2])),
    ),
    (r"(?<![A-Za-z])" + _MONTH, lambda m: _period("month", 0, _month_of(m[1]))),
)  # fmt: skip
_RULES = [(re.compile(pattern, re.IGNORECASE), reader) for pattern, reader in _ROWS]  # "2024年3月"

_MOST_DIGITS = 9
_ROLLING = re.compile(  # "最近3年"
    r"(?:最近的?|近|过去的?|前)\s*(\d+)\s*个?\s*(年|月|周|星期|天|日)(?!均|线|新|涨|跌|动|收|高|低|最|K(?!DJ))"
    r"|(?:the\s+)?(?:last|past|previous|recent)\s+(\d+)\s*-?\s*(year|month|week|day)s?\b"
    r"|(?:the\s+(?:last|past|previous)|past)\s+(year|month|week|quarter)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(  # "今年以来"
    r"(前年|去年|今年|本年度?|上个?月|本月|这个月|上个?季度|本季度|今年以来)"
    r"|(全部(?:历史|数据|时间|区间)|(?:所有|整个|完整)(?:的)?(?:历史|数据)|全历史)"
    r"|\b(?:(?:the\s+)?(?:full|entire|whole)\s+(?:history|period|file|data)|all\s+(?:(?:the|of\s+the)\s+)?(?:available\s+)?(?:data|history|dates))\b"
    r"|\b(last\s+year|this\s+year|last\s+month|this\s+month|last\s+quarter|this\s+quarter|year[\s-]to[\s-]date|ytd)\b",
    re.IGNORECASE,
)


def _minus_months(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 - months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _text(day: date) -> str:
    return day.strftime("%Y%m%d")


def _rolling(match: re.Match[str], last: date | None) -> Period:
    """The period up to the last session; it starts the day after the same day of the earlier month or year."""
    if last is None:
        return Period(unit="fixed", relative=True)
    digits, shown = match[1] or match[3] or "1", match[0]
    if len(digits) > _MOST_DIGITS:  # int() refuses thousands of digits
        raise BadWindow(
            f"{shown[:20]}… has {len(digits)} digits; it goes back beyond the year 1", parameter="window"
        )
    count = int(digits)
    unit = (match[2] or match[4] or match[5]).lower()
    months = {"年": 12, "year": 12, "quarter": 3, "月": 1, "month": 1}.get(unit)
    try:
        if months is not None:
            start = _minus_months(last, months * count)
        else:
            start = last - timedelta(days=count * (7 if unit in ("周", "星期", "week") else 1))
    except (ValueError, OverflowError) as error:
        raise BadWindow(f"{shown} goes back beyond the year 1", parameter="window") from error
    return Period(unit="fixed", start=_text(start + timedelta(days=1)), end=_text(last), relative=True)


def _read_name(match: re.Match[str], last: date | None) -> Period:
    if last is None:
        return Period(unit="fixed")
    word = re.sub(r"\s+", " ", match[0].lower())  # "last year"
    if match[2] or not (match[1] or match[3]):
        return Period(unit="fixed", start=EARLIEST, end=_text(last))
    quarter = 3 * ((last.month - 1) // 3) + 1
    if word in ("前年", "去年", "last year"):
        return replace(_period("year", last.year - (2 if word == "前年" else 1), 1), relative=True)
    if word in ("上月", "上个月", "last month"):
        before = _minus_months(last, 1)
        return replace(_period("month", before.year, before.month), relative=True)
    if word in ("上季度", "上个季度", "last quarter"):
        before = _minus_months(date(last.year, quarter, 1), 3)
        return replace(_period("quarter", before.year, before.month), relative=True)
    if word in ("本月", "这个月", "this month"):
        start = last.replace(day=1)
    elif word in ("本季度", "this quarter"):
        start = date(last.year, quarter, 1)
    else:
        start = date(last.year, 1, 1)
    return Period(unit="fixed", start=_text(start), end=_text(last))


def period_at(text: str, at: int, last: date | None) -> tuple[Period, int] | None:
    """The period that starts at a place, and where it ends."""
    for pattern, relative in ((_ROLLING, _rolling), (_NAMED, _read_name)):
        if match := pattern.match(text, at):
            return relative(match, last), match.end()
    for pattern, reader in _RULES:
        if match := pattern.match(text, at):
            return reader(match), match.end()
    return None
