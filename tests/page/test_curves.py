"""The arithmetic of a page's pictures, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph.page._data import (
    ROLLING,
    deepest_drawdowns,
    drawdown,
    largest_triangles,
    monthly_returns,
    rolling_ratios,
    yearly_returns,
)


def series(days, values):
    return pd.Series(values, index=pd.DatetimeIndex(days), dtype=float)


def test_drawdowns_have_their_dates_and_do_not_overlap():
    days = pd.bdate_range("2024-01-01", periods=9)
    values = series(days, [100, 120, 90, 110, 120, 130, 117, 104, 110])
    assert drawdown(values).iloc[2] == pytest.approx(-0.25)
    first, second = deepest_drawdowns(values)
    assert (first.peak, first.trough, first.recovery) == (days[1], days[2], days[4])
    assert first.depth == pytest.approx(-0.25)
    assert (second.peak, second.trough, second.recovery) == (days[5], days[7], None)
    assert second.depth == pytest.approx(104 / 130 - 1)
    assert deepest_drawdowns(series(days[:3], [1, 2, 3])) == []


def test_months_and_years_begin_with_the_initial_cash():
    # the initial cash stands on the day before the first session, here in the year before
    values = series(
        ["2023-12-31", "2024-01-02", "2024-01-31", "2024-02-29", "2025-01-02"], [100, 110, 120, 90, 99]
    )
    months, years = monthly_returns(values), yearly_returns(values)
    assert months.index.tolist() == [2024, 2025]
    assert months.loc[2024, 1] == pytest.approx(0.2)
    assert months.loc[2024, 2] == pytest.approx(-0.25)
    assert np.isnan(months.loc[2024, 3])
    assert months.loc[2025, 1] == pytest.approx(0.1)
    assert years.to_dict() == {2024: pytest.approx(-0.1), 2025: pytest.approx(0.1)}


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
