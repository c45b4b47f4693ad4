import math
import statistics

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import BadOption
from quantgraph.report import (
    annual_return,
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
    assert (fall.peak, fall.trough) == (DAYS[1], DAYS[4])


def test_a_loss_in_the_first_session_is_a_drawdown_from_the_initial_cash():
    fall = max_drawdown(series(100.0, 90.0, 95.0))
    assert fall.depth == pytest.approx(-0.1)
    assert (fall.peak, fall.trough) == (DAYS[0], DAYS[1])


@pytest.mark.parametrize("values", [[100.0], [100.0, 100.0], [100.0, 101.0, 102.0]])
def test_values_that_never_fall_have_no_drawdown(values):
    fall = max_drawdown(series(*values))
    assert (fall.depth, fall.peak, fall.trough) == (0.0, None, None)


@pytest.mark.parametrize("values", [[], [100.0, math.nan], [100.0, 0.0], [100.0, -1.0], [100.0, math.inf]])
@pytest.mark.parametrize("metric", [total_return, annual_return, max_drawdown, session_returns])
def test_values_that_are_no_values_are_refused(metric, values):
    with pytest.raises(BadOption, match="values"):
        metric(series(*values))


def test_returns_with_nan_are_refused():
    with pytest.raises(BadOption, match="returns"):
        sharpe_ratio(pd.Series([0.01, math.nan]))
