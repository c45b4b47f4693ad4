"""Market data from files (tushare's tables, AI-Trader's JSON, folders) and from frames of the caller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pandas as pd

from quantgraph._util.canonical_json import content_hash, file_hash
from quantgraph._util.files import check_text
from quantgraph._util.texts import Note
from quantgraph.data._checked_tables import (
    CheckedTable,
    TableKind,
    action_records,
    drop_adjusted_splits,
    events_off_sessions,
    events_on_sessions,
    merge_tables,
)
from quantgraph.data._frame_source import (
    DatedName,
    FrameSource,
    MarketTables,
    MemberList,
    ReadAs,
    complete_bars,
)
from quantgraph.data._source import (
    BAR_FIELDS,
    EVENT_FIELDS,
    INDICATOR_FIELDS,
    LEVEL_FIELDS,
    Panel,
    long_to_panel,
    session_index,
)
from quantgraph.data._table_adjusted import actions_of_factor
from quantgraph.data._table_columns import open_choice
from quantgraph.data._table_names import NamedSymbol, symbol_of_file, symbol_of_frame
from quantgraph.data._table_reader import long_table, read_table
from quantgraph.data.files._reader import KNOWN_ENDINGS, FileContents, read_file
from quantgraph.data.files._records import stamp_notes, to_records
from quantgraph.data.files._unpacked import MEGABYTE
from quantgraph.data.symbols._codes import is_index_code
from quantgraph.data.symbols._resolution import INDEX_NAMES
from quantgraph.errors import BadFile, BadOption, NotConfigured
from quantgraph.market import Bar, FeedZones, bar_of
from quantgraph.settings import TableOptions

_SHOWN = 3

_VALID = (
    f"a file ends in {', '.join(KNOWN_ENDINGS)} and holds daily bars (ts_code, trade_date, open, high, low, "
    'close, vol) or daily series in JSON ("Meta Data", "Time Series (Daily)")'
)


class FileSource(FrameSource):
    """Daily bars from a file or a folder (without its sub-folders).

    Formats are CSV and Parquet in tushare's columns, in yfinance's, in akshare's (Chinese) and the like, and
    AI-Trader's ``merged.jsonl`` and ``daily_prices_*.json``. A file of one symbol may be named by it:
    ``AAPL.csv``. A folder may also hold ``daily_basic``, ``adj_factor`` and ``stk_limit`` tables, index
    members (``index_code, con_code, trade_date``), names (``ts_code, name``), news (JSON lines) and quarterly
    filings. Files are recognised by content. Two files must agree about a symbol and session; within a
    relative 1e-4 the first file by name wins. What was taken for which column is in :meth:`provenance`.

    ``pre_close`` and ``amount`` are NaN if no file has them: an ex-dividend reference price is not guessed.

    Parameters
    ----------
    path
        File or folder. Read on the first request, not here.
    max_file_mb
        Maximum megabytes of one unpacked file.
    options
        What the files do not tell.
    symbol
        Symbol of the rows of one file that has no column of symbols, and whose name says none.

    Raises
    ------
    BadFile
        Here if the path does not exist; on the first request if the content is not valid.
    BadOption
        If ``max_file_mb`` is below 1, or ``record_zone`` is not a time zone.
    """

    synthetic: Final = False  # the numbers are the files' own

    def __init__(
        self,
        path: str | Path,
        *,
        max_file_mb: int = 2048,
        options: TableOptions | None = None,
        symbol: str | None = None,
    ) -> None:
        super().__init__()
        if max_file_mb < 1:
            raise BadOption(f"max_file_mb={max_file_mb}; must be >= 1", parameter="max_file_mb")
        self._max_bytes = max_file_mb * MEGABYTE
        self._options = options or TableOptions()
        self._symbol = symbol
        self._zones = FeedZones(self._options.record_zone or {})
        self._name = str(path)
        self._path = Path(path)
        if not self._path.exists():
            raise BadFile(f"{path} does not exist; give a file or a folder of daily bars", file=str(path))

    @property
    def name(self) -> str:
        """The caller's path."""
        return self._name

    @property
    def options(self) -> TableOptions:
        """The caller's options on what the files do not state."""
        return self._options

    def _file_reader(self) -> Callable[[Path], FileContents]:
        symbol = None if self._path.is_dir() else self._symbol
        return partial(
            read_file, max_bytes=self._max_bytes, zones=self._zones, options=self._options, symbol=symbol
        )

    def opens(self) -> str:
        """The absolute path."""
        return str(self._path.absolute())

    def fingerprint(self) -> Mapping[str, str]:
        """Hash of each file that is read."""
        path = self._path
        try:
            inside = sorted(path.iterdir()) if path.is_dir() else [path]
            read = [each for each in inside if each.is_file() and not each.name.startswith(".")]
            for each in read:
                check_text(each.name, f"source: the file name {each.name!a}")
            return {each.name: file_hash(each) for each in read}
        except OSError as error:
            raise BadFile(f"{error.filename} cannot be read: {error.strerror}", file=self._name) from error

    def _load(self) -> MarketTables:
        try:
            files = _read_files(self._path, self._file_reader())
            return market_tables(files, self._name, self._options.bar)
        except OSError as error:
            raise BadFile(f"{self._name} cannot be read: {error.strerror}", file=self._name) from error


