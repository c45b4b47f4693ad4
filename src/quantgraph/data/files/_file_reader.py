"""Reading one file into checked tables. A file is recognised by its content, not by its name."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from quantgraph.data.checked_tables import CheckedTable
from quantgraph.data.column_names import TEXT_FIELDS, ColumnNames, column_names
from quantgraph.data.event_tables import event_columns, is_event_table
from quantgraph.data.files._json_series import (
    SURROGATE,
    is_daily_series,
    missing_keys,
    read_daily_series,
    read_documents,
)
from quantgraph.data.files._record_files import (
    FileRecord,
    filing_columns,
    is_filing_table,
    is_news,
    read_filings,
    read_news,
)
from quantgraph.data.files._size_limits import check_first_line, check_parquet, open_unpacked
from quantgraph.data.table_reader import TableOptions, read_table, symbol_in
from quantgraph.data.table_shapes import long_table
from quantgraph.errors import BadFile

KNOWN_ENDINGS: tuple[str, ...] = (".csv", ".csv.gz", ".parquet", ".json", ".json.gz", ".jsonl", ".jsonl.gz")

_EMPTY_CELLS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
_TOP_LEFT = frozenset({"Price", "Ticker", "Unnamed: 0"})
"""First cell of a table of yfinance that is saved with two rows of headers."""
_LEAST_COLUMNS = 6


@dataclass(frozen=True, kw_only=True)
class FileContents:
    """Tables and records of a file, or none and the reason why it was not recognised."""

    file: str
    tables: tuple[CheckedTable, ...] = ()
    records: tuple[FileRecord, ...] = ()
    ignored_because: str = ""


def read_file(
    path: Path,
    max_bytes: int,
    record_zone: ZoneInfo | None = None,
    options: TableOptions | None = None,
) -> FileContents:
    """Read and check one file of at most ``max_bytes`` unpacked.

    Parameters
    ----------
    record_zone
        Zone of the times of news that have none; None refuses them.
    options
        What the file does not tell about its units and dates.

    Raises
    ------
    BadFile
        If it is recognised and not valid: cannot be decoded, has no row, misses a column, or holds a cell
        that is not a valid date, number or code.
    """
    name = path.name.lower()
    ending = next((each for each in reversed(KNOWN_ENDINGS) if name.endswith(each)), "")
    if not ending:
        reason = f"unknown ending; valid: {', '.join(KNOWN_ENDINGS)}"
        return FileContents(file=path.name, ignored_because=reason)
    if SURROGATE.search(path.name):
        raise BadFile(f"the file name {path.name!a} is not UTF-8; rename the file", file=path.name)
    if path.stat().st_size == 0:
        raise BadFile(f"{path.name} is empty", file=path.name)
    options = options or TableOptions()
    try:
        if ending == ".parquet":
            return _from_columns(path, long_table(_read_parquet(path, max_bytes), path.name), options)
        if ending.startswith(".csv"):
            return _from_csv(path, max_bytes, options)
        return _from_json(path, max_bytes, record_zone, lines=ending.startswith(".jsonl"))
    except MemoryError as error:
        raise BadFile(f"{path.name} needs more memory than is available", file=path.name) from error


def _from_csv(path: Path, max_bytes: int, options: TableOptions) -> FileContents:
    header = list(_read_csv(path, max_bytes, nrows=0).columns)
    _check_separator(header, path.name)
    if is_event_table(header) or is_filing_table(header):
        code = event_columns(header) if is_event_table(header) else filing_columns(header)
        symbol = code.get("ts_code") or code["symbol"]
        return _from_columns(path, _read_csv(path, max_bytes, **_text_options(header, symbol)), options)
    if _has_two_headers(path, max_bytes, header):
        table = _read_csv(path, max_bytes, header=[0, 1], index_col=0, dtype="str")
        return _from_columns(path, long_table(table, path.name), options)
    names = column_names(header)
    if not names.fields:
        return _from_columns(path, pd.DataFrame(columns=header), options)
    table = _read_csv(path, max_bytes, **_csv_options(names))
    if not isinstance(table.index, pd.RangeIndex):  # pandas takes surplus first cells as an index
        raise BadFile(
            f"{path.name}: its rows have more cells than its header; is there a comma in a number?",
            file=path.name,
        )
    return _from_columns(path, table, options)


def _check_separator(header: Sequence[str], file: str) -> None:
    for mark, named in ((";", "';'"), ("\t", "a tab")):
        if len(header) == 1 and mark in header[0]:
            raise BadFile(
                f"{file}: its cells are separated by {named}; save it with commas (and decimal points)",
                file=file,
            )


def _has_two_headers(path: Path, max_bytes: int, header: Sequence[str]) -> bool:
    """Whether a CSV has fields and tickers above its columns, as yfinance's tables are saved."""
    if header[0] not in _TOP_LEFT or len(header) < _LEAST_COLUMNS:
        return False
    top = _read_csv(path, max_bytes, header=None, nrows=3, dtype="str", keep_default_na=False)
    return len(top) == 3 and top.iloc[2, 0] in {"Date", "Datetime"} and not any(top.iloc[2, 1:])


