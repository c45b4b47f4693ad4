"""Frames go to a code process once, in memory that no child can change."""

from __future__ import annotations

import gc
import mmap
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from quantgraph.sandbox.wire import _shared_frames as shared_frames
from quantgraph.sandbox.wire._shared_frames import FramesReader, SharedFrames, SharedFramesCache
from quantgraph.state.frames import FrozenFrame, freeze


def frozen(value, rows=3, columns=2):
    index = pd.date_range("2024-01-01", periods=rows)
    names = [f"s{number}" for number in range(columns)]
    return freeze("ohlcv", "x", pd.DataFrame(np.full((rows, columns), value), index=index, columns=names))


@pytest.fixture
def cache():
    made = SharedFramesCache()
    yield made
    made.close()


def opened(cache, frames):
    lent, layout = cache.open(frames)
    memory = shared_frames.map_shared_frames(lent)
    os.close(lent)
    return FramesReader(memory, layout).read(layout["rows"])


@pytest.mark.parametrize("system", ["memfd", "a file"])
def test_frames_come_out_as_they_went_in(cache, frames, monkeypatch, system):
    if system == "a file":
        monkeypatch.delattr(os, "memfd_create")
    frames = {**frames, "indicators": {"rare": frozen(np.nan, 1, 4)}, "signal": {}}
    found = opened(cache, frames)
    assert {panel: list(fields) for panel, fields in found.items()} == {
        "ohlcv": ["open", "close"],
        "indicators": ["rare"],
    }
    for panel, fields in found.items():
        for name, frame in fields.items():
            pd.testing.assert_frame_equal(frame.frame, frames[panel][name].frame)
            assert frame.values.ctypes.data % 64 == 0


def test_a_field_without_a_row_and_no_frames_at_all_are_cache_too(cache, frames):
    found = opened(cache, {"ohlcv": {"close": frames["ohlcv"]["close"].head(0)}})
    assert found["ohlcv"]["close"].frame.shape == (0, 3)
    assert opened(cache, {}) == {}


@pytest.mark.parametrize("system", ["memfd", "a file"])
def test_an_opened_descriptor_cannot_change_the_frames(cache, frames, monkeypatch, system):
    if system == "a file":
        monkeypatch.delattr(os, "memfd_create")
    lent, _ = cache.open(frames)
    size = os.fstat(lent).st_size
    for attempt in (
        lambda: os.pwrite(lent, b"x", 0),
        lambda: os.ftruncate(lent, 1),
        lambda: os.ftruncate(lent, size + 4096),
        lambda: mmap.mmap(lent, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE),
    ):
        with pytest.raises(OSError):
            attempt()
    os.close(lent)
    values = opened(cache, frames)["ohlcv"]["close"].values
    with pytest.raises(ValueError, match="WRITEABLE"):
        values.flags.writeable = True


def test_a_child_that_writes_into_its_frames_changes_nothing_for_the_next(forker, frames):
    vandal = (
        "import ctypes\nvalues = snapshot['ohlcv']['close'].to_numpy()\n"
        "page = values.ctypes.data // 4096 * 4096\n"
        "if ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), 4096, 3) == 0:\n"
        "    ctypes.memset(values.ctypes.data, 0x40, 8)\nfloat(values[0, 0])"
    )
    # Linux before 6.7 maps a copy on writing; later ones, memory that nobody can make writable.
    assert forker.run([vandal], frames).value in ("32.501960784313724", "0.0")
    assert forker.run(["snapshot['ohlcv']['close'].iloc[0, 0]"], frames).value == "np.float64(0.0)"


def test_the_file_offset_of_one_call_is_not_seen_by_another(forker, frames):
    code = (
        "import os, stat\nfound = []\nfor n in range(3, 64):\n"
        "    try: found += [n] if stat.S_ISREG(os.fstat(n).st_mode) else []\n    except OSError: pass\n"
        "before = [os.lseek(n, 0, os.SEEK_CUR) for n in found]\n"
        "[os.lseek(n, 12345, os.SEEK_SET) for n in found]\nlen(found), set(before)"
    )
    assert [forker.run([code], frames).value for _ in range(2)] == ["(1, {0})"] * 2


def test_the_same_frames_are_written_once_and_let_go_when_one_of_them_dies(cache, monkeypatch):
    written = []
    write = SharedFrames.write
    monkeypatch.setattr(
        SharedFrames, "write", lambda *given: written.append(len(given[1]["ohlcv"])) or write(*given)
    )
    one, two = frozen(1.0), frozen(2.0)
    for _ in range(3):
        os.close(cache.open({"ohlcv": {"a": one, "b": two}})[0])
    assert written == [2]
    os.close(cache.open({"ohlcv": {"a": one}})[0])
    assert written == [2, 1]
    assert len(cache._cached) == 2
    del two
    gc.collect()
    assert len(cache._cached) == 1


def test_only_the_last_few_are_kept_and_a_large_one_alone(cache, monkeypatch):
    sets = [{"ohlcv": {"a": frozen(float(number))}} for number in range(9)]
    for frames in sets:
        os.close(cache.open(frames)[0])
    assert len(cache._cached) == 4
    monkeypatch.setattr(shared_frames, "_LARGE", 10)
    os.close(cache.open({"ohlcv": {"a": sets[0]["ohlcv"]["a"], "b": sets[1]["ohlcv"]["a"]}})[0])
    assert len(cache._cached) == 1


def test_the_child_does_not_read_all_data_to_name_it(cache, frames):
    frame = opened(cache, frames)["ohlcv"]["close"]
    assert isinstance(frame, FrozenFrame)
    assert frame.digest == "given-1"


def test_shared_memory_that_cannot_be_had_is_one_clear_error():
    """A limit on the size of files stands for a full one: memory that is shared is a file without a name."""
    code = """
import resource, numpy as np, pandas as pd
from quantgraph.errors import StorageUnavailable
from quantgraph.sandbox import ForkRunner
from quantgraph.state.frames import freeze
days = pd.bdate_range("2024-01-02", periods=3000, name="trade_date")
table = pd.DataFrame(np.ones((3000, 100)), days, [f"{n}" for n in range(100)])
frames = {"ohlcv": {"close": freeze("ohlcv", "close", table)}}
runner = ForkRunner()
runner.check()
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    runner.run(["1"], frames)
except StorageUnavailable as error:
    print(error.message)
print(runner.run(["1 + 1"], {}).value)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    first, second = done.stdout.splitlines()
    assert first.startswith(
        "the frames of the code take 2 MB of shared memory, which cannot be had (File too"
    )
    assert second == "2"
