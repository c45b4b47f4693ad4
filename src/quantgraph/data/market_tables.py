"""Checked tables merged into one market: panels, index levels, member lists, names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data.checked_tables import CheckedTable, TableKind, merge_tables
from quantgraph.data.event_tables import drop_adjusted_splits, events_on_sessions
from quantgraph.data.frame_source import DatedName, MarketTables, MemberList, complete_bars
from quantgraph.data.market_data import (
    BAR_FIELDS,
    EVENT_FIELDS,
    INDICATOR_FIELDS,
    LEVEL_FIELDS,
    Panel,
    long_to_panel,
    session_index,
)
from quantgraph.data.symbol_codes import is_index_code
from quantgraph.data.symbol_resolution import INDEX_NAMES
from quantgraph.errors import BadFile

__all__ = ["market_tables"]


def market_tables(tables: Sequence[CheckedTable], name: str, *, found: str = "") -> MarketTables:
    """Merge tables into one market, without records.

    Parameters
    ----------
    name
        Name of the source, for messages.
    found
        What else there is, for the message that there are no bars.

    Raises
    ------
    BadFile
        If there is no daily bar of a stock, or two tables contradict each other.
    """
    lists = _member_lists(_of_kinds(tables, "members"))
    of_stocks, of_indices = _split_indices(_of_kinds(tables, "bars", "extras"), lists)
    stocks, notes = merge_tables(of_stocks)
    traded = stocks[stocks["open"].notna()] if "open" in stocks else stocks.iloc[:0]
    if traded.empty:
        raise BadFile(f"{name} holds no daily bar of a stock; {found}", file=name)
    sessions, symbols = session_index(traded["trade_date"]), sorted(traded["ts_code"].unique())
    levels = _levels(merge_tables(of_indices)[0])
    indicators, _ = merge_tables(_of_kinds(tables, "indicators"))
    bars = long_to_panel(stocks, BAR_FIELDS, sessions, symbols)
    events, event_notes = _events(_of_kinds(tables, "events"), bars)
    names = _of_kinds(tables, "names")
    return MarketTables(
        bars=complete_bars(bars | events),
        indicators=long_to_panel(indicators, INDICATOR_FIELDS, sessions, symbols),
        levels=levels,
        lists=lists,
        names=_names(names, {*symbols, *lists, *levels}),
        dated_names=_dated_names(names),
        notes=(*_missing_fields(stocks), *notes, *event_notes),
        provenance=_provenance(of_stocks),
    )


def _of_kinds(tables: Iterable[CheckedTable], *kinds: TableKind) -> list[CheckedTable]:
    return [table for table in tables if table.kind in kinds]


def _events(tables: Sequence[CheckedTable], bars: Panel) -> tuple[Panel, tuple[str, ...]]:
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
            indices.append(replace(table, rows=table.rows.loc[of_index, columns]))
    return stocks, indices


def _provenance(tables: Iterable[CheckedTable]) -> tuple[Note, ...]:
    """How the tables were read, one note for those that were read alike."""
    files: dict[Note, list[str]] = {}
    for table in tables:
        if table.read_as is not None:
            files.setdefault(table.read_as, []).append(table.file)
    return tuple(
        Note(
            zh=f"{names[0]}{f' 等 {len(names)} 个' if names[1:] else ''}：{note.zh}",
            en=f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {note.en}",
        )
        for note, names in files.items()
    )


def _missing_fields(stocks: pd.DataFrame) -> list[str]:
    missing = ", ".join(field for field in BAR_FIELDS[:7] if field not in stocks)
    return [f"in no file, so NaN: {missing}"] if missing else []


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
