"""Market data from files: tushare's tables as CSV or Parquet, AI-Trader's JSON, or a folder of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from quantgraph.data.files._merge import merge_tables
from quantgraph.data.files._placing import place_events, without_contained
from quantgraph.data.files._readers import KNOWN_ENDINGS, Reading, Table, TableKind, read_file
from quantgraph.data.files._unpacked import MEGABYTE
from quantgraph.data.frame_source import (
    LEVEL_FIELDS,
    DatedName,
    FrameSource,
    Market,
    MemberList,
    complete_bars,
)
from quantgraph.data.panels import long_to_panel, session_index
from quantgraph.data.protocol import BAR_FIELDS, EVENT_FIELDS, INDICATOR_FIELDS, Panel
from quantgraph.data.symbols import INDEX_NAMES, is_index_code
from quantgraph.errors import BadFile, BadOption

__all__ = ["FileSource"]

_VALID = (
    f"a file ends in {', '.join(KNOWN_ENDINGS)} and holds daily bars (ts_code, trade_date, open, high, low, "
    'close, vol) or daily series in JSON ("Meta Data", "Time Series (Daily)")'
)


class FileSource(FrameSource):
    """Daily bars from a file or a folder (without its sub-folders).

    Read are CSV and Parquet in tushare's columns, ``symbol, date, open .. close, volume`` (shares), and
    AI-Trader's ``merged.jsonl`` and ``daily_prices_*.json``. In a folder also ``daily_basic``,
    ``adj_factor`` and ``stk_limit`` tables, index members (``index_code, con_code, trade_date``) and names
    (``ts_code, name``). Files are told apart by content. What two files say about the same symbol and
    session has to agree; within a relative 1e-4 the first file by name wins.

    ``pre_close`` and ``amount`` that no file has are NaN: an ex-dividend reference price cannot be guessed.

    Parameters
    ----------
    path
        File or folder. Read at the first question, not here.
    max_file_mb
        Megabytes that a file may have once it is unpacked.

    Raises
    ------
    BadFile
        Here if the path does not exist; at the first question if the content is not what it has to be.
    """

    def __init__(self, path: str | Path, *, max_file_mb: int = 2048) -> None:
        super().__init__()
        if max_file_mb < 1:
            raise BadOption(f"max_file_mb={max_file_mb}; must be >= 1", parameter="max_file_mb")
        self._most = max_file_mb * MEGABYTE
        self._name = str(path)
        self._path = Path(path)
        if not self._path.exists():
            raise BadFile(f"{path} does not exist; give a file or a folder of daily bars", file=str(path))

    @property
    def name(self) -> str:
        """The path as given."""
        return self._name

    @property
    def synthetic(self) -> bool:
        """False: the numbers are the files' own."""
        return False

    def _load(self) -> Market:
        try:
            return _market(_readings(self._path, self._most), self._name)
        except OSError as error:
            raise BadFile(f"{self._name} cannot be read: {error.strerror}", file=self._name) from error


def _readings(path: Path, most: int) -> list[Reading]:
    if not path.is_dir():
        reading = read_file(path, most)
        if reading.unread:
            raise BadFile(f"{path} cannot be read: {reading.unread}; {_VALID}", file=str(path))
        return [reading]
    files = sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith("."))
    return [read_file(each, most) for each in files]


def _market(readings: Sequence[Reading], name: str) -> Market:
    lists = _lists(_of(readings, "members"))
    of_stocks, of_indices = _apart(_of(readings, "bars", "extras"), lists)
    stocks, notes = merge_tables(of_stocks)
    priced = stocks[stocks["open"].notna()] if "open" in stocks else stocks.iloc[:0]
    if priced.empty:
        raise BadFile(f"{name} holds no daily bar of a stock; {_VALID}{_left_out(readings)}", file=name)
    sessions, symbols = session_index(priced["trade_date"]), sorted(priced["ts_code"].unique())
    levels = _levels(merge_tables(of_indices)[0])
    indicators, _ = merge_tables(_of(readings, "indicators"))
    bars = long_to_panel(stocks, BAR_FIELDS, sessions, symbols)
    events, told = _events(_of(readings, "events"), bars)
    return Market(
        bars=complete_bars(bars | events),
        indicators=long_to_panel(indicators, INDICATOR_FIELDS, sessions, symbols),
        levels=levels,
        lists=lists,
        names=_names(_of(readings, "names"), {*symbols, *lists, *levels}),
        dated_names=_dated_names(_of(readings, "names")),
        notes=(*_unread(readings), *_in_shares(of_stocks), *_unknown_fields(stocks), *notes, *told),
    )


