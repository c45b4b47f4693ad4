from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantgraph.data._vendor_store import CachedTable, CacheKey, ParquetCache
from quantgraph.errors import BadFile

FIRST, LAST = pd.Timestamp("2024-01-02").as_unit("us"), pd.Timestamp("2024-01-31").as_unit("us")
ROWS = pd.DataFrame(
    {
        "ts_code": pd.Series(["600000.SH", None], dtype="str"),
        "trade_date": pd.Series([FIRST, pd.NaT]).astype("datetime64[us]"),
        "close": [6.61, float("nan")],
    }
)
TABLE = CachedTable(rows=ROWS, first=FIRST, last=LAST)


def key(**params: str) -> CacheKey:
    return CacheKey(endpoint="daily", params=params, fields=("ts_code", "close"))


@pytest.fixture
def cache(tmp_path) -> ParquetCache:
    return ParquetCache(tmp_path / "cache")


def test_what_was_written_is_read_with_types_gaps_and_days(cache):
    cache.write(key(ts_code="a"), TABLE)
    kept = cache.read(key(ts_code="a"))
    pd.testing.assert_frame_equal(kept.rows, ROWS)
    assert (kept.first, kept.last) == (FIRST, LAST)
    assert cache.covered(key(ts_code="a")) == (FIRST, LAST)


def test_a_table_without_rows_keeps_its_types(cache):
    cache.write(key(), CachedTable(rows=ROWS.head(0), first=FIRST, last=LAST))
    pd.testing.assert_frame_equal(cache.read(key()).rows, ROWS.head(0))


def test_the_folder_is_created_on_the_first_write(cache):
    assert cache.read(key()) is None
    assert cache.covered(key()) is None
    assert not cache.folder.exists()


def test_endpoint_params_and_fields_are_the_key(cache):
    cache.write(key(ts_code="a"), TABLE)
    others = [
        key(ts_code="b"),
        key(trade_date="a"),
        CacheKey(endpoint="daily_basic", params={"ts_code": "a"}, fields=("ts_code", "close")),
        CacheKey(endpoint="daily", params={"ts_code": "a"}, fields=("ts_code", "open")),
    ]
    assert [cache.read(other) for other in others] == [None] * 4


def test_the_order_of_params_is_not_the_key():
    assert key(a="1", b="2").file_name == key(b="2", a="1").file_name


def test_hostile_params_stay_in_the_folder(cache):
    hostile = key(ts_code="../../etc/passwd\0", name="x" * 500)
    cache.write(hostile, TABLE)
    assert cache.path(hostile).resolve().is_relative_to(cache.folder.resolve())
    assert cache.read(hostile) is not None


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.99])
def test_a_cut_file_is_damaged(cache, share):
    cache.write(key(), TABLE)
    whole = cache.path(key()).read_bytes()
    cache.path(key()).write_bytes(whole[: int(len(whole) * share)])
    for read in (cache.read, cache.covered):
        with pytest.raises(BadFile, match="is damaged"):
            read(key())


@pytest.mark.parametrize("share", [0.2, 0.3, 0.4, 0.5])
def test_a_flipped_bit_among_the_rows_is_noticed(cache, share):
    # Numbers that cannot be compressed: decompression alone would not notice.
    rows = pd.DataFrame({"close": np.random.default_rng(0).random(2000)})
    cache.write(key(), CachedTable(rows=rows, first=FIRST, last=LAST))
    content = bytearray(cache.path(key()).read_bytes())
    content[int(len(content) * share)] ^= 1
    cache.path(key()).write_bytes(bytes(content))
    with pytest.raises(BadFile, match="is damaged"):
        cache.read(key())


def test_a_parquet_file_without_the_metadata_is_damaged(cache):
    path = cache.path(key())
    path.parent.mkdir(parents=True)
    ROWS.to_parquet(path)
    with pytest.raises(BadFile, match="is damaged"):
        cache.read(key())


def test_a_write_that_fails_leaves_the_old_table_and_no_litter(cache):
    cache.write(key(), TABLE)
    broken = pd.DataFrame({"close": [1.0, object()]})
    with pytest.raises(Exception, match="Could not convert"):
        cache.write(key(), CachedTable(rows=broken, first=FIRST, last=LAST))
    pd.testing.assert_frame_equal(cache.read(key()).rows, ROWS)
    assert len(list(cache.path(key()).parent.iterdir())) == 1


def test_a_crash_while_writing_leaves_the_old_table_and_no_litter(cache, monkeypatch):
    cache.write(key(), TABLE)

    def crash(table, file, **options):
        file.write(b"PAR1 half a table")
        raise KeyboardInterrupt

    monkeypatch.setattr("quantgraph.data._vendor_store.pq.write_table", crash)
    with pytest.raises(KeyboardInterrupt):
        cache.write(key(), CachedTable(rows=ROWS.head(1), first=FIRST, last=LAST))
    pd.testing.assert_frame_equal(cache.read(key()).rows, ROWS)
    assert len(list(cache.path(key()).parent.iterdir())) == 1


def test_readers_see_whole_tables_while_writers_replace_them(cache):
    tables = [
        CachedTable(rows=pd.DataFrame({"n": [size] * size}), first=FIRST, last=LAST)
        for size in (1, 500, 3000)
    ]
    cache.write(key(), tables[0])
    done = threading.Event()
    wrong: list[object] = []

    def write() -> None:
        for turn in range(30):
            cache.write(key(), tables[turn % 3])

    def read() -> None:
        while not done.is_set():
            rows = cache.read(key()).rows
            if set(rows["n"]) != {len(rows)}:
                wrong.append(rows)

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=write) for _ in range(2)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    assert len(list(cache.path(key()).parent.iterdir())) == 1


def test_rows_that_are_not_those_that_were_written_are_damage(cache):
    cache.write(key(ts_code="a"), TABLE)
    place = cache.path(key(ts_code="a"))
    table = pq.read_table(place)
    dearer = pa.array([6.62, None])
    other = table.set_column(2, "close", dearer).replace_schema_metadata(table.schema.metadata)
    pq.write_table(other, place)
    with pytest.raises(BadFile, match="is damaged"):
        cache.read(key(ts_code="a"))
