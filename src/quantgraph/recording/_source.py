"""A source whose answers are recorded in the run: asked once, the same on resume and replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.data import DatedLists, MarketDataSource, Members, Panel, record_kinds_of, records_of
from quantgraph.errors import RunDiverged
from quantgraph.market import FeedZones
from quantgraph.recording._entries import Key
from quantgraph.recording.scope._scope import current_scope, replaying
from quantgraph.state import Record, RecordKind

T = TypeVar("T")


def unrecorded_source(source: MarketDataSource) -> MarketDataSource:
    """Return the source inside a :class:`RecordedSource`, or the source itself."""
    return source.inner if isinstance(source, RecordedSource) else source


def recorded_source(source: MarketDataSource) -> MarketDataSource:
    """Wrap a source as :class:`RecordedSource`, with its lists by day if it has them, unless it is one."""
    if isinstance(source, RecordedSource):
        return source
    return _RecordedLists(source) if isinstance(source, DatedLists) else RecordedSource(source)


class RecordedSource:
    """A source that gives a run the same answers each time, whatever the vendor answers meanwhile.

    Answers of all methods but :meth:`bars`, :meth:`indicators` and :meth:`records` are recorded for each
    request of a thread, and cached while the recording is open; so is a ``QuantGraphError``. Bars, indicators
    and records become commits, which the caller records; a replay never asks for them. Outside of a run the
    source is used directly.
    """

    feed_zones = FeedZones.EXCHANGE_TIME  # what the source declares was heeded

    def __init__(self, source: MarketDataSource) -> None:
        self.inner = source

    def __repr__(self) -> str:
        return f"RecordedSource({self.inner!r})"  # its name would be a request

    @property
    def name(self) -> str:
        """The source's value."""
        return self._recorded("name", (), lambda: str(self.inner.name), str, str)

    @property
    def synthetic(self) -> bool:
        """The source's value."""
        return self._recorded("synthetic", (), lambda: bool(self.inner.synthetic), bool, bool)

    def sessions(self) -> pd.DatetimeIndex:
        """All sessions of the source when it was first asked."""
        return self._recorded("sessions", (), self.inner.sessions, _index_json, _index_of)

    def symbols(self) -> tuple[str, ...]:
        """All codes, ascending."""
        return self._recorded("symbols", (), self.inner.symbols, list, tuple)

    def names(self) -> Mapping[str, str]:
        """Name by code, in the source's order."""
        return self._recorded("names", (), self.inner.names, _pairs, _names_of)

    def members(self, index_code: str, on: pd.Timestamp) -> Members:
        """Members of an index on a day."""
        ask = partial(self.inner.members, index_code, on)
        return self._recorded("members", (index_code, on.isoformat()), ask, _members_json, _members_of)

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> Panel:
        """Bars of the source, not recorded, see :class:`RecordedSource`."""
        self._check_live("bars")
        return self.inner.bars(symbols, start, end)

    def indicators(
        self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp, fields: Sequence[str] = ()
    ) -> Panel:
        """Indicators of the source; raises as :meth:`bars`."""
        self._check_live("indicators")
        return self.inner.indicators(symbols, start, end, fields)

    @property
    def record_kinds(self) -> tuple[RecordKind, ...]:
        """The source's kinds of records; none if it is not a :class:`.DatedRecords`."""
        return self._recorded("record_kinds", (), lambda: record_kinds_of(self.inner), list, tuple)

    def records(
        self, kinds: Sequence[RecordKind], symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp
    ) -> tuple[Record, ...]:
        """Records of the source, not recorded; raises as :meth:`bars`."""
        self._check_live("records")
        return records_of(self.inner, kinds, symbols, start, end)

    def index_bars(self, index_code: str, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        """Daily levels of an index."""
        ask = partial(self.inner.index_bars, index_code, start, end)
        levels = self._recorded(
            "index_bars", (index_code, start.isoformat(), end.isoformat()), ask, _frame_json, _frame_of
        )
        return levels.copy(deep=False)

    def _recorded(
        self,
        method: str,
        arguments: tuple[str, ...],
        ask: Callable[[], T],
        write: Callable[[T], Any],
        read: Callable[[Any], T],
    ) -> T:
        scope = current_scope()
        if scope is None:
            return ask()
        request = canonical_json({"method": method, "arguments": arguments})
        memory, place = scope.recording.memory, (scope.request, request)
        answer: T | None = memory.get(place)
        if answer is None:
            key = Key("source", scope.request, "source", content_hash(request))
            value = scope.recording.once(key, request, lambda: write(ask()), session=scope.session)
            answer = memory[place] = read(value)
        return answer

    @staticmethod
    def _check_live(what: str) -> None:
        if replaying():
            raise RunDiverged(f"a replay takes {what} from the run's commits and must not fetch them")


class _RecordedLists(RecordedSource):
    """A recorded source with lists by day."""

    inner: Any

    def symbols_on(self, day: pd.Timestamp) -> tuple[str, ...]:
        """Codes listed on or before a day."""
        ask = partial(self.inner.symbols_on, day)
        return self._recorded("symbols_on", (day.isoformat(),), ask, list, tuple)

    def names_on(self, day: pd.Timestamp) -> Mapping[str, str]:
        """Name by code as on a day."""
        ask = partial(self.inner.names_on, day)
        return self._recorded("names_on", (day.isoformat(),), ask, _pairs, _names_of)


def _pairs(names: Mapping[str, Any]) -> list[list[Any]]:
    """Return pairs, since a JSON object would lose the order."""
    return [[name, value] for name, value in names.items()]


def _names_of(value: list[list[str]]) -> Mapping[str, str]:
    return MappingProxyType(dict(value))


def _index_json(index: pd.DatetimeIndex) -> dict[str, Any]:
    days = np.datetime_as_string(index.to_numpy(), unit="D").tolist()
    return {"name": index.name, "unit": index.unit, "days": days}


def _index_of(value: Mapping[str, Any]) -> pd.DatetimeIndex:
    days = np.array(value["days"], dtype="datetime64[D]")
    return pd.DatetimeIndex(days.astype(f"datetime64[{value['unit']}]"), name=value["name"])


def _members_json(members: Members) -> dict[str, Any]:
    return {
        "index_code": members.index_code,
        "symbols": list(members.symbols),
        "listed_on": members.listed_on.isoformat(),
        "point_in_time": members.point_in_time,
    }


def _members_of(value: Mapping[str, Any]) -> Members:
    return Members(
        index_code=value["index_code"],
        symbols=tuple(value["symbols"]),
        listed_on=pd.Timestamp(value["listed_on"]),
        point_in_time=value["point_in_time"],
    )


def _frame_json(frame: pd.DataFrame) -> dict[str, Any]:
    columns = {
        str(name): [None if np.isnan(value) else value for value in frame[name].tolist()] for name in frame
    }
    return {"index": _index_json(pd.DatetimeIndex(frame.index)), "columns": _pairs(columns)}


def _frame_of(value: Mapping[str, Any]) -> pd.DataFrame:
    columns = {name: np.array(values, dtype=float) for name, values in value["columns"]}
    return pd.DataFrame(columns, index=_index_of(value["index"]))
