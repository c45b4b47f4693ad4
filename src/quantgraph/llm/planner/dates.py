"""Which window of dates a sentence names.

Dates are eight digits. A day that does not exist (``20240231``) is kept as written for the host to
refuse; a month or a day that no calendar has, or a number of seven or nine digits in its place, is an
error here. Relative dates count from the last session, never from a clock.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from quantgraph.errors import BadWindow

__all__ = ["MARK", "Window", "find_window", "merge", "without_dates"]

MARK = "\x1f"
"""Stands in the text where a date was."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_YEAR = r"(?<!\d)((?:19|20)\d{2})"


@dataclass(frozen=True, kw_only=True)
class Window:
    """A start and an end, each eight digits or None. ``open_end``: the end is the last session."""

    start: str | None = None
    end: str | None = None
    open_end: bool = False
    named: bool = False
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Period:
    """A stretch of time as written. ``year`` is 0 where the text leaves it to its neighbour."""

    unit: str
    year: int = 0
    month: int = 0
    day: int = 0
    start: str = ""
    end: str = ""

    def with_year(self, year: int) -> _Period:
        return self if self.year or self.unit == "fixed" else _period(self.unit, year, self.month, self.day)


def _period(unit: str, year: int, month: int = 0, day: int = 0) -> _Period:
    """A day, or ``month`` being the first month of a period of one, three, six or twelve months."""
    if unit == "day":
        if not (1 <= month <= 12 and 1 <= day <= 31):
            raise BadWindow(
                f"{year:04d}-{month:02d}-{day:02d} is not a date; write YYYYMMDD, for example 20240105",
                parameter="window",
            )
        text = f"{year:04d}{month:02d}{day:02d}"
        return _Period(unit=unit, year=year, month=month, day=day, start=text, end=text)
    length = {"month": 1, "quarter": 3, "half": 6, "year": 12}[unit]
    last = month + length - 1
    if not 1 <= month <= last <= 12:
        raise BadWindow(
            f"{year:04d} has no {unit} that starts in month {month}; months go from 1 to 12",
            parameter="window",
        )
    start = f"{year:04d}{month:02d}01"
    end = f"{year:04d}{last:02d}{calendar.monthrange(year or 2024, last)[1]:02d}"
    return _Period(unit=unit, year=year, month=month, start=start, end=end)


def _month_of(name: str) -> int:
    return _MONTHS.index(name[:3].lower()) + 1


_Reader = Callable[[re.Match[str]], _Period]


def _half(word: str) -> int:
    return 1 if word.lower() in ("上", "1", "first") else 7


def _quarter(word: str) -> int:
    number = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": 4}.get(word.lower())
    return 3 * ((int(word) if number is None else number) - 1) + 1


