import math
import os
import statistics
import subprocess
import sys

import ffn
import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import BadOption
from quantgraph.report.metrics._metrics import alpha, beta, correlation, information_ratio, tracking_error

ALL = [alpha, beta, correlation, information_ratio, tracking_error]
DAYS = pd.bdate_range("2024-01-01", periods=250)


@pytest.fixture
def pair():
    draw = np.random.default_rng(7)
    market = draw.normal(0.0004, 0.01, 250)
    return pd.Series(1.3 * market + draw.normal(0.0002, 0.004, 250), DAYS), pd.Series(market, DAYS)


def test_tracking_error_and_information_ratio_by_hand():
    ours, theirs = pd.Series([0.02, 0.01, -0.01]), pd.Series([0.01, 0.01, -0.03])
    # active 0.01, 0, 0.02: mean 0.01, deviation 0.01
    assert tracking_error(ours, theirs, periods_per_year=4) == pytest.approx(0.02, rel=1e-12)
    assert information_ratio(ours, theirs, periods_per_year=4) == pytest.approx(2.0, rel=1e-12)
    assert tracking_error(ours, theirs, periods_per_year=1, ddof=0) == pytest.approx(
        0.01 * math.sqrt(2 / 3), rel=1e-12
    )


def test_information_ratio_is_the_one_of_another_library(pair):
    assert information_ratio(*pair, periods_per_year=1) == pytest.approx(
        ffn.core.calc_information_ratio(*pair), rel=1e-12
    )


def test_alpha_and_beta_are_intercept_and_slope_of_the_regression(pair):
    ours, theirs = pair
    rate = 0.03 / 252
    fit = statistics.linear_regression([b - rate for b in theirs], [r - rate for r in ours])
    assert beta(ours, theirs) == pytest.approx(fit.slope, rel=1e-10)
    assert alpha(ours, theirs, risk_free=0.03) == pytest.approx(fit.intercept * 252, rel=1e-10)
    assert correlation(ours, theirs) == pytest.approx(statistics.correlation(ours, theirs), rel=1e-10)


def test_a_levered_market_with_a_premium_is_recovered():
    market = pd.Series([0.01, -0.02, 0.03, 0.0])
    ours = 2 * market + 0.001
    assert beta(ours, market) == pytest.approx(2.0, rel=1e-12)
    assert alpha(ours, market, periods_per_year=250) == pytest.approx(0.25, rel=1e-12)
    # 2 % a session is borrowed at 1 %: the premium over the market line grows by it
    assert alpha(ours, market, periods_per_year=1, risk_free=0.01) == pytest.approx(0.011, rel=1e-12)
    assert correlation(ours, market) == pytest.approx(1.0, rel=1e-12)
    assert correlation(-ours, market) == pytest.approx(-1.0, rel=1e-12)


@pytest.mark.parametrize("metric", [alpha, beta, correlation])
def test_a_benchmark_that_does_not_vary_explains_nothing(metric):
    flat = pd.Series([1.01**n for n in range(6)]).pct_change().dropna()
    ours = pd.Series([0.01, 0.02, -0.01, 0.0, 0.01], index=flat.index)
    assert math.isnan(metric(ours, flat))


def test_returns_that_do_not_vary_are_not_correlated():
    assert math.isnan(correlation(pd.Series([0.01, 0.01]), pd.Series([0.01, 0.02])))
    assert beta(pd.Series([0.01, 0.01]), pd.Series([0.01, 0.02])) == 0.0


def test_a_run_equal_to_its_benchmark_has_no_information_ratio(pair):
    ours, _ = pair
    assert tracking_error(ours, ours) == 0.0
    assert math.isnan(information_ratio(ours, ours))


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize("returns", [[], [0.01]])
def test_too_few_returns_give_nan(metric, returns):
    series = pd.Series(returns, dtype="float64")
    assert math.isnan(metric(series, series))


@pytest.mark.parametrize("metric", ALL)
def test_other_sessions_are_refused_and_the_first_one_is_named(metric, pair):
    ours, theirs = pair
    with pytest.raises(
        BadOption, match=r"benchmark has 2024-01-02 .* where returns has 2024-01-01 .*place 0"
    ):
        metric(ours, theirs.iloc[1:])
    with pytest.raises(BadOption, match=r"benchmark has no more where returns has 2024-12-13 .*place 249"):
        metric(ours, theirs.iloc[:-1])
    with pytest.raises(BadOption, match="benchmark has 2024-01-02"):
        metric(ours, theirs.iloc[[1, 0, *range(2, 250)]])


@pytest.mark.parametrize("metric", ALL)
def test_nan_is_refused_and_its_side_named(metric):
    good, bad = pd.Series([0.01, 0.02]), pd.Series([0.01, math.nan])
    with pytest.raises(BadOption, match="benchmark must be finite"):
        metric(good, bad)
    with pytest.raises(BadOption, match="returns must be finite"):
        metric(bad, good)


@pytest.mark.proof
def test_the_numbers_are_the_same_whichever_processor_the_linear_algebra_is_written_for():
    code = (
        "import numpy as np, pandas as pd\n"
        "from quantgraph.report.metrics import alpha, beta\n"
        "draw = np.random.default_rng(7)\n"
        "pairs = [map(pd.Series, draw.normal(0, 0.01, (2, 243))) for _ in range(20)]\n"
        "print([(alpha(a, b), beta(a, b)) for a, b in map(tuple, pairs)])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_CORETYPE": core},
            capture_output=True,
            check=True,
        ).stdout
        for core in ("Haswell", "Nehalem")
    }
    assert len(told) == 1