def _read_files(path: Path, read: Callable[[Path], FileContents]) -> list[FileContents]:
    if not path.is_dir():
        contents = read(path)
        if contents.ignored_because:
            raise BadFile(f"{path} cannot be read: {contents.ignored_because}; {_VALID}", file=str(path))
        return [contents]
    files = sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith("."))
    return [_in_folder(each, read) for each in files]


def _in_folder(path: Path, read: Callable[[Path], FileContents]) -> FileContents:
    """Read one file of a folder; one that lacks columns of daily bars is left out and named."""
    try:
        return read(path)
    except (BadFile, NotConfigured) as error:
        if isinstance(error, BadFile) and not {"columns", "unreadable"} & error.data.keys():
            raise
        return FileContents(file=path.name, ignored_because=error.message.removeprefix(f"{path.name} "))


def market_tables(files: Sequence[FileContents], name: str, bar: Bar | None = None) -> MarketTables:
    """The market that some files make; ``bar`` is what its rows are, as the caller says."""
    lists = _member_lists(_tables(files, "members"))
    of_stocks, of_indices = _split_indices(_tables(files, "bars", "extras"), lists)
    stocks, notes = merge_tables(of_stocks)
    priced = [field for field in ("open", "close") if field in stocks]
    traded = stocks[stocks[priced].notna().any(axis="columns")]
    ignored = [(each.file, each.ignored_because) for each in files if each.ignored_because]
    if traded.empty:
        found = "; ".join(f"{file}: {reason}" for file, reason in ignored)
        found = f". Found {found}" if found else ""
        raise BadFile(f"{name} holds no daily bar of a stock; {_VALID}{found}", file=name)
    sessions, symbols = session_index(traded["trade_date"]), sorted(traded["ts_code"].unique())
    _check_bar(sessions, bar, name)
    levels = _levels(merge_tables(of_indices)[0])
    indicators, _ = merge_tables(_tables(files, "indicators"))
    bars = long_to_panel(stocks, BAR_FIELDS, sessions, symbols)
    tables = _tables(files, "events")
    events, event_notes = _events(tables, bars)
    if "adj_factor" in bars and not {"dividend", "split"} & events.keys():
        derived, of_factor = actions_of_factor(bars)
        events, event_notes = {**derived, **events}, (*event_notes, *of_factor)
    others = action_records(events_off_sessions(tables, sessions, symbols)) if tables else ()
    names = _tables(files, "names")
    withheld = {field: error for table in of_stocks for field, error in table.withheld.items()}
    absent = {*withheld, *({"vol"} - {*stocks})}
    return MarketTables(
        bars=complete_bars(bars | events, absent),
        indicators=long_to_panel(indicators, INDICATOR_FIELDS, sessions, symbols),
        levels=levels,
        lists=lists,
        names=_names(names, {*symbols, *lists, *levels}),
        dated_names=_dated_names(names),
        read_as=_read_as(of_stocks),
        notes=(
            *(
                Note(zh=f"没有采用 {file}：{reason}", en=f"{file} was left out: {reason}")
                for file, reason in ignored
            ),
            *_missing_notes(stocks, absent),
            *notes,
            *event_notes,
            *_never_known_notes(files),
            *(note for each in files for note in stamp_notes(each.file, each.records, sessions[-1].date())),
        ),
        records=(*to_records((record for each in files for record in each.records), symbols), *others),
        withheld=withheld,
    )


