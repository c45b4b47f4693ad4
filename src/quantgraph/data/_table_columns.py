"""Columns of a table: what they are called, how their dates are written, and their units.

A column is read as a whole: whether ``01/02/2024`` is in January or in February is told by another cell of
it, or asked for.

An amount divided by the shares traded is an average price, which lies between the day's low and high. Of the
units that a vendor may mean, which differ by powers of ten, one alone makes it so.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Literal

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data._source import BAR_FIELDS, INDICATOR_FIELDS
from quantgraph.errors import BadFile


def row_name(table: pd.DataFrame | pd.Series, position: int) -> str:
    """Name of a row in messages: counted from 1 below the header, or its own label."""
    label = table.index[position]
    if isinstance(label, tuple):
        return " ".join(f"{each:%Y-%m-%d}" if isinstance(each, dt.datetime) else str(each) for each in label)
    return f"row {label + 1}" if isinstance(label, (int, np.integer)) else str(label)


def bad_cell(file: str, column: pd.Series, position: int, reason: str) -> BadFile:
    """The error about one cell: file, row, column, and the reason with what would be valid."""
    where = row_name(column, position)
    return BadFile(
        f"{file}, {where}, column {column.name}: {reason}", file=file, row=where, column=column.name
    )


TEXT_FIELDS = frozenset(
    {"ts_code", "trade_date", "index_code", "con_code", "name", "stock_name", "start_date"}
)
"""Fields that are read as text: ``000001`` keeps its zeros, and ``NA`` is a symbol."""

_SPELLINGS: dict[str, tuple[str, ...]] = {
    "ts_code": ("ts_code", "symbol", "ticker", "code", "股票代码", "证券代码", "代码"),
    "trade_date": ("trade_date", "date", "datetime", "日期", "交易日期"),
    "open": ("open", "开盘", "开盘价"),
    "high": ("high", "最高", "最高价"),
    "low": ("low", "最低", "最低价"),
    "close": ("close", "收盘", "收盘价"),
    "pre_close": ("pre_close", "preclose", "昨收", "昨收价", "前收盘", "前收盘价"),
    "vol": ("vol", "volume", "成交量"),
    "amount": ("amount", "成交额", "成交金额"),
    "turnover_rate": ("turnover_rate", "换手率"),
    "name": ("name", "名称", "股票名称", "证券名称"),
}
"""Names of each field, in small letters; of several in a table the first counts."""

_SHARES = "股票代码"
_UNIT = re.compile(r"(.+?)\s*[(\[]\s*([^()\[\]]+?)\s*[)\]]")
_UNITS: dict[str, Mapping[str, float]] = {
    "vol": {"股": 1, "shares": 1, "手": 100, "hands": 100, "lots": 100},
    "amount": {"元": 1, "yuan": 1, "cny": 1, "千元": 1e3, "万元": 1e4, "亿元": 1e8},
}
_CUSTOMS: dict[str, float] = {"vol": 100, "volume": 1}
"""Shares in a unit of a column of volumes, by its name: tushare's is in hands."""
_TUSHARE_AMOUNT = 1e3
_AKSHARE = frozenset({"股票代码", "成交量", "成交额", "振幅", "涨跌幅", "涨跌额", "换手率"})
"""Columns of akshare's ``stock_zh_a_hist``, in hands and yuan."""


@dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """Fields of a table's columns.

    Attributes
    ----------
    stated
        Units that a column's name says, such as ``成交量(手)``: shares in a unit of ``vol``, currency units
        in one of ``amount``.
    customary
        Units of documented columns: tushare's ``vol`` in hands of 100 shares and ``amount`` in thousands,
        ``volume`` in shares, akshare's bars of A shares in hands and yuan.
    """

    columns: Mapping[str, str]
    ignored: tuple[str, ...] = ()
    stated: Mapping[str, float] = field(default_factory=dict)
    customary: Mapping[str, float] = field(default_factory=dict)
    shares_only: bool = False

    @property
    def fields(self) -> Collection[str]:
        """Fields that the table has."""
        return self.columns.keys()


