"""Who is there and when: sessions, codes, names and index members from tushare."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pandas as pd

from quantgraph.data.protocol import Members
from quantgraph.data.tushare.endpoints import INDEX_BASIC, INDEX_WEIGHT, STOCK_BASIC
from quantgraph.data.tushare.store import TushareStore
from quantgraph.data.tushare.tables import TushareTables
from quantgraph.errors import (
    NotConfigured,
    PermissionDenied,
    RateLimited,
    SourceUnavailable,
    UnknownSymbol,
)

__all__ = ["Notes", "TushareLists"]

_MEMBERS_LOOKBACK = pd.Timedelta(days=400)
_INDEX_MARKETS = ("SSE", "SZSE", "CSI")


class Notes:
    """What has to be told beside the data: lines, each once. For several threads."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}
        self._lock = threading.Lock()  # guards _lines

    def add(self, line: str) -> None:
        """Keep a line."""
        with self._lock:
            self._lines.setdefault(line)

    def lines(self) -> tuple[str, ...]:
        """All lines, oldest first."""
        with self._lock:
            return tuple(self._lines)


class TushareLists(TushareTables):
    """The part of :class:`~quantgraph.data.tushare.source.TushareSource` that is not numbers by day."""

    def __init__(self, store: TushareStore, notes: Notes) -> None:
        super().__init__(store)
        self._notes = notes

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out or is old, and why: one line each, oldest first, each once."""
        return self._notes.lines()

    def sessions(self) -> pd.DatetimeIndex:
        """All sessions of the Shanghai exchange up to the last one whose data is ready.

        A session's data counts as ready from 17:00 in Shanghai. Without a network these are the sessions
        of the cache, and a note says how far they go.
        """
        try:
            return self._sessions_between(*self._all_days())
        except (SourceUnavailable, NotConfigured, RateLimited) as error:
            kept = self._kept_sessions()
            if not len(kept):
                raise
            self._notes.add(f"sessions are {kept[0]:%Y-%m-%d} to {kept[-1]:%Y-%m-%d} only ({error.line})")
            return kept

    def symbols(self) -> tuple[str, ...]:
        """All stocks of ``stock_basic`` (else of ``namechange``), delisted ones too, ascending."""
        return tuple(sorted(self._stocks()["ts_code"].unique()))

    def names(self) -> Mapping[str, str]:
        """Today's names of stocks (``stock_basic``) and indices (``index_basic``).

        What the token may not read is left out, with a note.
        """
        names: dict[str, str] = {}
        tables: list[Callable[[], pd.DataFrame]] = [self._indices, self._stocks]
        for table in tables:
            try:
                rows = table()
            except (PermissionDenied, SourceUnavailable) as error:
                self._notes.add(f"names are missing: {error}")
            else:
                named = rows.dropna(subset="name")
                names.update(zip(named["ts_code"], named["name"], strict=True))
        return names

    def symbols_on(self, day: pd.Timestamp) -> tuple[str, ...]:
        """Stocks listed on or before a day; one without a listing date counts as listed."""
        rows = self._stocks()
        later = rows["list_date"] > day if "list_date" in rows else pd.Series(data=False, index=rows.index)
        return tuple(sorted(rows.loc[~later, "ts_code"].unique()))

    def names_on(self, day: pd.Timestamp) -> Mapping[str, str]:
        """Names on a day: of stocks by ``namechange``, of those it does not have today's.

        Where it cannot be read they are all today's, with a note.
        """
        listed, stocks = set(self.symbols_on(day)), set(self.symbols())
        names = {code: name for code, name in self.names().items() if code in listed or code not in stocks}
        try:
            changes = self.namechange()
        except (PermissionDenied, SourceUnavailable, NotConfigured, RateLimited) as error:
            self._notes.add(f"names are today's, those of former days are not known: {error}")
            return names
        was = changes[changes["ts_code"].isin(listed) & (changes["start_date"] <= day)]
        changed = set(changes["ts_code"])
        unchanged = {code: name for code, name in names.items() if code not in changed}
        return unchanged | dict(zip(was["ts_code"], was["name"], strict=True))

    def members(self, index_code: str, on: pd.Timestamp) -> Members:
        """Members of an index from ``index_weight`` (monthly lists).

        Raises
        ------
        UnknownSymbol
            If there is no list of this index.
        """
        oldest, newest = self._all_days()
        day = max(min(on, newest), oldest)
        recent = max(day - _MEMBERS_LOOKBACK, oldest)
        windows = [(recent, day), (oldest, recent), (day, newest)]
        for first, last in windows:
            rows = self._store.series(INDEX_WEIGHT, index_code, first, last)
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

    def _check_known(self, codes: tuple[str, ...], rows: pd.DataFrame) -> None:
        silent = sorted(set(codes) - set(rows["ts_code"]))
        if not silent:
            return
        try:
            listed = set(self.symbols())
        except (PermissionDenied, RateLimited, SourceUnavailable, NotConfigured) as error:
            self._notes.add(f"no rows of {', '.join(silent)}; whether they exist is not known: {error}")
            return
        unknown = [code for code in silent if code not in listed]
        if unknown:
            raise UnknownSymbol(f"tushare lists no stock {', '.join(unknown)}", symbols=unknown)

    def _check_index(self, index_code: str) -> None:
        try:
            rows = self._store.listing(INDEX_BASIC, {"ts_code": index_code})
        except PermissionDenied as error:
            self._notes.add(f"whether the index {index_code} exists is not known: {error}")
            return
        if rows.empty:
            raise UnknownSymbol(f"tushare lists no index {index_code}", symbols=[index_code])

    def _stocks(self) -> pd.DataFrame:
        try:
            lists = [self._store.listing(STOCK_BASIC, {"list_status": status}) for status in "LDP"]
        except (PermissionDenied, SourceUnavailable) as error:
            renamed = self._renamed(error)
            self._notes.add(f"the list of stocks is that of namechange ({error.line})")
            return renamed
        return pd.concat(lists, ignore_index=True)

    def _renamed(self, refused: PermissionDenied | SourceUnavailable) -> pd.DataFrame:
        """Codes and last names as ``namechange`` has them, for a server without ``stock_basic``."""
        try:
            rows = self.namechange()
        except (PermissionDenied, SourceUnavailable):
            raise refused from None
        if rows.empty:
            raise refused
        return rows.sort_values("start_date").drop_duplicates("ts_code", keep="last")[["ts_code", "name"]]

    def _indices(self) -> pd.DataFrame:
        lists = [self._store.listing(INDEX_BASIC, {"market": market}) for market in _INDEX_MARKETS]
        return pd.concat(lists, ignore_index=True)
