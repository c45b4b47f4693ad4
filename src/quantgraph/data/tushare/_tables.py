"""Tushare's tables in tushare's columns, and the lists read from them: sessions, codes, names, members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from quantgraph.data._source import Members, check_window, session_index
from quantgraph.data._vendor_source import VendorSource
from quantgraph.data._vendor_tables import Endpoint
from quantgraph.data.tushare._client import ENDPOINTS
from quantgraph.errors import (
    BadOption,
    NoData,
    NotConfigured,
    PermissionDenied,
    RateLimited,
    SourceUnavailable,
    UnknownSymbol,
)
from quantgraph.market import session_of

_EXCHANGE = "SSE"
_STOCKS = 5500  # about as many are listed in 2026: how many pages a session takes
_MEMBERS_LOOKBACK = pd.Timedelta(days=400)


class TushareTables(VendorSource):
    """Tables and lists of tushare, from a store."""

    first_session = pd.Timestamp("1990-12-19").as_unit("us")  # of the Shanghai exchange

    def query(
        self,
        endpoint: str,
        code: str | Sequence[str] = (),
        *,
        start_date: object = None,
        end_date: object = None,
        trade_date: object = None,
    ) -> pd.DataFrame:
        """Rows of one of the vendor's tables, in the vendor's columns and units, sorted by day and code.

        Both ends of the window are included; default: 1990-12-19 and the last day whose data is ready, where
        a later window is cut. Lists (``namechange``, ``stock_basic``, ``index_basic``) are as of today and
        have no window. Dates are ``datetime64[us]``, missing numbers NaN; ``daily`` has no suspended days.
        """
        if endpoint not in ENDPOINTS:
            raise BadOption(f"endpoint={endpoint!r}; valid: {', '.join(ENDPOINTS)}", parameter="endpoint")
        table = ENDPOINTS[endpoint]
        codes = tuple(sorted(set(code.split(",") if isinstance(code, str) else code) - {""}))
        if trade_date is not None and (start_date is not None or end_date is not None):
            raise BadOption("trade_date stands alone; give it, or start_date and end_date")
        first, last = (start_date, end_date) if trade_date is None else (trade_date, trade_date)
        if table.access == "list" and not (first is None and last is None):
            raise BadOption(f"{endpoint} is a list as of today; give no dates")
        is_list = table.access == "list"
        rows = self._list(endpoint, codes) if is_list else self._days(table, codes, first, last)
        if rows.empty and not table.may_be_empty:
            raise NoData(f"tushare {endpoint} has no row for this request", endpoint=endpoint)
        return rows.sort_values(list(table.order), kind="stable", ignore_index=True)

    def symbols(self) -> tuple[str, ...]:
        """All stocks of ``stock_basic`` (else of ``namechange``), delisted ones too, ascending."""
        return tuple(sorted(self._stocks()["ts_code"].unique()))

    def names(self) -> Mapping[str, str]:
        """Today's names of stocks (``stock_basic``) and indices (``index_basic``).

        A table that the token may not read is left out, with a note.
        """
        names: dict[str, str] = {}
        for indices in (True, False):
            try:
                named = (self._list("index_basic") if indices else self._stocks()).dropna(subset="name")
            except (PermissionDenied, SourceUnavailable) as error:
                self._store.note(f"names are missing: {error}")
            else:
                names.update(zip(named["ts_code"], named["name"], strict=True))
        return names

    def symbols_on(self, day: pd.Timestamp) -> tuple[str, ...]:
        """Stocks listed on or before a day; a stock without a listing date counts as listed."""
        rows = self._stocks()
        later = rows["list_date"] > day if "list_date" in rows else pd.Series(data=False, index=rows.index)
        return tuple(sorted(rows.loc[~later, "ts_code"].unique()))

    def names_on(self, day: pd.Timestamp) -> Mapping[str, str]:
        """Names on a day: of stocks by ``namechange``, of those it does not have today's.

        If ``namechange`` cannot be read, all names are today's, with a note.
        """
        listed, stocks = set(self.symbols_on(day)), set(self.symbols())
        names = {code: name for code, name in self.names().items() if code in listed or code not in stocks}
        try:
            changes = self._name_changes()
        except (PermissionDenied, SourceUnavailable, NotConfigured, RateLimited) as error:
            self._store.note(f"names are today's, those of former days are not known: {error}")
            return names
        former = changes[changes["ts_code"].isin(listed) & (changes["start_date"] <= day)]
        changed = set(changes["ts_code"])
        unchanged = {code: name for code, name in names.items() if code not in changed}
        return unchanged | dict(zip(former["ts_code"], former["name"], strict=True))

    def members(self, index_code: str, on: pd.Timestamp) -> Members:
        """Members of an index from ``index_weight`` (monthly lists)."""
        oldest, newest = self._all_days()
        day = max(min(on, newest), oldest)
        recent = max(day - _MEMBERS_LOOKBACK, oldest)
        for first, last in [(recent, day), (oldest, recent), (day, newest)]:
            rows = self._store.series(ENDPOINTS["index_weight"], index_code, first, last)
            if len(rows):
                known = last <= on
                listed_on = rows["trade_date"].max() if known else rows["trade_date"].min()
                codes = rows.loc[rows["trade_date"] == listed_on, "con_code"]
                return Members(
                    index_code=index_code,
                    symbols=tuple(sorted(codes.unique())),
                    listed_on=listed_on,
                    point_in_time=known,
                )
        raise UnknownSymbol(
            f"tushare has no members of {index_code!r}; valid is an index code such as 000300.SH",
            symbols=[index_code],
        )

    def _days(self, endpoint: Endpoint, codes: tuple[str, ...], start: object, end: object) -> pd.DataFrame:
        if endpoint.access == "series":
            codes = codes or ((_EXCHANGE,) if endpoint.name == "trade_cal" else ())
            if len(codes) != 1:
                raise BadOption(
                    f"code has {len(codes)} values; {endpoint.name} needs one {endpoint.key}",
                    parameter="code",
                )
        elif not codes and start is None:
            raise BadOption("give code, or trade_date, or start_date: all stocks on all days is too much")
        first, last = self._window(start, end)
        if len(codes) == 1:
            return self._store.series(endpoint, codes[0], first, last)
        return self._rows(endpoint.name, codes, self._sessions_between(first, last))

    def _rows(self, name: str, codes: tuple[str, ...], sessions: pd.DatetimeIndex) -> pd.DataFrame:
        """Rows of the codes (none: all codes) on sessions, requested by code or by session: the fewer."""
        if not len(sessions):
            raise NoData(f"tushare {name}: no session in the window", endpoint=name)
        endpoint = ENDPOINTS[name]
        first, last = sessions[0], sessions[-1]
        by_code = sum(self._store.series_calls(endpoint, code, first, last) for code in codes)
        pages = 1 + _STOCKS // endpoint.row_limit
        by_day = pages * sum(not self._store.has_day(endpoint, day) for day in sessions)
        if codes and by_code <= by_day:
            parts = [self._store.series(endpoint, code, first, last) for code in codes]
        else:
            parts = [self._store.day(endpoint, day) for day in sessions]
            if codes:
                parts = [rows[rows["ts_code"].isin(codes)] for rows in parts]
        filled = [rows for rows in parts if len(rows)] or parts[:1]
        return pd.concat(filled).sort_values(list(endpoint.order), ignore_index=True)

    def _list(self, name: str, codes: Sequence[str] = ()) -> pd.DataFrame:
        endpoint = ENDPOINTS[name]
        requests = [{**part, endpoint.key: code} for part in endpoint.parts for code in codes]
        parts = [self._store.listing(endpoint, request) for request in requests or endpoint.parts]
        return pd.concat(parts, ignore_index=True)

    def _name_changes(self) -> pd.DataFrame:
        return self._list("namechange").sort_values("start_date", kind="stable", ignore_index=True)

    def _stocks(self) -> pd.DataFrame:
        """``stock_basic``; codes and last names of ``namechange`` if the server does not have it."""
        try:
            return self._list("stock_basic")
        except (PermissionDenied, SourceUnavailable) as refused:
            try:
                changes = self._name_changes()
            except (PermissionDenied, SourceUnavailable):
                raise refused from None
            if changes.empty:
                raise
            self._store.note(f"the list of stocks is that of namechange ({refused.line})")
            return changes.drop_duplicates("ts_code", keep="last")[["ts_code", "name"]]

    def _check_listed(self, codes: tuple[str, ...], rows: pd.DataFrame) -> None:
        """Raise ``UnknownSymbol`` if codes without a row are not listed."""
        without_rows = sorted(set(codes) - set(rows["ts_code"]))
        if not without_rows:
            return
        try:
            listed = set(self.symbols())
        except (PermissionDenied, RateLimited, SourceUnavailable, NotConfigured) as error:
            self._store.note(
                f"no rows of {', '.join(without_rows)}; whether they exist is not known: {error}"
            )
            return
        unknown = [code for code in without_rows if code not in listed]
        if unknown:
            raise UnknownSymbol(f"tushare lists no stock {', '.join(unknown)}", symbols=unknown)

    def _check_index(self, index_code: str) -> None:
        try:
            rows = self._store.listing(ENDPOINTS["index_basic"], {"ts_code": index_code})
        except PermissionDenied as error:
            self._store.note(f"whether the index {index_code} exists is not known: {error}")
            return
        if rows.empty:
            raise UnknownSymbol(f"tushare lists no index {index_code}", symbols=[index_code])

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

    def _sessions_between(self, first: pd.Timestamp, last: pd.Timestamp) -> pd.DatetimeIndex:
        return _open_days(self._store.series(ENDPOINTS["trade_cal"], _EXCHANGE, first, last))

    def _cached_sessions(self) -> pd.DatetimeIndex:
        calendar = self._store.cached_series(ENDPOINTS["trade_cal"], _EXCHANGE)
        return session_index([]) if calendar is None else _open_days(calendar)


def _open_days(calendar: pd.DataFrame) -> pd.DatetimeIndex:
    return session_index(calendar.loc[calendar["is_open"] == 1, "cal_date"])
