"""Tables of a vendor, fetched once and kept as Parquet files with the days they cover.

One file holds one table and, in its metadata, the closed interval of days for which the table is
complete. A finished file is renamed over the old one, so that a reader in another thread or process sees the
old table or the new one. Pages carry checksums, and the file a hash of its rows, which reveal a damaged file.

What is kept, and when it is fetched again:

* A *series* is one code's rows (or one exchange's calendar) over the days it covers, always one
  interval. A request inside it is served from the cache; one beyond it fetches the missing days and what
  lies between, so that it stays one interval.
* A *day* is one endpoint's rows of all codes on one session. An empty one is kept only if it is more than
  a week old: before that, the vendor may be late.
* Days are settled, and kept, up to yesterday at the vendor's. Rows of today are returned and not kept, so a
  table that was fetched before the vendor had completed the day is never frozen.
* A *list* (listed stocks, names) is fetched again on every new day. If that fails, the old list is used,
  with a note.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta, timezone, tzinfo
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from quantgraph._util.canonical_json import content_hash
from quantgraph.data._vendor_tables import Endpoint, TableClient
from quantgraph.errors import BadFile, NotConfigured, RateLimited, SourceUnavailable

_METADATA = b"quantgraph"


@dataclass(frozen=True, kw_only=True)
class CacheKey:
    """Request that a table answers. Must not hold a secret: it becomes a file name."""

    endpoint: str
    params: Mapping[str, str]
    fields: Sequence[str]

    @property
    def file_name(self) -> str:
        """Readable file name, different for different keys.

        >>> CacheKey(endpoint="daily", params={"ts_code": "600519.SH"}, fields=["close"]).file_name
        'ts_code=600519.SH-2c9ffa6547.parquet'
        """
        text = json.dumps([self.endpoint, sorted(self.params.items()), list(self.fields)])
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        words = ",".join(f"{name}={value}" for name, value in sorted(self.params.items()))
        return f"{re.sub(r'[^A-Za-z0-9.,=_-]', '_', words)[:80] or 'all'}-{digest}.parquet"  # "ts_code=*"


@dataclass(frozen=True, kw_only=True)
class CachedTable:
    """A table that is complete for the days ``first..last`` (both included)."""

    rows: pd.DataFrame
    first: pd.Timestamp
    last: pd.Timestamp


class ParquetCache:
    """Tables by key in a folder, which is created on the first write.

    Safe for several threads and processes; the last writer of a key wins.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"ParquetCache({str(self.folder)!r})"

    def path(self, key: CacheKey) -> Path:
        """File of a key, whether it exists or not."""
        return self.folder / key.endpoint / key.file_name

    def covered(self, key: CacheKey) -> tuple[pd.Timestamp, pd.Timestamp] | None:
        """First and last day covered, without reading the rows; None if the key has no table."""
        path = self.path(key)
        try:
            return _days_of(pq.read_schema(path), path)
        except FileNotFoundError:
            return None
        except (pa.ArrowException, OSError) as error:
            raise _damage(path, error) from error

    def read(self, key: CacheKey) -> CachedTable | None:
        """Table of a key; None if it has none."""
        path = self.path(key)
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read(use_threads=False)
            rows = table.to_pandas()
        except FileNotFoundError:
            return None
        except (pa.ArrowException, OSError) as error:
            raise _damage(path, error) from error
        first, last = _days_of(table.schema, path)
        kept = json.loads(table.schema.metadata[_METADATA]).get("content")  # not there in files of before
        if kept not in {None, _hash(rows)}:
            raise _damage(path, ValueError(path.name))
        return CachedTable(rows=rows, first=first, last=last)

    def write(self, key: CacheKey, table: CachedTable) -> None:
        """Write the table of a key, replacing an old one."""
        arrow = pa.Table.from_pandas(table.rows, preserve_index=False)
        facts = {
            "first": f"{table.first:%Y%m%d}",
            "last": f"{table.last:%Y%m%d}",
            "content": _hash(table.rows),
        }
        metadata = {**(arrow.schema.metadata or {}), _METADATA: json.dumps(facts).encode()}
        arrow = arrow.replace_schema_metadata(metadata)
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".unfinished-", delete=False) as file:
            unfinished = Path(file.name)
            try:
                pq.write_table(arrow, file, write_page_checksum=True)
            except BaseException:
                unfinished.unlink()
                raise
        unfinished.replace(path)


