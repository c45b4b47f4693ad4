"""Tushare's tables in tushare's columns."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from quantgraph.data.panels import check_window, session_index
from quantgraph.data.tushare.endpoints import (
    ADJ_FACTOR,
    DAILY,
    DAILY_BASIC,
    DIVIDEND,
    INDEX_DAILY,
    INDEX_WEIGHT,
    NAMECHANGE,
    STK_LIMIT,
    SUSPEND_D,
    TRADE_CAL,
    Endpoint,
)
from quantgraph.data.tushare.store import TushareStore
from quantgraph.errors import BadOption, NoData
from quantgraph.market.moment import session_of

__all__ = ["TushareTables"]

_FIRST_SESSION = pd.Timestamp("1990-12-19").as_unit("us")  # of the Shanghai exchange
_CALENDAR = "SSE"
_STOCKS = 5500  # about as many are listed in 2026: how many pages a session takes


class TushareTables:
    """The vendor's endpoints as methods.

    All return long frames in the vendor's columns and units, sorted by day and code; dates are
    ``datetime64[us]``, missing numbers NaN. Dates as arguments may be anything that
    :func:`~quantgraph.market.moment.session_of` reads; both ends are included; ``trade_date`` is
    short for a window of one day. Without a start the window begins on 1990-12-19; without an end, or with a
    later one, it ends on the last day whose data is ready.

    Raises
    ------
    NoData
        If the vendor answers that there is no row (but for ``suspend_d``, ``dividend`` and ``namechange``,
        where no row is an answer: an empty frame).
    BadOption, BadWindow
        If codes and dates are both missing, or the window is reversed.
    NotConfigured, PermissionDenied, RateLimited, SourceUnavailable
        As :meth:`quantgraph.data.tushare.client.TushareClient.fetch`.
    """

    def __init__(self, store: TushareStore) -> None:
        self._store = store

    def daily(
        self,
        ts_code: str | Sequence[str] = (),
        *,
        start_date: object = None,
        end_date: object = None,
        trade_date: object = None,
    ) -> pd.DataFrame:
        """Unadjusted daily bars; a suspended day has no row. ``vol`` in hands, ``amount`` in thousand CNY."""
        return _some(DAILY, self._market(DAILY, ts_code, start_date, end_date, trade_date))

    def daily_basic(
        self,
        ts_code: str | Sequence[str] = (),
        *,
        start_date: object = None,
        end_date: object = None,
        trade_date: object = None,
    ) -> pd.DataFrame:
        """Daily indicators: rates in percent, shares in 10,000, values in 10,000 CNY."""
        return _some(DAILY_BASIC, self._market(DAILY_BASIC, ts_code, start_date, end_date, trade_date))

    def adj_factor(
        self,
        ts_code: str | Sequence[str] = (),
        *,
        start_date: object = None,
        end_date: object = None,
        trade_date: object = None,
    ) -> pd.DataFrame:
        """Cumulative adjustment factors since listing."""
        return _some(ADJ_FACTOR, self._market(ADJ_FACTOR, ts_code, start_date, end_date, trade_date))

    def dividend(
        self,
        ts_code: str | Sequence[str] = (),
        *,
        start_date: object = None,
        end_date: object = None,
        trade_date: object = None,
    ) -> pd.DataFrame:
        """Dividends and bonus shares by ex-date, amounts per share; plans without an ex-date are cut off."""
        return self._market(DIVIDEND, ts_code, start_date, end_date, trade_date)

    def stk_limit(
        self,
        ts_code: str | Sequence[str] = (),
        *,
        start_date: object = None,
        end_date: object = None,
        trade_date: object = None,
    ) -> pd.DataFrame:
        """Price limits of the day, in CNY."""
        return _some(STK_LIMIT, self._market(STK_LIMIT, ts_code, start_date, end_date, trade_date))

    def suspend_d(
        self,
        ts_code: str | Sequence[str] = (),
        *,
        start_date: object = None,
        end_date: object = None,
        trade_date: object = None,
    ) -> pd.DataFrame:
        """Suspensions (``suspend_type`` S) and resumptions (R); announced future ones are cut off."""
        return self._market(SUSPEND_D, ts_code, start_date, end_date, trade_date)

    def index_daily(
        self, ts_code: str, *, start_date: object = None, end_date: object = None
    ) -> pd.DataFrame:
        """Daily levels of one index."""
        first, last = self._window(start_date, end_date)
        return _some(INDEX_DAILY, self._store.series(INDEX_DAILY, ts_code, first, last))

    def index_weight(
        self, index_code: str, *, start_date: object = None, end_date: object = None
    ) -> pd.DataFrame:
        """Members of one index with ``weight`` in percent, a list a month."""
        first, last = self._window(start_date, end_date)
        rows = self._store.series(INDEX_WEIGHT, index_code, first, last)
        rows = rows.sort_values(["trade_date", "con_code"], ignore_index=True)
        return _some(INDEX_WEIGHT, rows)

    def trade_cal(
        self, exchange: str = _CALENDAR, *, start_date: object = None, end_date: object = None
    ) -> pd.DataFrame:
        """All days of an exchange; ``is_open`` is 1.0 on sessions."""
        first, last = self._window(start_date, end_date)
        return _some(TRADE_CAL, self._store.series(TRADE_CAL, exchange, first, last))

    def namechange(self, ts_code: str = "") -> pd.DataFrame:
        """All names that one stock (or every stock) has had, as of today; an episode may appear twice."""
        rows = self._store.listing(NAMECHANGE, {"ts_code": ts_code} if ts_code else {})
        return rows.sort_values("start_date", kind="stable", ignore_index=True)

    def _market(
        self, endpoint: Endpoint, ts_code: str | Sequence[str], start: object, end: object, day: object
    ) -> pd.DataFrame:
        codes = tuple(sorted(set(ts_code.split(",") if isinstance(ts_code, str) else ts_code) - {""}))
        if day is not None and (start is not None or end is not None):
            raise BadOption("trade_date stands alone; give it, or start_date and end_date")
        if not codes and day is None and start is None:
            raise BadOption("give ts_code, or trade_date, or start_date: all stocks on all days is too much")
        first, last = self._window(start if day is None else day, end if day is None else day)
        if len(codes) == 1:
            return self._store.series(endpoint, codes[0], first, last)
        return self._rows(endpoint, codes, self._sessions_between(first, last))

    def _rows(self, endpoint: Endpoint, codes: tuple[str, ...], sessions: pd.DatetimeIndex) -> pd.DataFrame:
        """Rows of the codes (none: all codes) on sessions, by code or by session: what takes fewer calls."""
        if not len(sessions):
            raise NoData(f"tushare {endpoint.name}: no session in the window", endpoint=endpoint.name)
        first, last = sessions[0], sessions[-1]
        by_code = sum(self._store.series_calls(endpoint, code, first, last) for code in codes)
        pages = 1 + _STOCKS // endpoint.row_limit
        by_day = pages * sum(not self._store.has_day(endpoint, day) for day in sessions)
        if codes and by_code <= by_day:
            parts = [self._store.series(endpoint, code, first, last) for code in codes]
        elif codes:
            days = (self._store.day(endpoint, day) for day in sessions)
            parts = [rows[rows["ts_code"].isin(codes)] for rows in days]
        else:
            parts = [self._store.day(endpoint, day) for day in sessions]
        filled = [rows for rows in parts if len(rows)] or parts[:1]
        return pd.concat(filled).sort_values([endpoint.on, endpoint.key], ignore_index=True)

    def _window(self, start: object, end: object) -> tuple[pd.Timestamp, pd.Timestamp]:
        oldest, newest = self._all_days()
        first = oldest if start is None else session_of(start, name="start_date")
        last = max(newest, first) if end is None else session_of(end, name="end_date")
        check_window(first, last)
        if first > newest or last < oldest:
            raise NoData(
                f"tushare has no data of {first:%Y-%m-%d} to {last:%Y-%m-%d}; it has "
                f"{oldest:%Y-%m-%d} to {newest:%Y-%m-%d}"
            )
        return max(first, oldest), min(last, newest)

    def _all_days(self) -> tuple[pd.Timestamp, pd.Timestamp]:
        return _FIRST_SESSION, self._store.last_ready_day

    def _sessions_between(self, first: pd.Timestamp, last: pd.Timestamp) -> pd.DatetimeIndex:
        return _open_days(self._store.series(TRADE_CAL, _CALENDAR, first, last))

    def _kept_sessions(self) -> pd.DatetimeIndex:
        kept = self._store.cached_series(TRADE_CAL, _CALENDAR)
        return session_index([]) if kept is None else _open_days(kept)


def _open_days(calendar: pd.DataFrame) -> pd.DatetimeIndex:
    return session_index(calendar.loc[calendar["is_open"] == 1, "cal_date"])


def _some(endpoint: Endpoint, rows: pd.DataFrame) -> pd.DataFrame:
    if rows.empty:
        raise NoData(f"tushare {endpoint.name} has no row for this request", endpoint=endpoint.name)
    return rows
