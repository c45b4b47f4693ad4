"""A market held in memory, and the base class of sources that answer from it."""

from __future__ import annotations

import copy
import re
import threading
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph._util.texts import Language, Note
from quantgraph.data._checked_tables import action_records
from quantgraph.data._source import (
    BAR_FIELDS,
    EVENT_FIELDS,
    INDICATOR_FIELDS,
    LEVEL_FIELDS,
    STATUS_FIELDS,
    Members,
    Panel,
    check_window,
)
from quantgraph.data.symbols._codes import symbol_list
from quantgraph.errors import BadFile, NoData, QuantGraphError, UnknownField, UnknownSymbol
from quantgraph.market import FeedZones
from quantgraph.market.rules import find_board
from quantgraph.state import RECORD_KINDS, Record, RecordKind
from quantgraph.state.frames import check_record_kind

_SHOWN = 5
_ALWAYS = pd.Timestamp("1970-01-01")
"""First day of a name that has none."""
_CHINESE = re.compile("[\u4e00-\u9fff]")  # "茅台"
_STATUS = re.compile(r"^(?:退市|S?\*?ST|PT|XD|XR|DR|[NCGS](?=[\u4e00-\u9fff]|\*?ST))\s*|\s*\(退\)$|(?<=.)退$")
"""Marks of a status in a Chinese name: special treatment, a day without dividend, a new or leaving share."""
_WITHOUT_TRADING = frozenset({*EVENT_FIELDS, *STATUS_FIELDS})

DatedName = tuple[pd.Timestamp, str]
"""First day of a name, and the name."""


@dataclass(frozen=True, kw_only=True)
class MemberList:
    """One published list of an index's members, symbols ascending."""

    listed_on: pd.Timestamp
    symbols: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ReadAs:
    """What was taken for what in files that were read alike."""

    files: str
    """Their names; of many the first."""
    parts: tuple[Note, ...]

    def text(self, language: Language) -> str:
        """All of it in one line."""
        colon, semicolon = ("：", "；") if language == "zh" else (": ", "; ")
        return self.files + colon + semicolon.join(part.text(language) for part in self.parts)


@dataclass(frozen=True, kw_only=True, eq=False)
class MarketTables:
    """All data of a source: panels over all sessions and symbols, index levels, member lists, names.

    ``bars`` holds at least ``open``; both panels share one index and one set of columns. Member lists are
    ascending in ``listed_on``. ``names`` are the latest ones; ``dated_names`` holds the first day and the
    text of each of a code's names, ascending, where the days are known.
    """

    bars: Panel
    indicators: Panel
    levels: Mapping[str, pd.DataFrame]
    lists: Mapping[str, tuple[MemberList, ...]]
    names: Mapping[str, str]
    dated_names: Mapping[str, tuple[DatedName, ...]] = field(default_factory=dict)
    read_as: tuple[ReadAs, ...] = ()
    notes: tuple[Note, ...] = ()
    records: tuple[Record, ...] = ()
    withheld: Mapping[str, BadFile] = field(default_factory=dict)
    """Fields of bars in a unit that nothing shows, with the error for who needs them; they are not there."""

    @property
    def sessions(self) -> pd.DatetimeIndex:
        """Index of every frame."""
        return pd.DatetimeIndex(self.bars["open"].index)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Columns of every frame."""
        return tuple(self.bars["open"].columns)

    def of_market(self, code: Literal["cn", "us"]) -> MarketTables:
        """The symbols of one market and its sessions; itself where there are none of the other."""
        boards = [find_board(symbol) for symbol in self.symbols]
        of_it = np.array([board is None or (board == "us") == (code == "us") for board in boards])
        if of_it.all() or not of_it.any():
            return self
        columns = np.flatnonzero(of_it)
        rows = np.flatnonzero(self._traded[:, columns].any(axis=1))
        bars, indicators = (
            {name: frame.iloc[rows, columns] for name, frame in panel.items()}
            for panel in (self.bars, self.indicators)
        )
        symbols = {*bars["open"].columns}
        records = tuple(record for record in self.records if record.symbol in {None, *symbols})
        return replace(self, bars=bars, indicators=indicators, records=records)

    @property
    def _traded(self) -> NDArray[np.bool_]:
        return (self.bars["open"].notna() | self.bars["close"].notna()).to_numpy()

    @cached_property
    def first_rows(self) -> Mapping[str, int]:
        """Row of each symbol's first bar; a symbol without bars is left out."""
        traded = self._traded
        rows = traded.argmax(axis=0)
        return {
            symbol: int(row)
            for symbol, row, column in zip(self.symbols, rows, traded.T, strict=True)
            if column[row]
        }