def _days_of(schema: pa.Schema, path: Path) -> tuple[pd.Timestamp, pd.Timestamp]:
    try:
        days = json.loads((schema.metadata or {})[_METADATA])
        return pd.Timestamp(days["first"]), pd.Timestamp(days["last"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damage(path, error) from error


def _hash(rows: pd.DataFrame) -> str:
    """Hash of the names and cells of a table."""
    cells = pd.util.hash_pandas_object(rows, index=False).to_numpy()
    return content_hash(json.dumps(list(rows.columns)), cells.tobytes())


def _damage(path: Path, error: Exception) -> BadFile:
    return BadFile(
        f"{path} is damaged ({type(error).__name__}); delete it to have it fetched again", path=str(path)
    )


SHANGHAI = timezone(timedelta(hours=8), "Asia/Shanghai")  # no summer time since 1991
_DAY = pd.Timedelta(days=1)
_LATE = pd.Timedelta(days=7)


def cache_folder(root: Path, vendor: str, address: str | None) -> Path:
    """Folder of a vendor's cache below ``root``; a server other than the vendor's has one of its own."""
    folder = root / vendor
    return folder / re.sub(r"[^A-Za-z0-9.-]+", "_", address) if address else folder  # "127.0.0.1:80"


def shanghai_now() -> pd.Timestamp:
    """Current time in Shanghai."""
    return pd.Timestamp.now(SHANGHAI)


class VendorStore:
    """Tables from a cache, and from the vendor where the cache has gaps.

    Thread-safe; each table is fetched by one thread at a time. The vendor's days are of ``zone``; it has a
    day's data from ``ready_hour`` on. ``now`` returns the current time with its zone.
    """

    def __init__(
        self,
        client: TableClient,
        cache: ParquetCache,
        *,
        now: Callable[[], pd.Timestamp],
        zone: tzinfo = SHANGHAI,
        ready_hour: int = 17,
    ) -> None:
        self._client = client
        self._cache = cache
        self._now = now
        self._zone = zone
        self._ready_hour = ready_hour
        self._notes: dict[str, None] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()  # guards _notes and _locks

    @property
    def notes(self) -> tuple[str, ...]:
        """All notes, oldest first, each once."""
        with self._guard:
            return tuple(self._notes)

    def note(self, line: str) -> None:
        """Add a note."""
        with self._guard:
            self._notes.setdefault(line)

    @property
    def today(self) -> pd.Timestamp:
        """The vendor's date."""
        return self._now().tz_convert(self._zone).tz_localize(None).normalize().as_unit("us")

    @property
    def last_ready_day(self) -> pd.Timestamp:
        """Last day whose data the vendor has: today from its ready hour on, yesterday before."""
        ready = self._now().tz_convert(self._zone).hour >= self._ready_hour
        return self.today if ready else self.today - _DAY

    def series(self, endpoint: Endpoint, code: str, first: pd.Timestamp, last: pd.Timestamp) -> pd.DataFrame:
        """One code's rows on ``first..last``, ascending by day."""
        key = _series_key(endpoint, code)
        with self._lock_key(key):
            kept, damage = self._read(key)
            gaps = _gaps((kept.first, kept.last) if kept else None, first, last)
            if kept and not gaps:
                return _between(kept.rows, endpoint.day, first, last)
            with _with_damage(damage):
                fresh = [self._fetch_series(endpoint, code, *gap) for gap in gaps]
            rows = _sort([kept.rows, *fresh] if kept else fresh, endpoint.day)
            start = min(first, kept.first) if kept else first
            settled = min(last, self.today - _DAY)
            end = max(kept.last, settled) if kept else settled
            if start <= end and (endpoint.keeps_empty or len(rows)):
                self._cache.write(
                    key, CachedTable(rows=_between(rows, endpoint.day, start, end), first=start, last=end)
                )
            return _between(rows, endpoint.day, first, last)

    def series_calls(self, endpoint: Endpoint, code: str, first: pd.Timestamp, last: pd.Timestamp) -> int:
        """Number of requests that :meth:`series` would make: one for each gap."""
        try:
            covered = self._cache.covered(_series_key(endpoint, code))
        except BadFile:
            return 1
        return len(_gaps(covered, first, last))

    def cached_series(self, endpoint: Endpoint, code: str) -> pd.DataFrame | None:
        """Cached rows of a series, without a request; None if there are none."""
        kept, _ = self._read(_series_key(endpoint, code))
        return kept.rows if kept else None

    def day(self, endpoint: Endpoint, day: pd.Timestamp) -> pd.DataFrame:
        """All codes' rows of one session."""
        key = _day_key(endpoint, day)
        with self._lock_key(key):
            kept, damage = self._read(key)
            if kept:
                return kept.rows
            with _with_damage(damage):
                rows = self._client.fetch(endpoint, key.params)
            self._check_days(endpoint, rows, day, day)
            if day < (self.today if len(rows) else self.today - _LATE):
                self._cache.write(key, CachedTable(rows=rows, first=day, last=day))
            return rows

    def has_day(self, endpoint: Endpoint, day: pd.Timestamp) -> bool:
        """Whether :meth:`day` needs no request."""
        return self._cache.path(_day_key(endpoint, day)).exists()

    def listing(self, endpoint: Endpoint, params: Mapping[str, str]) -> pd.DataFrame:
        """List as of today, else the newest one in the cache."""
        key = CacheKey(endpoint=endpoint.name, params=params, fields=endpoint.fields)
        with self._lock_key(key):
            kept, damage = self._read(key)
            if kept and kept.last == self.today:
                return kept.rows
            try:
                with _with_damage(damage):
                    rows = self._client.fetch(endpoint, params)
            except (SourceUnavailable, NotConfigured, RateLimited) as error:
                if kept is None:
                    raise
                self.note(f"{endpoint.name} is as of {kept.last:%Y-%m-%d} ({error.line})")
                return kept.rows
            self._cache.write(key, CachedTable(rows=rows, first=self.today, last=self.today))
            return rows

    def _fetch_series(
        self, endpoint: Endpoint, code: str, first: pd.Timestamp, last: pd.Timestamp
    ) -> pd.DataFrame:
        window = {"start_date": f"{first:%Y%m%d}", "end_date": f"{last:%Y%m%d}"}
        fixed = {endpoint.key: code, **endpoint.parts[0]}
        rows = self._client.fetch(endpoint, {**fixed, **(window if endpoint.windowed else {})})
        if endpoint.windowed:
            self._check_days(endpoint, rows, first, last)
        else:
            rows = _between(rows, endpoint.day, first, last)
        others = set(rows[endpoint.key].unique()) - {code}
        if others:
            raise SourceUnavailable(
                f"{self._client.vendor} {endpoint.name}: asked for {endpoint.key}={code}, the answer also "
                f"holds {min(others)}",
                endpoint=endpoint.name,
            )
        return rows

    def _check_days(
        self, endpoint: Endpoint, rows: pd.DataFrame, first: pd.Timestamp, last: pd.Timestamp
    ) -> None:
        outside = rows[~rows[endpoint.day].between(first, last)]
        if len(outside):
            raise SourceUnavailable(
                f"{self._client.vendor} {endpoint.name}: asked for {first:%Y-%m-%d} to {last:%Y-%m-%d}, the "
                f"answer also holds {outside[endpoint.day].iloc[0]}",
                endpoint=endpoint.name,
            )

    def _read(self, key: CacheKey) -> tuple[CachedTable | None, BadFile | None]:
        try:
            return self._cache.read(key), None
        except BadFile as damage:
            self.note(f"the cache had to be fetched again: {damage}")
            return None, damage

    @contextmanager
    def _lock_key(self, key: CacheKey) -> Iterator[None]:
        with self._guard:
            lock = self._locks.setdefault(f"{key.endpoint}/{key.file_name}", threading.Lock())
        with lock:
            yield


@contextmanager
def _with_damage(damage: BadFile | None) -> Iterator[None]:
    """Mention a damaged cache file in the error of the request that should have replaced it."""
    try:
        yield
    except (SourceUnavailable, NotConfigured) as error:
        if damage is None:
            raise
        raise type(error)(f"{error}; and the cached copy cannot be used: {damage}", **error.data) from damage


def _series_key(endpoint: Endpoint, code: str) -> CacheKey:
    return CacheKey(endpoint=endpoint.name, params={endpoint.key: code}, fields=endpoint.fields)


def _day_key(endpoint: Endpoint, day: pd.Timestamp) -> CacheKey:
    params = {endpoint.day: f"{day:%Y%m%d}"}
    return CacheKey(endpoint=endpoint.name, params=params, fields=endpoint.fields)


def _gaps(
    covered: tuple[pd.Timestamp, pd.Timestamp] | None, first: pd.Timestamp, last: pd.Timestamp
) -> list[tuple[pd.Timestamp, pd.Timestamp]]:
    if covered is None:
        return [(first, last)]
    before = [(first, covered[0] - _DAY)] if first < covered[0] else []
    return before + ([(covered[1] + _DAY, last)] if last > covered[1] else [])


def _between(rows: pd.DataFrame, day: str, first: pd.Timestamp, last: pd.Timestamp) -> pd.DataFrame:
    return rows[rows[day].between(first, last)].reset_index(drop=True)


def _sort(tables: Sequence[pd.DataFrame], day: str) -> pd.DataFrame:
    filled = [table for table in tables if len(table)] or list(tables[:1])
    return pd.concat(filled, ignore_index=True).sort_values(day, kind="stable", ignore_index=True)
