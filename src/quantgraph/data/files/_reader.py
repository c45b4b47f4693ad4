"""Reading one file into checked tables; it is recognised by its content, not by its name.

A daily bar has Alpha Vantage's keys (``1. open``) or AI-Trader's own (``1. buy price``). The newest bar may
hold the open only: of a day that has just opened, nothing else is known.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from zoneinfo import ZoneInfo

import pandas as pd
from typing_extensions import Buffer

from quantgraph.data._checked_tables import CheckedTable, event_columns, is_event_table
from quantgraph.data._table_columns import TEXT_FIELDS, ColumnNames, column_names
from quantgraph.data._table_reader import long_table, read_table, symbol_in
from quantgraph.data.files._records import (
    FileRecord,
    filing_columns,
    is_filing_table,
    is_news,
    read_filings,
    read_news,
)
from quantgraph.errors import BadFile
from quantgraph.settings import TableOptions

MEGABYTE = 1 << 20
_NUMBER_BYTES = 8
_BATCH_ROWS = 4096  # rows whose texts are counted at once


def check_parquet(path: Path, max_bytes: int) -> None:
    """Check that the cells of a Parquet file take at most ``max_bytes`` in memory.

    Parquet writes equal cells once: a few bytes may stand for a billion numbers, or for a long text a
    million times.
    """
    import pyarrow.parquet as pq

    _check_packed_size(path, max_bytes)
    with pq.ParquetFile(path) as file:
        schema, metadata = file.schema, file.metadata
    size = 0
    for number in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            chunk = metadata.row_group(number).column(place)
            width = max(_NUMBER_BYTES, schema.column(place).length or 0)
            size += max(chunk.total_uncompressed_size, chunk.num_values * width)
            if size > max_bytes:
                raise _too_large(path, max_bytes)
    columns = [schema.column(place) for place in range(len(schema))]
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    if size + _text_bytes(path, texts, max_bytes - size) > max_bytes:
        raise _too_large(path, max_bytes)


def _text_bytes(path: Path, columns: list[str], limit: int) -> int:
    """Bytes of all texts of a file; counting stops above ``limit``."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    size = 0
    with pq.ParquetFile(path, read_dictionary=columns) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=columns) if columns else ():
            for column in batch.columns:
                if isinstance(column, pa.DictionaryArray):
                    size += pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0
                else:
                    size += column.nbytes
                if size > limit:
                    return size
    return size


def check_first_line(path: Path, max_bytes: int) -> None:
    """Check that the first line ends within a megabyte: pandas reads a table's header whole."""
    with open_unpacked(path, max_bytes) as file:
        if len(file.readline(MEGABYTE + 1)) > MEGABYTE:
            raise BadFile(f"{path.name}: its first line is longer than {MEGABYTE} bytes", file=path.name)


@contextmanager
def open_unpacked(path: Path, max_bytes: int) -> Iterator[IO[bytes]]:
    """Open a plain or gzip file for reading."""
    _check_packed_size(path, max_bytes)
    is_gzip = path.name.lower().endswith(".gz")
    with gzip.open(path, "rb") if is_gzip else path.open("rb") as packed:
        yield io.BufferedReader(_LimitedReader(packed, path, max_bytes), buffer_size=MEGABYTE)


class _LimitedReader(io.RawIOBase):
    """Unpacked content that may be read up to ``max_bytes``."""

    def __init__(self, packed: io.BufferedIOBase, path: Path, max_bytes: int) -> None:
        self._packed, self._path, self._max_bytes = packed, path, max_bytes
        self._remaining = max_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer)
        piece = self._packed.read(len(view))
        self._remaining -= len(piece)
        if self._remaining < 0:
            raise _too_large(self._path, self._max_bytes)
        view[: len(piece)] = piece
        return len(piece)


def _check_packed_size(path: Path, max_bytes: int) -> None:
    if path.stat().st_size > max_bytes:
        raise _too_large(path, max_bytes)


def _too_large(path: Path, max_bytes: int) -> BadFile:
    return BadFile(
        f"{path.name} has more than {max_bytes // MEGABYTE} MB unpacked; "
        "to read it all the same, raise max_file_mb (QUANTGRAPH_MAX_FILE_MB)",
        file=path.name,
        max_mb=max_bytes // MEGABYTE,
    )


SURROGATE = re.compile(r"[\ud800-\udfff]")
"""Half of a surrogate pair: text that cannot be written as UTF-8."""

