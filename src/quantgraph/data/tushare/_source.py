"""A-share data from tushare (https://tushare.pro): bars, indicators, and records with their moments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data._checked_tables import (
    CheckedTable,
    action_records,
    events_from_table,
    events_on_sessions,
)
from quantgraph.data._source import (
    BAR_FIELDS,
    EVENT_FIELDS,
    INDICATOR_FIELDS,
    LEVEL_FIELDS,
    Panel,
    check_window,
    long_to_panel,
    session_index,
)
from quantgraph.data._vendor_store import ParquetCache, VendorStore, cache_folder, shanghai_now
from quantgraph.data.symbols._codes import is_index_code, symbol_list
from quantgraph.data.tushare._client import ENDPOINTS, TushareClient
from quantgraph.data.tushare._tables import TushareTables
from quantgraph.errors import PermissionDenied, QuantGraphError, SourceUnavailable, UnknownField
from quantgraph.market import FeedZones
from quantgraph.settings import load_settings
from quantgraph.state import Record, RecordKind
from quantgraph.state.frames import check_record_kind

RECORD_ENDPOINTS: dict[RecordKind, str] = {"filing": "income", "news": "anns_d", "action": "dividend"}
"""Endpoint of each kind of records. ``news`` and ``major_news`` name no symbols, so they cannot serve."""

_TIME = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}")  # "2024-01-02 15:00:00"
_NUMBERS = {
    "revenues": "total_revenue",
    "net_income_loss": "n_income_attr_p",
    "basic_earnings_per_share": "basic_eps",
    "diluted_earnings_per_share": "diluted_eps",
}


def records_of_rows(kind: RecordKind, rows: pd.DataFrame) -> list[Record]:
    """Records of the rows of :data:`RECORD_ENDPOINTS`.

    An announcement is known at ``rec_time``, else at the end of ``ann_date``; a statement at the end of
    the later one of ``ann_date`` and ``f_ann_date``. An action is known as by :func:`.action_records`.
    """
    if kind == "action":
        return [record for frame in events_from_table(rows, "tushare dividend") for record in _actions(frame)]
    made = (_MAKERS[kind](row) for row in rows.to_dict("records"))
    return [record for record in made if record is not None]


def _announcement(row: dict[Any, Any]) -> Record:
    body = {"title": _text(row["title"]), "description": "", "publisher": "", "id": _text(row["url"])}
    return Record("news", _date_of(_text(row["rec_time"])) or row["ann_date"].date(), row["ts_code"], body)


def _date_of(text: str) -> date | None:
    if not _TIME.fullmatch(text):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.date() if at.time() == datetime.min.time() else at  # midnight stands for a day alone


def _statement(row: dict[Any, Any]) -> Record | None:
    end = row["end_date"]
    announced = max(day for day in (row["ann_date"], row["f_ann_date"]) if not pd.isna(day))
    if pd.isna(end) or announced <= end:
        return None
    numbers = {name: row[column] for name, column in _NUMBERS.items()}
    body = {
        "fiscal_year": end.year,
        "fiscal_period": f"Q{end.quarter}",
        "start_date": f"{end.to_period('Q').start_time:%Y-%m-%d}",
        "end_date": f"{end:%Y-%m-%d}",
        **{name: None if pd.isna(number) else float(number) for name, number in numbers.items()},
        "basic_average_shares": None,
        "diluted_average_shares": None,
    }
    return Record("filing", announced.date(), row["ts_code"], body)


def _actions(rows: pd.DataFrame) -> tuple[Record, ...]:
    panel = long_to_panel(rows, EVENT_FIELDS, session_index(rows["trade_date"]), sorted({*rows["ts_code"]}))
    return action_records(panel)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_MAKERS: dict[RecordKind, Callable[[dict[Any, Any]], Record | None]] = {
    "filing": _statement,
    "news": _announcement,
}


_STOCK_CODE = re.compile(r"[0-9A-Z]{6}\.(SH|SZ|BJ)")  # "600519.SH"
_FILED_AHEAD = pd.Timedelta(days=3)
"""What is published in the evening may bear the date of the next day."""
_OPTIONAL: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("stk_limit", ("up_limit", "down_limit")),
    ("adj_factor", ("adj_factor",)),
)


class TushareSource(TushareTables):
    """Daily A-share data of tushare, kept in a local cache.

    A :class:`~quantgraph.data.MarketDataSource`; :meth:`query` gives the vendor's own tables.
    Neither construction nor a request served from the cache needs a token or a network. Thread-safe.

    Parameters
    ----------
    token
        The vendor's token; else the environment variable ``TUSHARE_TOKEN``. It is sent to the vendor
        only.
    base_url
        Address of the endpoints; else the environment variable ``TUSHARE_URL``, else the package's own.
    cache_dir
        Folder of the cache; None is :func:`cache_folder` of the settings' ``cache_dir``.
        Rules: :mod:`quantgraph.data._vendor_store`.
    client
        A client with time and row limits of its own, in place of ``token`` and ``base_url``.
    now
        Function that returns the current time with its zone.

    Examples
    --------
    >>> TushareSource(token="secret", cache_dir=Path("cache"))
    TushareSource(cache_dir='cache')
    """

    name = "tushare"
    stock_code = _STOCK_CODE
    example = "600519.SH"
    read_as = Note(
        zh="tushare daily：未复权，vol 单位为手（100股），amount 单位为千元",
        en="tushare daily: unadjusted, vol in hands of 100 shares, amount in thousand yuan",
    )

    feed_zones = FeedZones.EXCHANGE_TIME  # a record's time is Shanghai's

    def __init__(
        self,
        token: str | None = None,
        *,
        base_url: str | None = None,
        cache_dir: Path | None = None,
        client: TushareClient | None = None,
        now: Callable[[], pd.Timestamp] = shanghai_now,
    ) -> None:
        client = client or TushareClient(token=token, base_url=base_url)
        folder = (
            cache_dir
            if cache_dir is not None
            else cache_folder(load_settings().cache_dir, self.name, client.url)
        )
        self._cache, self._cache_dir = ParquetCache(folder), cache_dir
        super().__init__(VendorStore(client, self._cache, now=now))

    def __repr__(self) -> str:
        argument = "" if self._cache_dir is None else f"cache_dir={str(self._cache_dir)!r}"
        return f"TushareSource({argument})"

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> Panel:
        """Daily bars: ``daily``, with ``stk_limit``, ``adj_factor`` and the actions of ``dividend``.

        The last three are left out, with a note, if the token may not read them or the server does not
        have them; ``stk_limit`` and ``adj_factor`` also if they have no row for the window. Bars are NaN
        where a stock was not traded. Requests are by stock or by session, whichever are fewer.
        """
        codes, sessions = self._request(symbols, start, end)
        daily = self._rows("daily", codes, sessions)
        self._check_listed(codes, daily)
        if daily.empty:
            raise self._no_data("bars", codes, sessions)
        panel = self._panel(daily, ENDPOINTS["daily"], BAR_FIELDS, sessions, codes)
        traded = panel["close"].notna()
        for endpoint, fields in _OPTIONAL:
            rows = self._optional_rows(endpoint, codes, sessions)
            if rows is None:
                continue
            if rows.empty:
                window = f"{sessions[0]:%Y-%m-%d} to {sessions[-1]:%Y-%m-%d}"
                self._store.note(f"bars of {window} come without the fields of {endpoint}: it has no rows")
                continue
            extra = self._panel(rows, ENDPOINTS[endpoint], fields, sessions, codes)
            panel.update({field: frame.where(traded) for field, frame in extra.items()})
        return panel | self._events(codes, sessions)

    def indicators(
        self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp, fields: Sequence[str] = ()
    ) -> Panel:
        """Daily indicators from ``daily_basic``; fields are :data:`INDICATOR_FIELDS`."""
        unknown = sorted(set(fields) - set(INDICATOR_FIELDS))
        if unknown:
            raise UnknownField(
                f"daily_basic has no field {', '.join(unknown)}; valid are {', '.join(INDICATOR_FIELDS)}",
                fields=unknown,
            )
        codes, sessions = self._request(symbols, start, end)
        rows = self._rows("daily_basic", codes, sessions)
        self._check_listed(codes, rows)
        if rows.empty:
            raise self._no_data("indicators", codes, sessions)
        return self._panel(rows, ENDPOINTS["daily_basic"], tuple(fields) or INDICATOR_FIELDS, sessions, codes)

    def index_bars(self, index_code: str, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        """Daily levels of an index from ``index_daily``; NaN on a session without a level."""
        sessions = self._window_sessions(start, end)
        rows = self._store.series(ENDPOINTS["index_daily"], index_code, sessions[0], sessions[-1])
        if rows.empty:
            self._check_index(index_code)
            raise self._no_data("levels", (index_code,), sessions)
        levels = self._panel(rows, ENDPOINTS["index_daily"], LEVEL_FIELDS, sessions, (index_code,))
        return pd.DataFrame({field: frame[index_code] for field, frame in levels.items()})

    @property
    def record_kinds(self) -> tuple[RecordKind, ...]:
        """Filings from ``income``, news from ``anns_d``, dividends and splits from ``dividend``."""
        return tuple(RECORD_ENDPOINTS)

    def records(
        self, kinds: Sequence[RecordKind], symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp
    ) -> tuple[Record, ...]:
        """Announcements and quarterly income statements of stocks, one request a stock and kind.

        A kind is left out, with a note, if the token may not read its endpoint or the server does not have
        it.
        """
        check_window(start, end)
        codes = [
            code
            for code in sorted(set(symbol_list(symbols)))
            if _STOCK_CODE.fullmatch(code) and not is_index_code(code)
        ]
        found: list[Record] = []
        for kind in kinds:
            check_record_kind(kind)
            if kind in RECORD_ENDPOINTS:
                found += self._records(kind, codes, start, end + _FILED_AHEAD)
        return tuple(
            record
            for record in found
            if record.instant is not None and start.date() <= record.instant.date() <= end.date()
        )

    def _records(
        self, kind: RecordKind, codes: Sequence[str], start: pd.Timestamp, end: pd.Timestamp
    ) -> list[Record]:
        endpoint, (oldest, newest) = ENDPOINTS[RECORD_ENDPOINTS[kind]], self._all_days()
        # A whole series holds what was corrected in the window, under the day of its first announcement.
        first = max(start, oldest) if endpoint.windowed else oldest
        # What is declared in the window goes ex after it.
        last = newest if kind == "action" else min(end, newest)
        found: list[Record] = []
        for code in codes if first <= last else ():
            try:
                found += records_of_rows(kind, self._store.series(endpoint, code, first, last))
            except (PermissionDenied, SourceUnavailable) as error:
                self._check_refused(error)
                self._store.note(f"there are no records of kind {kind}: {error}")
                return []
        return found

    def _optional_rows(
        self, endpoint: str, codes: tuple[str, ...], sessions: pd.DatetimeIndex
    ) -> pd.DataFrame | None:
        """Rows of an optional table; None, with a note, if the token or the server does not have it."""
        try:
            return self._rows(endpoint, codes, sessions)
        except (PermissionDenied, SourceUnavailable) as error:
            self._check_refused(error)
            self._store.note(f"bars come without the fields of {endpoint}: {error}")
            return None

    @staticmethod
    def _check_refused(error: QuantGraphError) -> None:
        """Raise the error again unless the endpoint itself is refused or is not there."""
        if not isinstance(error, PermissionDenied) and not error.data.get("refused"):
            raise error

    def _events(self, codes: tuple[str, ...], sessions: pd.DatetimeIndex) -> Panel:
        """Dividends and splits; NaN frames in a window without any."""
        rows = self._optional_rows("dividend", codes, sessions)
        if rows is None:
            return {}
        file = "tushare dividend"
        frames = events_from_table(rows, file)
        tables = [CheckedTable(kind="events", file=file, rows=frame) for frame in frames]
        placed, notes = events_on_sessions(tables, sessions, codes)
        for note in notes:
            self._store.note(f"{file}: {note.en}")
        return long_to_panel(placed, EVENT_FIELDS, sessions, codes)
