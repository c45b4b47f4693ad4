"""Reading one file into tables of known kinds. A file is recognised by its content, not by its name."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from quantgraph.data.files._ai_trader_series import is_series, read_series, series_note
from quantgraph.data.files._cells import Kind, read_codes, read_dates, read_numbers, unique_rows
from quantgraph.data.files._events import event_columns, events_of, is_events, read_events
from quantgraph.data.files._unpacked import check_first_line, check_parquet, opened
from quantgraph.data.protocol import BAR_FIELDS, EVENT_FIELDS, INDICATOR_FIELDS, STATUS_FIELDS
from quantgraph.errors import BadFile

__all__ = ["KNOWN_ENDINGS", "Reading", "Table", "read_file"]

KNOWN_ENDINGS: tuple[str, ...] = (".csv", ".csv.gz", ".parquet", ".json", ".json.gz", ".jsonl", ".jsonl.gz")

TableKind = Literal["bars", "extras", "events", "indicators", "members", "names"]

_OHLC = ("open", "high", "low", "close")
_EXTRAS = BAR_FIELDS[7:]
_SPREAD = tuple(field for field in BAR_FIELDS if field not in EVENT_FIELDS)
_QUANTITIES = frozenset({"vol", "amount", *STATUS_FIELDS})
_ALIASES = {"symbol": "ts_code", "date": "trade_date"}
_MEMBER_KEYS = ("index_code", "con_code", "trade_date")
_NO_NUMBERS = frozenset({*_MEMBER_KEYS, *_ALIASES, "ts_code", "name", "stock_name", "start_date"})
_EMPTY_CELLS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
_SHARES_PER_HAND = 100.0
_NOT_UTF8 = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Checked rows of one kind, under tushare's column names, and the file they came from.

    ``in_shares``: the file had volumes in shares; ``rows`` has them in hands.
    """

    kind: TableKind
    file: str
    rows: pd.DataFrame
    in_shares: bool = False


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a file holds: tables, or none and the reason why."""

    file: str
    tables: tuple[Table, ...] = ()
    unread: str = ""


def read_file(path: Path, most: int) -> Reading:
    """Read and check one file.

    Raises
    ------
    BadFile
        If it is recognised and not what its format promises: cannot be decoded, has no row, misses a
        column, or holds a cell that is no valid date, number or code.
    """
    ending = _ending(path)
    if not ending:
        return Reading(file=path.name, unread=f"unknown ending; valid: {', '.join(KNOWN_ENDINGS)}")
    if _NOT_UTF8.search(path.name):
        raise BadFile(f"the file name {path.name!a} is not UTF-8; rename the file", file=path.name)
    if path.stat().st_size == 0:
        raise BadFile(f"{path.name} is empty", file=path.name)
    try:
        if ending == ".parquet":
            return _from_columns(path.name, _read_parquet(path, most))
        if ending.startswith(".csv"):
            return _from_csv(path, most)
        return _from_json(path, most, lines=ending.startswith(".jsonl"))
    except MemoryError as error:
        raise BadFile(f"{path.name} needs more memory than there is", file=path.name) from error


def _ending(path: Path) -> str:
    name = path.name.lower()
    return next((end for end in reversed(KNOWN_ENDINGS) if name.endswith(end)), "")


# --- columns --------------------------------------------------------------------------------------


def _from_csv(path: Path, most: int) -> Reading:
    header = list(_read_csv(path, most, nrows=0).columns)
    if is_events(header):
        return _from_columns(path.name, _read_csv(path, most, **_event_options(header)))
    names = _canonical(header)
    if _kinds(names.values()):
        table = _read_csv(path, most, **_csv_options(names))
        if not isinstance(table.index, pd.RangeIndex):  # pandas takes surplus first cells as an index
            raise BadFile(f"{path.name}: its rows have more cells than its header", file=path.name)
        return _from_columns(path.name, table)
    return _from_columns(path.name, pd.DataFrame(columns=header))


def _csv_options(names: dict[str, str]) -> dict[str, Any]:
    """Codes and dates as text ("000001" keeps its zeros, the symbol "NA" is one), numbers exactly."""
    text = [column for column, name in names.items() if name in _NO_NUMBERS]
    numbers = [column for column in names if column not in text]
    return {
        "dtype": dict.fromkeys(text, "str"),
        "keep_default_na": False,
        "na_values": dict.fromkeys(numbers, _EMPTY_CELLS),
    }


def _event_options(header: Sequence[str]) -> dict[str, Any]:
    """Everything as text: codes and dates are, and numbers are read exactly from it."""
    code = event_columns(header)["ts_code"]
    empty = {column: _EMPTY_CELLS for column in header if column != code}
    return {"dtype": "str", "keep_default_na": False, "na_values": empty}


def _read_csv(path: Path, most: int, **options: Any) -> pd.DataFrame:
    try:
        check_first_line(path, most)
        with opened(path, most) as file:
            table: pd.DataFrame = pd.read_csv(file, encoding="utf-8", **options)
    except pd.errors.EmptyDataError as error:
        raise BadFile(f"{path.name} is empty", file=path.name) from error
    except UnicodeDecodeError as error:
        raise BadFile(f"{path.name} is not UTF-8 text; save it as UTF-8", file=path.name) from error
    except (pd.errors.ParserError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadFile(f"{path.name} is not a readable CSV: {reason}", file=path.name) from error
    return table


def _read_parquet(path: Path, most: int) -> pd.DataFrame:
    import pyarrow as pa

    try:
        check_parquet(path, most)
        table = pd.read_parquet(path)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadFile(f"{path.name} is not a readable Parquet file: {reason}", file=path.name) from error
    named = [name for name in table.index.names if name is not None]
    return table.reset_index(level=named).reset_index(drop=True) if named else table.reset_index(drop=True)


def _canonical(columns: Sequence[object]) -> dict[str, str]:
    """Tushare's name for each column that means something here; ``ts_code`` wins over ``symbol``."""
    lower = {str(column): str(column).strip().lower() for column in columns}
    known = _NO_NUMBERS | set(BAR_FIELDS) | set(INDICATOR_FIELDS) | {"volume"}
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
    return [name for name in ("ts_code", "trade_date", *_OHLC, *volume) if name not in have]


