"""Daily A-share data of baostock as a source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data._checked_tables import CheckedTable, events_from_rows, events_on_sessions
from quantgraph.data._source import (
    EVENT_FIELDS,
    INDICATOR_FIELDS,
    LEVEL_FIELDS,
    Members,
    Panel,
    long_to_panel,
    session_index,
)
from quantgraph.data._vendor_source import VendorSource
from quantgraph.data._vendor_store import ParquetCache, VendorStore, cache_folder, shanghai_now
from quantgraph.data._vendor_tables import Endpoint
from quantgraph.data.baostock._client import (
    ADDRESS_VARIABLE,
    BARS,
    CALENDAR,
    CODES,
    DIVIDENDS,
    EXCHANGE,
    LEVELS,
    MEMBERS,
    BaostockClient,
)
from quantgraph.errors import NoData, UnknownField, UnknownSymbol
from quantgraph.settings import Settings, load_settings

_BAR_COLUMNS = {"preclose": "pre_close", "volume": "vol"}
_INDICATORS = {"turn": "turnover_rate", "peTTM": "pe_ttm", "pbMRQ": "pb", "psTTM": "ps_ttm"}
_FIELDS = ("open", "high", "low", "close", "pre_close", "vol", "amount")
_EVENTS = {
    "dividOperateDate": "trade_date",
    "dividCashPsBeforeTax": "dividend",
    "dividPlanDate": "action_declared",
    "dividRegistDate": "action_record",
    "dividPayDate": "action_pay",
}
_STOCK, _INDEX = "1", "2"  # types of query_stock_basic


class BaostockSource(VendorSource):
    """Daily A-share data of baostock, kept in a local cache.

    A :class:`~quantgraph.data.MarketDataSource`. No account is needed; a request served from the cache needs
    no network. Prices are unadjusted, ``pre_close`` is the exchange's reference price.

    Parameters
    ----------
    address
        ``host:port`` of the server; else the environment variable ``BAOSTOCK_ADDRESS``, else the package's
        own.
    cache_dir
        Folder of the cache; None is ``baostock`` in the settings' ``cache_dir``.
        Rules: :mod:`quantgraph.data._vendor_store`.
    client
        A client with a time limit of its own, in place of ``address``.
    now
        Function that returns the current time with its zone.
    """

    name = "baostock"
    first_session = pd.Timestamp("1990-12-19").as_unit("us")  # of the Shanghai exchange
    stock_code = re.compile(r"[0-9]{6}\.(SH|SZ)")  # "000001.SZ"
    example = "600519.SH"
    read_as = Note(
        zh="baostock 日K线：未复权（adjustflag=3），vol = volume / 100（手），amount 由元换算为千元，"
        "pre_close = preclose（交易所的除权参考价），is_st = isST；分红送股按除权除息日",
        en="baostock daily bars: unadjusted (adjustflag=3), vol = volume / 100 (hands), amount from yuan to "
        "thousands, pre_close = preclose (the exchange's reference price), is_st = isST; dividends and bonus "
        "shares by ex-date",
    )

    def __init__(
        self,
        *,
        address: str | None = None,
        cache_dir: Path | None = None,
        client: BaostockClient | None = None,
        now: Callable[[], pd.Timestamp] = shanghai_now,
    ) -> None:
        self._client = client or BaostockClient(address=address)
        folder = cache_dir or cache_folder(
            load_settings().cache_dir, self.name, address or os.environ.get(ADDRESS_VARIABLE)
        )
        # Bars are stored from 17:30 on (baostock.com).
        super().__init__(VendorStore(self._client, ParquetCache(folder), now=now, ready_hour=18))

    def __repr__(self) -> str:
        return "BaostockSource()"

    def close(self) -> None:
        """End the process in which the vendor's package runs; the next request starts another."""
        self._client.close()

    def symbols(self) -> tuple[str, ...]:
        """All stocks, delisted ones too, ascending."""
        return tuple(sorted(self._fetch_listed(_STOCK)["ts_code"]))

    def symbols_on(self, day: pd.Timestamp) -> tuple[str, ...]:
        """Stocks listed on or before a day, ascending."""
        rows = self._fetch_listed(_STOCK)
        return tuple(sorted(rows.loc[~(rows["ipoDate"] > day), "ts_code"]))

    def names(self) -> Mapping[str, str]:
        """Today's names of stocks and indices."""
        rows = self._fetch_listed(_STOCK, _INDEX).dropna(subset="code_name")
        return dict(zip(rows["ts_code"], rows["code_name"], strict=True))

    def names_on(self, day: pd.Timestamp) -> Mapping[str, str]:
        """Today's names, with a note, of stocks listed by a day and of indices."""
        self._store.note("names are today's, those of former days are not known")
        later = {*self.symbols()}.difference(self.symbols_on(day))
        return {code: name for code, name in self.names().items() if code not in later}

    def members(self, index_code: str, on: pd.Timestamp) -> Members:
        """Members of 000300.SH, 000016.SH or 000905.SH by the vendor's list of that day, else by today's."""
        endpoint = MEMBERS.get(index_code)
        if endpoint is None:
            raise UnknownSymbol(
                f"baostock has no member list of {index_code}; indices with members: {', '.join(MEMBERS)}",
                symbols=[index_code],
            )
        last = self._store.last_ready_day
        for day in (min(on, last), last):
            rows = self._store.listing(endpoint, {"date": f"{day:%Y-%m-%d}"})
            if len(rows):
                listed_on = rows["updateDate"].max()
                return Members(
                    index_code=index_code,
                    symbols=tuple(sorted(map(_ours, rows["code"]))),
                    listed_on=listed_on,
                    point_in_time=bool(listed_on <= on),
                )
        raise NoData(f"baostock has no members of {index_code} on {last:%Y-%m-%d} or before")

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> Panel:
        """Daily bars with dividends and bonus shares; NaN where a stock was not traded."""
        codes, sessions = self._request(symbols, start, end)
        rows = self._bar_rows(codes, sessions)
        traded = rows[rows["tradestatus"] == 1].rename(columns=_BAR_COLUMNS)
        if traded.empty:
            raise self._no_data("bars", codes, sessions)
        traded = traded.assign(vol=traded["vol"] / 100, amount=traded["amount"] / 1000)
        panel = self._panel(traded, BARS, _FIELDS, sessions, codes)
        status = self._panel(rows.rename(columns={"isST": "is_st"}), BARS, ("is_st",), sessions, codes)
        return panel | self._events(codes, sessions) | {"is_st": status["is_st"].ffill().fillna(0.0)}

    def indicators(
        self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp, fields: Sequence[str] = ()
    ) -> Panel:
        """``turnover_rate``, ``pe_ttm``, ``pb`` and ``ps_ttm``."""
        unknown = sorted({*fields}.difference(INDICATOR_FIELDS))
        if unknown:
            raise UnknownField(
                f"no such indicator: {', '.join(unknown)}; valid: {', '.join(INDICATOR_FIELDS)}",
                fields=unknown,
            )
        missing = [field for field in fields if field not in _INDICATORS.values()]
        if missing:
            raise NoData(
                f"baostock has no daily indicator {', '.join(missing)}; it has: "
                f"{', '.join(_INDICATORS.values())}",
                fields=missing,
            )
        codes, sessions = self._request(symbols, start, end)
        rows = self._bar_rows(codes, sessions).rename(columns=_INDICATORS)
        wanted = [field for field in _INDICATORS.values() if field in (fields or _INDICATORS.values())]
        return self._panel(rows, BARS, wanted, sessions, codes)

    def index_bars(self, index_code: str, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        """Daily levels of an index, or of a stock."""
        sessions = self._window_sessions(start, end)
        self._check([index_code], _STOCK, _INDEX)
        rows = self._series(LEVELS, index_code, sessions)
        if rows.empty:
            raise self._no_data("levels", (index_code,), sessions)
        levels = self._panel(rows, LEVELS, LEVEL_FIELDS, sessions, (index_code,))
        return pd.DataFrame({field: frame[index_code] for field, frame in levels.items()})

    def _sessions_between(self, first: pd.Timestamp, last: pd.Timestamp) -> pd.DatetimeIndex:
        return _open_days(self._store.series(CALENDAR, EXCHANGE, first, last))

    def _cached_sessions(self) -> pd.DatetimeIndex:
        calendar = self._store.cached_series(CALENDAR, EXCHANGE)
        return session_index([]) if calendar is None else _open_days(calendar)

    def _bar_rows(self, codes: Sequence[str], sessions: pd.DatetimeIndex) -> pd.DataFrame:
        self._check(codes, _STOCK)
        rows = pd.concat([self._series(BARS, code, sessions) for code in codes], ignore_index=True)
        if rows.empty:
            raise self._no_data("bars", codes, sessions)
        return rows

    def _series(self, endpoint: Endpoint, code: str, sessions: pd.DatetimeIndex) -> pd.DataFrame:
        rows = self._store.series(endpoint, _theirs(code), sessions[0], sessions[-1])
        return rows.rename(columns={endpoint.day: "trade_date"}).assign(ts_code=code)

    def _events(self, codes: Sequence[str], sessions: pd.DatetimeIndex) -> Panel:
        """Dividends and bonus shares; NaN frames in a window without any."""
        file = f"baostock {DIVIDENDS.name}"
        parts = [
            self._store.series(DIVIDENDS, _theirs(code), sessions[0], sessions[-1]).assign(ts_code=code)
            for code in codes
        ]
        rows = pd.concat(parts, ignore_index=True)
        bonus = rows["dividStocksPs"].fillna(0) + rows["dividReserveToStockPs"].fillna(0)
        events = events_from_rows(rows.rename(columns=_EVENTS).assign(stk_div=bonus), file)
        tables = [CheckedTable(kind="events", file=file, rows=frame) for frame in events]
        placed, notes = events_on_sessions(tables, sessions, codes)
        for note in notes:
            self._store.note(f"{file}: {note.en}")
        return long_to_panel(placed, EVENT_FIELDS, sessions, codes)

    def _fetch_listed(self, *types: str) -> pd.DataFrame:
        rows = self._store.listing(CODES, {})
        rows = rows[rows["type"].isin(types)]
        return rows.assign(ts_code=rows["code"].map(_ours))

    def _check(self, codes: Sequence[str], *types: str) -> None:
        unknown = sorted({*codes}.difference(self._fetch_listed(*types)["ts_code"]))
        if unknown:
            raise UnknownSymbol(f"baostock lists no {', '.join(unknown)}", symbols=unknown)


def _open_days(calendar: pd.DataFrame) -> pd.DatetimeIndex:
    return session_index(calendar.loc[calendar["is_trading_day"] == 1, "calendar_date"])


def _ours(code: str) -> str:
    """``sh.600519`` as ``600519.SH``."""
    exchange, _, digits = code.partition(".")
    return f"{digits}.{exchange.upper()}"


def _theirs(code: str) -> str:
    digits, _, exchange = code.partition(".")
    return f"{exchange.lower()}.{digits}"


def open_baostock(_place: str, settings: Settings) -> BaostockSource:
    """Open the source by its name, with the settings of :func:`~quantgraph.data.open_source`."""
    return BaostockSource(
        cache_dir=cache_folder(settings.cache_dir, "baostock", os.environ.get(ADDRESS_VARIABLE))
    )
