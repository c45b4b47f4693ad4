"""Reading one file into checked tables. A file is recognised by its content, not by its name."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from quantgraph.data.checked_tables import (
    CheckedTable,
    NumberKind,
    TableKind,
    read_codes,
    read_dates,
    read_numbers,
    unique_rows,
)
from quantgraph.data.event_tables import event_columns, events_from_rows, events_from_table, is_event_table
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
from quantgraph.data.market_data import (
    BAR_FIELDS,
    EVENT_FIELDS,
    INDICATOR_FIELDS,
    LEVEL_FIELDS,
    STATUS_FIELDS,
)
from quantgraph.errors import BadFile

__all__ = ["KNOWN_ENDINGS", "FileContents", "read_file"]

KNOWN_ENDINGS: tuple[str, ...] = (".csv", ".csv.gz", ".parquet", ".json", ".json.gz", ".jsonl", ".jsonl.gz")

_EXTRAS = BAR_FIELDS[7:]
_BARS = tuple(field for field in BAR_FIELDS if field not in EVENT_FIELDS)
_QUANTITIES = frozenset({"vol", "amount", *STATUS_FIELDS})
_ALIASES = {"symbol": "ts_code", "date": "trade_date"}
_MEMBER_KEYS = ("index_code", "con_code", "trade_date")
_TEXT_COLUMNS = frozenset({*_MEMBER_KEYS, *_ALIASES, "ts_code", "name", "stock_name", "start_date"})
_EMPTY_CELLS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
_SHARES_PER_HAND = 100.0


@dataclass(frozen=True, kw_only=True)
class FileContents:
    """Tables and records of a file, or none and the reason why it was not recognised."""

    file: str
    tables: tuple[CheckedTable, ...] = ()
    records: tuple[FileRecord, ...] = ()
    ignored_because: str = ""


def read_file(path: Path, max_bytes: int, record_zone: ZoneInfo | None = None) -> FileContents:
    """Read and check one file of at most ``max_bytes`` unpacked.

    Parameters
    ----------
    record_zone
        Zone of the times of news that have none; None refuses them.

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
    try:
        if ending == ".parquet":
            return _from_columns(path.name, _read_parquet(path, max_bytes))
        if ending.startswith(".csv"):
            return _from_csv(path, max_bytes)
        return _from_json(path, max_bytes, record_zone, lines=ending.startswith(".jsonl"))
    except MemoryError as error:
        raise BadFile(f"{path.name} needs more memory than is available", file=path.name) from error


def _from_csv(path: Path, max_bytes: int) -> FileContents:
    header = list(_read_csv(path, max_bytes, nrows=0).columns)
    if is_event_table(header):
        code = event_columns(header)["ts_code"]
        return _from_columns(path.name, _read_csv(path, max_bytes, **_text_options(header, code)))
    if is_filing_table(header):
        code = filing_columns(header)["symbol"]
        return _from_columns(path.name, _read_csv(path, max_bytes, **_text_options(header, code)))
    names = _canonical(header)
    if _kinds(names.values()):
        table = _read_csv(path, max_bytes, **_csv_options(names))
        if not isinstance(table.index, pd.RangeIndex):  # pandas takes surplus first cells as an index
            raise BadFile(f"{path.name}: its rows have more cells than its header", file=path.name)
        return _from_columns(path.name, table)
    return _from_columns(path.name, pd.DataFrame(columns=header))


def _csv_options(names: dict[str, str]) -> dict[str, Any]:
    """Codes and dates as text ("000001" keeps its zeros, "NA" is a symbol), numbers exactly."""
    text = [column for column, name in names.items() if name in _TEXT_COLUMNS]
    numbers = [column for column in names if column not in text]
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
        table = pd.read_parquet(path)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadFile(f"{path.name} is not a readable Parquet file: {reason}", file=path.name) from error
    named = [name for name in table.index.names if name is not None]
    return table.reset_index(level=named).reset_index(drop=True) if named else table.reset_index(drop=True)


def _from_json(path: Path, max_bytes: int, record_zone: ZoneInfo | None, *, lines: bool) -> FileContents:
    documents = read_documents(path, max_bytes, lines=lines)
    if is_news(documents):
        return FileContents(file=path.name, records=read_news(documents, path.name, record_zone))
    if not all(is_daily_series(document) for _, document in documents):
        return FileContents(file=path.name, ignored_because=missing_keys(documents))
    bars, names = read_daily_series(documents, path.name)
    tables = _checked(path.name, bars, ("bars",))
    if len(names):
        tables.append(CheckedTable(kind="names", file=path.name, rows=_names(names, path.name)))
    return FileContents(file=path.name, tables=tuple(tables))


def _canonical(columns: Sequence[object]) -> dict[str, str]:
    """Tushare's name of each known column; ``ts_code`` wins over ``symbol``."""
    lower = {str(column): str(column).strip().lower() for column in columns}
    known = _TEXT_COLUMNS | set(BAR_FIELDS) | set(INDICATOR_FIELDS) | {"volume"}
    names: dict[str, str] = {}
    for column, name in lower.items():
        canonical = _ALIASES.get(name, name)
        if name in known and (canonical == name or canonical not in lower.values()):
            names[column] = canonical
    return names