def _meant_as_bars(have: set[str]) -> bool:
    """Tushare's ``daily_basic`` has a close too, so a close alone means nothing."""
    return bool(have & {"open", "high", "low"}) or (have >= {"ts_code", "trade_date", "close"})


def _from_columns(file: str, table: pd.DataFrame) -> Reading:
    if is_events(list(table.columns)):
        return Reading(file=file, tables=_events(read_events(table, file), file))
    names = _canonical(list(table.columns))
    have = set(names.values())
    kinds = _kinds(have)
    if "bars" not in kinds and _meant_as_bars(have) and not (kinds and not have & {"open", "high", "low"}):
        missing = _missing_for_bars(have)
        raise BadFile(
            f"{file} misses the column(s) {', '.join(missing)}; daily bars need ts_code (or symbol), "
            "trade_date (or date), open, high, low, close and vol (hands) or volume (shares)",
            file=file,
            columns=tuple(missing),
        )
    if not kinds:
        shown = ", ".join(map(str, table.columns[:6]))
        return Reading(
            file=file, unread=f"columns ({shown}) are no bars, events, indicators, members or names"
        )
    if table.empty:
        raise BadFile(f"{file} has a header and no row", file=file)
    rows = table[list(names)].rename(columns=names)
    return _checked(file, rows, kinds)


