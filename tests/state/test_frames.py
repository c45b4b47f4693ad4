"""Frames: which ones enter, under which content name, and how two are merged."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import BadFrame
from quantgraph.state import DataState


def test_negative_zero_and_nan_payloads_do_not_change_the_name(store, frame):
    plain = frame.copy()
    odd = frame.copy()
    odd.iloc[0, 0] = -0.0
    assert store.update("ohlcv", {"close": plain}) == DataState().update("ohlcv", {"close": odd})


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
        BadFrame, match=r"at \(2024-01-04, 600519.SH\); signal values must be 1, 0, -1 or NaN"
    ) as caught:
        store.update("signal", {"s": good.mask(frame == 8.0, value)})
    assert caught.value.data["symbol"] == "600519.SH"


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