def _kinds(names: Iterable[str]) -> tuple[TableKind, ...]:
    """Kinds of table that columns of these names make."""
    have = set(names)
    if have.issuperset(_MEMBER_KEYS):
        return ("members",)
    if have.issuperset(("ts_code", "trade_date")):
        kinds: list[TableKind] = []
        if not _missing_for_bars(have):
            kinds.append("bars")
        elif have & set(_EXTRAS):
            kinds.append("extras")
        if have & set(INDICATOR_FIELDS):
            kinds.append("indicators")
        return tuple(kinds)
    return ("names",) if have.issuperset(("ts_code", "name")) else ()


def _missing_for_bars(have: set[str]) -> list[str]:
    volume = () if "volume" in have else ("vol",)
    return [name for name in ("ts_code", "trade_date", *LEVEL_FIELDS, *volume) if name not in have]


def _looks_like_bars(have: set[str]) -> bool:
    """Tushare's ``daily_basic`` has a close too, so a close alone is not enough."""
    return bool(have & {"open", "high", "low"}) or (have >= {"ts_code", "trade_date", "close"})


def _from_columns(file: str, table: pd.DataFrame) -> FileContents:
    if is_event_table(list(table.columns)):
        return FileContents(file=file, tables=_event_tables(events_from_table(table, file), file))
    if is_filing_table(list(table.columns)):
        return FileContents(file=file, records=read_filings(table, file))
    names = _canonical(list(table.columns))
    have = set(names.values())
    kinds = _kinds(have)
    if "bars" not in kinds and _looks_like_bars(have) and not (kinds and not have & {"open", "high", "low"}):
        missing = _missing_for_bars(have)
        raise BadFile(
            f"{file} misses the column(s) {', '.join(missing)}; daily bars need ts_code (or symbol), "
            "trade_date (or date), open, high, low, close and vol (hands) or volume (shares)",
            file=file,
            columns=tuple(missing),
        )
    if not kinds:
        shown = ", ".join(map(str, table.columns[:6]))
        reason = f"columns ({shown}) are not those of bars, events, filings, indicators, members or names"
        return FileContents(file=file, ignored_because=reason)
    if table.empty:
        raise BadFile(f"{file} has a header and no row", file=file)
    rows = table[list(names)].rename(columns=names)
    return FileContents(file=file, tables=tuple(_checked(file, rows, kinds)))


def _checked(file: str, rows: pd.DataFrame, kinds: Sequence[TableKind]) -> list[CheckedTable]:
    in_shares = "volume" in rows.columns and "vol" not in rows.columns
    if in_shares:
        shares = read_numbers(rows["volume"], file, "quantity")
        rows = rows.assign(vol=shares / _SHARES_PER_HAND)
    tables = [
        CheckedTable(kind=kind, file=file, rows=_CHECKS[kind](rows, file), in_shares=in_shares)
        for kind in kinds
    ]
    if "members" in kinds and "stock_name" in rows.columns:
        names = rows[["con_code", "stock_name"]].set_axis(["ts_code", "name"], axis=1)
        tables.append(CheckedTable(kind="names", file=file, rows=_names(names, file)))
    if {"bars", "extras"} & set(kinds):
        tables += _event_tables(events_from_rows(rows, file), file)
    return tables


def _event_tables(frames: Iterable[pd.DataFrame], file: str) -> tuple[CheckedTable, ...]:
    return tuple(CheckedTable(kind="events", file=file, rows=frame) for frame in frames)


def _daily(rows: pd.DataFrame, file: str, fields: Sequence[str]) -> pd.DataFrame:
    columns = {
        "ts_code": read_codes(rows["ts_code"], file),
        "trade_date": read_dates(rows["trade_date"], file),
    }
    present = [field for field in fields if field in rows.columns]
    columns |= {field: read_numbers(rows[field], file, _number_kind(field)) for field in present}
    return unique_rows(pd.DataFrame(columns), ("ts_code", "trade_date"), file)


def _number_kind(field: str) -> NumberKind:
    if field in _QUANTITIES:
        return "quantity"
    return "price" if field in BAR_FIELDS else "number"


def _members(rows: pd.DataFrame, file: str) -> pd.DataFrame:
    columns = {
        "index_code": read_codes(rows["index_code"], file),
        "con_code": read_codes(rows["con_code"], file),
        "trade_date": read_dates(rows["trade_date"], file),
    }
    return pd.DataFrame(columns).drop_duplicates()


def _names(rows: pd.DataFrame, file: str) -> pd.DataFrame:
    columns = {
        "ts_code": read_codes(rows["ts_code"], file),
        "name": rows["name"].astype("str").str.strip(),
    }
    if "start_date" in rows.columns:
        columns["start_date"] = read_dates(rows["start_date"], file)
    return pd.DataFrame(columns)


_CHECKS: dict[TableKind, Callable[[pd.DataFrame, str], pd.DataFrame]] = {
    "bars": lambda rows, file: _daily(rows, file, _BARS),
    "extras": lambda rows, file: _daily(rows, file, ("pre_close", *_BARS[7:])),
    "indicators": lambda rows, file: _daily(rows, file, INDICATOR_FIELDS),
    "members": _members,
    "names": _names,
}
