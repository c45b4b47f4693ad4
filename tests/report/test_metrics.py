import math
import statistics

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import BadOption
from quantgraph.report.metrics._metrics import (
    annual_return,
    calmar_ratio,
    exposure,
    max_drawdown,
    session_returns,
    sharpe_ratio,
    total_return,
    volatility,
)

DAYS = pd.bdate_range("2024-01-01", periods=6)


def series(*numbers):
    return pd.Series(numbers, index=DAYS[: len(numbers)], dtype="float64")


VALUES = series(100.0, 110.0, 99.0, 108.9, 98.01, 120.0)


def test_returns_are_labelled_by_the_later_session():
    returns = session_returns(VALUES)
    assert list(returns.index) == list(DAYS[1:])
    assert returns.to_numpy() == pytest.approx([0.1, -0.1, 0.1, -0.1, 120 / 98.01 - 1], abs=1e-15)


def test_a_leading_zero_counts_the_first_value_as_a_session():
    returns = session_returns(VALUES, leading_zero=True)
    pd.testing.assert_series_equal(returns, VALUES.pct_change().fillna(0.0), check_names=False, rtol=1e-14)
    assert session_returns(series(100.0), leading_zero=True).tolist() == [0.0]


def test_total_return_is_last_over_first():
    assert total_return(VALUES) == pytest.approx(0.2, abs=1e-15)
    assert total_return(series(100.0)) == 0.0


def test_annual_return_compounds_over_the_sessions():
    # 20 % in 5 sessions, 252 a year; doubling every session over 2 periods a year is 300 %
    assert annual_return(VALUES) == pytest.approx(1.2**50.4 - 1, rel=1e-12)
    assert annual_return(series(100.0, 200.0), periods_per_year=2) == pytest.approx(3.0)
    assert math.isnan(annual_return(series(100.0)))


def test_volatility_and_sharpe_equal_the_textbook():
    returns = [0.01, -0.02, 0.03, 0.0, 0.015]
    mean, deviation = statistics.fmean(returns), statistics.stdev(returns)
    assert volatility(pd.Series(returns)) == pytest.approx(deviation * math.sqrt(252), rel=1e-12)
    assert sharpe_ratio(pd.Series(returns)) == pytest.approx(mean / deviation * math.sqrt(252), rel=1e-12)


def test_the_parameters_of_sharpe_are_honoured():
    returns = pd.Series([0.01, -0.02, 0.03, 0.0, 0.015])
    excess = returns.to_numpy() - 0.024 / 12
    expected = np.mean(excess) / np.std(excess) * np.sqrt(12)
    assert sharpe_ratio(returns, periods_per_year=12, ddof=0, risk_free=0.024) == pytest.approx(
        expected, rel=1e-12
    )
    assert volatility(returns, periods_per_year=12, ddof=0) == pytest.approx(
        returns.std(ddof=0) * 12**0.5, rel=1e-12
    )


@pytest.mark.parametrize(
    "values", [[100.0] * 6, [100.0 * 1.01**n for n in range(6)]], ids=["flat", "steady growth"]
)
def test_returns_that_do_not_vary_have_no_sharpe_and_not_an_infinite_one(values):
    assert math.isnan(sharpe_ratio(session_returns(series(*values))))


@pytest.mark.parametrize("returns", [[], [0.01]])
def test_too_few_returns_have_no_deviation(returns):
    assert math.isnan(sharpe_ratio(pd.Series(returns, dtype="float64")))
    assert math.isnan(volatility(pd.Series(returns, dtype="float64")))


def test_the_drawdown_says_how_deep_and_from_when_to_when():
    fall = max_drawdown(VALUES)
    assert fall.depth == pytest.approx(98.01 / 110 - 1, abs=1e-15)
    assert (fall.peak, fall.trough, fall.recovery) == (DAYS[1], DAYS[4], DAYS[5])
    assert (fall.falling, fall.recovering) == (3, 1)


def test_a_drawdown_that_goes_on_has_no_recovery():
    fall = max_drawdown(series(100.0, 80.0, 99.0))
    assert (fall.peak, fall.trough, fall.recovery) == (DAYS[0], DAYS[1], None)
    assert (fall.falling, fall.recovering) == (1, None)


def test_it_begins_where_the_peak_is_left_for_good_and_ends_where_it_is_reached():
    # 120 twice, then 60 twice: from the second 120 to the first 60; 120 again is recovered
    fall = max_drawdown(series(120.0, 110.0, 120.0, 60.0, 60.0, 120.0))
    assert (fall.peak, fall.trough, fall.recovery) == (DAYS[2], DAYS[3], DAYS[5])
    assert (fall.falling, fall.recovering) == (1, 2)


