"""Rolling windows in a code process: the same bits as those of a pandas that remembers nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph.sandbox import default_runner
from quantgraph.state.frames import freeze

WINDOWS = (
    "rolling(5).mean()",
    "rolling(5, min_periods=2).std()",
    "rolling(4, center=True).sum()",
    "rolling(6, closed='left').max()",
    "rolling(6, closed='both').median()",
    "rolling(5, step=3).mean().reindex(close.index)",
    "rolling(0).sum()",
)


@pytest.mark.parametrize("window", WINDOWS)
def test_windows_are_those_of_pandas(window):
    rng = np.random.default_rng(3)
    days = pd.bdate_range("2024-01-02", periods=40, name="trade_date")
    columns = pd.Index(["600000.SH", "600519.SH", "000001.SZ"], dtype="str", name="ts_code")
    close = pd.DataFrame(rng.random((40, 3)).cumsum(axis=0), index=days, columns=columns)
    close.iloc[7:9, 1] = np.nan
    expected = np.sign(eval(f"close.{window}", {"close": close}) - close.mean().mean())
    cell = (
        "close = snapshot['ohlcv']['close']\n"
        f"for part in (close.iloc[:9], close):\n    found = part.{window.replace('close.index', 'part.index')}\n"
        "GLOBAL_DATA_STATE.update('signal', {'s': np.sign(found - close.mean().mean())})"
    )
    result = default_runner().run([cell], {"ohlcv": {"close": freeze("ohlcv", "close", close)}})
    assert result.error is None, result.error
    pd.testing.assert_frame_equal(result.signals["s"], expected, check_exact=True, check_freq=False)


def test_who_writes_into_bounds_writes_into_his_own():
    cell = (
        "from pandas.core.indexers.objects import FixedWindowIndexer\n"
        "ask = lambda: FixedWindowIndexer(window_size=3).get_window_bounds(5, None, None, None, None)\n"
        "ask()[0][:] = 4\n"
        "ask()[0].tolist(), ask()[1].tolist()"
    )
    assert default_runner().run([cell], {}).value == "([0, 0, 0, 1, 2], [1, 2, 3, 4, 5])"
