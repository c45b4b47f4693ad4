"""A source below a host's commit: what the commit has is taken from it, and the source fills the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from quantgraph.data._source import (
    DatedLists,
    MarketDataSource,
    Members,
    Panel,
    check_window,
    record_kinds_of,
    records_of,
    session_index,
)
from quantgraph.data.symbols._codes import symbol_list
from quantgraph.errors import NoData, UnknownSymbol
from quantgraph.market import FeedZones, sessions_between
from quantgraph.state import Record, RecordKind, Snapshot

_Ask = Callable[[Sequence[str], pd.Timestamp, pd.Timestamp], Panel]


def commit_source(source: MarketDataSource, commit: Snapshot) -> MarketDataSource:
    """Return the source below a commit; the source itself if the commit has no bars."""
    if not commit["ohlcv"]:
        return source
    return (
        _DatedCommitSource(source, commit) if isinstance(source, DatedLists) else CommitSource(source, commit)
    )


class CommitSource:
    """A source with the bars, indicators and levels of a commit where the commit has their cells.

    A cell is covered if the commit has its session and its symbol, also if it is NaN there.
    """

    feed_zones = FeedZones.EXCHANGE_TIME  # what the source declares was heeded

    def __init__(self, source: MarketDataSource, commit: Snapshot) -> None:
        self._source, self._commit = source, commit
        bars = commit["ohlcv"].frozen(next(iter(commit["ohlcv"])))
        self._sessions, self._symbols = session_index(bars.sessions), frozenset(bars.symbols)

    @property
    def name(self) -> str:
        """The source's name."""
        return self._source.name

    @property
    def synthetic(self) -> bool:
        """Whether the source's data are invented."""
        return self._source.synthetic

    def sessions(self) -> pd.DatetimeIndex:
        """Sessions of both, ascending."""
        return session_index(self._source.sessions().union(self._sessions))

    def sessions_of(self, symbols: Sequence[str]) -> pd.DatetimeIndex:
        """Sessions of some symbols: within the commit's span the commit's, if it has all of them."""
        if not self.covers(symbols):
            return self.sessions()
        theirs = self._source.sessions() if self._symbols_of_source(symbols) else self._sessions
        outside = (theirs < self._sessions[0]) | (theirs > self._sessions[-1])
        return session_index(theirs[outside].union(self._sessions))

    def covers(self, symbols: Sequence[str]) -> bool:
        """Whether the commit has all of these symbols."""
        return self._symbols.issuperset(symbols)

    def symbols(self) -> tuple[str, ...]:
        """Codes of both, ascending."""
        return tuple(sorted(self._symbols.union(self._source.symbols())))

    def names(self) -> Mapping[str, str]:
        """Name by code."""
        return self._source.names()

    def members(self, index_code: str, on: pd.Timestamp) -> Members:
        """Members of an index on a day."""
        return self._source.members(index_code, on)

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> Panel:
        """Daily bars."""
        return self._below("ohlcv", {**self._commit["ohlcv"]}, symbols, (start, end), self._source.bars)

    def indicators(
        self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp, fields: Sequence[str] = ()
    ) -> Panel:
        """Daily indicators."""
        own = {
            name: frame for name, frame in self._commit["indicators"].items() if name in fields or not fields
        }
        ask: Any = partial(self._source.indicators, fields=fields)
        complete = bool(fields) and set(fields) <= own.keys()
        return self._below("indicators", own, symbols, (start, end), ask, complete=complete)

    def index_bars(self, index_code: str, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        """Daily levels of an index."""
        own = {
            name: frame.loc[start:end, index_code]
            for name, frame in self._commit["index"].items()
            if index_code in frame
        }
        levels = pd.DataFrame(own)
        try:
            theirs = self._source.index_bars(index_code, start, end)
        except (NoData, UnknownSymbol):
            if levels.empty:
                raise
            return levels
        return levels.reindex(columns=theirs.columns).combine_first(theirs) if own else theirs

    @property
    def record_kinds(self) -> tuple[RecordKind, ...]:
        """The source's kinds of records."""
        return record_kinds_of(self._source)

    def records(
        self, kinds: Sequence[RecordKind], symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp
    ) -> tuple[Record, ...]:
        """Records of the source."""
        return records_of(self._source, kinds, self._symbols_of_source(symbols), start, end)

    def _symbols_of_source(self, symbols: Sequence[str]) -> list[str]:
        """Return the symbols that the source has."""
        return sorted({*symbols}.intersection(self._source.symbols()))

    def _below(
        self,
        panel: str,
        own: Panel,
        symbols: Sequence[str],
        window: tuple[pd.Timestamp, pd.Timestamp],
        ask: _Ask,
        *,
        complete: bool = True,
    ) -> Panel:
        """Return the frames ``own`` above the source's, which is asked for what they lack."""
        check_window(*window)
        wanted = pd.Index(sorted({*symbol_list(symbols)}), name="ts_code", dtype="str")
        rows = sessions_between(self.sessions_of(list(wanted)), *window)
        covered = complete and all(
            rows.isin(frame.index).all() and wanted.isin(frame.columns).all() for frame in own.values()
        )
        theirs = {} if covered else self._ask(list(wanted), window, ask)
        if panel == "ohlcv":
            blank = pd.DataFrame(index=self._sessions, columns=sorted(self._symbols), dtype="float64")
            own = {**dict.fromkeys(theirs, blank), **own}
        return {
            name: _above(own.get(name), theirs.get(name), rows, wanted)
            for name in dict.fromkeys([*theirs, *own])
        }

    def _ask(self, wanted: list[str], window: tuple[pd.Timestamp, pd.Timestamp], ask: _Ask) -> Panel:
        listed = self._symbols_of_source(wanted)
        rest = [symbol for symbol in wanted if symbol in listed or symbol not in self._symbols]
        try:
            return ask(rest, *window) if rest else {}
        except NoData:
            if self._symbols.isdisjoint(wanted):
                raise
            return {}


class _DatedCommitSource(CommitSource):
    """The same over a source with lists by day; the commit's symbols are in all of them."""

    _source: Any

    def symbols_on(self, day: pd.Timestamp) -> tuple[str, ...]:
        """Codes of the source that were listed by a day, and the commit's."""
        return tuple(sorted(self._symbols.union(self._source.symbols_on(day))))

    def names_on(self, day: pd.Timestamp) -> Mapping[str, str]:
        """Name by code on a day."""
        names: Mapping[str, str] = self._source.names_on(day)
        return names


def _above(
    own: pd.DataFrame | None, theirs: pd.DataFrame | None, rows: pd.DatetimeIndex, columns: pd.Index[str]
) -> pd.DataFrame:
    """Return a frame with the cells of ``own`` where it has them, else the source's."""
    below = pd.DataFrame(dtype="float64") if theirs is None else theirs
    frame = below.reindex(index=rows, columns=columns).astype("float64")
    if own is not None:
        inside, held = rows[rows.isin(own.index)], columns.intersection(own.columns)
        frame.loc[inside, held] = own.loc[inside, held]
    return frame