def test_a_loss_in_the_first_session_is_a_drawdown_from_the_initial_cash():
    fall = max_drawdown(series(100.0, 90.0, 95.0))
    assert fall.depth == pytest.approx(-0.1)
    assert (fall.peak, fall.trough) == (DAYS[0], DAYS[1])


@pytest.mark.parametrize("values", [[100.0], [100.0, 100.0], [100.0, 101.0, 102.0]])
def test_values_that_never_fall_have_no_drawdown(values):
    fall = max_drawdown(series(*values))
    assert (fall.depth, fall.peak, fall.trough, fall.recovery) == (0.0, None, None, None)
    assert (fall.falling, fall.recovering) == (0, None)


def test_calmar_is_the_annual_return_over_the_depth():
    # doubled in two sessions, a year of four: 300 %; fell by half on the way
    assert calmar_ratio(series(100.0, 50.0, 200.0), periods_per_year=4) == pytest.approx(6.0, rel=1e-12)
    assert calmar_ratio(series(100.0, 80.0), periods_per_year=1) == pytest.approx(-1.0, rel=1e-12)
    assert math.isnan(calmar_ratio(series(100.0, 110.0)))
    assert math.isnan(calmar_ratio(series(100.0)))


def test_exposure_is_the_mean_share_in_stocks_without_the_initial_cash():
    values = series(100.0, 100.0, 200.0, 150.0)
    assert exposure(values.iloc[1:] * 0 + [50.0, 200.0, 0.0], values) == pytest.approx(0.5, abs=1e-15)
    assert math.isnan(exposure(values.iloc[:0], values.iloc[:1]))


def test_exposure_needs_the_sessions_of_the_values():
    values = series(100.0, 100.0, 200.0)
    with pytest.raises(BadOption, match="stocks has 2024-01-01 00:00:00 where values has 2024-01-02"):
        exposure(values, values)
    with pytest.raises(BadOption, match="stocks has no more where values has 2024-01-03"):
        exposure(values.iloc[1:2], values)
    with pytest.raises(BadOption, match="stocks must be finite"):
        exposure(values.iloc[1:] * math.nan, values)


@pytest.mark.parametrize("values", [[], [100.0, math.nan], [100.0, 0.0], [100.0, -1.0], [100.0, math.inf]])
@pytest.mark.parametrize("metric", [total_return, annual_return, calmar_ratio, max_drawdown, session_returns])
def test_values_that_are_no_values_are_refused(metric, values):
    with pytest.raises(BadOption, match="values"):
        metric(series(*values))


def test_returns_with_nan_are_refused():
    with pytest.raises(BadOption, match="returns"):
        sharpe_ratio(pd.Series([0.01, math.nan]))


SHORT = pd.Series([100.0, 110.0, 99.0])


@pytest.mark.parametrize(
    "question",
    [
        lambda given: session_returns(given),
        lambda given: total_return(given),
        lambda given: max_drawdown(given),
        lambda given: volatility(given),
        lambda given: sharpe_ratio(given),
        lambda given: exposure(given, SHORT),
        lambda given: exposure(SHORT.iloc[1:], given),
    ],
)
@pytest.mark.parametrize(
    "given", [[1, 2, 3], np.ones(3), None, SHORT.to_frame(), pd.Series(["a", "b", "c"])], ids=repr
)
def test_what_is_no_series_of_numbers_is_refused(question, given):
    with pytest.raises(
        BadOption,
        match=r"must be a pandas Series by session|holds something that is not a number|same sessions",
    ):
        question(given)


@pytest.mark.parametrize("periods", [0, -252, None, "252", math.nan, math.inf])
@pytest.mark.parametrize("question", [annual_return, volatility, sharpe_ratio, calmar_ratio])
def test_a_year_has_a_number_of_periods(question, periods):
    with pytest.raises(BadOption, match=r"periods_per_year=.* must be a number > 0, such as 252"):
        question(SHORT, periods_per_year=periods)


@pytest.mark.parametrize("ddof", [-1, 1.5, None, "1"])
@pytest.mark.parametrize("question", [volatility, sharpe_ratio])
def test_degrees_of_freedom_are_a_whole_number(question, ddof):
    with pytest.raises(BadOption, match=r"ddof=.* must be a whole number >= 0"):
        question(SHORT, ddof=ddof)
