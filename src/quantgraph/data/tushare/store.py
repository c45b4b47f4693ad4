"""Tushare's tables, fetched once.

What is kept, and when it is asked for again:

* A *series* is one code's rows (or one exchange's calendar) over the days it covers, always one
  interval. A request inside it costs nothing; one beyond it fetches the missing days only, and whatever
  lies between, so that it stays one interval.
* A *day* is one endpoint's rows of all codes on one session. One without any row is kept only when it is
  more than a week old: before, the vendor may be late.
* Days count as settled, and are kept, up to yesterday in Shanghai. Rows of today are handed out and
  not kept, so a table that was fetched before the vendor had completed the day is never frozen.
* A *list* (listed stocks, names) is asked for again on another day than the one it was fetched on. When
  that fails, the old list is used and a note says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta, timezone

import pandas as pd

from quantgraph.data.tushare.client import TushareClient
from quantgraph.data.tushare.endpoints import Endpoint
from quantgraph.data.tushare.parquet_cache import CachedTable, CacheKey, ParquetCache
from quantgraph.errors import BadFile, NotConfigured, RateLimited, SourceUnavailable

__all__ = ["SHANGHAI", "TushareStore", "shanghai_now"]

SHANGHAI = timezone(timedelta(hours=8), "Asia/Shanghai")
"""China's time; it has had no summer time since 1991."""

_DAY = pd.Timedelta(days=1)
_LATE = pd.Timedelta(days=7)
_READY_HOUR = 17  # daily_basic is complete by then (tushare.pro, document 32)


def shanghai_now() -> pd.Timestamp:
    """Read the clock, in Shanghai's time."""
    return pd.Timestamp.now(SHANGHAI)


class TushareStore:
    """Tables from a cache, and from the vendor where the cache has gaps.

    May be used by several threads; each table is fetched by one of them at a time.
    """

    def __init__(
        self,
        client: TushareClient,
        cache: ParquetCache,
        *,
        now: Callable[[], pd.Timestamp],
        note: Callable[[str], None],
    ) -> None:
        self._client = client
        self._cache = cache
        self._now = now
        self._note = note
        self._locks: dict[str, threading.Lock] = {}
        self._locks_guard = threading.Lock()  # guards _locks

    @property
    def today(self) -> pd.Timestamp:
        """The date in Shanghai."""
        return self._now().tz_convert(SHANGHAI).tz_localize(None).normalize().as_unit("us")

    @property
    def last_ready_day(self) -> pd.Timestamp:
        """Last day whose data the vendor has: today from 17:00 in Shanghai on, yesterday before."""
        ready = self._now().tz_convert(SHANGHAI).hour >= _READY_HOUR
        return self.today if ready else self.today - _DAY

    def series(self, endpoint: Endpoint, code: str, first: pd.Timestamp, last: pd.Timestamp) -> pd.DataFrame:
        """One code's rows on ``first..last``, ascending by day."""
        key = _series_key(endpoint, code)
        with self._alone(key):
            kept, damage = self._kept(key)
            gaps = _gaps((kept.first, kept.last) if kept else None, first, last)
            if kept and not gaps:
                return _between(kept.rows, endpoint.on, first, last)
            with _explained(damage):
                fresh = [self._fetch_series(endpoint, code, *gap) for gap in gaps]
            rows = _sorted([kept.rows, *fresh] if kept else fresh, endpoint.on)
            start = min(first, kept.first) if kept else first
            settled = min(last, self.today - _DAY)
            end = max(kept.last, settled) if kept else settled
            if start <= end:
                self._cache.write(
                    key,
                    CachedTable(rows=_between(rows, endpoint.on, start, end), first=start, last=end),
                )
            return _between(rows, endpoint.on, first, last)

    def series_calls(self, endpoint: Endpoint, code: str, first: pd.Timestamp, last: pd.Timestamp) -> int:
        """How many requests :meth:`series` would need (one for each gap)."""
        try:
            covered = self._cache.covered(_series_key(endpoint, code))
        except BadFile:
            return 1
        return len(_gaps(covered, first, last))

    def cached_series(self, endpoint: Endpoint, code: str) -> pd.DataFrame | None:
        """All rows kept of a series, without asking the vendor; None when there is none."""
        kept, _ = self._kept(_series_key(endpoint, code))
        return kept.rows if kept else None

    def day(self, endpoint: Endpoint, day: pd.Timestamp) -> pd.DataFrame:
        """All codes' rows of one session."""
        key = _day_key(endpoint, day)
        with self._alone(key):
            kept, damage = self._kept(key)
            if kept:
                return kept.rows
            with _explained(damage):
                rows = self._client.fetch(endpoint, key.params)
            _check_days(endpoint, rows, day, day)
            if day < (self.today if len(rows) else self.today - _LATE):
                self._cache.write(key, CachedTable(rows=rows, first=day, last=day))
            return rows

    def has_day(self, endpoint: Endpoint, day: pd.Timestamp) -> bool:
        """Whether :meth:`day` needs no request."""
        return self._cache.path(_day_key(endpoint, day)).exists()

    def listing(self, endpoint: Endpoint, params: Mapping[str, str]) -> pd.DataFrame:
        """Give a list as it stands today, else the newest one there is."""
        key = CacheKey(endpoint=endpoint.name, params=params, fields=endpoint.fields)
        with self._alone(key):
            kept, damage = self._kept(key)
            if kept and kept.last == self.today:
                return kept.rows
            try:
                with _explained(damage):
                    rows = self._client.fetch(endpoint, params)
            except (SourceUnavailable, NotConfigured, RateLimited) as error:
                if kept is None:
                    raise
                self._note(f"{endpoint.name} is as of {kept.last:%Y-%m-%d} ({error.line})")
                return kept.rows
            self._cache.write(key, CachedTable(rows=rows, first=self.today, last=self.today))
            return rows

    def _fetch_series(
        self, endpoint: Endpoint, code: str, first: pd.Timestamp, last: pd.Timestamp
    ) -> pd.DataFrame:
        window = {"start_date": f"{first:%Y%m%d}", "end_date": f"{last:%Y%m%d}"}
        rows = self._client.fetch(endpoint, {endpoint.key: code, **(window if endpoint.windowed else {})})
        if endpoint.windowed:
            _check_days(endpoint, rows, first, last)
        else:
            rows = _between(rows, endpoint.on, first, last)
        others = set(rows[endpoint.key].unique()) - {code}
        if others:
            raise SourceUnavailable(
                f"tushare {endpoint.name}: asked for {endpoint.key}={code}, the answer also holds "
                f"{min(others)}",
                endpoint=endpoint.name,
            )
        return rows

    def _kept(self, key: CacheKey) -> tuple[CachedTable | None, BadFile | None]:
        try:
            return self._cache.read(key), None
        except BadFile as damage:
            self._note(f"the cache had to be fetched again: {damage}")
            return None, damage

    @contextmanager
    def _alone(self, key: CacheKey) -> Iterator[None]:
        with self._locks_guard:
            lock = self._locks.setdefault(f"{key.endpoint}/{key.file_name}", threading.Lock())
        with lock:
            yield


