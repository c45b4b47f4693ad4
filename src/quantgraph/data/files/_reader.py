"""Reading one file into checked tables; it is recognised by its content, not by its name."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data._checked_tables import CheckedTable
from quantgraph.data._table_names import NamedSymbol, symbol_in, symbol_of_file
from quantgraph.data._table_reader import long_table, read_table
from quantgraph.data.files._csv_table import read_csv_table, without_ending
from quantgraph.data.files._records import (
    FileRecord,
    is_feed,
    is_filing_table,
    is_news,
    read_feed,
    read_filings,
    read_news,
)
from quantgraph.data.files._unpacked import check_parquet, open_unpacked, unpacked_name
from quantgraph.data.files._workbook import read_workbook
from quantgraph.errors import BadFile
from quantgraph.market import FeedZones
from quantgraph.settings import TableOptions

_CSV = (".csv", ".txt", ".tsv", ".xls")
KNOWN_ENDINGS: tuple[str, ...] = (".csv", ".txt", ".tsv", ".xlsx", ".parquet", ".json", ".jsonl")
"""Endings that are read; texts also with ``.gz``, or alone in a ``.zip``."""
_WEB_PAGE = (b"<htm", b"<!do", b"<tab")
_WORKBOOK, _OLD_WORKBOOK = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"


@dataclass(frozen=True, kw_only=True)
class FileContents:
    """Tables and records of a file, or none and the reason why it was not recognised."""

    file: str
    tables: tuple[CheckedTable, ...] = ()
    records: tuple[FileRecord, ...] = ()
    ignored_because: str = ""


@dataclass(frozen=True, kw_only=True)
class _Reader:
    """One file, and the options on it."""

    path: Path
    stem: str
    max_bytes: int
    options: TableOptions
    symbol: str | None

    def table(
        self,
        table: pd.DataFrame,
        *,
        sheet: str = "",
        is_one: bool = True,
        notes: Iterable[Note] = (),
        title: str = "",
    ) -> FileContents:
        """Read one table of the file, with what was found around it."""
        name, (table, ending) = self.path.name, without_ending(table)
        if is_filing_table(list(table.columns)):
            return FileContents(file=name, records=read_filings(table, name))
        found = read_table(
            table,
            name if is_one else f"{name}, sheet {sheet}",
            self.options,
            symbol=self._symbol(sheet, title),
            notes=(*notes, *ending),
            about=f"{self.stem} {sheet} {title}",
        )
        return FileContents(file=name, tables=found.tables, ignored_because=found.ignored_because)

    def _symbol(self, sheet: str, title: str) -> NamedSymbol | None:
        """The symbol that the sheet's name says, else the file's name, else the title."""
        sure = next((name for name in (sheet, self.stem, title) if name and symbol_in(name)), None)
        if sure is not None:
            return symbol_of_file(sure, self.symbol)
        return symbol_of_file(self.stem, self.symbol) or symbol_of_file(_stem(self.path.name), self.symbol)


def read_file(
    path: Path,
    max_bytes: int,
    zones: FeedZones = FeedZones(),  # noqa: B008 - frozen
    options: TableOptions | None = None,
    symbol: str | None = None,
) -> FileContents:
    """Read and check one file of at most ``max_bytes`` unpacked.

    ``symbol`` is of rows without one, unless the name of the file says it.
    """
    if SURROGATE.search(path.name):
        raise BadFile(f"the file name {path.name!a} is not UTF-8; rename the file", file=path.name)
    if path.stat().st_size == 0:
        raise BadFile(f"{path.name} is empty", file=path.name, unreadable=True)
    inside = unpacked_name(path)
    ending = Path(inside).suffix.lower()
    if ending not in (*KNOWN_ENDINGS, *_CSV):
        reason = f"unknown ending; valid: {', '.join(KNOWN_ENDINGS)}, texts also with .gz or in a .zip"
        return FileContents(file=path.name, ignored_because=reason)
    reader = _Reader(
        path=path,
        stem=inside[: -len(ending)],
        max_bytes=max_bytes,
        options=options or TableOptions(),
        symbol=symbol,
    )
    try:
        return _contents(reader, ending, zones)
    except MemoryError as error:
        raise BadFile(f"{path.name} needs more memory than is available", file=path.name) from error


def _contents(reader: _Reader, ending: str, zones: FeedZones) -> FileContents:
    path = reader.path
    if ending == ".parquet":
        return reader.table(long_table(_read_parquet(path, reader.max_bytes), path.name))
    if ending in {".json", ".jsonl"}:
        return _from_json(path, reader.max_bytes, zones, lines=ending == ".jsonl")
    with path.open("rb") as file:
        start = file.read(4)
    if start == _OLD_WORKBOOK:
        raise BadFile(
            f"{path.name} is a workbook of Excel 97; save it as .xlsx or CSV", file=path.name, unreadable=True
        )
    if start.lower() in _WEB_PAGE:
        raise BadFile(f"{path.name} is a web page; save its table as CSV", file=path.name, unreadable=True)
    if ending == ".xlsx" or (ending == ".xls" and start == _WORKBOOK):
        return _from_workbook(reader)
    read = read_csv_table(path, reader.max_bytes)
    return reader.table(read.table, notes=read.notes, title=read.title)


def _from_workbook(reader: _Reader) -> FileContents:
    """The tables of all sheets; one without columns of data is left out, unless it is the only one."""
    sheets = read_workbook(reader.path, reader.max_bytes)
    if len(sheets) == 1:
        ((name, table),) = sheets.items()
        title = table.attrs["title"]
        return reader.table(long_table(table, reader.path.name), sheet=name, title=title)
    parts = [
        reader.table(
            long_table(table, f"{reader.path.name}, sheet {name}"),
            sheet=name,
            is_one=False,
            title=table.attrs["title"],
        )
        for name, table in sheets.items()
    ]
    reasons = [part.ignored_because for part in parts if part.ignored_because]
    return FileContents(
        file=reader.path.name,
        tables=tuple(table for part in parts for table in part.tables),
        records=tuple(record for part in parts for record in part.records),
        ignored_because=reasons[0] if len(reasons) == len(parts) else "",
    )


def _read_parquet(path: Path, max_bytes: int) -> pd.DataFrame:
    import pyarrow as pa

    try:
        check_parquet(path, max_bytes)
        return pd.read_parquet(path)
    except BadFile:
        raise
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadFile(
            f"{path.name} is not a readable Parquet file: {reason}", file=path.name, unreadable=True
        ) from error


def _from_json(path: Path, max_bytes: int, zones: FeedZones, *, lines: bool) -> FileContents:
    documents = read_documents(path, max_bytes, lines=lines)
    if is_feed(documents):
        return FileContents(file=path.name, records=read_feed(documents, path.name, zones))
    if is_news(documents):
        return FileContents(file=path.name, records=read_news(documents, path.name, zones))
    if not all(is_daily_series(document) for _, document in documents):
        return FileContents(file=path.name, ignored_because=missing_keys(documents))
    bars, names = read_daily_series(documents, path.name)
    parts = [read_table(each, path.name) for each in (bars, names) if len(each)]
    return FileContents(file=path.name, tables=tuple(table for part in parts for table in part.tables))


def _stem(name: str) -> str:
    """Name of a file without its ending, which may be the symbol that it is about."""
    return name.partition(".csv")[0] if name.lower().endswith((".csv.gz", ".csv.zip")) else Path(name).stem


SURROGATE = re.compile(r"[\ud800-\udfff]")  # "\ud800"
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
        raise BadFile(f"{path.name} is empty", file=path.name, unreadable=True)
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