def _check_bar(sessions: pd.DatetimeIndex, bar: Bar | None, name: str) -> None:
    """See that the rows are of days, or are what the caller knows them to be."""
    found = bar_of(sessions)
    if bar is None and found != "daily":
        raise open_choice(
            f"{name}: its {len(sessions)} rows from {sessions[0]:%Y-%m-%d} on are {found} bars; limits, "
            "T+1 and fees are rules of days, so a run trades them only if you say so",
            "bar",
            (found,),
            file=name,
        )
    if bar not in {None, found}:
        raise BadFile(f"{name}: bar={bar!r} is set, and its rows are {found}", file=name, parameter="bar")


def _tables(files: Iterable[FileContents], *kinds: TableKind) -> list[CheckedTable]:
    return [table for contents in files for table in contents.tables if table.kind in kinds]


def _events(tables: Sequence[CheckedTable], bars: Panel) -> tuple[Panel, tuple[Note, ...]]:
    if not tables:
        return {}, ()
    sessions, symbols = pd.DatetimeIndex(bars["close"].index), list(bars["close"].columns)
    rows, notes = events_on_sessions(tables, sessions, symbols)
    rows, adjusted = drop_adjusted_splits(rows, bars)
    return long_to_panel(rows, EVENT_FIELDS, sessions, symbols), (*notes, *adjusted)


def _split_indices(
    tables: Sequence[CheckedTable], lists: Mapping[str, object]
) -> tuple[list[CheckedTable], list[CheckedTable]]:
    """Stocks' rows and indices' rows; of an index only the levels are kept."""
    stocks, indices = [], []
    for table in tables:
        codes = table.rows["ts_code"]
        of_index = codes.isin([code for code in codes.unique() if code in lists or is_index_code(code)])
        if not of_index.all():
            stocks.append(replace(table, rows=table.rows[~of_index]))
        if of_index.any() and table.kind == "bars":
            columns = ["ts_code", "trade_date", *LEVEL_FIELDS]
            indices.append(replace(table, rows=table.rows[of_index].reindex(columns=columns)))
    return stocks, indices


def _read_as(tables: Sequence[CheckedTable]) -> tuple[ReadAs, ...]:
    """What was taken for what, one for all files that were read alike."""
    files: dict[tuple[Note, ...], list[str]] = {}
    for table in tables:
        if table.read_as:
            files.setdefault(table.read_as, []).append(table.file)
    return tuple(ReadAs(files=_list_files(names), parts=parts) for parts, names in files.items())


def _list_files(names: Sequence[str]) -> str:
    more = f" … ({len(names)})" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _missing_notes(stocks: pd.DataFrame, absent: Collection[str]) -> list[Note]:
    missing, notes = ", ".join(field for field in BAR_FIELDS[:7] if field not in {*stocks, *absent}), []
    if missing:
        notes.append(Note(zh=f"数据中没有、记为 NaN：{missing}", en=f"in no file, so NaN: {missing}"))
    if "vol" in absent:
        zh = "没有可用的成交量：读成交量的规则不能运行"
        notes.append(Note(zh=zh, en="no volumes: a rule that reads them cannot run"))
    if "open" not in stocks:
        zh = "没有开盘价：可以得到并检查信号，但订单无法成交"
        notes.append(Note(zh=zh, en="no open prices: a signal can be made and proved, and no order can fill"))
    return notes


def _never_known_notes(files: Sequence[FileContents]) -> list[Note]:
    counts = (
        (each.file, sum(one.stamp is None for one in each.records), len(each.records)) for each in files
    )
    return [
        Note(
            zh=f"{file}：{total} 条记录中有 {never} 条没有日期，永远不算已知",
            en=f"{file}: {never} of {total} records have no date and are never known",
        )
        for file, never, total in counts
        if never
    ]


