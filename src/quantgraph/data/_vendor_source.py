"""What the sources of vendors share: checked requests, sessions that outlive the network, notes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import pandas as pd

from quantgraph._util.texts import Language, Note
from quantgraph.data._source import Panel, check_window, long_to_panel, session_index
from quantgraph.data._vendor_store import VendorStore
from quantgraph.data._vendor_tables import Endpoint
from quantgraph.data.symbols._codes import symbol_list
from quantgraph.errors import (
    BadOption,
    BadWindow,
    NoData,
    NotConfigured,
    RateLimited,
    SourceUnavailable,
    UnknownSymbol,
)

_SHOWN = 5


class VendorSource(ABC):
    """Requests of a vendor's source, answered from a store. Thread-safe.

    A subclass sets ``name``, the form of a code with an example, the first session, what the numbers are, and
    the sessions of a window.
    """

    synthetic: Final = False  # the numbers are the market's
    local: bool = False  # the vendor has the list of codes
    name: ClassVar[str]
    first_session: ClassVar[pd.Timestamp]
    stock_code: ClassVar[re.Pattern[str]]
    example: ClassVar[str]
    read_as: ClassVar[Note]

    def __init__(self, store: VendorStore) -> None:
        self._store = store

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about left out or old data with the reason, oldest first, each once."""
        return self._store.notes

    def provenance(self, language: Language) -> tuple[str, ...]:
        """What the numbers are: tables, units, adjustment."""
        return (self.read_as.text(language),)

    def opens(self) -> str:
        """The vendor's name."""
        return self.name

    def fingerprint(self) -> Mapping[str, str]:
        """The class and the vendor: what it answered is in the commits of a run."""
        return {"source": f"{type(self).__qualname__} {self.name}"}

    def sessions(self) -> pd.DatetimeIndex:
        """All sessions up to the last one whose data is ready; without the network those in the cache."""
        try:
            return self._sessions_between(*self._all_days())
        except (SourceUnavailable, NotConfigured, RateLimited) as error:
            cached = self._cached_sessions()
            if not len(cached):
                raise
            window = f"{cached[0]:%Y-%m-%d} to {cached[-1]:%Y-%m-%d}"
            self._store.note(f"sessions are {window} only ({error.line})")
            return cached

    @abstractmethod
    def _sessions_between(self, first: pd.Timestamp, last: pd.Timestamp) -> pd.DatetimeIndex:
        """Sessions of a window."""

    def _cached_sessions(self) -> pd.DatetimeIndex:
        """Sessions that need no request; none here."""
        return session_index([])

    def _all_days(self) -> tuple[pd.Timestamp, pd.Timestamp]:
        return self.first_session, self._store.last_ready_day

    def _request(
        self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp
    ) -> tuple[tuple[str, ...], pd.DatetimeIndex]:
        """Codes, ascending, and sessions of a request."""
        codes = tuple(sorted(set(symbol_list(symbols))))
        if not codes:
            raise BadOption(f"symbols is empty; give at least one code such as {self.example}")
        malformed = [code for code in codes if not self.stock_code.fullmatch(code)]
        if malformed:
            raise UnknownSymbol(
                f"{', '.join(malformed)}: not a stock code of {self.name}; valid is for example "
                f"{self.example}",
                symbols=malformed,
            )
        return codes, self._window_sessions(start, end)

    def _window_sessions(self, start: pd.Timestamp, end: pd.Timestamp) -> pd.DatetimeIndex:
        check_window(start, end)
        first, last = self._all_days()
        first, last = max(start, first), min(end, last)
        sessions = self._sessions_between(first, last) if first <= last else session_index([])
        if not len(sessions):
            raise BadWindow(
                f"no session with data in {start:%Y-%m-%d} to {end:%Y-%m-%d}; the newest data is of "
                f"{self._store.last_ready_day:%Y-%m-%d} or before",
                start=start,
                end=end,
            )
        return sessions

    def _panel(
        self,
        rows: pd.DataFrame,
        endpoint: Endpoint,
        fields: Sequence[str],
        sessions: pd.DatetimeIndex,
        codes: Sequence[str],
    ) -> Panel:
        """Panel of rows of one table; a row that is there twice is the vendor's fault."""
        try:
            return long_to_panel(rows, fields, sessions, codes)
        except ValueError as error:
            raise SourceUnavailable(
                f"{self.name} {endpoint.name}: {error}", endpoint=endpoint.name
            ) from error

    def _no_data(self, what: str, codes: Sequence[str], sessions: pd.DatetimeIndex) -> NoData:
        more = f" and {len(codes) - _SHOWN} more" if len(codes) > _SHOWN else ""
        return NoData(
            f"{self.name} has no {what} of {', '.join(codes[:_SHOWN])}{more} in {sessions[0]:%Y-%m-%d} to "
            f"{sessions[-1]:%Y-%m-%d}",
            symbols=list(codes),
        )