class FrameSource(ABC):
    """A :class:`~quantgraph.data.MarketDataSource` whose whole market fits in memory.

    A subclass defines ``name``, ``synthetic`` and ``_load``. The market is loaded once, on the first request
    of any thread; every answer is a copy.
    """

    feed_zones = FeedZones.EXCHANGE_TIME
    local: bool = True  # the codes are in memory, or in files

    def __init__(self) -> None:
        self._market: MarketTables | None = None
        self._loading = threading.Lock()  # guards _market

    def __repr__(self) -> str:
        parts, market = [repr(self.name), *(["synthetic"] if self.synthetic else [])], self._market
        if market is not None:  # nothing is loaded for it
            days = market.sessions
            parts += [f"{len(market.symbols)} symbols", f"{days[0]:%Y-%m-%d} to {days[-1]:%Y-%m-%d}"]
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    @abstractmethod
    def name(self) -> str:
        """Short name for display."""

    @property
    @abstractmethod
    def synthetic(self) -> bool:
        """True when the data is invented."""

    @abstractmethod
    def _load(self) -> MarketTables:
        """Read everything. Called once."""

    @property
    def market(self) -> MarketTables:
        """The loaded market: shared, must not be changed."""
        with self._loading:
            if self._market is None:
                self._market = self._load()
            return self._market

    def of_market(self, code: Literal["cn", "us"]) -> FrameSource:
        """The source with the symbols of one market: days of another exchange would be gaps in its data.

        One that cannot be read is returned as it is: its reader fails with a reason.
        """
        try:
            market, narrowed = self.market.of_market(code), copy.copy(self)
        except QuantGraphError:
            return self
        vars(narrowed).update(_market=market)
        return self if market is self.market else narrowed

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about the data, in English: files left out, values chosen."""
        return tuple(note.en for note in self.market.notes)

    def provenance(self, language: Language) -> tuple[str, ...]:
        """What the numbers are: which columns were taken for what, in which units, what was left out."""
        read, notes = self.market.read_as, self.market.notes
        return (*(each.text(language) for each in read), *(note.text(language) for note in notes))

    def opens(self) -> str | None:
        """None: an object must be passed again."""
        return None

    def fingerprint(self) -> Mapping[str, str]:
        """The class and the name."""
        return {"source": f"{type(self).__qualname__} {self.name}"}

    def sessions(self) -> pd.DatetimeIndex:
        """All sessions, ascending."""
        return self.market.sessions

    def symbols(self) -> tuple[str, ...]:
        """All codes, ascending."""
        return self.market.symbols

    def names(self) -> Mapping[str, str]:
        """Name by code, read-only; of a renamed stock the latest name."""
        return MappingProxyType(dict(self.market.names))

    def symbols_on(self, day: pd.Timestamp) -> tuple[str, ...]:
        """Codes whose first bar is not later than a day, ascending."""
        rows = int(self.market.sessions.searchsorted(day, side="right"))
        return tuple(symbol for symbol, row in self.market.first_rows.items() if row < rows)

    def names_on(self, day: pd.Timestamp) -> Mapping[str, str]:
        """Name by code on a day, of the codes listed by then; a name without a first day always holds."""
        market = self.market
        later = set(market.symbols).difference(self.symbols_on(day))
        names = {}
        for code, name in market.names.items():
            dated = market.dated_names.get(code)
            held = [name] if dated is None else [old for start, old in dated if start <= day]
            if held and code not in later:
                names[code] = held[-1]
        return names

    def members(self, index_code: str, on: pd.Timestamp) -> Members:
        """Newest list published on or before ``on``, else the earliest later one (``point_in_time=False``).

        Raises
        ------
        UnknownSymbol
            If the index has no list.
        """
        lists = self.market.lists.get(index_code)
        if not lists:
            available = ", ".join(sorted(self.market.lists)) or "none"
            raise UnknownSymbol(
                f"{self.name} has no member list of {index_code}; indices with members: {available}",
                symbols=(index_code,),
            )
        published = [each for each in lists if each.listed_on <= on]
        chosen = published[-1] if published else lists[0]
        return Members(
            index_code=index_code,
            symbols=chosen.symbols,
            listed_on=chosen.listed_on,
            point_in_time=bool(published),
        )

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> Panel:
        """Daily bars: the first seven of ``BAR_FIELDS`` but those withheld, the others when there are some.

        Raises
        ------
        BadWindow
            If the window is reversed.
        UnknownSymbol
            If a symbol is unknown; the error names all of them.
        NoData
            If no session of the window has a bar of any of the symbols.
        """
        return self._window(self.market.bars, symbols, start, end, what="bars")

    def indicators(
        self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp, fields: Sequence[str] = ()
    ) -> Panel:
        """Daily indicators: those in ``fields``, or all that the source has.

        Raises
        ------
        UnknownField
            If a field is not one of ``INDICATOR_FIELDS``.
        NoData
            If the source lacks a field, or has no row for the request.
        BadWindow, UnknownSymbol
            As for :meth:`bars`.
        """
        panel = self.market.indicators
        unknown = [field for field in fields if field not in INDICATOR_FIELDS]
        if unknown:
            raise UnknownField(
                f"no such indicator: {', '.join(unknown)}; valid: {', '.join(INDICATOR_FIELDS)}",
                fields=tuple(unknown),
            )
        missing = [field for field in fields or INDICATOR_FIELDS[:1] if field not in panel]
        if not panel or (fields and missing):
            raise NoData(
                f"{self.name} has no daily indicator {', '.join(missing)}; "
                f"it has: {', '.join(panel) or 'none'}",
                fields=tuple(missing),
                available=tuple(panel),
            )
        chosen = {field: panel[field] for field in INDICATOR_FIELDS if field in (fields or panel)}
        return self._window(chosen, symbols, start, end, what="indicators")

    def index_bars(self, index_code: str, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        """Daily levels of an index, or of a symbol with bars: a fund can be the benchmark.

        Raises
        ------
        BadWindow, UnknownSymbol, NoData
            As for :meth:`bars`.
        """
        check_window(start, end)
        market = self.market
        if index_code in market.levels:
            levels = market.levels[index_code]
        elif index_code in market.symbols:
            levels = pd.DataFrame({field: market.bars[field][index_code] for field in LEVEL_FIELDS})
        else:
            available = ", ".join(sorted(market.levels)) or "none"
            raise UnknownSymbol(
                f"{self.name} has no levels of {index_code}; indices with levels: {available}",
                symbols=(index_code,),
            )
        cut = levels.loc[start:end].dropna(how="all")
        if cut.empty:
            raise NoData(
                f"{self.name} has no level of {index_code} from {start:%Y-%m-%d} to {end:%Y-%m-%d}; "
                f"it has {levels.index[0]:%Y-%m-%d} to {levels.index[-1]:%Y-%m-%d}"
            )
        return cut.copy()

    @property
    def record_kinds(self) -> tuple[RecordKind, ...]:
        """Kinds of records that there are."""
        found = {record.kind for record in self._all_records}
        return tuple(kind for kind in RECORD_KINDS if kind in found)

    def records(
        self, kinds: Sequence[RecordKind], symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp
    ) -> tuple[Record, ...]:
        """Records of these kinds about these symbols or about none, and those that never become known.

        Raises
        ------
        BadOption
            If there is no such kind.
        BadWindow
            If the window is reversed.
        """
        check_window(start, end)
        for kind in kinds:
            check_record_kind(kind)
        wanted, about = frozenset(kinds), frozenset(("", *symbol_list(symbols)))
        first, last = start.date(), end.date()
        return tuple(
            record
            for record in self._all_records
            if record.kind in wanted
            and record.symbol in about
            and (record.known is None or first <= _day(record.known) <= last)
        )

    def _records(self) -> tuple[Record, ...]:
        """The records that the source has, beside the dividends and splits of its bars."""
        return self.market.records

    @cached_property
    def _all_records(self) -> tuple[Record, ...]:
        return (*self._records(), *action_records(self.market.bars), *_name_records(self.market))

    def _window(
        self, panel: Panel, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp, *, what: str
    ) -> Panel:
        check_window(start, end)
        codes = self._check_symbols(symbols)
        # All frames have the same axes, and pandas takes a millisecond to find these rows and columns in one.
        rows = self.market.sessions.slice_indexer(start, end)
        columns = pd.Index(self.market.symbols).get_indexer(pd.Index(codes))
        cut = {field: frame.iloc[rows, columns] for field, frame in panel.items()}
        traded = (frame for field, frame in cut.items() if field not in _WITHOUT_TRADING)
        if all(frame.isna().to_numpy().all() for frame in traded):
            sessions = self.market.sessions
            shown = ", ".join(codes[:_SHOWN]) + (" ..." if len(codes) > _SHOWN else "")
            raise NoData(
                f"{self.name} has no {what} of {shown or 'no symbol'} from {start:%Y-%m-%d} to "
                f"{end:%Y-%m-%d}; its sessions run from {sessions[0]:%Y-%m-%d} to {sessions[-1]:%Y-%m-%d}",
                symbols=tuple(codes),
            )
        return cut

    def _check_symbols(self, symbols: str | Sequence[str]) -> list[str]:
        available, wanted = set(self.market.symbols), set(symbol_list(symbols))
        unknown = sorted(wanted - available)
        if unknown:
            raise UnknownSymbol(
                f"{self.name} has no {', '.join(unknown)}; it has {len(available)} symbols, "
                f"for example {self.market.symbols[0]}",
                symbols=tuple(unknown),
            )
        return sorted(wanted)


def _day(known: date) -> date:
    return known.date() if isinstance(known, datetime) else known


def complete_bars(panel: Panel, absent: Collection[str] = ()) -> Panel:
    """Order a panel by ``BAR_FIELDS``; its first seven fields but the absent ones are there, NaN if unknown.

    Who reads an absent field gets an error, where a comparison with NaN would be a rule that never holds.
    """
    blank = next(iter(panel.values())) * float("nan")
    return {
        field: panel.get(field, blank)
        for field in BAR_FIELDS
        if field not in absent and (field in panel or field in BAR_FIELDS[:7])
    }


def _name_records(market: MarketTables) -> Iterator[Record]:
    """The names of stocks, each known from its first day on.

    One without a first day always holds, without the marks of a status, which may have come later.
    """
    for code in market.symbols:
        undated = ((_ALWAYS, _without_status(market.names[code])),) if code in market.names else ()
        for start, name in market.dated_names.get(code, undated):
            yield Record("name", start.date(), code, {"name": name})


def _without_status(name: str) -> str:
    """A name without the marks of a status.

    >>> [_without_status(name) for name in ("*ST康美", "退市海润", "大通退(退)", "XD*ST华", "STARBUCKS")]
    ['康美', '海润', '大通', '华', 'STARBUCKS']
    """
    plain = unicodedata.normalize("NFKC", name).strip()
    if not _CHINESE.search(plain):
        return re.sub(r"^S?\*ST\s*", "", plain) or plain  # "*ST"
    before = ""
    while plain != before:
        before, plain = plain, _STATUS.sub("", plain) or plain
    return plain
