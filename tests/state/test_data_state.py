"""The data state: commits, merging, refusals, isolation, spilling, cost."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import UnknownCommit
from quantgraph.market import Moment
from quantgraph.state import DataState


def test_a_commit_never_changes_and_the_head_is_the_latest(store, frame):
    first = store.update("ohlcv", {"close": frame})
    second = store.update("ohlcv", {"close": frame + 1})
    assert store.head == second
    assert store.snapshot(first)["ohlcv"]["close"].iat[0, 1] == 1.0
    assert store.snapshot(second)["ohlcv"]["close"].iat[0, 1] == 2.0


def test_a_signal_replaces_the_one_of_its_name(store, frame):
    store.update("signal", {"s": frame * 0 + 1})
    store.update("signal", {"s": (frame * 0).iloc[1:]})
    assert store.snapshot()["signal"]["s"].shape == (4, 3)


def test_override_replaces_whole_panels(store, frame):
    store.update("ohlcv", {"close": frame, "open": frame})
    store.override(ohlcv={"close": frame}, signal={})
    assert list(store.snapshot()["ohlcv"]) == ["close"]


def test_parallel_writers_lose_nothing(store, frame):
    tree = store.checkout()
    barrier = threading.Barrier(8)

    def publish(number):
        barrier.wait()
        for step in range(20):
            tree.update(
                "ohlcv", {"close": frame[["600519.SH"]].set_axis([f"{number:03d}{step:03d}.SZ"], axis=1)}
            )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(publish, range(8)))
    assert tree.snapshot()["ohlcv"]["close"].shape == (5, 160)


def test_runs_on_their_own_refs_do_not_see_each_other(store, frame):
    def run(number):
        tree = store.checkout()
        tree.update("ohlcv", {"close": frame[["600519.SH"]].set_axis([f"{number:06d}.SZ"], axis=1)})
        return list(tree.snapshot()["ohlcv"]["close"].columns)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(run, range(50))) == [[f"{number:06d}.SZ"] for number in range(50)]


def test_a_spilled_commit_is_loaded_by_ref_in_another_process(tmp_path, frame):
    store = DataState(tmp_path)
    ref = store.update("ohlcv", {"close": frame.mask(frame == 4.0)})
    code = (
        "import sys; from quantgraph.state import DataState\n"
        "store = DataState(sys.argv[1])\nclose = store.snapshot(sys.argv[2])['ohlcv']['close']\n"
        "close.iloc[0, 0] = 5.0\n"
        "print(close.to_csv())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), ref], capture_output=True, text=True, check=True
    )
    expected = frame.mask(frame == 4.0).rename_axis("trade_date")
    expected.iloc[0, 0] = 5.0
    assert done.stdout.strip() == expected.to_csv().strip()
    assert DataState(tmp_path).snapshot(ref)["ohlcv"]["close"].iat[0, 0] == 0.0


def test_what_is_kept_in_memory_is_bounded(tmp_path, frame):
    size = frame.size * 8 + 5 * 8
    store = DataState(tmp_path, memory_limit=3 * size)
    refs = [store.update("ohlcv", {"close": frame + number}) for number in range(10)]
    assert len(store._commits) <= 4
    assert store.snapshot(refs[0])["ohlcv"]["close"].iat[0, 0] == 0.0
    forgetful = DataState(memory_limit=3 * size)
    refs = [forgetful.update("ohlcv", {"close": frame + number}) for number in range(10)]
    assert forgetful.snapshot(refs[-1])["ohlcv"]["close"].iat[0, 0] == 9.0
    with pytest.raises(UnknownCommit, match="no spill folder"):
        forgetful.snapshot(refs[0])


def _panel(sessions, symbols):
    index = pd.date_range("2000-01-03", periods=sessions, freq="D")
    columns = [f"{number:06d}.SZ" for number in range(symbols)]
    values = np.ones((sessions, symbols))
    return {name: pd.DataFrame(values, index=index, columns=columns, copy=False) for name in "abcde"}


@pytest.mark.proof
def test_a_snapshot_costs_the_same_for_a_small_and_a_large_panel():
    small, large = DataState(), DataState()
    small.update("ohlcv", _panel(250, 50))
    large.update("ohlcv", _panel(2500, 5000))

    def cost(store):
        best = []
        for _ in range(7):
            started = time.perf_counter()
            for _ in range(200):
                store.snapshot()
            best.append((time.perf_counter() - started) / 200)
        return min(best)

    small_cost, large_cost = cost(small), cost(large)
    assert large_cost < 20e-6
    assert large_cost < 3 * small_cost + 1e-6


def _alone(frame, name):
    return {"close": frame[["600519.SH"]].set_axis([name], axis=1)}


def test_readers_of_the_head_never_meet_a_commit_that_is_gone(frame):
    store = DataState(memory_limit=1)
    store.update("signal", {"s": frame * 0})
    done = threading.Event()

    def read():
        count = 0
        while not done.is_set() or not count:
            assert len(store.snapshot()["signal"]["s"]) == 5
            assert len(store.get_field("signal")["s"]) == 5
            assert len(store.view(Moment.at("2024-02-01"))["signal"]["s"]) == 5
            count += 1
        return count

    def write(number):
        for step in range(150):
            store.update("signal", {"s": (frame * 0).mask(frame == step % 15, number - 1)})

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as pool:
            readers = [pool.submit(read) for _ in range(3)]
            writers = [pool.submit(write, number) for number in range(3)]
            for writer in writers:
                writer.result()
            done.set()
            assert all(reader.result() > 0 for reader in readers)
    finally:
        done.set()
        sys.setswitchinterval(interval)


def test_the_commit_under_a_living_working_tree_is_kept(frame):
    store = DataState(memory_limit=1)
    tree = store.checkout(store.update("ohlcv", {"close": frame}))
    first = tree.ref
    others = [store.update("ohlcv", {"close": frame + number}, base=store.empty) for number in range(1, 4)]
    assert store.snapshot(first)["ohlcv"]["close"].iat[0, 1] == 1.0
    with pytest.raises(UnknownCommit):
        store.snapshot(others[0])
    second = tree.update("ohlcv", {"open": frame})
    store.update("ohlcv", {"close": frame - 1}, base=store.empty)
    assert store.snapshot(second).ref == tree.snapshot().ref == tree.ref
    assert list(tree.view(Moment.at("2024-02-01"))["ohlcv"]) == ["open", "close"]
    with pytest.raises(UnknownCommit):
        store.snapshot(first)
    del tree
    store.update("ohlcv", {"close": frame - 2}, base=store.empty)
    with pytest.raises(UnknownCommit):
        store.snapshot(second)


def test_a_working_tree_on_a_spilled_commit_keeps_it_too(tmp_path, frame):
    ref = DataState(tmp_path).update("ohlcv", {"close": frame})
    store = DataState(tmp_path, memory_limit=1)
    tree = store.checkout(ref)
    store.update("ohlcv", {"close": frame + 1})
    shutil.rmtree(tmp_path)
    assert store.snapshot(ref).ref == tree.snapshot().ref == ref
    with pytest.raises(UnknownCommit):
        store.checkout("0" * 32)


@pytest.mark.parametrize("spilled", [False, True])
def test_parallel_updates_of_the_head_lose_nothing_to_each_other(tmp_path, frame, spilled):
    store = DataState(tmp_path if spilled else None)
    barrier = threading.Barrier(8)

    def publish(number):
        barrier.wait()
        for step in range(10):
            store.update("ohlcv", _alone(frame, f"{number:03d}{step:03d}.SZ"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(publish, range(8)))
    assert store.snapshot()["ohlcv"]["close"].shape == (5, 80)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the slow disk is a named pipe")
def test_while_an_update_is_being_written_others_read_and_commit_and_it_builds_on_them(tmp_path, frame):
    store, moves = DataState(tmp_path), 5
    store.update("signal", {"s": frame * 0})
    large = _panel(300, 100)["a"]  # 240 kB: more than a pipe takes at once
    DataState(tmp_path / "twin").update("ohlcv", {"close": large})
    (twin,) = (tmp_path / "twin" / "objects").iterdir()

    def slow():
        pipe = tmp_path / "objects" / f".{twin.name}.{os.getpid()}.{threading.get_ident()}"
        os.mkfifo(pipe)
        ready.put(pipe)
        return store.update("ohlcv", {"close": large})

    ready = queue.Queue()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(slow)
        with ready.get(timeout=10).open("rb") as pipe:  # opens when the other end is being written
            for number in range(moves):
                run = store.update("indicators", {f"i{number}": frame}, base=store.empty)
                assert list(store.snapshot()["indicators"]) == [f"i{number}"]
            assert not writing.done()
            pipe.read()
        ref = writing.result(timeout=10)
    assert store.head == ref
    made = store.snapshot(ref)
    assert {panel: list(made[panel]) for panel in made} == {
        "ohlcv": ["close"],
        "indicators": list(store.snapshot(run)["indicators"]),
        "index": [],
        **{panel: [] for panel in ("signal", "weights", "score")},
    }


@pytest.mark.proof
def test_readers_do_not_wait_for_a_large_update(tmp_path, frame):
    store = DataState(tmp_path)
    store.update("ohlcv", _alone(frame, "000001.SZ"))

    def share_waited(number):
        """The longest wait of a reader, by the time that the writer takes meanwhile."""
        panel = {name: part + number for name, part in _panel(2500, 1000).items()}  # 5 x 20 MB
        begun = time.perf_counter()
        with ThreadPoolExecutor(1) as pool:
            writing, longest, reads = pool.submit(store.update, "ohlcv", panel), 0.0, 0
            while not writing.done():
                started = time.perf_counter()
                store.snapshot()
                longest = max(longest, time.perf_counter() - started)
                reads += 1
        assert reads > 10
        return longest / (time.perf_counter() - begun)

    assert any(share_waited(number) < 0.25 for number in range(5)), "else the machine was busy each time"


def test_a_read_only_state_loads_what_is_there_and_writes_nothing(tmp_path, frame):
    ref = DataState(tmp_path).update("ohlcv", {"close": frame})
    files = sorted(tmp_path.rglob("*"))
    reader = DataState(tmp_path, read_only=True)
    later = reader.update("ohlcv", {"open": frame + 1}, base=ref)
    assert reader.snapshot(later)["ohlcv"]["close"].equals(frame)
    assert sorted(tmp_path.rglob("*")) == files
