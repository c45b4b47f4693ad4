"""The arithmetic of a page's pictures, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph.page._data import ROLLING, largest_triangles, rolling_ratios


def series(days, values):
    return pd.Series(values, index=pd.DatetimeIndex(days), dtype=float)


def test_rolling_ratios_are_those_of_the_last_quarter():
    days, rng = pd.bdate_range("2024-01-01", periods=ROLLING + 2), np.random.default_rng(1)
    theirs = 1 + rng.normal(0, 0.01, len(days))
    ours = 1 + 2 * (theirs - 1)  # twice the benchmark's returns: beta 2
    values, benchmark = series(days, ours.cumprod()), series(days, theirs.cumprod())
    found = rolling_ratios(values, benchmark, periods_per_year=252)
    returns = ours[-ROLLING:] - 1
    assert found["beta"].iloc[-1] == pytest.approx(2)
    assert found["volatility"].iloc[-1] == pytest.approx(np.std(returns, ddof=1) * 252**0.5)
    assert found["sharpe"].iloc[-1] == pytest.approx(np.mean(returns) / np.std(returns, ddof=1) * 252**0.5)
    assert found["sharpe"].iloc[: ROLLING - 1].isna().all()
    assert "beta" not in rolling_ratios(values, None, periods_per_year=252)


def test_the_points_kept_are_the_ends_and_the_spikes():
    y = np.zeros(1_000)
    y[[137, 700]] = 5.0, -3.0
    kept = largest_triangles(y, 20)
    assert len(kept) == 20
    assert kept[0] == 0
    assert kept[-1] == 999
    assert {137, 700} <= {*kept.tolist()}
    assert (np.diff(kept) > 0).all()
    assert largest_triangles(np.arange(5.0), 20).tolist() == [0, 1, 2, 3, 4]