_DAILY = "Time Series (Daily)"
_KEYS: dict[str, tuple[str, ...]] = {
    "open": ("1. open", "1. buy price"),
    "high": ("2. high",),
    "low": ("3. low",),
    "close": ("4. close", "4. sell price"),
    "volume": ("5. volume",),
}


def read_documents(path: Path, max_bytes: int, *, lines: bool) -> list[tuple[str, Any]]:
    """Each JSON document of a file with its position, for messages; ``lines`` means one document a line."""
    documents = list(_documents(path, max_bytes, lines=lines))
    if not documents:
        raise BadFile(f"{path.name} is empty", file=path.name)
    return documents


def is_daily_series(document: Any) -> bool:
    """Whether a JSON document is a symbol's daily series."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("Meta Data"), dict)
        and isinstance(document.get(_DAILY), dict)
    )


def missing_keys(documents: Sequence[tuple[str, Any]]) -> str:
    """Message about the first document that is not a daily series."""
    where, document = next((place, each) for place, each in documents if not is_daily_series(each))
    keys = ", ".join(map(str, list(document)[:4])) if isinstance(document, dict) else type(document).__name__
    return f'{where} has no "Meta Data" and "{_DAILY}" (it has: {keys})'


def read_daily_series(documents: Sequence[tuple[str, Any]], file: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Bars (``ts_code, trade_date, open .. close, volume``) and names (``ts_code, name``).

    Rows are labelled by symbol and date, for messages about their cells.
    """
    records: list[dict[str, Any]] = []
    names: list[dict[str, str]] = []
    for where, document in documents:
        meta = document["Meta Data"]
        symbol = str(meta.get("2. Symbol") or "").strip()
        if not symbol:
            raise BadFile(f'{file}, {where}: "Meta Data" has no "2. Symbol"', file=file)
        if not document[_DAILY]:
            raise BadFile(f'{file}, {where}: "{_DAILY}" of {symbol} is empty', file=file)
        records.extend(_bar(symbol, date, bar, file) for date, bar in document[_DAILY].items())
        if meta.get("2.1. Name"):
            names.append({"ts_code": symbol, "name": str(meta["2.1. Name"])})
    labels = [f"{record['ts_code']} {record['trade_date']}" for record in records]
    return pd.DataFrame(records, index=labels), pd.DataFrame(names, columns=["ts_code", "name"])


def _bar(symbol: str, date: str, bar: Any, file: str) -> dict[str, Any]:
    if not isinstance(bar, dict) or not any(key in bar for key in _KEYS["open"]):
        raise BadFile(
            f'{file}, {symbol} {date}: a bar needs "1. open" or "1. buy price"; '
            'valid too: "2. high", "3. low", "4. close" or "4. sell price", "5. volume"',
            file=file,
        )
    values = {field: next((bar[key] for key in keys if key in bar), None) for field, keys in _KEYS.items()}
    return {"ts_code": symbol, "trade_date": date, **values}


def _documents(path: Path, max_bytes: int, *, lines: bool) -> Iterator[tuple[str, Any]]:
    text = _text(path, max_bytes)
    # Not splitlines(): a text in JSON may hold other separators of lines than this one.
    pieces = enumerate(text.split("\n"), 1) if lines else iter([(0, text)])
    for number, piece in pieces:
        where = f"line {number}" if lines else "the document"
        if not piece.strip():
            continue
        try:
            document = json.loads(piece)
        except json.JSONDecodeError as error:
            place = f"line {number if lines else error.lineno}"
            raise BadFile(f"{path.name}, {place}: not JSON: {error.msg}", file=path.name) from error
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, or brackets
            raise BadFile(f"{path.name}, {where}: not readable: {error}", file=path.name) from error
        if "\\ud" in piece.lower() and SURROGATE.search(json.dumps(document, ensure_ascii=False)):
            raise BadFile(f"{path.name}, {where}: a \\u escape is half of a surrogate pair", file=path.name)
        yield where, document


def _text(path: Path, max_bytes: int) -> str:
    try:
        with open_unpacked(path, max_bytes) as file:
            return file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(f"{path.name} is not UTF-8 text; save it as UTF-8", file=path.name) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadFile(f"{path.name} is not a complete gzip file", file=path.name) from error


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
    path: Path, max_bytes: int, record_zone: ZoneInfo | None = None, options: TableOptions | None = None
) -> FileContents:
    """Read and check one file of at most ``max_bytes`` unpacked.

    Parameters
    ----------
    options
        What the file does not tell about its units and dates.
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