@contextmanager
def _explained(damage: BadFile | None) -> Iterator[None]:
    try:
        yield
    except (SourceUnavailable, NotConfigured) as error:
        if damage is None:
            raise
        raise type(error)(f"{error}; and the cached copy cannot be used: {damage}", **error.data) from damage


def _series_key(endpoint: Endpoint, code: str) -> CacheKey:
    return CacheKey(endpoint=endpoint.name, params={endpoint.key: code}, fields=endpoint.fields)


def _day_key(endpoint: Endpoint, day: pd.Timestamp) -> CacheKey:
    params = {endpoint.on: f"{day:%Y%m%d}"}
    return CacheKey(endpoint=endpoint.name, params=params, fields=endpoint.fields)


def _gaps(
    covered: tuple[pd.Timestamp, pd.Timestamp] | None, first: pd.Timestamp, last: pd.Timestamp
) -> list[tuple[pd.Timestamp, pd.Timestamp]]:
    if covered is None:
        return [(first, last)]
    before = [(first, covered[0] - _DAY)] if first < covered[0] else []
    after = [(covered[1] + _DAY, last)] if last > covered[1] else []
    return before + after


def _between(rows: pd.DataFrame, on: str, first: pd.Timestamp, last: pd.Timestamp) -> pd.DataFrame:
    return rows[rows[on].between(first, last)].reset_index(drop=True)


def _sorted(tables: Sequence[pd.DataFrame], on: str) -> pd.DataFrame:
    filled = [table for table in tables if len(table)] or list(tables[:1])
    return pd.concat(filled, ignore_index=True).sort_values(on, kind="stable", ignore_index=True)


def _check_days(endpoint: Endpoint, rows: pd.DataFrame, first: pd.Timestamp, last: pd.Timestamp) -> None:
    outside = rows[~rows[endpoint.on].between(first, last)]
    if len(outside):
        raise SourceUnavailable(
            f"tushare {endpoint.name}: asked for {first:%Y-%m-%d} to {last:%Y-%m-%d}, the answer also holds "
            f"{outside[endpoint.on].iloc[0]}",
            endpoint=endpoint.name,
        )
