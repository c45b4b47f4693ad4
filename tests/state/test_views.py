"""Views: where they end, what can be asked of them, and that they change nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import FutureRequested, UnknownCommit, UnknownField
from quantgraph.market import Moment
from quantgraph.state import GLOBAL_DATA_STATE


def test_a_snapshot_reads_like_the_dictionaries_it_stands_for(store, frame):
    store.update("ohlcv", {"close": frame})
    snapshot = store.snapshot()
    assert list(snapshot) == ["ohlcv", "indicators", "index", "signal", "weights", "score"]
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