def _events(tables: Sequence[Table], bars: Panel) -> tuple[Panel, tuple[str, ...]]:
    if not tables:
        return {}, ()
    sessions, symbols = pd.DatetimeIndex(bars["close"].index), list(bars["close"].columns)
    rows, notes = place_events(tables, sessions, symbols)
    rows, contained = without_contained(rows, bars)
    return long_to_panel(rows, EVENT_FIELDS, sessions, symbols), (*notes, *contained)


def _of(readings: Iterable[Reading], *kinds: TableKind) -> list[Table]:
    return [table for reading in readings for table in reading.tables if table.kind in kinds]


def _apart(tables: Sequence[Table], lists: Mapping[str, object]) -> tuple[list[Table], list[Table]]:
    """Stocks' rows and indices' rows; of an index only the levels matter."""
    stocks, indices = [], []
    for table in tables:
        codes = table.rows["ts_code"]
        of_index = codes.isin([code for code in codes.unique() if code in lists or is_index_code(code)])
        if not of_index.all():
            stocks.append(replace(table, rows=table.rows[~of_index]))
        if of_index.any() and table.kind == "bars":
            columns = ["ts_code", "trade_date", *LEVEL_FIELDS]
            indices.append(replace(table, rows=table.rows.loc[of_index, columns]))
    return stocks, indices


def _left_out(readings: Sequence[Reading]) -> str:
    found = "; ".join(f"{reading.file}: {reading.unread}" for reading in readings if reading.unread)
    return f". Found {found}" if found else ""


def _unread(readings: Sequence[Reading]) -> list[str]:
    return [f"{reading.file} was left out: {reading.unread}" for reading in readings if reading.unread]


def _in_shares(tables: Sequence[Table]) -> list[str]:
    files = ", ".join(dict.fromkeys(table.file for table in tables if table.in_shares))
    return [f"volume read as shares and turned into hands of 100: {files}"] if files else []


def _unknown_fields(stocks: pd.DataFrame) -> list[str]:
    unknown = ", ".join(field for field in BAR_FIELDS[:7] if field not in stocks)
    return [f"in no file, so NaN: {unknown}"] if unknown else []


def _levels(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    levels = {}
    for code, of_index in rows.groupby("ts_code"):
        frame = of_index.set_index("trade_date")[list(LEVEL_FIELDS)].sort_index()
        levels[str(code)] = frame.set_axis(session_index(frame.index))
    return levels


def _lists(tables: Sequence[Table]) -> dict[str, tuple[MemberList, ...]]:
    if not tables:
        return {}
    rows = pd.concat([table.rows for table in tables]).drop_duplicates()
    lists: dict[str, list[MemberList]] = {}
    for (code, day), members in rows.groupby(["index_code", "trade_date"])["con_code"]:
        listed = MemberList(listed_on=pd.Timestamp(str(day)), symbols=tuple(sorted(members)))
        lists.setdefault(str(code), []).append(listed)
    return {code: tuple(each) for code, each in lists.items()}


def _names(tables: Sequence[Table], codes: set[str]) -> Mapping[str, str]:
    """Latest name of each code; an index without one has its usual Chinese name."""
    names = {code: INDEX_NAMES[code][0] for code in sorted(codes) if code in INDEX_NAMES}
    for table in tables:
        rows = (
            table.rows.sort_values("start_date", kind="stable") if "start_date" in table.rows else table.rows
        )
        names |= {
            code: name
            for code, name in zip(rows["ts_code"], rows["name"], strict=True)
            if code in codes and name
        }
    return names


def _dated_names(tables: Sequence[Table]) -> Mapping[str, tuple[DatedName, ...]]:
    dated: dict[str, set[DatedName]] = {}
    for table in tables:
        if "start_date" in table.rows:
            rows = table.rows[table.rows["name"].astype(bool)].dropna(subset="start_date")
            for code, name, start in zip(rows["ts_code"], rows["name"], rows["start_date"], strict=True):
                dated.setdefault(code, set()).add((pd.Timestamp(start), name))
    return {code: tuple(sorted(names)) for code, names in dated.items()}
