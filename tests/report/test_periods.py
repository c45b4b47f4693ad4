"""Months, years, drawdowns and the tail of returns, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph.report._periods import (
    deepest_drawdowns,
    expected_shortfall,
    monthly_returns,
    recovery_factor,
    time_under_water,
    value_at_risk,
    yearly_returns,
)


def series(days, values):
    return pd.Series(values, index=pd.DatetimeIndex(days), dtype=float)


def test_drawdowns_have_their_dates_and_do_not_overlap():
    days = pd.bdate_range("2024-01-01", periods=9)
    values = series(days, [100, 120, 90, 110, 120, 130, 117, 104, 110])
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


def test_time_under_water_is_the_longest_way_back_to_a_peak():
    days = pd.bdate_range("2024-01-01", periods=9)
    # from 120 on the second day back to 120 on the fifth: 3; from 130 on the sixth to the end: 3
    assert time_under_water(series(days, [100, 120, 90, 110, 120, 130, 117, 104, 110])) == 3
    assert time_under_water(series(days, [100, 120, 90, 110, 100, 110, 117, 104, 110])) == 7
    assert time_under_water(series(days[:3], [1, 2, 2])) == 0
    assert time_under_water(series(days[:2], [2, 1])) == 1


def test_recovery_factor_by_hand():
    # from 100 to 110, with a fall from 125 to 100: 0.1 / 0.2
    values = series(pd.bdate_range("2024-01-01", periods=4), [100, 125, 100, 110])
    assert recovery_factor(values) == pytest.approx(0.5)
    assert np.isnan(recovery_factor(values[:2]))


def test_the_tail_of_twenty_returns():
    # sorted: -0.10, -0.05, then eighteen of 0.01; the quantile at 0.05 * 19 = 0.95 of the way to the second
    returns = series(pd.bdate_range("2024-01-01", periods=20), [0.01] * 9 + [-0.10] + [0.01] * 9 + [-0.05])
    assert value_at_risk(returns) == pytest.approx(-0.10 + 0.95 * 0.05)
    assert expected_shortfall(returns) == pytest.approx(-0.10)
    assert np.isnan(value_at_risk(returns[:0]))
    assert np.isnan(expected_shortfall(returns[:0]))
