"""A source as known at a moment, which tools and nodes get instead of the source itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import TypeVar

import pandas as pd

from quantgraph.data._commit_source import CommitSource
from quantgraph.data._source import (
    DatedLists,
    MarketDataSource,
    Members,
    Panel,
    check_window,
    record_kinds_of,
    records_of,
)
from quantgraph.data.symbols._codes import symbol_list
from quantgraph.errors import BadWindow, FutureRequested, NoData, QuantGraphError, UnknownSymbol
from quantgraph.market import FeedZones, Moment
from quantgraph.state import Record, RecordKind
from quantgraph.state.frames import align_table

_REFUSALS: tuple[type[QuantGraphError], ...] = (UnknownSymbol, BadWindow, NoData)
"""Errors about the content of a source, which may name later dates."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<m>{'|'.join(_MONTHS)})(?:r?uary|ch|il|e|y|ust|t?ember|t|ober)?(?![a-z])\.?"
_DAY = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_DATES = tuple(
    re.compile(rf"(?<!\d){form}(?!\d)", re.IGNORECASE)  # "2024-01-02"
    for form in (
        r"(?P<y>\d{4})(, |[-/.])(?P<m>\d{1,2})\2(?P<d>\d{1,2})",
        r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})",
        r"(?P<y>\d{4})\s*年\s*(?P<m>\d{1,2})\s*月\s*(?P<d>\d{1,2})",
        rf"\b{_MONTH}[\s-]*{_DAY},?[\s-]*(?P<y>\d{{4}})",
        rf"{_DAY}[\s-]*{_MONTH},?[\s-]*(?P<y>\d{{4}})",
    )
)

T = TypeVar("T")