def _levels(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    levels = {}
    for code, of_index in rows.groupby("ts_code"):
        frame = of_index.set_index("trade_date")[list(LEVEL_FIELDS)].sort_index()
        levels[str(code)] = frame.set_axis(session_index(frame.index))
    return levels


def _member_lists(tables: Sequence[CheckedTable]) -> dict[str, tuple[MemberList, ...]]:
    if not tables:
        return {}
    rows = pd.concat([table.rows for table in tables]).drop_duplicates()
    lists: dict[str, list[MemberList]] = {}
    for (code, day), members in rows.groupby(["index_code", "trade_date"])["con_code"]:
        listed = MemberList(listed_on=pd.Timestamp(str(day)), symbols=tuple(sorted(members)))
        lists.setdefault(str(code), []).append(listed)
    return {code: tuple(each) for code, each in lists.items()}


def _names(tables: Sequence[CheckedTable], codes: set[str]) -> Mapping[str, str]:
    """Latest name of each code; an index without one has its usual Chinese name."""
    names = {code: INDEX_NAMES[code][0] for code in sorted(codes) if code in INDEX_NAMES}
    for table in tables:
        rows = table.rows
        if "start_date" in rows:
            rows = rows.sort_values("start_date", kind="stable")
        pairs = zip(rows["ts_code"], rows["name"], strict=True)
        names |= {code: name for code, name in pairs if code in codes and name}
    return names


def _dated_names(tables: Sequence[CheckedTable]) -> Mapping[str, tuple[DatedName, ...]]:
    dated: dict[str, set[DatedName]] = {}
    for table in tables:
        if "start_date" in table.rows:
            rows = table.rows[table.rows["name"].astype(bool)].dropna(subset="start_date")
            for code, name, start in zip(rows["ts_code"], rows["name"], rows["start_date"], strict=True):
                dated.setdefault(code, set()).add((pd.Timestamp(start), name))
    return {code: tuple(sorted(names)) for code, names in dated.items()}


_NAME = "DataFrame"


class CallerTables(FrameSource):
    """Daily bars, and what else a folder of files may hold, from frames in memory.

    Columns are recognised as in files. Dates may be the index, with symbols or alone, and tickers a
    level of the header, as yfinance gives them. Later changes of the frames are not seen.

    Parameters
    ----------
    tables
        A frame, or frames or series of closes by name. The name of a frame without a column of symbols is
        the symbol of its rows.
    options
        Units of volumes and amounts and the order of dates, where the tables do not tell.
    symbol
        Symbol of the rows of a single frame that has no column of symbols.

    Raises
    ------
    BadOption
        If something is not a frame, or a name is not a text.
    BadFile
        If a table is not valid; it is named as in ``tables``, and rows are counted from 1.
    """

    synthetic: Final = False  # the numbers are the caller's own

    def __init__(
        self,
        tables: pd.DataFrame | Mapping[str, pd.DataFrame | pd.Series],
        *,
        options: TableOptions | None = None,
        symbol: str | None = None,
    ) -> None:
        super().__init__()
        is_one = isinstance(tables, pd.DataFrame)
        named = {_NAME: tables} if isinstance(tables, pd.DataFrame) else _by_name(tables)
        if not named:
            raise BadOption("source is empty; give a frame, or frames by symbol", parameter="source")
        self._contents: list[FileContents] | None = [
            _contents(name, table, options, symbol_of_file("", symbol) if is_one else symbol_of_frame(name))
            for name, table in named.items()
        ]
        self._name = ", ".join(named) if len(named) <= 3 else f"{len(named)} frames"
        self._bar = options.bar if options else None
        self._hashes = {name: _hash(table) for name, table in named.items()}

    @property
    def name(self) -> str:
        """``DataFrame``, or the names of the frames."""
        return self._name

    def fingerprint(self) -> Mapping[str, str]:
        """Hash of each frame."""
        return self._hashes

    def _load(self) -> MarketTables:
        market = market_tables(self._contents or [], self._name, self._bar)
        self._contents = None  # the market holds what they held
        return market


def _by_name(tables: Mapping[Any, Any]) -> dict[str, pd.DataFrame]:
    for name, table in tables.items():
        if not isinstance(name, str) or not isinstance(table, pd.DataFrame | pd.Series):
            raise BadOption(
                f"source: {name!r:.40} is a {type(table).__name__}; give frames by symbol, like "
                "{'600519.SH': frame}",
                parameter="source",
            )
    return {
        name: table.to_frame("close") if isinstance(table, pd.Series) else table
        for name, table in tables.items()
    }


def _contents(
    name: str, table: pd.DataFrame, options: TableOptions | None, symbol: NamedSymbol | None
) -> FileContents:
    found = read_table(long_table(table, name), name, options, symbol=symbol, about=name)
    if found.ignored_because:
        raise BadFile(f"{name}: its {found.ignored_because}", file=name)
    return FileContents(file=name, tables=found.tables)


def _hash(table: pd.DataFrame) -> str:
    """Hash of a frame's cells, index and columns."""
    rows = pd.util.hash_pandas_object(table).to_numpy()
    return content_hash(repr(list(table.columns)).encode() + rows.tobytes())
