"""Reading a CSV as it comes: its encoding, its delimiter, the lines around its table.

UTF-8 is tried first, then GB18030, which China's programs write: it counts only if the whole file decodes and
its headings are known words. Numbers are read by pandas where they are plain; a table in which one is not is
read again as text.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data._checked_tables import event_columns, is_event_table
from quantgraph.data._table_columns import TEXT_FIELDS, ColumnNames, column_names
from quantgraph.data._table_reader import long_table
from quantgraph.data.files._records import filing_columns, is_filing_table
from quantgraph.data.files._unpacked import MEGABYTE, PACKING_ERRORS, open_unpacked
from quantgraph.errors import BadFile

_EMPTY_CELLS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "-", "--"]
_TOP_LEFT = frozenset({"Price", "Ticker", ""})
"""First cell of a table of yfinance that is saved with two rows of headers."""
_LEAST_COLUMNS = 6
_DELIMITERS = {
    ",": Note(zh="逗号", en="comma"),
    ";": Note(zh="分号", en="';'"),
    "\t": Note(zh="制表符", en="tabs"),
    "|": Note(zh="竖线", en="'|'"),
}
_LOOKED_AT = 10
"""Lines in which the header is looked for."""
_LEAST_KNOWN = 3
"""Known words of a line that is a header, if it is not the first line."""
_MOST_ENDING = 3
"""Rows below a table that may be a remark, such as where it comes from."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, kw_only=True)
class CsvTable:
    """A table of a CSV, and what was found around and in it."""

    table: pd.DataFrame
    notes: tuple[Note, ...] = ()
    title: str = ""
    """The lines above the header."""


@dataclass(frozen=True, kw_only=True)
class _Form:
    encoding: str
    delimiter: str
    lines: tuple[list[str], ...]
    """Cells of the first lines from the header on."""
    title: tuple[str, ...] = ()

    @property
    def header(self) -> list[str]:
        return self.lines[0]

    @property
    def has_two_headers(self) -> bool:
        """Whether fields and tickers stand above the columns, as yfinance's tables are saved."""
        if self.header[0] not in _TOP_LEFT or len(self.header) < _LEAST_COLUMNS or len(self.lines) < 3:
            return False
        return self.lines[2][0] in {"Date", "Datetime"} and not any(self.lines[2][1:])

    @property
    def options(self) -> dict[str, Any]:
        return {"encoding": self.encoding, "sep": self.delimiter, "skiprows": len(self.title)}

    def notes(self) -> tuple[Note, ...]:
        """What is not usual."""
        found = []
        if self.encoding != "utf-8":
            name = self.encoding.upper()
            found.append(Note(zh=f"编码 {name}", en=f"encoding {name}"))
        if self.delimiter != ",":
            mark = _DELIMITERS[self.delimiter]
            found.append(Note(zh=f"以{mark.zh}分隔", en=f"separated by {mark.en}"))
        if self.title:
            shown = " / ".join(self.title)[:80]
            found.append(Note(zh=f"表头之上：{shown}", en=f"above the header: {shown}"))
        return tuple(found)


def read_csv_table(path: Path, max_bytes: int) -> CsvTable:
    """Read a CSV in UTF-8, UTF-16 or GB18030, in long form if it has two rows of headers."""
    for encoding in _encodings(path, max_bytes):
        try:
            form = _form(path, max_bytes, encoding)
            if encoding == "gb18030" and len(column_names(form.header).fields) < 2:
                break
            if encoding == "gb18030" and "".join(form.header).isascii():
                form = replace(form, encoding="gb2312")  # what other encodings write is rarely valid in it
            return _read_as(path, max_bytes, form)
        except UnicodeError:
            continue
    raise BadFile(
        f"{path.name} is neither UTF-8 nor GB18030 text with known column names; save it as UTF-8",
        file=path.name,
        unreadable=True,
    )


def _encodings(path: Path, max_bytes: int) -> tuple[str, ...]:
    try:
        with open_unpacked(path, max_bytes) as file:
            start = file.read(2)
    except PACKING_ERRORS as error:
        raise _unreadable(path, error) from error
    if not start:
        raise BadFile(f"{path.name} is empty", file=path.name, unreadable=True)
    return ("utf-16",) if start in _UTF16 else ("utf-8", "gb18030")


def _form(path: Path, max_bytes: int, encoding: str) -> _Form:
    """Find the header among the first lines, and the delimiter that gives it most known words."""
    lines = _first_lines(path, max_bytes, encoding)
    if not lines:
        raise BadFile(f"{path.name} is empty", file=path.name, unreadable=True)
    cells = {mark: [_cells(line, mark) for line in lines] for mark in _DELIMITERS}
    known = {mark: [len(column_names(row).fields) for row in rows] for mark, rows in cells.items()}
    for number in range(len(lines)):
        best = max(known, key=lambda mark: (known[mark][number], len(cells[mark][number])))
        form = _Form(encoding=encoding, delimiter=best, lines=tuple(cells[best]))
        if number == 0 and form.has_two_headers:
            return form
        if known[best][number] >= _LEAST_KNOWN:
            return _Form(
                encoding=encoding,
                delimiter=best,
                lines=tuple(cells[best][number:]),
                title=tuple(" ".join(line.split()) for line in lines[:number]),
            )
    best = max(known, key=lambda mark: (known[mark][0], len(cells[mark][0])))
    return _Form(encoding=encoding, delimiter=best, lines=tuple(cells[best]))