class AsOfSource:
    """A source as known at a moment; itself a :class:`~quantgraph.data.MarketDataSource`.

    No answer holds a row of a later session, and in the row of the moment's own session fields not yet known
    in its phase are NaN (:meth:`.Moment.knows`; the ``open`` of an index counts like a stock's). The
    end of a window is clamped to the moment. An error of the source that names a later date is replaced by
    one that does not.

    Lists are of the moment's day if the source is a :class:`.DatedLists`. If it is not, ``symbols()``
    may hold later listings and ``names()`` later names, including marks like ST. Remarks about the whole
    source (``notes``, the ``attrs`` of frames) are dropped. ``name`` is kept: the user's path may hold dates.

    Parameters
    ----------
    source
        Any source. One that is as of an earlier moment stays at that moment.
    moment
        Last moment whose data is known.
    """

    feed_zones = FeedZones.EXCHANGE_TIME  # what the source declares was heeded

    def __init__(self, source: MarketDataSource, moment: Moment) -> None:
        self._source: MarketDataSource = source
        self.moment: Moment = moment
        if isinstance(source, AsOfSource):
            self._source = source._source  # noqa: SLF001 - same class
            self.moment = min(source.moment, moment)

    def __repr__(self) -> str:
        return f"AsOfSource({type(self._source).__name__} at {self.moment})"  # it may tell what is later

    @property
    def name(self) -> str:
        """Same as the source's."""
        return self._source.name

    @property
    def synthetic(self) -> bool:
        """Same as the source's."""
        return self._source.synthetic

    def sessions(self) -> pd.DatetimeIndex:
        """All sessions up to the moment's, ascending.

        Raises
        ------
        NoData
            If there is no session.
        """
        sessions = self._source.sessions()
        known = sessions[sessions <= self.moment.session]
        if known.empty:
            raise NoData(f"{self.name} has no session up to {self.moment.session:%Y-%m-%d}")
        return known

    def sessions_of(self, symbols: Sequence[str]) -> pd.DatetimeIndex:
        """Sessions up to the moment's of some symbols, which differ below a :class:`.CommitSource` alone."""
        if not isinstance(self._source, CommitSource):
            return self.sessions()
        sessions = self._source.sessions_of(symbols)
        return sessions[sessions <= self.moment.session]

    def invents(self, symbols: Sequence[str]) -> bool:
        """Whether data of some symbols are synthetic; data of a :class:`.CommitSource`'s commit are not."""
        covered = isinstance(self._source, CommitSource) and self._source.covers(symbols)
        return self.synthetic and not covered

    def symbols(self) -> tuple[str, ...]:
        """All codes listed by the moment, ascending."""
        if isinstance(self._source, DatedLists):
            return self._source.symbols_on(self.moment.session)
        return self._source.symbols()

    def names(self) -> Mapping[str, str]:
        """Name by code at the moment."""
        if isinstance(self._source, DatedLists):
            return self._source.names_on(self.moment.session)
        return self._source.names()

    def members(self, index_code: str, on: pd.Timestamp) -> Members:
        """Members of an index on a day, at the latest the moment's.

        If every list was published later, it is the earliest one with ``point_in_time=False``: the only
        answer from after the moment.
        """
        day = min(on, self.moment.session)
        return self._answer(f"members of {index_code}", lambda: self._source.members(index_code, day))

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> Panel:
        """Daily bars up to the moment.

        Raises
        ------
        FutureRequested
            If the whole window is later.
        """
        last = self._last(start, end)
        self._check_known(symbols)
        what = _window("bars", symbols, start, last)
        frames = self._answer(what, lambda: self._source.bars(symbols, start, last))
        return self._cut("ohlcv", frames, what)

    def indicators(
        self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp, fields: Sequence[str] = ()
    ) -> Panel:
        """Daily indicators up to the moment; raises as :meth:`bars`."""
        last = self._last(start, end)
        self._check_known(symbols)
        what = _window("indicators", symbols, start, last)
        frames = self._answer(what, lambda: self._source.indicators(symbols, start, last, fields))
        return self._cut("indicators", frames, what)

    def index_bars(self, index_code: str, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        """Daily levels of an index up to the moment; raises as :meth:`bars`."""
        last = self._last(start, end)
        what = _window("level", [index_code], start, last)
        levels = self._answer(what, lambda: self._source.index_bars(index_code, start, last))
        fields = {str(field): levels[[field]] for field in levels.columns}
        return pd.DataFrame({name: cut[name] for name, cut in self._cut("index", fields, what).items()})

    @property
    def record_kinds(self) -> tuple[RecordKind, ...]:
        """Same as the source's; empty if it has no records."""
        return record_kinds_of(self._source)

    def records(
        self, kinds: Sequence[RecordKind], symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp
    ) -> tuple[Record, ...]:
        """Records that were known at the moment; raises as :meth:`bars`."""
        last = self._last(start, end)
        what = _window("records", symbols, start, last)
        found = self._answer(what, lambda: records_of(self._source, kinds, symbols, start, last))
        return tuple(
            record
            for record in found
            if record.known is not None and self.moment.knows_published(record.known)
        )

    def _last(self, start: pd.Timestamp, end: pd.Timestamp) -> pd.Timestamp:
        check_window(start, end)
        last = self.moment.session
        if start > last:
            raise FutureRequested(
                f"start={start:%Y-%m-%d} is after {last:%Y-%m-%d}, the last session that is known",
                start=start,
            )
        return min(end, last)

    def _check_known(self, symbols: Sequence[str]) -> None:
        """Raise ``UnknownSymbol`` for codes listed later, as for codes that do not exist."""
        if not isinstance(self._source, DatedLists):
            return
        known = self.symbols()
        unknown = sorted(set(symbol_list(symbols)).difference(known))
        if unknown:
            raise UnknownSymbol(
                f"{self.name} has no {', '.join(unknown)}; it has {len(known)} symbols, for example "
                f"{known[0] if known else 'none'}",
                symbols=tuple(unknown),
            )

    def _answer(self, what: str, request: Callable[[], T]) -> T:
        """Answer of the source; an error that names a later date is replaced."""
        try:
            return request()
        except _REFUSALS as error:
            text = f"{error.message} {error.data}".replace(self.name, "")
            if not any(day > self.moment.session.date() for day in _dates(text)):
                raise
            kind = next(kind for kind in _REFUSALS if isinstance(error, kind))
        raise kind(self._no_data(what))  # outside of except: without the source's error as context

    def _cut(self, panel: str, frames: Panel, what: str) -> Panel:
        known = {name: align_table(panel, name, frame, self.moment) for name, frame in frames.items()}
        if all(cut.isna().to_numpy().all() for cut in known.values()):
            raise NoData(self._no_data(what))
        return known

    def _no_data(self, what: str) -> str:
        sessions = self.sessions()
        return (
            f"{self.name} has no {what}; its sessions run from {sessions[0]:%Y-%m-%d} to "
            f"{sessions[-1]:%Y-%m-%d}"
        )


def _window(what: str, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> str:
    shown = ", ".join(symbols[:5]) + (" ..." if len(symbols) > 5 else "")
    return f"{what} of {shown or 'no symbol'} from {start:%Y-%m-%d} to {end:%Y-%m-%d}"


def _dates(text: str) -> list[date]:
    found = []
    for parts in (match.groupdict() for form in _DATES for match in form.finditer(text)):
        month = parts["m"].lower()
        try:
            number = _MONTHS.index(month) + 1 if month in _MONTHS else int(month)
            found.append(date(int(parts["y"]), number, int(parts["d"])))
        except ValueError:  # eight digits that are not a date
            continue
    return found