def _rules() -> list[tuple[re.Pattern[str], _Reader]]:
    p = _period
    rows: list[tuple[str, _Reader]] = [
        (_YEAR + r"(\d{2})(\d{2})(?!\d)", lambda m: p("day", int(m[1]), int(m[2]), int(m[3]))),
        (
            _YEAR + r"\s*[-/.年]\s*(\d{1,2})\s*[-/.月]\s*(\d{1,2})(?!\d)\s*[日号]?",
            lambda m: p("day", int(m[1]), int(m[2]), int(m[3])),
        ),
        (_YEAR + r"\s*年?\s*[-]?\s*第?([1-4])\s*季度?", lambda m: p("quarter", int(m[1]), _quarter(m[2]))),
        (_YEAR + r"\s*年?\s*[-/]?\s*Q([1-4])(?!\d)", lambda m: p("quarter", int(m[1]), _quarter(m[2]))),
        (r"Q([1-4])\s*(?:of\s*|/|-)?\s*" + _YEAR + r"(?!\d)", lambda m: p("quarter", int(m[2]), _quarter(m[1]))),
        (
            r"(?:the\s+)?(first|second|third|fourth|last)\s+quarter\s+(?:of\s+)?" + _YEAR + r"(?!\d)",
            lambda m: p("quarter", int(m[2]), _quarter(m[1])),
        ),
        (_YEAR + r"\s*年?\s*(上|下)半年", lambda m: p("half", int(m[1]), _half(m[2]))),
        (_YEAR + r"\s*[-/]?\s*H([12])(?!\d)", lambda m: p("half", int(m[1]), _half(m[2]))),
        (r"H([12])\s*(?:of\s*|/|-)?\s*" + _YEAR + r"(?!\d)", lambda m: p("half", int(m[2]), _half(m[1]))),
        (
            r"(?:the\s+)?(first|second)\s+half\s+(?:of\s+)?" + _YEAR + r"(?!\d)",
            lambda m: p("half", int(m[2]), _half(m[1])),
        ),
        (_YEAR + r"\s*年\s*(\d{1,2})\s*月份?", lambda m: p("month", int(m[1]), int(m[2]))),
        (_YEAR + r"[-/.](\d{1,2})(?![\d%]|\s*[-/.]\d{1,2}(?!\d))", lambda m: p("month", int(m[1]), int(m[2]))),
        (_YEAR + r"(0[1-9]|1[0-2])(?!\d)", lambda m: p("month", int(m[1]), int(m[2]))),
        (
            _MONTH + r"\s*(\d{1,2})(?:st|nd|rd|th)?\s*,?\s+" + _YEAR + r"(?!\d)",
            lambda m: p("day", int(m[3]), _month_of(m[1]), int(m[2])),
        ),
        (
            r"(?<!\d)(\d{1,2})(?:st|nd|rd|th)?\s+" + _MONTH + r",?\s+" + _YEAR + r"(?!\d)",
            lambda m: p("day", int(m[3]), _month_of(m[2]), int(m[1])),
        ),
        (_MONTH + r",?\s+" + _YEAR + r"(?!\d)", lambda m: p("month", int(m[2]), _month_of(m[1]))),
        (_YEAR + r"\s*年(?:全年|度)?", lambda m: p("year", int(m[1]), 1)),
        (
            r"(?:full[\s-]year\s+|all\s+of\s+|year\s+|calendar\s+year\s+)?" + _YEAR
            + r"(?![\d%.倍]|\s*-?\s*(?:d|day|days|session|sessions)\b|\s*[日天只])(?:全年)?",
            lambda m: p("year", int(m[1]), 1),
        ),
        (r"(?<!\d)(\d{1,2})月(\d{1,2})[日号]?", lambda m: p("day", 0, int(m[1]), int(m[2]))),
        (r"(?<!\d)(\d{1,2})月份?", lambda m: p("month", 0, int(m[1]))),
        (r"(上|下)半年", lambda m: p("half", 0, _half(m[1]))),
        (r"第?([1-4])季度", lambda m: p("quarter", 0, _quarter(m[1]))),
        (r"(?<![A-Za-z0-9])Q([1-4])(?![A-Za-z0-9])", lambda m: p("quarter", 0, _quarter(m[1]))),
        (r"(?<![A-Za-z0-9])H([12])(?![A-Za-z0-9])", lambda m: p("half", 0, _half(m[1]))),
        (
            r"(?<![A-Za-z])" + _MONTH + r"\s+(\d{1,2})(?:st|nd|rd|th)?(?![\d%-])",
            lambda m: p("day", 0, _month_of(m[1]), int(m[2])),
        ),
        (r"(?<![A-Za-z])" + _MONTH, lambda m: p("month", 0, _month_of(m[1]))),
    ]  # fmt: skip
    return [(re.compile(pattern, re.IGNORECASE), reader) for pattern, reader in rows]


_RULES = _rules()

_ROLLING = re.compile(
    r"(?:最近的?|近|过去的?|前)\s*(\d+)\s*个?\s*(年|月|周|星期|天|日)(?!均|线|新|涨|跌|动|收|高|低|最|K)"
    r"|(?:the\s+)?(?:last|past|previous|recent)\s+(\d+)\s*-?\s*(year|month|week|day)s?\b"
    r"|(?:the\s+(?:last|past|previous)|past)\s+(year|month|week|quarter)\b",
    re.IGNORECASE,
)
_SESSIONS = re.compile(
    r"(?:最近的?|近|过去的?|前)\s*\d+\s*个?\s*交易日|(?:the\s+)?(?:last|past)\s+\d+\s+(?:trading\s+days|sessions)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(前年|去年|今年|本年度?|上个?月|本月|这个月|上个?季度|本季度|今年以来)"
    r"|\b(last\s+year|this\s+year|last\s+month|this\s+month|last\s+quarter|this\s+quarter|year[\s-]to[\s-]date|ytd)\b",
    re.IGNORECASE,
)
_NOW = re.compile(r"今天|今日|现在|目前|最新|至今|\b(?:today|now|date|present)\b", re.IGNORECASE)
_LINK = re.compile(
    r"\s*(?:到|至|-|~|–|—|→|\bto\b|\buntil\b|\btill\b|\bthrough\b|\bthru\b|\band\b|和|与)\s*", re.IGNORECASE
)
_START = re.compile(
    r"(?:(?:从|自从|自|始于|开始(?:日期|时间)?|起始(?:日期|时间)?|起)\s*(?:是|为)?\s*[:=]?\s*"
    r"|\b(?:since|from|starting(?:\s+(?:from|on|in))?|start(?:[_ ]date)?|beginning(?:\s+(?:of|in|on))?)\b\s*[:=]?\s*)(?:the\s+)?$",
    re.IGNORECASE,
)
_END = re.compile(
    r"(?:(?:截至|截止(?:到|日期|时间)?|直到|结束(?:日期|时间)?|到|至)\s*(?:是|为)?\s*[:=]?\s*"
    r"|\b(?:until|till|up\s+to|through|to|ending(?:\s+(?:on|in))?|end(?:[_ ]date)?)\b\s*[:=]?\s*)(?:the\s+)?$",
    re.IGNORECASE,
)
_PLAIN = re.compile(
    r"(?:在|于|对|\b(?:in|on|during|over|for|within|of|between|throughout)\b)\s*(?:the\s+)?$", re.IGNORECASE
)
_AFTER_START = re.compile(
    r"\s*(?:以来|至今|起|开始|之后|以后|to\s+date\b|onwards?\b|until\s+now\b)", re.IGNORECASE
)
_AFTER_END = re.compile(r"\s*(?:为止|之前|以前)")
_AFTER = re.compile(r"\s*(?:之?间|期间|这段时间|全年)")
_MALFORMED = re.compile(r"(?<![\d.])(?:19|20)(?:\d{5}|\d{7})(?![\d.])")


