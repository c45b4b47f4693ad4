"""Long tables whose cells are checked: codes, dates, numbers; and several of them merged into one.

Every error names the file, the row and the column.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from quantgraph.data.market_data import EVENT_FIELDS
from quantgraph.data.symbol_codes import is_code
from quantgraph.errors import BadFile

__all__ = [
    "PRICE_TOLERANCE",
    "CheckedTable",
    "NumberKind",
    "TableKind",
    "merge_tables",
    "read_codes",
    "read_dates",
    "read_numbers",
    "unique_rows",
]

PRICE_TOLERANCE = 1e-4
"""Largest relative difference between two files' prices of one symbol and session."""

NumberKind = Literal["price", "quantity", "number"]
TableKind = Literal["bars", "extras", "events", "indicators", "members", "names"]

_KEYS = ["ts_code", "trade_date"]
_NO_ROWS = pd.DataFrame({"ts_code": pd.Series(dtype="str"), "trade_date": pd.Series(dtype="datetime64[us]")})
_PRICES = ("open", "high", "low", "close", "pre_close", "up_limit", "down_limit", *EVENT_FIELDS[:3])
_DATE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(?:[ T]00:00(?::00(?:\.0+)?)?)?")
_ZONED = re.compile(r".*\d{2}:\d{2}.*(?:Z|[+-]\d{2}:?\d{2})")
_VALID_CODE = "write a code such as 600519.SH"
_VALID_DATE = "write YYYYMMDD or YYYY-MM-DD"


@dataclass(frozen=True, kw_only=True)
class CheckedTable:
    """Checked rows of one kind, under tushare's column names, and the file they came from.

    ``in_shares``: the file's volumes were in shares; in ``rows`` they are in hands.
    """

    kind: TableKind
    file: str
    rows: pd.DataFrame
    in_shares: bool = False


def read_codes(column: pd.Series, file: str) -> pd.Series:
    """Symbols as text without surrounding blanks.

    Raises
    ------
    BadFile
        At the first cell that is empty or not a code.
    """
    codes = column.astype("str").str.strip()
    empty = np.flatnonzero(column.isna().to_numpy() | (codes == "").to_numpy(dtype=bool))
    if len(empty):
        raise _bad_cell(file, column, int(empty[0]), f"is empty; {_VALID_CODE}")
    for code in codes.unique():
        if not is_code(code):
            position = int((codes == code).argmax())
            raise _bad_cell(file, column, position, f"{code!r:.40} is not a code; {_VALID_CODE}")
    return codes


def read_dates(column: pd.Series, file: str) -> pd.Series:
    """Sessions from integers, text or timestamps, as naive ``datetime64[us]``.

    Raises
    ------
    BadFile
        At the first cell that is empty, not a date, or has a time of day or a time zone.
    """
    codes, values = pd.factorize(column)
    dates = np.empty(len(values), dtype="datetime64[us]")
    for number, value in enumerate(values):
        date = _date(value)
        if isinstance(date, str):
            position = int(np.argmax(codes == number))
            raise _bad_cell(file, column, position, f"{value!s} {date}; {_VALID_DATE}")
        dates[number] = date
    if (codes < 0).any():
        raise _bad_cell(file, column, int(np.argmax(codes < 0)), f"is empty; {_VALID_DATE}")
    return pd.Series(dates[codes], index=column.index, name=column.name)


def read_numbers(column: pd.Series, file: str, kind: NumberKind = "number") -> pd.Series:
    """Finite float64 numbers, NaN where the cell is empty.

    A price must be > 0, a quantity >= 0.

    Raises
    ------
    BadFile
        At the first cell that is not a number, infinite, or too small.
    """
    numbers = _numeric(column, file)
    values = numbers.to_numpy()
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise _bad_cell(file, column, int(infinite[0]), "is infinite; leave an unknown value empty")
    if kind == "price":
        low, valid = values <= 0, "a price is above 0; leave it empty where there was no trading"
    elif kind == "quantity":
        low, valid = values < 0, "it must not be negative"
    else:
        return numbers
    if low.any():
        position = int(np.argmax(low))
        raise _bad_cell(file, column, position, f"{values[position]:g} is too small; {valid}")
    return numbers


