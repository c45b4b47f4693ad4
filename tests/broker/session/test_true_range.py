"""The average true range against TA-Lib, and across a split by hand."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import talib

from quantgraph.broker.session._exits import average_true_ranges, range_of
from quantgraph.data import open_source
from quantgraph.state import DataState


def test_it_is_that_of_talib():
    source = open_source("sample")
    sessions, symbols = source.sessions(), source.symbols()[:12]
    bars = source.bars(symbols, sessions[0], sessions[-1])
    frames = {name: bars[name] for name in ("open", "high", "low", "close")}
    store = DataState()
    ref = store.update("ohlcv", frames)
    mine = average_true_ranges(store, ref, 14)
    for symbol in symbols:
        rows = pd.DataFrame({name: frames[name][symbol] for name in ("high", "low", "close")}).dropna()
        theirs = pd.Series(talib.ATR(*(rows[name].to_numpy() for name in rows), timeperiod=14), rows.index)
        assert mine[symbol][rows.index].to_numpy() == pytest.approx(theirs.to_numpy(), nan_ok=True, rel=1e-9)


def test_a_split_moves_the_average_and_the_close_before():
    days = pd.bdate_range("2024-01-01", periods=4)
    cells = {
        "high": [11, 12, 6.5, 6.4],
        "low": [9, 10, 5.5, 5.6],
        "close": [10, 11, 6, 6],
        "open": [10, 11, 6, 6],
    }
    frames = {name: pd.DataFrame({"X": values}, days, dtype=float) for name, values in cells.items()}
    frames["split"] = pd.DataFrame({"X": [np.nan, np.nan, 2.0, np.nan]}, days)
    store = DataState()
    ref = store.update("ohlcv", frames)
    ranges = average_true_ranges(store, ref, 2)
    # Ranges of 2 (12 to 10), which is 1 after the split, and of 1 (6.5 to 5.5, from 11 / 2): on average 1.
    # The next one is 0.8: 1 + (0.8 - 1) / 2.
    assert ranges["X"].round(10).tolist()[2:] == [1.0, 0.9]
    assert [range_of(ranges, "X", end) for end in (2, 3, 4)] == [None, Decimal("1.0000"), Decimal("0.9000")]
