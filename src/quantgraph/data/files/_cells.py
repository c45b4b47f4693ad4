"""Reading cells of a table strictly: each complaint names the file, the row and the column."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from quantgraph.data.symbols import is_code
from quantgraph.errors import BadFile

__all__ = ["Kind", "read_codes", "read_dates", "read_numbers", "unique_rows"]

_DATE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(?:[ T]00:00(?::00(?:\.0+)?)?)?")
_ZONED = re.compile(r".*\d{2}:\d{2}.*(?:Z|[+-]\d{2}:?\d{2})")
_VALID_CODE = "write a code such as 600519.SH"
_VALID_DATE = "write YYYYMMDD or YYYY-MM-DD"

Kind = Literal["price", "quantity", "number"]


def row_name(table: pd.DataFrame | pd.Series, position: int) -> str:
    """How a row is called in messages: counted from 1 below the header, or by its own label."""
    label = table.index[position]
    return f"row {label + 1}" if isinstance(label, (int, np.integer)) else str(label)


def _bad(file: str, column: pd.Series, position: int, reason: str) -> BadFile:
    where = row_name(column, position)
    return BadFile(
        f"{file}, {where}, column {column.name}: {reason}", file=file, row=where, column=column.name
    )


def read_codes(column: pd.Series, file: str) -> pd.Series:
    """Symbols as text without surrounding blanks; an empty one, or a sentence, is a ``BadFile``."""
    codes = column.astype("str").str.strip()
    empty = np.flatnonzero(column.isna().to_numpy() | (codes == "").to_numpy(dtype=bool))
    if len(empty):
        raise _bad(file, column, int(empty[0]), f"is empty; {_VALID_CODE}")
    for code in codes.unique():
        if not is_code(code):
            raise _bad(file, column, int((codes == code).argmax()), f"{code!r:.40} is no code; {_VALID_CODE}")
    return codes


def read_dates(column: pd.Series, file: str) -> pd.Series:
    """Sessions from integers, text or timestamps, as naive ``datetime64[us]``.

    Raises
    ------
    BadFile
        At the first cell that is empty, no date, has a time of day or a time zone.
    """
    codes, values = pd.factorize(column)
    dates = np.empty(len(values), dtype="datetime64[us]")
    for number, value in enumerate(values):
        date = _date(value)
        if isinstance(date, str):
            raise _bad(file, column, int(np.argmax(codes == number)), f"{value!s} {date}; {_VALID_DATE}")
        dates[number] = date
    if (codes < 0).any():
        raise _bad(file, column, int(np.argmax(codes < 0)), f"is empty; {_VALID_DATE}")
    return pd.Series(dates[codes], index=column.index, name=column.name)


def _date(value: object) -> np.datetime64 | str:
    """Read the date, or say what is wrong with it."""
    if isinstance(value, (dt.datetime, np.datetime64)):
        return _date_of_timestamp(pd.Timestamp(value))
    text = str(value).strip().removesuffix(".0") if isinstance(value, float) else str(value).strip()
    if _ZONED.fullmatch(text):
        return "has a time zone, and a session is a plain date"
    match = _DATE.fullmatch(text)
    if match is None:
        return "is not a date"
    try:
        return np.datetime64(dt.date(*map(int, match.groups())), "us")
    except ValueError:
        return "is not a day of the calendar"


def _date_of_timestamp(stamp: pd.Timestamp) -> np.datetime64 | str:
    if stamp.tz is not None:
        return "has a time zone, and a session is a plain date"
    if stamp != stamp.normalize():
        return "has a time of day, and these are daily bars"
    return np.datetime64(stamp.date(), "us")


def read_numbers(column: pd.Series, file: str, kind: Kind = "number") -> pd.Series:
    """Finite float64 numbers, NaN where the cell is empty.

    A price must be above 0, a quantity at least 0.

    Raises
    ------
    BadFile
        At the first cell that is no number, infinite, or too small.
    """
    numbers = _numeric(column, file)
    values = numbers.to_numpy()
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise _bad(file, column, int(infinite[0]), "is infinite; leave an unknown value empty")
    if kind == "price":
        low, valid = values <= 0, "a price is above 0; leave it empty where there was no trading"
    elif kind == "quantity":
        low, valid = values < 0, "it must not be negative"
    else:
        return numbers
    if low.any():
        position = int(np.argmax(low))
        raise _bad(file, column, position, f"{values[position]:g} is too small; {valid}")
    return numbers


def _numeric(column: pd.Series, file: str) -> pd.Series:
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return column.astype("float64")
    text = column.astype("str").str.strip()
    blank = column.isna() | (text == "")
    numbers = pd.to_numeric(text.mask(blank), errors="coerce").astype("float64")
    wrong = np.flatnonzero((numbers.isna() & ~blank).to_numpy(dtype=bool))
    if len(wrong):
        shown = str(column.iloc[int(wrong[0])])[:40]
        raise _bad(file, column, int(wrong[0]), f"{shown!r} is not a number")
    return numbers


def unique_rows(table: pd.DataFrame, keys: Sequence[str], file: str) -> pd.DataFrame:
    """Drop repeated rows that say the same; two rows of one key that differ are a ``BadFile``."""
    table = table.drop_duplicates()
    again = np.flatnonzero(table.duplicated(subset=list(keys)).to_numpy())
    if not len(again):
        return table
    second = int(again[0])
    same = (table[list(keys)] == table[list(keys)].iloc[second]).all(axis=1)
    first = int(np.argmax(same.to_numpy()))
    differing = _differing(table, first, second)
    key = " ".join(_shown(table[name].iloc[second]) for name in keys)
    raise BadFile(
        f"{file}, {row_name(table, first)} and {row_name(table, second)}: {key} is there twice with "
        f"different {', '.join(differing)}; keep one row a symbol and session",
        file=file,
        columns=tuple(differing),
    )


def _differing(table: pd.DataFrame, first: int, second: int) -> list[str]:
    one, other = table.iloc[first], table.iloc[second]
    return [
        str(name)
        for name in table.columns
        if one[name] != other[name] and not _both_empty(one[name], other[name])
    ]


def _both_empty(one: object, other: object) -> bool:
    return bool(pd.isna(one)) and bool(pd.isna(other))  # type: ignore[call-overload]


def _shown(value: object) -> str:
    return f"{value:%Y-%m-%d}" if isinstance(value, pd.Timestamp) else str(value)