def _csv_options(names: ColumnNames) -> dict[str, Any]:
    """Codes and dates as text ("000001" keeps its zeros, "NA" is a symbol), numbers exactly."""
    text = [column for field, column in names.columns.items() if field in TEXT_FIELDS]
    numbers = [column for field, column in names.columns.items() if field not in TEXT_FIELDS]
    return {
        "dtype": dict.fromkeys(text, "str"),
        "keep_default_na": False,
        "na_values": dict.fromkeys(numbers, _EMPTY_CELLS),
    }


def _text_options(header: Sequence[str], code: str) -> dict[str, Any]:
    """All columns as text: numbers are read exactly from it; ``code`` is the column of symbols."""
    empty = {column: _EMPTY_CELLS for column in header if column != code}
    return {"dtype": "str", "keep_default_na": False, "na_values": empty}


def _read_csv(path: Path, max_bytes: int, **options: Any) -> pd.DataFrame:
    try:
        check_first_line(path, max_bytes)
        with open_unpacked(path, max_bytes) as file:
            table: pd.DataFrame = pd.read_csv(file, encoding="utf-8", **options)
    except pd.errors.EmptyDataError as error:
        raise BadFile(f"{path.name} is empty", file=path.name) from error
    except UnicodeDecodeError as error:
        raise BadFile(f"{path.name} is not UTF-8 text; save it as UTF-8", file=path.name) from error
    except (pd.errors.ParserError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadFile(f"{path.name} is not a readable CSV: {reason}", file=path.name) from error
    return table


def _read_parquet(path: Path, max_bytes: int) -> pd.DataFrame:
    import pyarrow as pa

    try:
        check_parquet(path, max_bytes)
        return pd.read_parquet(path)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadFile(f"{path.name} is not a readable Parquet file: {reason}", file=path.name) from error


def _from_json(path: Path, max_bytes: int, record_zone: ZoneInfo | None, *, lines: bool) -> FileContents:
    documents = read_documents(path, max_bytes, lines=lines)
    if is_news(documents):
        return FileContents(file=path.name, records=read_news(documents, path.name, record_zone))
    if not all(is_daily_series(document) for _, document in documents):
        return FileContents(file=path.name, ignored_because=missing_keys(documents))
    bars, names = read_daily_series(documents, path.name)
    parts = [read_table(each, path.name) for each in (bars, names) if len(each)]
    return FileContents(file=path.name, tables=tuple(table for part in parts for table in part.tables))


def _from_columns(path: Path, table: pd.DataFrame, options: TableOptions) -> FileContents:
    if is_filing_table(list(table.columns)):
        return FileContents(file=path.name, records=read_filings(table, path.name))
    found = read_table(table, path.name, options, symbol=symbol_in(_stem(path.name)))
    return FileContents(file=path.name, tables=found.tables, ignored_because=found.ignored_because)


def _stem(name: str) -> str:
    """Name of a file without its ending, which may be the symbol that it is about."""
    ending = next(each for each in reversed(KNOWN_ENDINGS) if name.lower().endswith(each))
    return name[: -len(ending)]
