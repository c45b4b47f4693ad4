"""Commits: their content names, their files, and the cache that holds equal frames once."""

from __future__ import annotations

import hashlib
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import BadFile
from quantgraph.state import DataState


def test_equal_content_has_one_name_and_other_content_another(frame):
    one, two = DataState(), DataState()
    ref = one.update("ohlcv", {"close": frame, "open": frame + 1})
    two.update("ohlcv", {"open": frame + 1})
    assert two.update("ohlcv", {"close": frame}) == ref
    changed = frame.copy()
    changed.iloc[4, 2] += 1e-12 * 14
    assert two.update("ohlcv", {"close": changed}) != ref


def test_a_commit_without_an_index_has_the_name_that_it_had_before_there_was_one(tmp_path, frame):
    store = DataState(tmp_path)
    listing = b'{"indicators":{},"ohlcv":{},"signal":{}}'
    assert store.empty == hashlib.blake2b(listing, digest_size=16).hexdigest()
    ref = store.update("index", {"close": frame[["600519.SH"]].set_axis(["000016.SH"], axis=1)})
    assert ref != store.empty
    assert store.without("index", ref) == store.empty
    again = DataState(tmp_path).snapshot(ref)
    assert again["index"]["close"]["000016.SH"].tolist() == frame["600519.SH"].tolist()
    assert list(again) == ["ohlcv", "indicators", "index", "signal", "weights", "score"]


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


def test_symbols_and_fields_that_look_alike_when_joined_have_their_own_names(frame):
    ones = (frame * 0 + 1).iloc[:, :2]
    split = [ones.set_axis(columns, axis=1) for columns in (["a,b", "c"], ["a", "b,c"])]
    assert len({DataState().update("signal", {"s": part}) for part in split}) == 2
    from quantgraph.state._commits import Commit, commit_name
    from quantgraph.state.frames._frames import FrozenFrame, freeze

    frozen = freeze("signal", "s", ones)
    joined = [FrozenFrame(frozen.sessions, s, frozen.values) for s in (("a\nb", "c"), ("a", "b\nc"))]
    assert joined[0].digest != joined[1].digest
    digest = frozen.digest
    names = [
        commit_name(Commit(panels={"ohlcv": {}, "indicators": {}, "signal": fields}))
        for fields in ({"s": frozen, "t": frozen}, {f"s\t{digest}\nsignal\tt": frozen})
    ]
    assert names[0] != names[1]


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
