"""How dates are written in a column of a table.

A column is read as a whole: whether ``01/02/2024`` is in January or in February is shown by another cell of
it, or asked for; one time of day on all rows is the vendor's mark of a session; and instants, such as epochs,
are read in the time zone in which they have one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd

from quantgraph.data._table_columns import bad_cell, open_choice
from quantgraph.errors import BadFile

DateOrder = Literal["month_first", "day_first"]

_VALID = "write YYYYMMDD or YYYY-MM-DD"
_MIDNIGHT = re.compile(r"[ T]0?0:00(?::00(?:\.0+)?)?\s*(?:Z|UTC|[+-]\d{2}:?\d{2})?")  # " 00:00:00"
_TIME = re.compile(r"\d:\d{2}")  # "9:30"
_CLOCK = re.compile(  # "2024-01-02 15:00"
    r"(.*?\d)[ T]+(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?\s*(?:([AaPp][Mm])|(Z|UTC|[+-]\d{2}:?\d{2}))?",
    re.DOTALL,
)
_EPOCH = re.compile(r"(\d{9,10}|\d{12,13}|\d{15,16}|\d{18,19})(?:\.0)?")  # "1704153600"
_EPOCH_UNITS = {3: "s", 4: "ms", 5: "us", 6: "ns"}
_ZONES = ("America/New_York", "Asia/Shanghai", "UTC")
_YEAR_FIRST = re.compile(  # "2024年1月2日"
    r"(\d{4})(?:-?(\d{2})-?(\d{2})|[-/.](\d{1,2})[-/.](\d{1,2})|年(\d{1,2})月(\d{1,2})日)"
)
_YEAR_LAST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})")  # "1/2/2024"
_SHORT_YEAR = re.compile(r"\d{1,2}[-/.]\d{1,2}[-/.]\d{2}")  # "1/2/24"
_MONTH_NAMED = re.compile(r"([a-z]{3,9})\.?\s+(\d{1,2}),?\s+(\d{4})", re.IGNORECASE)  # "Jan 2, 2024"
_DAY_NAMED = re.compile(r"(\d{1,2})[ -]([a-z]{3,9})\.?,?[ -](\d{4})", re.IGNORECASE)  # "2 Jan 2024"
_WEEKDAY = re.compile(r",\s*(?:星期|周)?[一二三四五六日]$")  # ",星期二"
_SERIAL = re.compile(r"[2-5]\d{4}(?:\.0)?")  # "45293"
_LOOKED_AT = 5
_EXCEL_DAY_0 = dt.date(1899, 12, 30)
_MONTHS = re.findall(  # "january"
    r"\w+", "january february march april may june july august september october november december"
)


@dataclass(frozen=True)
class _Timed:
    """A day with a time, in seconds of the day, and the instant if the cell has a zone."""

    day: dt.date | _YearLast
    seconds: int
    instant: pd.Timestamp | None = None


@dataclass(frozen=True)
class _YearLast:
    """A date whose day and month the cell alone may not tell."""

    first: int
    second: int
    year: int

    def day(self, order: DateOrder) -> dt.date:
        month, day = (self.first, self.second) if order == "month_first" else (self.second, self.first)
        return dt.date(self.year, month, day)


def read_dates(column: pd.Series, file: str) -> pd.Series:
    """Sessions of a column that tells the order of its days and months: see :func:`dates_in_order`."""
    return dates_in_order(column, file)[0]


def dates_in_order(
    column: pd.Series, file: str, order: DateOrder | None = None
) -> tuple[pd.Series, DateOrder | None]:
    """Sessions from integers, text or timestamps, as naive ``datetime64[us]``.

    A time must be midnight, or the same on all rows: the session is the date it shows, in its own zone or in
    that of an exchange.
    """
    codes, values = pd.factorize(column)
    parsed = _without_times([_parse(value) for value in values])
    order = _order(parsed, column, file, order)
    serial = [_SERIAL.fullmatch(str(value).strip()) is not None for value in values]
    if any(serial) and not all(serial):
        number = serial.index(True)
        reason = f"{values[number]!s} is not a date (as a day number of Excel it would be {parsed[number]})"
        raise bad_cell(file, column, int(np.argmax(codes == number)), f"{reason}; {_VALID}")
    dates = np.empty(len(values), dtype="datetime64[us]")
    for number, found in enumerate(parsed):
        date = _date(found, order)
        if isinstance(date, str):
            reason = f"{values[number]!s} {date}" + ("" if date == _INTRADAY else f"; {_VALID}")
            error = bad_cell(file, column, int(np.argmax(codes == number)), reason)
            if date == _INTRADAY:
                error.data["unreadable"] = True  # in a folder of daily bars it is left out
            raise error
        dates[number] = date
    if (codes < 0).any():
        raise bad_cell(file, column, int(np.argmax(codes < 0)), f"is empty; {_VALID}")
    return pd.Series(dates[codes], index=column.index, name=column.name), order


def _without_times(parsed: list[dt.date | _YearLast | _Timed | str]) -> list[dt.date | _YearLast | str]:
    """The days of times that are one time of the day; of others what is wrong with them."""
    timed = [each for each in parsed if isinstance(each, _Timed)]
    days = _days_of(timed) if 1 < len(timed) == len(parsed) else None
    if days is not None:
        return [*days]
    return [_INTRADAY if isinstance(each, _Timed) else each for each in parsed]


def _days_of(timed: Sequence[_Timed]) -> Sequence[dt.date | _YearLast] | None:
    """The days of a column of times; None if they differ in their time of day."""
    if len({each.seconds for each in timed}) == 1 and timed[0].instant is None:
        return [each.day for each in timed]
    if any(each.instant is None for each in timed):
        return None
    instants = pd.DatetimeIndex([each.instant for each in timed])
    local = [instants.tz_convert(zone) for zone in _ZONES]
    fits = [each for each in local if len((each - each.normalize()).unique()) == 1]
    # A session is no Saturday, and most vendors mean the midnight with which it begins.
    fits.sort(key=lambda each: ((each.day_of_week > 4).sum(), (each != each.normalize()).any()))
    return [*fits[0].date] if fits else None


def _order(
    parsed: list[dt.date | _YearLast | str], column: pd.Series, file: str, order: DateOrder | None
) -> DateOrder | None:
    open_dates = [each for each in parsed if isinstance(each, _YearLast)]
    if not open_dates:
        return None
    orders: set[DateOrder] = set()
    if any(each.first > 12 for each in open_dates):
        orders.add("day_first")
    if any(each.second > 12 for each in open_dates):
        orders.add("month_first")
    if all(each.first == each.second for each in open_dates):
        return order or "month_first"
    if len(orders) > 1:
        raise BadFile(
            f"{file}, column {column.name}: some dates have the month first and others the day; {_VALID}",
            file=file,
            column=column.name,
        )
    found = next(iter(orders), order)
    if found is None:
        shown = next(each for each in open_dates if each.first != each.second)
        raise open_choice(
            f"{file}, column {column.name}: {shown.first:02}/{shown.second:02}/{shown.year} may be "
            f"{shown.day('month_first')} or {shown.day('day_first')}, and no date of the column tells which",
            "date_order",
            get_args(DateOrder),
            file=file,
            column=column.name,
        )
    if order is not None and order != found:
        raise BadFile(
            f"{file}, column {column.name}: date_order={order!r} is set, and the column has dates with a "
            f"number above 12 that are {found}",
            file=file,
            column=column.name,
            parameter="date_order",
        )
    return found


def _date(found: dt.date | _YearLast | str, order: DateOrder | None) -> np.datetime64 | str:
    """The date, or what is wrong with it."""
    if isinstance(found, str):
        return found
    if isinstance(found, dt.date):
        return np.datetime64(found, "us")
    try:
        return np.datetime64(found.day(order or "month_first"), "us")
    except ValueError:
        return "is not a day of the calendar"


def _parse(value: object) -> dt.date | _YearLast | _Timed | str:
    """A date, a date whose order is open, a time, or what is wrong with the value."""
    if isinstance(value, (dt.datetime, np.datetime64)):
        stamp = pd.Timestamp(value)
        return stamp.date() if stamp == stamp.normalize() else _timed(stamp)
    text = _WEEKDAY.sub("", str(value).strip())
    if not text:
        return "(an empty cell) is not a date"
    if match := _EPOCH.fullmatch(text):
        return _timed(pd.Timestamp(int(match[1]), unit=_EPOCH_UNITS[(len(match[1]) + 2) // 3 - 1], tz="UTC"))
    midnight = _MIDNIGHT.search(text)
    if midnight is not None and midnight.end() == len(text):
        text = text[: midnight.start()]
    elif match := _CLOCK.fullmatch(text):
        return _with_clock(match)
    elif _TIME.search(text):
        return _INTRADAY
    return _from_text(re.sub(r"(?<=^\d{8})\.0$", "", text))  # "20240102.0"


def _timed(stamp: pd.Timestamp) -> _Timed:
    seconds = int((stamp.replace(tzinfo=None) - stamp.replace(tzinfo=None).normalize()).total_seconds())
    return _Timed(stamp.date(), seconds, stamp.tz_convert("UTC") if stamp.tz else None)


def _with_clock(match: re.Match[str]) -> _Timed | str:
    """A written day with a time; 24:00 is the end of the day that it shows."""
    day, clock, zone = _from_text(match[1]), [int(part or 0) for part in match.group(2, 3, 4)], match[6]
    if isinstance(day, str):
        return day
    hours = clock[0] if match[5] is None else clock[0] % 12 + 12 * (match[5].upper() == "PM")
    seconds = hours * 3600 + clock[1] * 60 + clock[2]
    if zone is None:
        return _Timed(day, seconds)
    if isinstance(day, _YearLast):
        return _INTRADAY
    moment = pd.Timestamp(day, tz="UTC" if zone in {"Z", "UTC"} else dt.datetime.strptime(zone, "%z").tzinfo)
    return _Timed(day, seconds, (moment + pd.Timedelta(seconds=seconds)).tz_convert("UTC"))


def hold_dates(column: pd.Series) -> bool:
    """Whether the first cells are dates beyond doubt, such as in a column without a name."""
    first = column.head(_LOOKED_AT)
    return bool(len(first)) and all(
        not isinstance(_parse(value), str) and not _SERIAL.fullmatch(str(value).strip()) for value in first
    )


def are_day_numbers(column: pd.Series) -> bool:
    """Whether the dates are numbers of days, as Excel counts them."""
    return bool(len(column)) and _SERIAL.fullmatch(str(column.iloc[0]).strip()) is not None


_INTRADAY = (
    "has a time of day, and the rows have several: these are not daily bars; make them so: "
    "frame.resample('D').agg({'open': 'first', 'high': 'max', 'low': 'min', 'close': 'last', "
    "'volume': 'sum'}).dropna()"
)


def _from_text(text: str) -> dt.date | _YearLast | str:
    try:
        if match := _YEAR_FIRST.fullmatch(text):
            year, month, day = filter(None, match.groups())
            return dt.date(int(year), int(month), int(day))
        if match := _YEAR_LAST.fullmatch(text):
            return _YearLast(*map(int, match.groups()))
        if match := _MONTH_NAMED.fullmatch(text):
            return dt.date(int(match[3]), _month(match[1]), int(match[2]))
        if match := _DAY_NAMED.fullmatch(text):
            return dt.date(int(match[3]), _month(match[2]), int(match[1]))
    except ValueError:
        return "is not a day of the calendar"
    if _SERIAL.fullmatch(text):
        return _EXCEL_DAY_0 + dt.timedelta(days=int(float(text)))
    if _SHORT_YEAR.fullmatch(text):
        return "is not a date: its year has two digits"
    return "is not a date"


def _month(name: str) -> int:
    found = [number for number, month in enumerate(_MONTHS, 1) if month.startswith(name.lower())]
    if len(found) != 1:
        raise ValueError(name)
    return found[0]
