"""The data state: commits, merging, refusals, isolation, spilling, cost."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import BadFile, BadFrame, FutureRequested, QuantGraphError, UnknownCommit, UnknownField
from quantgraph.market.moment import Moment
from quantgraph.state import GLOBAL_DATA_STATE, DataState


def test_a_snapshot_reads_like_the_dictionaries_it_stands_for(store, frame):
    store.update("ohlcv", {"close": frame})
    snapshot = store.snapshot()
    assert list(snapshot) == ["ohlcv", "indicators", "signal"]
    assert list(snapshot["ohlcv"].keys()) == ["close"]
    assert bool(snapshot["ohlcv"]) is True
    assert bool(snapshot["signal"]) is False
    assert snapshot["ohlcv"]["close"].shape == (5, 3)
    assert snapshot["ohlcv"]["close"].index.name == "trade_date"
    assert snapshot["ohlcv"]["close"].columns.name == "ts_code"
    pd.testing.assert_frame_equal(
        store.get_field("ohlcv")["close"], frame, check_names=False, check_freq=False
    )
    assert GLOBAL_DATA_STATE is not store


def test_equal_content_has_one_name_and_other_content_another(frame):
    one, two = DataState(), DataState()
    ref = one.update("ohlcv", {"close": frame, "open": frame + 1})
    two.update("ohlcv", {"open": frame + 1})
    assert two.update("ohlcv", {"close": frame}) == ref
    changed = frame.copy()
    changed.iloc[4, 2] += 1e-12 * 14
    assert two.update("ohlcv", {"close": changed}) != ref


def test_negative_zero_and_nan_payloads_do_not_change_the_name(store, frame):
    plain = frame.copy()
    odd = frame.copy()
    odd.iloc[0, 0] = -0.0
    assert store.update("ohlcv", {"close": plain}) == DataState().update("ohlcv", {"close": odd})


def test_a_commit_never_changes_and_the_head_is_the_latest(store, frame):
    first = store.update("ohlcv", {"close": frame})
    second = store.update("ohlcv", {"close": frame + 1})
    assert store.head == second
    assert store.snapshot(first)["ohlcv"]["close"].iat[0, 1] == 1.0
    assert store.snapshot(second)["ohlcv"]["close"].iat[0, 1] == 2.0


def test_frames_merge_by_session_and_symbol(store, frame):
    left = frame.iloc[:3, :2]
    right = (frame + 100).iloc[2:, 1:]
    store.update("ohlcv", {"close": left})
    store.update("ohlcv", {"close": right})
    merged = store.snapshot()["ohlcv"]["close"]
    expected = right.combine_first(left).sort_index(axis=1)  # pandas' own union, newer first
    pd.testing.assert_frame_equal(merged, expected, check_names=False, check_freq=False)


def test_a_second_symbol_does_not_erase_the_first_and_nan_erases_nothing(store, frame):
    store.update("ohlcv", {"close": frame[["600519.SH"]]})
    store.update("ohlcv", {"close": frame[["000001.SZ"]]})
    assert list(store.snapshot()["ohlcv"]["close"].columns) == ["000001.SZ", "600519.SH"]
    store.update("ohlcv", {"close": frame[["600519.SH"]] * np.nan})
    assert store.snapshot()["ohlcv"]["close"]["600519.SH"].tolist() == [2.0, 5.0, 8.0, 11.0, 14.0]


def test_a_signal_replaces_the_one_of_its_name(store, frame):
    store.update("signal", {"s": frame * 0 + 1})
    store.update("signal", {"s": (frame * 0).iloc[1:]})
    assert store.snapshot()["signal"]["s"].shape == (4, 3)


def test_override_replaces_whole_panels(store, frame):
    store.update("ohlcv", {"close": frame, "open": frame})
    store.override(ohlcv={"close": frame}, signal={})
    assert list(store.snapshot()["ohlcv"]) == ["close"]


def _index(frame, index):
    out = frame.copy()
    out.index = index
    return out


BAD = {
    "not a frame": (lambda f: f["600519.SH"], "Series"),
    "empty": (lambda f: f.iloc[:0], "shape (0, 3)"),
    "integer index": (lambda f: _index(f, range(5)), "DatetimeIndex"),
    "text index": (lambda f: _index(f, [str(d) for d in f.index]), "DatetimeIndex"),
    "time zone": (lambda f: _index(f, f.index.tz_localize("Asia/Shanghai")), "Asia/Shanghai"),
    "time of day": (lambda f: _index(f, f.index + pd.Timedelta(hours=15)), "2024-01-02 15:00:00"),
    "duplicate session": (lambda f: _index(f, f.index[[0, 1, 1, 2, 3]]), "2024-01-03 twice"),
    "unsorted": (lambda f: f.iloc[[0, 2, 1, 3, 4]], "row 2 (2024-01-03)"),
    "missing session": (lambda f: _index(f, [pd.NaT, *f.index[1:]]), "NaT in its index at row 0"),
    "duplicate symbol": (lambda f: f.set_axis(["a", "b", "a"], axis=1), "'a' twice"),
    "numeric symbol": (lambda f: f.set_axis([1, 2, 3], axis=1), "1 as column 0"),
    "text cell": (lambda f: f.astype(object).mask(f == 4.0, "n/a"), "'n/a' at (2024-01-03, 600000.SH)"),
    "flags": (lambda f: f > 3, "False at (2024-01-02, 000001.SZ)"),
    "infinite": (lambda f: f.mask(f == 7.0, np.inf), "inf at (2024-01-04, 600000.SH)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_frames_are_refused_with_the_first_bad_place_and_nothing_enters(store, frame, case):
    spoil, place = BAD[case]
    before = store.update("ohlcv", {"open": frame})
    with pytest.raises(BadFrame) as caught:
        store.update("ohlcv", {"high": frame, "close": spoil(frame)})
    assert place in caught.value.message
    assert "\n" not in caught.value.message
    assert isinstance(caught.value, ValueError)
    assert store.head == before


@pytest.mark.parametrize("value", [0.5, 2.0, -2.0, np.inf, -np.inf])
def test_signal_values_are_one_zero_minus_one_or_nan(store, frame, value):
    good = (frame * 0).mask(frame == 3.0, np.nan)
    store.update("signal", {"s": good})
    with pytest.raises(
        BadFrame, match=r"at \(2024-01-04, 600519.SH\); signal values are 1, 0, -1 or NaN"
    ) as caught:
        store.update("signal", {"s": good.mask(frame == 8.0, value)})
    assert caught.value.data["symbol"] == "600519.SH"


def test_unknown_names_are_refused_with_what_there_is(store, frame):
    with pytest.raises(UnknownField, match="did you mean 'signal'"):
        store.update("signals", {"s": frame})
    store.update("ohlcv", {"close": frame})
    with pytest.raises(KeyError, match="there is no ohlcv field 'clsoe'; there is close"):
        store.snapshot()["ohlcv"]["clsoe"]
    assert store.snapshot()["ohlcv"].get("clsoe") is None
    with pytest.raises(UnknownCommit, match="fetch the data again"):
        store.snapshot("0" * 32)


def test_nothing_handed_out_can_change_the_store(store, frame):
    ref = store.update("ohlcv", {"close": frame})
    handed = store.snapshot()["ohlcv"]["close"]
    handed.iloc[0, 0] = 99.0
    handed["new"] = 1.0
    handed.index.name = "hacked"
    handed.columns.name = "hacked"
    again = store.snapshot()["ohlcv"]["close"]
    for array in (again.to_numpy(), again.values, again.index.values, again["600519.SH"].to_numpy()):
        base = array
        while base is not None and isinstance(base, np.ndarray):
            with pytest.raises(ValueError, match=r"WRITEABLE|writeable"):
                base.flags.writeable = True
            base = base.base
    with pytest.raises(TypeError):
        store.snapshot()["ohlcv"]["close"] = frame  # type: ignore[index]
    frame.iloc[1, 1] = 77.0
    fresh = store.snapshot(ref)["ohlcv"]["close"]
    assert fresh.to_numpy().tolist() == np.arange(15.0).reshape(5, 3).tolist()
    assert (fresh.index.name, fresh.columns.name, list(fresh.columns)[-1]) == (
        "trade_date",
        "ts_code",
        "600519.SH",
    )


def test_a_view_ends_at_its_moment_field_by_field(store, frame):
    store.update("ohlcv", {"open": frame, "close": frame, "pre_close": frame})
    store.update("indicators", {"pe": frame})
    store.update("signal", {"s": frame * 0})

    def last(phase):
        view = store.view(Moment.at("2024-01-04", phase))
        rows = {name: len(view["ohlcv"][name]) for name in view["ohlcv"]}
        return rows | {"pe": len(view["indicators"]["pe"]), "s": len(view["signal"]["s"])}

    assert last("pre_open") == {"open": 2, "close": 2, "pre_close": 3, "pe": 2, "s": 2}
    assert last("open") == {"open": 3, "close": 2, "pre_close": 3, "pe": 2, "s": 2}
    assert last("close") == {"open": 3, "close": 3, "pre_close": 3, "pe": 2, "s": 2}
    assert last("post_close") == {"open": 3, "close": 3, "pre_close": 3, "pe": 3, "s": 3}


def test_the_memory_behind_a_view_ends_there_too(store, frame):
    store.update("ohlcv", {"close": frame})
    known = store.view(Moment.at("2024-01-04", "open"))["ohlcv"]["close"]
    for array in (known.to_numpy(), known.index.values):
        base = array
        while isinstance(base, np.ndarray):
            assert base.size <= known.size
            base = base.base
        assert len(base) <= known.size * 8


def test_a_row_of_the_future_cannot_be_asked_for(store, frame):
    store.update("ohlcv", {"open": frame, "close": frame})
    view = store.view(Moment.at("2024-01-04", "open"))
    assert view.row("ohlcv", "close")["600519.SH"] == 5.0
    assert view.row("ohlcv", "open", "2024-01-04")["600519.SH"] == 8.0
    assert view.row("ohlcv", "close", "2024-01-02")["600519.SH"] == 2.0
    for field, session in (("close", "2024-01-04"), ("open", "2024-01-05"), ("close", "2030-01-01")):
        with pytest.raises(FutureRequested):
            view.row("ohlcv", field, session)


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


def test_the_fields_of_a_commit_are_in_one_order_whoever_made_or_loaded_it(tmp_path, frame):
    names = ["vol", "close", "high", "adj_factor", "low", "open"]
    ref = DataState(tmp_path).update("ohlcv", dict.fromkeys(names, frame))
    orders = [
        list(store.snapshot(store.update("ohlcv", dict.fromkeys(names[::-1], frame)))["ohlcv"])
        for store in (DataState(tmp_path), DataState())
    ]
    assert [list(DataState(tmp_path).snapshot(ref)["ohlcv"]), *orders] == [
        ["open", "high", "low", "close", "adj_factor", "vol"]
    ] * 3


def test_a_changed_spill_file_is_refused(tmp_path, frame):
    ref = DataState(tmp_path).update("ohlcv", {"close": frame})
    path = next((tmp_path / "objects").iterdir())
    content = bytearray(path.read_bytes())
    place = content.index(np.float64(14.0).tobytes())
    content[place : place + 8] = np.float64(15.0).tobytes()
    path.write_bytes(bytes(content))
    with pytest.raises(BadFile, match="has been changed"):
        DataState(tmp_path).snapshot(ref)


def test_spilling_can_begin_late(tmp_path, store, frame):
    ref = store.update("ohlcv", {"close": frame})
    store.spill_to(tmp_path)
    assert DataState(tmp_path).snapshot(ref)["ohlcv"]["close"].shape == (5, 3)


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


def test_every_error_has_a_code_a_line_and_a_builtin():
    import inspect

    from quantgraph import errors

    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, QuantGraphError)]
    codes = [c.code for c in classes]
    assert len(set(codes)) == len(codes) > 15
    for kind in classes:
        error = kind("what is wrong", where="here")
        assert str(error) == "what is wrong"
        assert error.line == f"{kind.code}: what is wrong"
        assert kind is QuantGraphError or len([b for b in kind.__mro__ if b.__module__ == "builtins"]) >= 3


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


def test_equal_frames_are_one_buffer(frame):
    store = DataState()
    first = store.update("ohlcv", {"close": frame, "open": frame.copy()})
    second = store.override(ohlcv={"close": frame.copy()}, base=store.empty)
    blocks = [
        store.snapshot(ref)["ohlcv"][name].to_numpy()
        for ref, name in ((first, "close"), (first, "open"), (second, "close"))
    ]
    assert len({block.__array_interface__["data"][0] for block in blocks}) == 1


def test_memory_is_what_the_bound_counts():
    panel = pd.DataFrame(
        np.ones((500, 500)),
        index=pd.date_range("2020-01-01", periods=500),
        columns=list(map(str, range(500))),
    )
    store = DataState()
    tracemalloc.start()
    for day in range(8):
        store.update("indicators", {f"f{day}": panel.copy()}, base=store.empty)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 2_000_000 < held < 4_000_000  # one block of 500 x 500 x 8 bytes, not eight


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


def test_symbols_and_fields_that_look_alike_when_joined_have_their_own_names(frame):
    ones = (frame * 0 + 1).iloc[:, :2]
    split = [ones.set_axis(columns, axis=1) for columns in (["a,b", "c"], ["a", "b,c"])]
    assert len({DataState().update("signal", {"s": part}) for part in split}) == 2
    from quantgraph.state.commits import Commit, commit_name
    from quantgraph.state.frames import FrozenFrame, freeze

    frozen = freeze("signal", "s", ones)
    joined = [FrozenFrame(frozen.sessions, s, frozen.values) for s in (("a\nb", "c"), ("a", "b\nc"))]
    assert joined[0].digest != joined[1].digest
    digest = frozen.digest
    names = [
        commit_name(Commit(panels={"ohlcv": {}, "indicators": {}, "signal": fields}))
        for fields in ({"s": frozen, "t": frozen}, {f"s\t{digest}\nsignal\tt": frozen})
    ]
    assert names[0] != names[1]


@pytest.mark.parametrize(
    "name", ["", "x" * 101, "a\nb", "a'b", 'a"b', "a\\b", "a\0", "\ud800", "a\u2028b", "a\u202eb", 1, None]
)
def test_names_that_break_out_of_a_line_are_refused(store, frame, name):
    with pytest.raises(BadFrame, match="as a field name; field names are strings of 1 to 100") as caught:
        store.update("signal", {name: frame * 0})
    assert len(caught.value.message.encode().splitlines()) == 1
    columns = pd.Index(["000001.SZ", name, "600519.SH"], dtype=object)
    with pytest.raises(BadFrame, match=r"as column 1; ts_codes are strings of 1 to 100") as caught:
        store.update("signal", {"s": (frame * 0).set_axis(columns, axis=1)})
    assert len(caught.value.message.encode().splitlines()) == 1
    assert store.head == store.empty


@pytest.mark.parametrize("name", ["s", "x" * 100, "5日均线 上穿 20日", "a.b-c/d (1)", "动量_🚀"])
def test_plain_names_in_any_language_are_taken(tmp_path, frame, name):
    ref = DataState(tmp_path).update("signal", {name: (frame * 0).rename(columns={"000001.SZ": name})})
    loaded = DataState(tmp_path).snapshot(ref)["signal"]
    assert list(loaded) == [name]
    assert name in loaded[name].columns


DAMAGE = {
    "another commit's listing": (lambda own, other: own.write_bytes(other.read_bytes()), "has been changed"),
    "no JSON": (lambda own, other: own.write_bytes(b"\xff{"), "is not a stored commit"),
    "deep JSON": (lambda own, other: own.write_bytes(b"[" * 200_000), "is not a stored commit"),
    "a list": (lambda own, other: own.write_bytes(b"[1]"), "is not a stored commit"),
    "a panel short": (
        lambda own, other: own.write_bytes(b'{"ohlcv": {}, "signal": {}}'),
        "not a stored commit",
    ),
    "a folder": (lambda own, other: (own.unlink(), own.mkdir()), "is not a stored commit"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_commit_file_is_a_bad_file(tmp_path, frame, case):
    damage, words = DAMAGE[case]
    store = DataState(tmp_path)
    own, other = (store.update("ohlcv", {"close": frame + number}, base=store.empty) for number in (0, 1))
    damage(*(tmp_path / "commits" / f"{ref}.json" for ref in (own, other)))
    with pytest.raises(BadFile, match=words):
        DataState(tmp_path).snapshot(own)


@pytest.mark.parametrize("content", [None, b"", b"ARROW1\0\0", b"x" * 1000])
def test_a_missing_or_unreadable_object_is_a_bad_file(tmp_path, frame, content):
    ref = DataState(tmp_path).update("ohlcv", {"close": frame})
    (path,) = (tmp_path / "objects").iterdir()
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(BadFile, match="is not a stored frame"):
        DataState(tmp_path).snapshot(ref)


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
        "signal": [],
    }


def test_late_spilling_misses_no_commit_made_meanwhile(tmp_path, frame):
    store = DataState()
    barrier = threading.Barrier(5)

    def publish(number):
        barrier.wait()
        return [store.update("ohlcv", _alone(frame, f"{number:03d}{step:03d}.SZ")) for step in range(10)]

    with ThreadPoolExecutor(4) as pool:
        publishing = [pool.submit(publish, number) for number in range(4)]
        barrier.wait()
        store.spill_to(tmp_path)
        refs = [ref for part in publishing for ref in part.result()]
    assert {f"{ref}.json" for ref in refs} <= {path.name for path in (tmp_path / "commits").iterdir()}


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