def _minus_months(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 - months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _text(day: date) -> str:
    return day.strftime("%Y%m%d")


def _rolling(match: re.Match[str], last: date | None) -> _Period:
    if last is None:
        return _Period(unit="fixed")
    count = int(match[1] or match[3] or 1)
    unit = (match[2] or match[4] or match[5]).lower()
    months = {"年": 12, "year": 12, "quarter": 3, "月": 1, "month": 1}.get(unit)
    if months is not None:
        start = _minus_months(last, months * count)
    else:
        start = last - timedelta(days=count * (7 if unit in ("周", "星期", "week") else 1))
    return _Period(unit="fixed", start=_text(start), end=_text(last))


def _named(match: re.Match[str], last: date | None) -> _Period:
    if last is None:
        return _Period(unit="fixed")
    word = re.sub(r"\s+", " ", match[0].lower())
    quarter = 3 * ((last.month - 1) // 3) + 1
    if word in ("前年", "去年", "last year"):
        return _period("year", last.year - (2 if word == "前年" else 1), 1)
    if word in ("上月", "上个月", "last month"):
        before = _minus_months(last, 1)
        return _period("month", before.year, before.month)
    if word in ("上季度", "上个季度", "last quarter"):
        before = _minus_months(date(last.year, quarter, 1), 3)
        return _period("quarter", before.year, before.month)
    if word in ("本月", "这个月", "this month"):
        start = last.replace(day=1)
    elif word in ("本季度", "this quarter"):
        start = date(last.year, quarter, 1)
    else:
        start = date(last.year, 1, 1)
    return _Period(unit="fixed", start=_text(start), end=_text(last))


def _period_at(text: str, at: int, last: date | None) -> tuple[_Period, int] | None:
    """The period that starts exactly at a place, and where it ends."""
    for pattern, relative in ((_ROLLING, _rolling), (_NAMED, _named)):
        if match := pattern.match(text, at):
            return relative(match, last), match.end()
    for pattern, reader in _RULES:
        if match := pattern.match(text, at):
            return reader(match), match.end()
    return None


@dataclass(frozen=True, kw_only=True)
class _Item:
    begin: int
    end: int
    window: Window
    plain: bool = False


def _at_word_start(text: str, at: int) -> bool:
    return not (
        at and text[at].isascii() and text[at].isalnum() and text[at - 1].isascii() and text[at - 1].isalnum()
    )


def _items(text: str, last: date | None) -> Iterator[_Item]:
    at = 0
    while at < len(text):
        found = _period_at(text, at, last) if _at_word_start(text, at) else None
        item = None if found is None else _item(text, at, found, last)
        if item is None:
            at += 1
        else:
            yield item
            at = item.end


def _item(text: str, at: int, found: tuple[_Period, int], last: date | None) -> _Item | None:
    """A period with the words around it that say whether it is a start, an end, or both."""
    first, end = found
    second: _Period | None = None
    now = False
    if link := _LINK.match(text, end):
        if other := _period_at(text, link.end(), last):
            second, end = other
        elif today := _NOW.match(text, link.end()):
            now, end = True, today.end()
    year = first.year or (second.year if second else 0)
    if not year and first.unit in ("half", "quarter"):
        year = last.year if last else 0
    if not year and first.unit != "fixed":
        return None
    first = first.with_year(year)
    begin, role = _role_before(text, at)
    if second is not None:
        window = Window(start=first.start or None, end=second.with_year(year).end or None, named=True)
        return _Item(begin=begin, end=_skip(_AFTER, text, end), window=window)
    after_start = _AFTER_START.match(text, end)
    after_end = None if after_start else _AFTER_END.match(text, end)
    if first.unit == "fixed":
        window = Window(start=first.start or None, end=first.end or None, named=True)
        return _Item(begin=begin, end=_skip(_AFTER, text, _skip(_AFTER_START, text, end)), window=window)
    if after_end or (role == "end" and not after_start):
        end = after_end.end() if after_end else end
        return _Item(begin=begin, end=end, window=Window(end=first.end, named=True))
    if now or after_start or role == "start" or first.unit == "day":
        end = after_start.end() if after_start else end
        window = Window(start=first.start, open_end=True, named=True)
        return _Item(begin=begin, end=end, window=window, plain=not (now or after_start or role))
    window = Window(start=first.start, end=first.end, named=True)
    return _Item(begin=begin, end=_skip(_AFTER, text, end), window=window, plain=True)


_NEAR = 40
"""Letters before a date in which the word that belongs to it stands."""


def _role_before(text: str, at: int) -> tuple[int, str]:
    for pattern, role in ((_START, "start"), (_END, "end"), (_PLAIN, "")):
        if match := pattern.search(text, max(0, at - _NEAR), at):
            return match.start(), role
    return at, ""


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def merge(older: Window, newer: Window) -> Window:
    """A later answer over an earlier one: what it names replaces, what it leaves out stays."""
    if newer.start is None and newer.end is None:
        return older if older.start or older.end or not newer.named else newer
    end = newer.end or older.end
    return Window(
        start=newer.start or older.start,
        end=end,
        open_end=end is None and (newer.open_end or older.open_end),
        named=True,
    )


def _combine(items: list[_Item], texts: list[str]) -> Window:
    """The window of one line: one item, a start and an end, or two plain days or periods."""
    windows = [item.window for item in items]
    if len(windows) == 1:
        return windows[0]
    if len(windows) == 2:
        first, second = windows
        if all(item.plain for item in items):
            end = second.end or second.start
            return Window(start=first.start, end=end, named=True)
        starts = [window for window in windows if window.start and (window.open_end or not window.end)]
        ends = [window for window in windows if not window.start and window.end]
        if starts and ends:
            return Window(start=starts[0].start, end=ends[0].end, named=True)
        if first.open_end and items[1].plain and second.start:
            return Window(start=first.start, end=second.end or second.start, named=True)
    return Window(named=True, unread=tuple(texts))


def find_window(text: str, last_session: str | None) -> tuple[Window, str]:
    """Read the window out of a normalised line; the line comes back with a mark in its place.

    Raises
    ------
    BadWindow
        If a date is malformed: a month above 12, a day above 31, seven or nine digits.
    """
    if match := _MALFORMED.search(text):
        raise BadWindow(f"{match[0]} is not a date; write YYYYMMDD, for example 20240105", parameter="window")
    last = (
        date(int(last_session[:4]), int(last_session[4:6]), int(last_session[6:])) if last_session else None
    )
    if last is not None:
        for word, back in (("前年", 2), ("去年", 1), ("今年", 0)):
            text = re.sub(word + r"的?(?=[上下]半年|第?[1-4]季度|\d{1,2}月)", f"{last.year - back}年", text)
    counted = _SESSIONS.findall(text)
    text = _SESSIONS.sub(MARK, text)
    items = list(_items(text, last))
    written = [text[item.begin : item.end].strip() for item in items]
    for item in reversed(items):
        text = f"{text[: item.begin]} {MARK} {text[item.end :]}"
    if counted:
        return Window(named=True, unread=tuple(found.strip() for found in counted)), text
    if not items:
        return Window(), text
    return _combine(items, written), text


_DATE_LIKE = re.compile(
    r"(?<!\d)(?:19|20)\d{2}\s*[-/.年]\s*\d{1,2}(?:\s*[-/.月]\s*\d{1,2})?[月日号]?|(?<!\d)(?:19|20)\d{5,7}(?!\d)"
)


def without_dates(text: str) -> str:
    """The line with a mark for each thing that looks like a date, for a line whose date is malformed."""
    return _DATE_LIKE.sub(f" {MARK} ", text)