def unique_rows(table: pd.DataFrame, keys: Sequence[str], file: str) -> pd.DataFrame:
    """Drop repeated equal rows.

    Raises
    ------
    BadFile
        If two rows with the same keys differ.
    """
    table = table.drop_duplicates()
    repeated = np.flatnonzero(table.duplicated(subset=list(keys)).to_numpy())
    if not len(repeated):
        return table
    second = int(repeated[0])
    same = (table[list(keys)] == table[list(keys)].iloc[second]).all(axis=1)
    first = int(np.argmax(same.to_numpy()))
    one, other = table.iloc[first].astype("object"), table.iloc[second].astype("object")
    differing = [
        str(name) for name in table.columns[(one.ne(other) & ~(one.isna() & other.isna())).to_numpy()]
    ]
    key = " ".join(f"{x:%Y-%m-%d}" if isinstance(x, pd.Timestamp) else str(x) for x in other[list(keys)])
    raise BadFile(
        f"{file}, {_row_name(table, first)} and {_row_name(table, second)}: {key} is there twice with "
        f"different {', '.join(differing)}; keep one row a symbol and session",
        file=file,
        columns=tuple(differing),
    )


def merge_tables(tables: Sequence[CheckedTable]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """One row a (symbol, session); each cell from the first table that has it.

    Returns
    -------
    tuple
        Columns ``ts_code``, ``trade_date`` and the union of the tables' fields; and a note for each
        field other than prices on which the files disagree.

    Raises
    ------
    BadFile
        If prices disagree by more than :data:`PRICE_TOLERANCE`, naming both files and the cell.
    """
    if not tables:
        return _NO_ROWS, ()
    if len(tables) == 1:
        return tables[0].rows, ()
    files = [table.file for table in tables]
    rows = pd.concat(
        [table.rows.assign(_file=number) for number, table in enumerate(tables)], ignore_index=True
    )
    shared = rows.duplicated(subset=_KEYS, keep=False)
    if not shared.any():
        return rows.drop(columns="_file"), ()
    common = rows[shared]
    notes = _disagreements(common, files)
    merged = common.drop(columns="_file").groupby(_KEYS, sort=False, as_index=False).first()
    return pd.concat([rows[~shared].drop(columns="_file"), merged], ignore_index=True), notes


def _disagreements(common: pd.DataFrame, files: Sequence[str]) -> tuple[str, ...]:
    notes = []
    groups = common.groupby(_KEYS, sort=False)
    for field in common.columns.difference([*_KEYS, "_file"], sort=False):
        values = common[field]
        first = groups[field].transform("first")
        differs = ((values - first).abs() > PRICE_TOLERANCE * first.abs()).to_numpy()
        if not differs.any():
            continue
        other = common.iloc[int(np.argmax(differs))]
        if field in _PRICES:
            raise _price_conflict(common, other, field, files)
        notes.append(
            f"{field} of {int(differs.sum())} rows differs between files, for example {other['ts_code']} "
            f"{other['trade_date']:%Y-%m-%d} in {files[other['_file']]}; the first file by name is used"
        )
    return tuple(notes)


def _price_conflict(common: pd.DataFrame, other: pd.Series, field: str, files: Sequence[str]) -> BadFile:
    same = (common["ts_code"] == other["ts_code"]) & (common["trade_date"] == other["trade_date"])
    one = common[same & common[field].notna()].iloc[0]
    return BadFile(
        f"{files[one['_file']]} and {files[other['_file']]} disagree: {field} of {other['ts_code']} on "
        f"{other['trade_date']:%Y-%m-%d} is {one[field]:g} and {other[field]:g}; keep one of the two",
        files=(files[one["_file"]], files[other["_file"]]),
        cell=(other["ts_code"], other["trade_date"], field),
    )


def _date(value: object) -> np.datetime64 | str:
    """The date, or what is wrong with the value."""
    if isinstance(value, (dt.datetime, np.datetime64)):
        stamp = pd.Timestamp(value)
        if stamp.tz is not None:
            return "has a time zone, and a session is a plain date"
        if stamp != stamp.normalize():
            return "has a time of day, and these are daily bars"
        return np.datetime64(stamp.date(), "us")
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


def _numeric(column: pd.Series, file: str) -> pd.Series:
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return column.astype("float64")
    text = column.astype("str").str.strip()
    blank = column.isna() | (text == "")
    numbers = pd.to_numeric(text.mask(blank), errors="coerce").astype("float64")
    wrong = np.flatnonzero((numbers.isna() & ~blank).to_numpy(dtype=bool))
    if len(wrong):
        shown = str(column.iloc[int(wrong[0])])[:40]
        raise _bad_cell(file, column, int(wrong[0]), f"{shown!r} is not a number")
    return numbers


def _row_name(table: pd.DataFrame | pd.Series, position: int) -> str:
    """Name of a row in messages: counted from 1 below the header, or its own label."""
    label = table.index[position]
    return f"row {label + 1}" if isinstance(label, (int, np.integer)) else str(label)


def _bad_cell(file: str, column: pd.Series, position: int, reason: str) -> BadFile:
    where = _row_name(column, position)
    return BadFile(
        f"{file}, {where}, column {column.name}: {reason}", file=file, row=where, column=column.name
    )
