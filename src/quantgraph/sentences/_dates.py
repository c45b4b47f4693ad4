"""The window of dates in a sentence.

Dates have eight digits. A day that does not exist (``20240231``) is kept as written, and the host refuses it;
a month above 12, a day above 31, or a number of seven or nine digits is an error. Relative dates count from
the last session, never from a clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from quantgraph.errors import BadWindow
from quantgraph.sentences._periods import Period, normalise_dates, period_at

MARK = "\x1f"
"""Placeholder of a date in the text."""

Span = tuple[str, str]
"""First and last day, eight digits each."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """A start and an end, each eight digits or None. ``open_end``: the end is the last session."""

    start: str | None = None
    end: str | None = None
    open_end: bool = False
    named: bool = False
    unparsed: tuple[str, ...] = ()
    yearless: tuple[Period, ...] = ()
    listed: bool = False
    spans: tuple[Span, ...] = ()

    @property
    def is_year(self) -> bool:
        """Whether the window is one whole year."""
        return self.start is not None and self.start[4:] == "0101" and self.end == f"{self.start[:4]}1231"

    def in_year_of(self, year: Window) -> Window | None:
        """The yearless period in a year; None without such a period or if ``year`` is not one whole year."""
        if not self.yearless or year.start is None or not year.is_year:
            return None
        periods = [period.with_year(int(year.start[:4])) for period in self.yearless]
        if self.listed:
            return _several([(period.start, period.end) for period in periods], *self.unparsed)
        return Window(start=periods[0].start or None, end=periods[-1].end or None, named=True)


def joined_spans(spans: Sequence[Sequence[str]]) -> tuple[Span, ...]:
    """Spans in order of time, with those that touch or overlap as one; a date that is not one joins none.

    >>> joined_spans([("20250701", "20250930"), ("20250401", "20250630"), ("20251101", "20251130")])
    (('20250401', '20250930'), ('20251101', '20251130'))
    """
    joined: list[Span] = []
    for start, end in sorted((span[0], span[1]) for span in spans):
        if joined and start <= _day_after(joined[-1][1]):
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return tuple(joined)


def _day_after(day: str) -> str:
    try:
        return f"{datetime.strptime(day, '%Y%m%d') + timedelta(days=1):%Y%m%d}"  # noqa: DTZ007 - a calendar day
    except (ValueError, OverflowError):
        return day


def _several(spans: list[Span], text: str) -> Window:
    """The window of listed spans: one if they touch, else several to choose from."""
    if len(joined := joined_spans(spans)) == 1:
        return Window(start=joined[0][0], end=joined[0][1], named=True)
    return Window(named=True, spans=joined, unparsed=(text.strip(),))


_SESSIONS = re.compile(  # "最近20个交易日"
    r"(?:最近的?|近|过去的?|前)\s*\d+\s*个?\s*交易日|(?:the\s+)?(?:last|past)\s+\d+\s+(?:trading\s+days|sessions)\b",
    re.IGNORECASE,
)
_NOW = re.compile(r"今天|今日|现在|目前|最新|至今|\b(?:today|now|date|present)\b", re.IGNORECASE)  # "至今"
_LINK = re.compile(  # " to "
    r"\s*(?:到|至|-|~|–|—|→|\bto\b|\buntil\b|\btill\b|\bthrough\b|\bthru\b|\band\b|和|与)\s*", re.IGNORECASE
)
_LIST = re.compile(r"\s*(?:\band(?:\s+in)?\b|和|与|及|、|&)\s*", re.IGNORECASE)  # " and in "
_BETWEEN = re.compile(r"between\s*(?:the\s+)?$", re.IGNORECASE)  # "between"
_START = re.compile(  # "开始日期:"
    r"(?:(?:从|自从|自|始于|开始(?:日期|时间)?|起始(?:日期|时间)?|起)\s*(?:是|为)?\s*[:=]?\s*"
    r"|\b(?:since|from|starting(?:\s+(?:from|on|in))?|start(?:[_ ]date)?|beginning(?:\s+(?:of|in|on))?)\b\s*[:=]?\s*)(?:the\s+)?$",
    re.IGNORECASE,
)
_END = re.compile(  # "end_date:"
    r"(?:(?:截至|截止(?:到|日期|时间)?|直到|结束(?:日期|时间)?|到|至)\s*(?:是|为)?\s*[:=]?\s*"
    r"|\b(?:until|till|up\s+to|through|to|ending(?:\s+(?:on|in))?|end(?:[_ ]date)?)\b\s*[:=]?\s*)(?:the\s+)?$",
    re.IGNORECASE,
)
_PLAIN = re.compile(  # "during"
    r"(?:在|于|对|\b(?:in|on|during|over|for|within|of|between|throughout)\b)\s*(?:the\s+)?$", re.IGNORECASE
)
_AFTER_START = re.compile(  # "以来"
    r"\s*(?:以来|至今|起|开始|之后|以后|to\s+date\b|onwards?\b|until\s+now\b)", re.IGNORECASE
)
_AFTER_END = re.compile(r"\s*(?:为止|之前|以前)")  # "为止"
_AFTER = re.compile(r"\s*(?:之?间|期间|这段时间|全年)")  # "期间"
_EXCEPT = re.compile(  # "不包括"
    r"(?:除了?|除去|除开|不含|不包括|不包含|排除|剔除|去掉|避开|跳过|不要?在?|\b(?:except|excluding|exclude|but\s+not|not|without|skip(?:ping)?|avoid(?:ing)?)\b)"
    r"\s*(?:(?:for|in|during|the)\s+)*$",
    re.IGNORECASE,
)
_AFTER_EXCEPT = re.compile(r"\s*(?:之?外|以外|除外|不交易|不要?交易|excluded)")  # "以外"
_MALFORMED = re.compile(r"(?<![\d.])(?:19|20)(?:\d{5}|\d{7})(?![\d.])")  # "2024131"


@dataclass(frozen=True, kw_only=True)
class _Item:
    begin: int
    end: int
    window: Window
    plain: bool = False
    excluded: bool = False
    relative: bool = False


def _at_word_start(text: str, at: int) -> bool:
    return not (
        at and text[at].isascii() and text[at].isalnum() and text[at - 1].isascii() and text[at - 1].isalnum()
    )


def _items(text: str, last: date | None) -> Iterator[_Item]:
    at = 0
    while at < len(text):
        found = period_at(text, at, last) if _at_word_start(text, at) else None
        item = None if found is None else _item(text, at, found, last)
        if item is None:
            at += 1
        else:
            yield item
            at = item.end


def _item(text: str, at: int, found: tuple[Period, int], last: date | None) -> _Item | None:
    """A period with the words around it that make it a start, an end, both, or one that is left out."""
    first, end = found
    begin, role = _role_before(text, at)
    if excepted := _EXCEPT.search(text, max(0, begin - _NEAR), begin):
        begin = excepted.start()
    if excepted or _AFTER_EXCEPT.match(text, end):
        end = _skip(_AFTER_EXCEPT, text, end)
        return _Item(begin=begin, end=end, window=Window(named=True), excluded=True)
    listed, behind = _list_of(text, at, found, last)
    if len(listed) > 1:
        return _read_list(text, begin, behind, listed, last)
    second, now, end = _read_range(text, end, last)
    year = first.year or (second.year if second else 0)
    if not year and first.unit in ("half", "quarter"):
        if last is None:
            return _Item(begin=begin, end=end, window=Window(named=True))
        year = last.year
    if not year and first.unit != "fixed":
        return _yearless(text, at, begin, end, (first, second or first))
    first = first.with_year(year)
    if second is not None:
        window = Window(start=first.start or None, end=second.with_year(year).end or None, named=True)
        return _Item(begin=begin, end=_skip(_AFTER, text, end), window=window)
    if first.unit == "fixed":
        window = Window(start=first.start or None, end=first.end or None, named=True)
        end = _skip(_AFTER, text, _skip(_AFTER_START, text, end))
        return _Item(begin=begin, end=end, window=window, relative=first.relative)
    return replace(_single(text, begin, end, first, "start" if now else role), relative=first.relative)


_LONGEST_LIST = 12


def _list_of(text: str, at: int, found: tuple[Period, int], last: date | None) -> tuple[list[Period], int]:
    """The periods of a list (``1月和3月``, *2025Q1 and 2025Q3*), and where it ends; one period without a list.

    Two days joined by *and* are a start and an end, as is what stands behind *between*.
    """
    periods, end = [found[0]], found[1]
    while (
        len(periods) < _LONGEST_LIST
        and found[0].unit not in ("day", "fixed")
        and (link := _LIST.match(text, end))
    ):
        other = period_at(text, link.end(), last)
        if other is None or other[0].unit in ("day", "fixed") or _NO_MONTH.match(text, other[1]):
            break
        periods, end = [*periods, other[0]], other[1]
    joined = _BETWEEN.search(text, max(0, at - _NEAR), at) or re.match(r"\s*之?间", text[end : end + 3])
    return (periods[:1], found[1]) if joined or _LINK_ON.match(text, end) else (periods, end)


def _read_list(text: str, begin: int, end: int, periods: list[Period], last: date | None) -> _Item | None:
    """Several spans; a period without a year takes it from the one before, or the first that is named."""
    year = next((period.year for period in periods if period.year), 0)
    if not year and all(period.unit in ("half", "quarter") for period in periods):
        year = last.year if last else 0
    if not year:
        rest = (text[begin:end].strip(),)
        written = Window(named=True, yearless=tuple(periods), listed=True, unparsed=rest)
        return _Item(begin=begin, end=end, window=written)
    spans: list[Span] = []
    for period in periods:
        year = period.year or year
        dated = period.with_year(year)
        spans.append((dated.start, dated.end))
    return _Item(begin=begin, end=_skip(_AFTER, text, end), window=_several(spans, text[begin:end]))


_LINK_ON = re.compile(r"\s*(?:到|至|-|~|–|—|→|\bto\b|\buntil\b|\bthrough\b)\s*\d", re.IGNORECASE)  # "到2025"
_MONTHS_ONLY = re.compile(r"\d{1,2}月")  # "6月"
_NO_MONTH = re.compile(  # "均线"
    r"\s*(?:均|线|涨|跌|动|新|最|高|低|收益|回报|K|移动|内|里?每|后|前|之|以)", re.IGNORECASE
)


def _yearless(text: str, at: int, begin: int, end: int, periods: tuple[Period, Period]) -> _Item | None:
    """A month or months without a year; a lone English month (*may*) is too often another word."""
    chinese = _MONTHS_ONLY.match(text, at)
    if (not chinese and periods[0] == periods[1]) or _NO_MONTH.match(text, end) or text.endswith("每", 0, at):
        return None
    window = Window(named=True, yearless=periods, unparsed=(text[at:end].strip(),))
    return _Item(begin=begin, end=_skip(_AFTER, text, end), window=window)


def _read_range(text: str, end: int, last: date | None) -> tuple[Period | None, bool, int]:
    """The period behind *to*, whether it is *today*, and where it ends."""
    link = _LINK.match(text, end)
    if link and (other := period_at(text, link.end(), last)):
        return other[0], False, other[1]
    if link and (today := _NOW.match(text, link.end())):
        return None, True, today.end()
    return None, False, end


def _single(text: str, begin: int, end: int, period: Period, role: str) -> _Item:
    """One period: a start or an end if a word says so; a lone day is a start."""
    after_start = _AFTER_START.match(text, end)
    after_end = None if after_start else _AFTER_END.match(text, end)
    if after_end or (role == "end" and not after_start):
        return _Item(
            begin=begin, end=after_end.end() if after_end else end, window=Window(end=period.end, named=True)
        )
    if after_start or role == "start" or period.unit == "day":
        window = Window(start=period.start, open_end=True, named=True)
        end = after_start.end() if after_start else end
        return _Item(begin=begin, end=end, window=window, plain=not (after_start or role))
    window = Window(start=period.start, end=period.end, named=True)
    return _Item(begin=begin, end=_skip(_AFTER, text, end), window=window, plain=True)


_NEAR = 40
"""Longest distance, in characters, between a date and the word before it."""


def _role_before(text: str, at: int) -> tuple[int, str]:
    for pattern, role in ((_START, "start"), (_END, "end"), (_PLAIN, "")):
        if match := pattern.search(text, max(0, at - _NEAR), at):
            return match.start(), role
    return at, ""


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def merge_windows(older: Window, newer: Window) -> Window:
    """Update a window by a later answer, which replaces only what it names."""
    if newer.spans or newer.unparsed:
        return newer
    if newer.start is None and newer.end is None:
        return older if older.start or older.end or not newer.named else newer
    end = newer.end or older.end
    return Window(
        start=newer.start or older.start,
        end=end,
        open_end=end is None and (newer.open_end or older.open_end),
        named=True,
    )


def _without_look_backs(items: list[_Item]) -> list[_Item]:
    """The items without those that count back (``过去一年``, *last month*) beside a span with dates: they are words of the rule."""
    dated = any(
        not item.relative
        and (item.window.spans or (item.window.start and (item.window.end or item.window.open_end)))
        for item in items
    )
    return [item for item in items if not item.relative] if dated else items


def _combine(items: list[_Item], texts: list[str]) -> Window:
    """The window of one line: one item, a start and an end, two days, or several spans."""
    windows = [item.window for item in items]
    if any(item.excluded for item in items):
        return Window(named=True, unparsed=tuple(texts))
    if len(windows) == 1:
        return windows[0]
    if len(windows) == 2:
        first, second = windows
        if resolved := (first.in_year_of(second) or second.in_year_of(first)):
            return resolved
        days = all(window.start and (window.open_end or window.start == window.end) for window in windows)
        if days and all(item.plain for item in items):
            return Window(start=first.start, end=second.end or second.start, named=True)
        starts = [window for window in windows if window.start and (window.open_end or not window.end)]
        ends = [window for window in windows if not window.start and window.end]
        if starts and ends:
            return Window(start=starts[0].start, end=ends[0].end, named=True)
        if first.open_end and items[1].plain and second.start:
            return Window(start=first.start, end=second.end or second.start, named=True)
    spans = tuple(dict.fromkeys(_spans_of(windows)))
    return Window(named=True, unparsed=tuple(texts), spans=spans if len(spans) > 1 else ())


def _spans_of(windows: list[Window]) -> list[Span]:
    """The spans of windows that are complete, or months of the year before them; empty if any is neither."""
    spans: list[Span] = []
    for window in windows:
        if window.yearless and spans:
            year = int(spans[-1][1][:4])
            dated = [period.with_year(year) for period in window.yearless]
            ends = dated if window.listed else [dated[-1]]
            starts = dated if window.listed else [dated[0]]
            spans += [(first.start, last.end) for first, last in zip(starts, ends, strict=True)]
        elif window.spans:
            spans += window.spans
        elif window.start and window.end:
            spans.append((window.start, window.end))
        else:
            return []
    return spans


def _with_years(text: str, last: date | None) -> tuple[str, bool]:
    """The text with relative years (``去年3月``) in figures, 2000 if unknown, and whether there were any."""
    count = 0
    for word, back in (("前年", 2), ("去年", 1), ("今年", 0)):
        year = (last.year if last else 2000) - back
        text, found = re.subn(word + r"的?(?=[上下]半年|第?[1-4]季度|\d{1,2}月)", f"{year}年", text)
        count += found
    return text, count > 0


def find_window(text: str, last_session: str | None) -> tuple[Window, str]:
    """The window of a normalised line, and the line with :data:`MARK` in its place."""
    if match := _MALFORMED.search(text):
        raise BadWindow(f"{match[0]} is not a date; write YYYYMMDD, for example 20240105", parameter="window")
    last = (
        date(int(last_session[:4]), int(last_session[4:6]), int(last_session[6:])) if last_session else None
    )
    text, relative = _with_years(text, last)
    counted = _SESSIONS.findall(text)
    text = _SESSIONS.sub(MARK, text)
    text, open_ = normalise_dates(text, f" {MARK} ")
    items = _without_look_backs(list(_items(text, last)))
    written = [text[item.begin : item.end].strip() for item in items]
    for item in reversed(items):
        text = f"{text[: item.begin]} {MARK} {text[item.end :]}"
    if counted or open_:
        return Window(named=True, unparsed=(*(found.strip() for found in counted), *open_)), text
    if not items:
        return Window(), text
    if relative and last is None:
        return Window(named=True), text
    return _combine(items, written), text


_DATE_LIKE = re.compile(  # "2024-13-01"
    r"(?<!\d)(?:19|20)\d{2}\s*[-/.年]\s*\d{1,2}(?:\s*[-/.月]\s*\d{1,2})?[月日号]?|(?<!\d)(?:19|20)\d{5,7}(?!\d)"
)


def without_dates(text: str) -> str:
    """The line with a mark in place of everything that looks like a date."""
    return _DATE_LIKE.sub(f" {MARK} ", text)


def malformed_dates(text: str) -> tuple[str, ...]:
    """Malformed dates of a line, as written."""
    found: list[str] = []
    for match in _DATE_LIKE.finditer(text):
        try:
            find_window(match[0], None)
        except BadWindow:
            found.append(match[0])
    return tuple(found)
