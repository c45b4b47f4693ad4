"""Long tables whose cells are checked: codes and numbers; and several of them merged into one.

Every error names the file, the row and the column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data.cell_places import bad_cell, row_name
from quantgraph.data.market_data import EVENT_FIELDS
from quantgraph.data.symbol_codes import is_code, is_index_code, possible_codes, standard_code
from quantgraph.errors import BadFile

PRICE_TOLERANCE = 1e-4
"""Largest relative difference between two files' prices of one symbol and session."""

NumberKind = Literal["price", "quantity", "number"]
TableKind = Literal["bars", "extras", "events", "indicators", "members", "names"]

_KEYS = ["ts_code", "trade_date"]
_NO_ROWS = pd.DataFrame({"ts_code": pd.Series(dtype="str"), "trade_date": pd.Series(dtype="datetime64[us]")})
_PRICES = ("open", "high", "low", "close", "pre_close", "up_limit", "down_limit", *EVENT_FIELDS[:3])
_MAINLAND = re.compile(r"(?:SH|SZ|BJ)\.?\d{6}|\d{6}\.(?:SH|SZ|BJ|SS|XSHG|XSHE|XBSE)", re.IGNORECASE)
_VALID_CODE = "write a code such as 600519.SH"


@dataclass(frozen=True, kw_only=True)
class CheckedTable:
    """Checked rows of one kind, under tushare's column names, and the file they came from.

    ``read_as`` says which column was taken for what, and in which unit it was.
    """

    kind: TableKind
    file: str
    rows: pd.DataFrame
    read_as: Note | None = None


def read_codes(column: pd.Series, file: str, *, shares_only: bool = False) -> pd.Series:
    """Symbols in tushare's form, from any of the usual ones; six bare digits by the exchanges' numbering.

    Parameters
    ----------
    shares_only
        Whether bare digits are those of a share: ``000001`` is ``000001.SZ`` then, not an index.

    Raises
    ------
    BadFile
        At the first cell that is empty, not a code, or the digits of a share and of an index.
    """
    if pd.api.types.is_float_dtype(column) and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    codes = column.astype("str").str.strip()
    empty = np.flatnonzero(column.isna().to_numpy() | (codes == "").to_numpy(dtype=bool))
    if len(empty):
        raise bad_cell(file, column, int(empty[0]), f"is empty; {_VALID_CODE}")
    written = codes.unique()
    meant: dict[str, str] = {}
    for code in written:
        found = full_codes(code, shares_only=shares_only) if is_code(code) else ()
        if len(found) != 1:
            reason = f"may be {' or '.join(found)}; write which" if found else _no_code(code)
            raise bad_cell(file, column, int((codes == code).argmax()), f"{code!r:.40} {reason}")
        meant[code] = found[0]
    if all(code == full for code, full in meant.items()):
        return codes
    return codes.map(meant)


def full_codes(code: str, *, shares_only: bool = False) -> tuple[str, ...]:
    """Codes that a text may mean; none if its zeros are lost. Codes of other markets stay as written.

    >>> full_codes("sz000001"), full_codes("000001"), full_codes("1"), full_codes("brk-b")
    (('000001.SZ',), ('000001.SZ', '000001.SH'), (), ('brk-b',))
    """
    if _MAINLAND.fullmatch(code):
        return (standard_code(code),)
    if code.isascii() and code.isdecimal():
        codes = possible_codes(code) if len(code) == 6 else ()
        if shares_only:
            codes = tuple(each for each in codes if not is_index_code(each))
        return codes or ((code,) if len(code) >= 6 else ())
    return (code,)


def _no_code(code: str) -> str:
    if is_code(code):
        return f"is not a code: has it lost its leading zeros? {_VALID_CODE}"
    return f"is not a code; {_VALID_CODE}"


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
        raise bad_cell(file, column, int(infinite[0]), "is infinite; leave an unknown value empty")
    if kind == "price":
        low, valid = values <= 0, "a price is above 0; leave it empty where there was no trading"
    elif kind == "quantity":
        low, valid = values < 0, "it must not be negative"
    else:
        return numbers
    if low.any():
        position = int(np.argmax(low))
        raise bad_cell(file, column, position, f"{values[position]:g} is too small; {valid}")
    return numbers


def unique_rows(table: pd.DataFrame, keys: Sequence[str], file: str, valid: str) -> pd.DataFrame:
    """Drop repeated equal rows. ``valid`` ends the message about two rows that differ.

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
        f"{file}, {row_name(table, first)} and {row_name(table, second)}: {key} is there twice with "
        f"different {', '.join(differing)}; {valid}",
        file=file,
        columns=tuple(differing),
    )


def merge_tables(tables: Sequence[CheckedTable]) -> tuple[pd.DataFrame, tuple[Note, ...]]:
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


def _disagreements(common: pd.DataFrame, files: Sequence[str]) -> tuple[Note, ...]:
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
        cell = f"{other['ts_code']} {other['trade_date']:%Y-%m-%d}"
        count, file = int(differs.sum()), files[other["_file"]]
        notes.append(
            Note(
                zh=f"有 {count} 行的 {field} 各文件不同，例如 {file} 中的 {cell}；采用文件名在前的",
                en=f"{field} of {count} rows differs between files, for example {cell} in {file}; the first "
                "file by name is used",
            )
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


def _numeric(column: pd.Series, file: str) -> pd.Series:
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return column.astype("float64")
    text = column.astype("str").str.strip()
    blank = column.isna() | (text == "")
    numbers = pd.to_numeric(text.mask(blank), errors="coerce").astype("float64")
    wrong = np.flatnonzero((numbers.isna() & ~blank).to_numpy(dtype=bool))
    if len(wrong):
        shown = str(column.iloc[int(wrong[0])])[:40]
        raise bad_cell(file, column, int(wrong[0]), f"{shown!r} is not a number{_mended(shown)}")
    return numbers


def _mended(text: str) -> str:
    """What to write instead of a number with marks."""
    if "," in text:
        return "; write a decimal point, and no separators of thousands"
    return "; write it without the sign" if text.endswith("%") else ""