def _first_lines(path: Path, max_bytes: int, encoding: str) -> list[str]:
    lines: list[str] = []
    try:
        with (
            open_unpacked(path, max_bytes) as file,
            io.TextIOWrapper(file, "utf-8-sig" if encoding == "utf-8" else encoding, newline=None) as text,
        ):
            while len(lines) < _LOOKED_AT and (line := text.readline(MEGABYTE + 1)):
                if len(line) > MEGABYTE:
                    number = "first line" if not lines else f"line {len(lines) + 1}"
                    raise BadFile(
                        f"{path.name}: its {number} is longer than {MEGABYTE} bytes",
                        file=path.name,
                        unreadable=True,
                    )
                lines.append(line.rstrip("\r\n"))
    except PACKING_ERRORS as error:
        raise _unreadable(path, error) from error
    while lines and not lines[0].strip():  # pandas leaves them out, too
        lines.pop(0)
    return lines


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [""])] or [""]
    except csv.Error:
        return [line]


def _read_as(path: Path, max_bytes: int, form: _Form) -> CsvTable:
    header = list(_read(path, max_bytes, form, nrows=0).columns)
    if is_event_table(header) or is_filing_table(header):
        code = event_columns(header) if is_event_table(header) else filing_columns(header)
        symbol = code.get("ts_code") or code["symbol"]
        empty = {column: _EMPTY_CELLS for column in header if column != symbol}
        text = {"dtype": "str", "keep_default_na": False, "na_values": empty}
        return CsvTable(table=_read(path, max_bytes, form, **text), notes=form.notes())
    if form.has_two_headers:
        table = _read(path, max_bytes, form, header=[0, 1], index_col=0, dtype="str")
        return CsvTable(table=long_table(table, path.name), notes=form.notes())
    table = _read_numbers(path, max_bytes, form, column_names(header))
    return CsvTable(table=table, notes=form.notes(), title=" ".join(form.title))


def _read_numbers(path: Path, max_bytes: int, form: _Form, names: ColumnNames) -> pd.DataFrame:
    """Codes and dates as text ("000001" keeps its zeros, "NA" is a symbol), numbers exactly."""
    first = form.header[0]
    if not names.fields and first and not first.startswith("Unnamed: "):  # not worth reading
        return pd.DataFrame(columns=form.header)
    text = [column for field, column in names.columns.items() if field in TEXT_FIELDS]
    numbers = [column for field, column in names.columns.items() if field not in TEXT_FIELDS]
    empty = dict.fromkeys([*numbers, *names.ignored], _EMPTY_CELLS)
    options = {"keep_default_na": False, "na_values": empty}
    table = _read(path, max_bytes, form, dtype=dict.fromkeys(text, "str"), **options)
    if not isinstance(table.index, pd.RangeIndex):  # pandas takes surplus first cells as an index
        raise BadFile(
            f"{path.name}: its rows have more cells than its header; is there a comma in a number?",
            file=path.name,
        )
    plain = all(pd.api.types.is_numeric_dtype(table[column]) for column in numbers)
    return table if plain else _read(path, max_bytes, form, dtype="str", **options)


def without_ending(table: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Note, ...]]:
    """Leave out last rows with one cell that is not a date, or none: the source of the table."""
    kept = len(table)
    while kept > 1 and kept > len(table) - _MOST_ENDING:
        row = [str(cell).strip() for cell in table.iloc[kept - 1] if not pd.isna(cell)]
        filled = [cell for cell in row if cell]
        if len(filled) > 1 or (filled and re.match(r"[\d.'-]+$|\d{1,4}[-/.年]", filled[0])):  # "2024-01-02"
            break
        kept -= 1
    if kept == len(table):
        return table, ()
    ending = table.iloc[kept:].to_numpy().ravel()
    shown = " / ".join(str(cell).strip() for cell in ending if not pd.isna(cell) and str(cell).strip())[:80]
    return table.iloc[:kept], (Note(zh=f"未采用末行：{shown}", en=f"last row left out: {shown}"),)


def _read(path: Path, max_bytes: int, form: _Form, **options: Any) -> pd.DataFrame:
    try:
        with open_unpacked(path, max_bytes) as file:
            table: pd.DataFrame = pd.read_csv(file, **form.options, **options)
    except pd.errors.EmptyDataError as error:
        raise BadFile(f"{path.name} is empty", file=path.name, unreadable=True) from error
    except (pd.errors.ParserError, *PACKING_ERRORS) as error:
        raise _unreadable(path, error) from error
    return table


def _unreadable(path: Path, error: Exception) -> BadFile:
    reason = str(error).strip().splitlines()[0]
    return BadFile(f"{path.name} is not a readable CSV: {reason}", file=path.name, unreadable=True)