def column_names(columns: Iterable[object]) -> ColumnNames:
    """Read the header of a table.

    >>> names = column_names(["Date", "开盘", "成交量(手)", "Adj Close"])
    >>> dict(names.columns), dict(names.stated), names.ignored
    ({'trade_date': 'Date', 'open': '开盘', 'vol': '成交量(手)'}, {'vol': 100}, ('Adj Close',))
    """
    listed = [str(column) for column in columns]
    plain = {column: unicodedata.normalize("NFKC", column).strip().lower() for column in listed}
    found: dict[str, str] = {}
    stated: dict[str, float] = {}
    for name in (*_SPELLINGS, *TEXT_FIELDS, *BAR_FIELDS, *INDICATOR_FIELDS):
        column, unit = _column_of(name, plain, listed)
        if column is not None and name not in found:
            found[name] = column
            if unit is not None:
                stated[name] = unit
    ordered = {name: column for column in listed for name, each in found.items() if each == column}
    return ColumnNames(
        columns=MappingProxyType(ordered),
        ignored=tuple(column for column in listed if column not in found.values()),
        stated=stated,
        customary=_customary({field: plain[column] for field, column in found.items()}, plain.values()),
        shares_only=plain.get(found.get("ts_code", ""), "") == _SHARES,
    )


def _customary(names: Mapping[str, str], listed: Collection[str]) -> dict[str, float]:
    """Units by field, of columns with these names in small letters."""
    if _AKSHARE.issubset(listed):
        return {"vol": 100, "amount": 1}
    volume = names.get("vol", "vol")
    customary = {"vol": _CUSTOMS[volume]} if volume in _CUSTOMS else {}
    if names.get("amount") == "amount" and volume == "vol":
        customary["amount"] = _TUSHARE_AMOUNT
    return customary


def _column_of(name: str, plain: Mapping[str, str], listed: Sequence[str]) -> tuple[str | None, float | None]:
    """The column of a field, and the unit that its name says."""
    units = _UNITS.get(name, {})
    for spelling in _SPELLINGS.get(name, (name,)):
        for column in listed:
            if plain[column] == spelling:
                return column, None
            match = _UNIT.fullmatch(plain[column]) if units else None
            if match and match[1] == spelling and match[2] in units:
                return column, units[match[2]]
    return None, None


DateOrder = Literal["month_first", "day_first"]

