"""Cache of tables as Parquet files, each with the days it covers.

One file holds one table and, in its metadata, the closed interval of days for which the table is
complete. A finished file is renamed over the old one, so that a reader in another thread or process sees the
old table or the new one. Pages carry checksums, which reveal a damaged file.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from quantgraph.errors import BadFile

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
        return f"{re.sub(r'[^A-Za-z0-9.,=_-]', '_', words)[:80] or 'all'}-{digest}.parquet"


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
        """First and last day covered, without reading the rows; None if the key has no table.

        Raises
        ------
        BadFile
            If the file is damaged.
        """
        path = self.path(key)
        try:
            return _days_of(pq.read_schema(path), path)
        except FileNotFoundError:
            return None
        except (pa.ArrowException, OSError) as error:
            raise _damaged(path, error) from error

    def read(self, key: CacheKey) -> CachedTable | None:
        """Table of a key; None if it has none.

        Raises
        ------
        BadFile
            If the file is damaged.
        """
        path = self.path(key)
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read(use_threads=False)
            rows = table.to_pandas()
        except FileNotFoundError:
            return None
        except (pa.ArrowException, OSError) as error:
            raise _damaged(path, error) from error
        first, last = _days_of(table.schema, path)
        return CachedTable(rows=rows, first=first, last=last)

    def write(self, key: CacheKey, table: CachedTable) -> None:
        """Write the table of a key, replacing an old one."""
        arrow = pa.Table.from_pandas(table.rows, preserve_index=False)
        days = json.dumps({"first": f"{table.first:%Y%m%d}", "last": f"{table.last:%Y%m%d}"})
        arrow = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), _METADATA: days.encode()})
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
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> BadFile:
    return BadFile(
        f"{path} is damaged ({type(error).__name__}); delete it to have it fetched again", path=str(path)
    )