def _checked(file: str, rows: pd.DataFrame, kinds: Sequence[TableKind]) -> Reading:
    in_shares = "volume" in rows.columns and "vol" not in rows.columns
    if in_shares:
        shares = read_numbers(rows["volume"], file, "quantity")
        rows = rows.assign(vol=shares / _SHARES_PER_HAND)
    tables = [
        Table(kind=kind, file=file, rows=_CHECKS[kind](rows, file), in_shares=in_shares) for kind in kinds
    ]
    if "members" in kinds and "stock_name" in rows.columns:
        naming = rows[["con_code", "stock_name"]].set_axis(["ts_code", "name"], axis=1)
        tables.append(Table(kind="names", file=file, rows=_names(naming, file)))
    if {"bars", "extras"} & set(kinds):
        tables += _events(events_of(rows, file), file)
    return Reading(file=file, tables=tuple(tables))


def _events(frames: Iterable[pd.DataFrame], file: str) -> tuple[Table, ...]:
    return tuple(Table(kind="events", file=file, rows=frame) for frame in frames)


def _cells(rows: pd.DataFrame, file: str, fields: Sequence[str]) -> pd.DataFrame:
    columns = {
        "ts_code": read_codes(rows["ts_code"], file),
        "trade_date": read_dates(rows["trade_date"], file),
    }
    present = [field for field in fields if field in rows.columns]
    columns |= {field: read_numbers(rows[field], file, _kind(field)) for field in present}
    return unique_rows(pd.DataFrame(columns), ("ts_code", "trade_date"), file)


def _kind(field: str) -> Kind:
    if field in _QUANTITIES:
        return "quantity"
    return "price" if field in BAR_FIELDS else "number"


def _bars(rows: pd.DataFrame, file: str) -> pd.DataFrame:
    return _cells(rows, file, _SPREAD)


def _extras(rows: pd.DataFrame, file: str) -> pd.DataFrame:
    return _cells(rows, file, ("pre_close", *_SPREAD[7:]))


def _indicators(rows: pd.DataFrame, file: str) -> pd.DataFrame:
    return _cells(rows, file, INDICATOR_FIELDS)


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
    "bars": _bars,
    "extras": _extras,
    "indicators": _indicators,
    "members": _members,
    "names": _names,
}


# --- JSON -----------------------------------------------------------------------------------------


def _from_json(path: Path, most: int, *, lines: bool) -> Reading:
    documents = list(_documents(path, most, lines=lines))
    if not documents:
        raise BadFile(f"{path.name} is empty", file=path.name)
    if not all(is_series(document) for _, document in documents):
        return Reading(file=path.name, unread=series_note(documents))
    bars, names = read_series(documents, path.name)
    reading = _checked(path.name, bars, ("bars",))
    if names.empty:
        return reading
    tables = (*reading.tables, Table(kind="names", file=path.name, rows=_names(names, path.name)))
    return Reading(file=path.name, tables=tables)


def _documents(path: Path, most: int, *, lines: bool) -> Iterator[tuple[str, Any]]:
    """Each JSON document with the place it stands at, for messages."""
    text = _text(path, most)
    pieces = enumerate(text.splitlines(), 1) if lines else iter([(0, text)])
    for number, piece in pieces:
        where = f"line {number}" if lines else "the document"
        if not piece.strip():
            continue
        try:
            document = json.loads(piece)
        except json.JSONDecodeError as error:
            place = f"line {number if lines else error.lineno}"
            raise BadFile(f"{path.name}, {place}: not JSON: {error.msg}", file=path.name) from error
        if "\\ud" in piece.lower() and _NOT_UTF8.search(json.dumps(document, ensure_ascii=False)):
            raise BadFile(f"{path.name}, {where}: a \\u escape is half of a surrogate pair", file=path.name)
        yield where, document


def _text(path: Path, most: int) -> str:
    try:
        with opened(path, most) as file:
            return file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(f"{path.name} is not UTF-8 text; save it as UTF-8", file=path.name) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadFile(f"{path.name} is not a complete gzip file", file=path.name) from error
