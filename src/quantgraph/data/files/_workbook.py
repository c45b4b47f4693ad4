"""Reading the sheets of an Excel workbook: values as saved, formulas left alone."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from quantgraph.data._table_columns import column_names
from quantgraph.data.files._unpacked import MAX_ROWS, too_large, too_many_rows
from quantgraph.errors import BadFile, NotConfigured

_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, SyntaxError, LookupError, OSError, EOFError),
    *(ValueError, TypeError, AttributeError, OverflowError, NotImplementedError, RuntimeError),
)
"""What openpyxl raises for a file that is damaged; parsers of XML raise syntax errors."""
_MOST_COLUMNS = 10_000
_LOOKED_AT = 10


def read_workbook(path: Path, max_bytes: int) -> dict[str, pd.DataFrame]:
    """Tables of a workbook's sheets by their names; empty sheets are left out. It needs openpyxl.

    ``BadFile`` if it is not a workbook, unpacks beyond the limit, or a formula has no saved value.
    """
    try:
        import openpyxl
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise NotConfigured(
            f"{path.name}: workbooks are read with openpyxl; install quantgraph[excel], or save it as CSV"
        ) from None
    try:
        _check_size(path, max_bytes)
        with path.open("rb") as file:  # openpyxl leaves a damaged one open
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            tables = {sheet.title: _table(sheet, path) for sheet in book.worksheets}
    except BadFile:
        raise
    except (InvalidFileException, *_DAMAGED) as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise BadFile(
            f"{path.name} is not a readable workbook: {reason}", file=path.name, unreadable=True
        ) from error
    found = {name: table for name, table in tables.items() if table is not None}
    if not found:
        raise BadFile(f"{path.name} is empty", file=path.name, unreadable=True)
    _check_formulas(path, found)
    return found


def _check_size(path: Path, max_bytes: int) -> None:
    with zipfile.ZipFile(path) as parts:
        if sum(part.file_size for part in parts.infolist()) > max_bytes:
            raise too_large(path, max_bytes)


def _table(sheet: Any, path: Path) -> pd.DataFrame | None:
    """The rows below the header, labelled by their number in the sheet; None if there is no cell."""
    first = [list(row) for row in islice(_rows(sheet), _LOOKED_AT)]
    known = [len(column_names(cell for cell in row if cell is not None).fields) for row in first]
    if not any(any(cell is not None for cell in row) for row in first):
        return None
    top = next((number for number, count in enumerate(known) if count >= 3), 0)
    header = first[top]
    while header and header[-1] is None:
        header.pop()
    names = [f"Unnamed: {place}" if cell is None else str(cell) for place, cell in enumerate(header)]
    rows, labels = [], []
    for number, row in enumerate(islice(_rows(sheet), top + 1, None)):
        if number > MAX_ROWS:
            raise too_many_rows(path)
        if any(cell is not None for cell in row):
            rows.append([*row[: len(names)], *[None] * (len(names) - len(row))])
            labels.append(number)
    table = pd.DataFrame(rows, columns=names, index=pd.Index(labels))
    table.attrs["first_row"] = top + 2
    table.attrs["title"] = " ".join(str(cell) for row in first[:top] for cell in row if cell is not None)
    return table


def _rows(sheet: Any) -> Iterator[tuple[Any, ...]]:
    rows: Iterator[tuple[Any, ...]] = sheet.iter_rows(
        values_only=True, max_col=min(sheet.max_column or _MOST_COLUMNS, _MOST_COLUMNS)
    )
    return rows


def _check_formulas(path: Path, tables: dict[str, pd.DataFrame]) -> None:
    """See that no empty cell is a formula that was never computed: it would be a day without trading."""
    import openpyxl

    if not any(table.isna().to_numpy().any() for table in tables.values()):
        return
    book = openpyxl.load_workbook(path, read_only=True)
    try:
        for name, table in tables.items():
            empty = table.isna().to_numpy()
            first = table.attrs["first_row"]
            places = dict(zip(first + table.index, empty, strict=True))
            for number, row in enumerate(_rows(book[name]), 1):
                for column, cell in enumerate(row if number in places else ()):
                    is_formula = isinstance(cell, str) and cell.startswith("=")
                    if is_formula and column < len(places[number]) and places[number][column]:
                        raise _unsaved_formula(f"{path.name}, sheet {name}, row {number}", path.name)
    finally:
        book.close()


def _unsaved_formula(place: str, file: str) -> BadFile:
    return BadFile(
        f"{place}: a formula without a saved value; open the file in Excel and save it, or save it as CSV",
        file=file,
    )
