"""The mistakes of a real model, run in the sandbox: each is answered with one line that has the error."""

import runpy

import numpy as np
import pandas as pd
import pytest

from quantgraph.state.frames import freeze

SAYS = {
    1: "got DataFrame)",
    2: "NameError: name 'talib' is not defined",
    5: "got an unexpected keyword argument 'method'",
    6: "there is no ohlcv field 'vwap'; there is open, high, low, close, amount, pre_close, vol",
    7: "KeyError: '2025-03'",
    8: "KeyError: 20250303",
    9: "requests is not available here; numpy, pandas, talib and the standard library are",
    10: "ta is not available here; numpy, pandas, talib and the standard library are",
    11: "sklearn is not available here; numpy, pandas, talib and the standard library are",
    12: "scipy is not available here; numpy, pandas, talib and the standard library are",
    13: "it must be a number: use .astype(float), the name held, or entries and exits",
    14: "signal values must be 1, 0, -1 or NaN",
    15: "must be a pandas DataFrame, not Series",
    16: "signal values must be 1, 0, -1 or NaN",
    17: "signal must be a mapping of name to frame, for example {'close': frame}",
    18: "there is no panel 'signals'; there is ohlcv, indicators, index, signal, weights, score; did you mean 'signal'?",
    19: "'ME'",
    21: "matplotlib is not available here; numpy, pandas, talib and the standard library are",
    22: "has no attribute 'applymap'",
    23: "write above.shift(1, fill_value=False), or .fillna(False).astype(bool)",
    24: "write above.shift(1, fill_value=False), or .fillna(False).astype(bool)",
}
HARMLESS = {3, 4, 20}
"""They write into a copy of their own, or ask for help, and publish nothing."""


@pytest.fixture(scope="module")
def cells(shared_data):
    return runpy.run_path(str(shared_data / "model-replies" / "cells" / "erring_cells.py"))["cells"]


@pytest.fixture(scope="module")
def year():
    sessions = pd.bdate_range("2024-12-02", "2025-06-30")
    walk = np.random.default_rng(1).standard_normal((len(sessions), 2)).cumsum(axis=0) + 50
    prices = pd.DataFrame(walk, index=sessions, columns=["600519.SH", "601318.SH"])
    fields = ("open", "high", "low", "close", "amount", "pre_close", "vol")
    return {"ohlcv": {name: freeze("ohlcv", name, prices) for name in fields}}


def test_every_mistake_is_looked_at(cells):
    assert {*SAYS} | HARMLESS == {*range(1, len(cells) + 1)}


@pytest.mark.parametrize("number", SAYS)
def test_a_mistake_is_one_line_with_its_place(number, cells, year, forker):
    result = forker.run([cells[number - 1]], year)
    assert result.error is not None
    assert result.error.line.startswith("code_failed: line ")
    assert SAYS[number] in result.error.line
    assert "\n" not in result.error.line
    assert "site-packages" not in result.error.line
    assert result.error.line.isascii()
    assert len(result.error.line) <= 400, "longer lines are cut before a model reads them"


@pytest.mark.parametrize("number", HARMLESS)
def test_what_writes_into_its_own_copy_changes_no_data(number, cells, year, forker):
    read_again = "close = snapshot['ohlcv']['close']\n(list(close.columns), float(close.iloc[0, 0]))"
    result = forker.run([cells[number - 1], read_again], year)
    first = year["ohlcv"]["close"].values[0, 0]
    assert (result.error, result.value) == (None, f"(['600519.SH', '601318.SH'], {float(first)!r})")