_VALID = "write YYYYMMDD or YYYY-MM-DD"
_MIDNIGHT = re.compile(r"[ T]0?0:00(?::00(?:\.0+)?)?\s*(?:Z|UTC|[+-]\d{2}:?\d{2})?")
_TIME = re.compile(r"\d:\d{2}")
_YEAR_FIRST = re.compile(
    r"(\d{4})(?:-?(\d{2})-?(\d{2})|[-/.](\d{1,2})[-/.](\d{1,2})|年(\d{1,2})月(\d{1,2})日)"
)
_YEAR_LAST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})")
_SHORT_YEAR = re.compile(r"\d{1,2}[-/.]\d{1,2}[-/.]\d{2}")
_MONTH_NAMED = re.compile(r"([a-z]{3,9})\.?\s+(\d{1,2}),?\s+(\d{4})", re.IGNORECASE)
_DAY_NAMED = re.compile(r"(\d{1,2})[ -]([a-z]{3,9})\.?,?[ -](\d{4})", re.IGNORECASE)
_SERIAL = re.compile(r"[2-5]\d{4}(?:\.0)?")
_EXCEL_DAY_0 = dt.date(1899, 12, 30)
_MONTHS = re.findall(
    r"\w+", "january february march april may june july august september october november december"
)


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

    A time must be midnight, and with a zone midnight in that zone: the session is the date it shows.
    """
    codes, values = pd.factorize(column)
    parsed = [_parsed(value) for value in values]
    order = _order(parsed, column, file, order)
    dates = np.empty(len(values), dtype="datetime64[us]")
    for number, found in enumerate(parsed):
        date = _date(found, order)
        if isinstance(date, str):
            raise bad_cell(
                file, column, int(np.argmax(codes == number)), f"{values[number]!s} {date}; {_VALID}"
            )
        dates[number] = date
    if (codes < 0).any():
        raise bad_cell(file, column, int(np.argmax(codes < 0)), f"is empty; {_VALID}")
    return pd.Series(dates[codes], index=column.index, name=column.name), order


def _order(
    parsed: list[dt.date | _YearLast | str], column: pd.Series, file: str, order: DateOrder | None
) -> DateOrder | None:
    open_dates = [each for each in parsed if isinstance(each, _YearLast)]
    if not open_dates:
        return None
    told: set[DateOrder] = set()
    if any(each.first > 12 for each in open_dates):
        told.add("day_first")
    if any(each.second > 12 for each in open_dates):
        told.add("month_first")
    if all(each.first == each.second for each in open_dates):
        return order or "month_first"
    if len(told) > 1:
        raise BadFile(
            f"{file}, column {column.name}: some dates have the month first and others the day; {_VALID}",
            file=file,
            column=column.name,
        )
    found = next(iter(told), order)
    if found is None:
        shown = next(each for each in open_dates if each.first != each.second)
        raise BadFile(
            f"{file}, column {column.name}: {shown.first:02}/{shown.second:02}/{shown.year} may be "
            f"{shown.day('month_first')} or {shown.day('day_first')}, and no date of the column tells which; "
            "say date_order='month_first' or date_order='day_first' in [tables] of the settings",
            file=file,
            column=column.name,
            parameter="date_order",
        )
    if order is not None and order != found:
        raise BadFile(
            f"{file}, column {column.name}: date_order={order!r} is given, and the column has dates with a "
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


def _parsed(value: object) -> dt.date | _YearLast | str:
    """A date, a date whose order is open, or what is wrong with the value."""
    if isinstance(value, (dt.datetime, np.datetime64)):
        stamp = pd.Timestamp(value)
        return stamp.date() if stamp == stamp.normalize() else _time_of_day(stamp.tz is not None)
    text = str(value).strip()
    if isinstance(value, float):
        text = text.removesuffix(".0")
    if not text:
        return "(an empty cell) is not a date"
    midnight = _MIDNIGHT.search(text)
    if midnight is not None and midnight.end() == len(text):
        text = text[: midnight.start()]
    elif _TIME.search(text):
        return _time_of_day(bool(re.search(r"(?:Z|UTC|:\d{2}[+-]\d{2}:?\d{2})$", text)))
    return _from_text(text)


def _time_of_day(zoned: bool) -> str:
    where, there = (" in its time zone", " in the exchange's zone") if zoned else ("", "")
    return f"has a time of day{where}, and these are daily bars: it must be midnight{there}"


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
        day_number = _EXCEL_DAY_0 + dt.timedelta(days=int(float(text)))
        return f"is not a date (as a day number of Excel it would be {day_number})"
    if _SHORT_YEAR.fullmatch(text):
        return "is not a date: its year has two digits"
    return "is not a date"


def _month(name: str) -> int:
    found = [number for number, month in enumerate(_MONTHS, 1) if month.startswith(name.lower())]
    if len(found) != 1:
        raise ValueError(name)
    return found[0]


_SIZES: dict[str, dict[str, float]] = {
    "vol": {"shares": 1, "hands": 100},
    "amount": {"yuan": 1, "thousand_yuan": 1e3, "ten_thousand_yuan": 1e4},
}
_OPTIONS = {"vol": "volume_unit", "amount": "amount_unit"}
_ZH = {
    "shares": "股",
    "hands": "手（100股）",
    "yuan": "元",
    "thousand_yuan": "千元",
    "ten_thousand_yuan": "万元",
}
_TOLERANCE = 0.01
"""Relative room around low and high for the average price: hands are rounded."""
_LEAST_AGAINST = 20
"""Traded rows from which on the numbers speak against a convention."""
_LOOKED_AT = 200_000
"""Rows of a long table that are looked at, evenly spread."""
_MOST = 0.9
"""Part of the traded rows whose average price must be in its place."""


@dataclass(frozen=True, kw_only=True)
class TableUnits:
    """Shares in a unit of volume, currency units in one of the amount, and how each is known."""

    volume: float
    amount: float
    notes: Mapping[str, Note]
    """By field, for the reader of a result."""


def units_of(
    names: ColumnNames,
    numbers: Mapping[str, pd.Series],
    file: str,
    *,
    given: Mapping[str, str | None],
    is_us: bool,
) -> TableUnits:
    """Units of the columns ``vol`` and ``amount`` of bars.

    Parameters
    ----------
    is_us
        Whether all symbols are of the US, where there are no hands.
    """
    present = [field for field in ("vol", "amount") if field in numbers and (numbers[field] > 0).any()]
    sizes = {field: _said(field, names, file, given, is_us=is_us) for field in present}
    told = _fitting(numbers) if len(present) == 2 else []
    fits = [pair for pair in told if all(sizes[f][0] in {None, pair[f]} for f in present)]
    if len(told) == 1 and not fits and (numbers["vol"] > 0).sum() >= _LEAST_AGAINST:
        raise _contradiction(names, sizes, told[0], file)
    notes, found = {}, {"vol": 1.0, "amount": 1.0}
    for name in present:
        size, how = sizes[name]
        if size is None:
            values = {pair[name] for pair in fits}
            if len(values) != 1:
                raise _unknown(name, names, file)
            size, how = values.pop(), Note(zh="由数值推知", en="told by the numbers")
        found[name], notes[name] = size, _note(name, size, how)
    return TableUnits(volume=found["vol"], amount=found["amount"], notes=notes)


def _said(
    field: str, names: ColumnNames, file: str, given: Mapping[str, str | None], *, is_us: bool
) -> tuple[float | None, Note]:
    """The size of a unit and who says so; None if nobody does."""
    option, head = given.get(_OPTIONS[field]), names.columns[field]
    stated = names.stated.get(field)
    if option is not None:
        size = _SIZES[field][option]
        if stated not in {None, size}:
            raise BadFile(
                f"{file}: {_OPTIONS[field]}={option!r} is given, and the column {head} says another unit",
                file=file,
                column=head,
                parameter=_OPTIONS[field],
            )
        return size, Note(zh=f"按 {_OPTIONS[field]}", en=f"as {_OPTIONS[field]} says")
    if stated is not None:
        return stated, Note(zh="列名所示", en="as its name says")
    if field in names.customary:
        return names.customary[field], Note(zh="该列名的约定", en="by the convention of its name")
    if field == "vol" and is_us:
        return 1.0, Note(zh="美股以股计", en="as US volumes are")
    return None, Note(zh="", en="")


def _fitting(numbers: Mapping[str, pd.Series]) -> list[dict[str, float]]:
    """Pairs of units with which nearly all average prices lie between low and high."""
    step = max(1, len(numbers["vol"]) // _LOOKED_AT)
    low, high, volume, amount = (
        numbers[name].to_numpy(dtype=float)[::step] for name in ("low", "high", "vol", "amount")
    )
    traded = (volume > 0) & (amount > 0) & (low > 0) & (high > 0)
    if not traded.any():
        return []
    price = amount[traded] / volume[traded]
    low, high = low[traded] * (1 - _TOLERANCE), high[traded] * (1 + _TOLERANCE)
    pairs = product(_SIZES["vol"].values(), _SIZES["amount"].values())
    fitting = []
    for of_volume, of_amount in pairs:
        average = price * (of_amount / of_volume)
        if np.mean((average >= low) & (average <= high)) >= _MOST:
            fitting.append({"vol": of_volume, "amount": of_amount})
    return fitting


def _contradiction(
    names: ColumnNames, sizes: Mapping[str, tuple[float | None, Note]], told: Mapping[str, float], file: str
) -> BadFile:
    field = next(field for field in sizes if sizes[field][0] not in {None, told[field]})
    size, how = sizes[field]
    right = {_OPTIONS[f]: _unit(f, told[f]) for f in sizes}
    options = ", ".join(f"{option}={unit!r}" for option, unit in right.items())
    return BadFile(
        f"{file}, column {names.columns[field]}: read in {_unit(field, size or 1)} {how.en}, "
        f"amount / volume is far from the prices; they fit with {options}: say so, or mend the column",
        file=file,
        column=names.columns[field],
        parameter=_OPTIONS[field],
    )


def _unknown(field: str, names: ColumnNames, file: str) -> BadFile:
    option = _OPTIONS[field]
    valid = " or ".join(f"{option}={unit!r}" for unit in _SIZES[field])
    return BadFile(
        f"{file}, column {names.columns[field]}: its unit is not told by the name or by the numbers; say "
        f"{valid} in [tables] of the settings",
        file=file,
        column=names.columns[field],
        parameter=option,
    )


def _unit(field: str, size: float) -> str:
    return next((unit for unit, each in _SIZES[field].items() if each == size), f"units of {size:g}")


def _note(field: str, size: float, how: Note) -> Note:
    unit = _unit(field, size)
    shown: Sequence[str] = (_ZH.get(unit, unit), unit.replace("_", " "))
    return Note(zh=f"单位为{shown[0]}，{how.zh}", en=f"in {shown[1]}, {how.en}")
