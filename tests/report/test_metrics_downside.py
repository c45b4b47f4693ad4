import math
import statistics
from typing import get_args

import ffn
import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import BadOption
from quantgraph.report.metrics._metrics import Downside, downside_deviation, sortino_ratio

RETURNS = pd.Series([0.03, -0.01, 0.0, -0.03, 0.02])  # mean 0.002

# squares of the losses: 0.0001 and 0.0009; their mean is -0.02, that of all with gains zeroed -0.008
BY_HAND = {
    "rms_all": math.sqrt(0.001 / 5),
    "rms_losses": math.sqrt(0.001 / 2),
    "std_losses": math.sqrt(2 * 0.01**2),
    "std_zeroed": math.sqrt((3 * 0.008**2 + 0.002**2 + 0.022**2) / 4),
}


@pytest.mark.parametrize("kind", get_args(Downside))
def test_each_deviation_by_hand(kind):
    assert downside_deviation(RETURNS, downside=kind, periods_per_year=1) == pytest.approx(
        BY_HAND[kind], rel=1e-12
    )
    assert downside_deviation(RETURNS, downside=kind) == pytest.approx(
        BY_HAND[kind] * math.sqrt(252), rel=1e-12
    )


@pytest.mark.parametrize("kind", get_args(Downside))
def test_each_sortino_is_the_mean_over_its_deviation(kind):
    assert sortino_ratio(RETURNS, downside=kind, periods_per_year=1) == pytest.approx(
        0.002 / BY_HAND[kind], rel=1e-12
    )
    assert sortino_ratio(RETURNS, downside=kind) == pytest.approx(
        0.002 / BY_HAND[kind] * math.sqrt(252), rel=1e-12
    )


def test_the_target_is_a_yearly_rate_and_moves_the_bound():
    # 0.12 a year of 12 is 0.01 a session: excess 0.02, -0.02, -0.01, -0.04, 0.01
    shortfalls = [0.0, -0.02, -0.01, -0.04, 0.0]
    losses = [-0.02, -0.01, -0.04]
    expected = {
        "rms_all": math.sqrt(0.0021 / 5),
        "rms_losses": math.sqrt(0.0021 / 3),
        "std_losses": statistics.pstdev(losses),
        "std_zeroed": statistics.pstdev(shortfalls),
    }
    for kind, spread in expected.items():
        options = {"target": 0.12, "periods_per_year": 12, "ddof": 0}
        assert downside_deviation(RETURNS, downside=kind, **options) == pytest.approx(
            spread * math.sqrt(12), rel=1e-12
        )
        assert sortino_ratio(RETURNS, downside=kind, **options) == pytest.approx(
            -0.008 / spread * math.sqrt(12), rel=1e-12
        )


def test_the_default_is_the_one_of_another_library():
    returns = pd.Series(np.random.default_rng(1).normal(0.0005, 0.012, 500))
    assert sortino_ratio(returns) == pytest.approx(
        ffn.core.calc_sortino_ratio(returns, nperiods=252), rel=1e-12
    )


@pytest.mark.parametrize("kind", get_args(Downside))
@pytest.mark.parametrize("returns", [[], [0.01, 0.0, 0.02]], ids=["none", "gains only"])
def test_without_a_loss_there_is_no_sortino(kind, returns):
    assert math.isnan(sortino_ratio(pd.Series(returns, dtype="float64"), downside=kind))


def test_what_a_deviation_is_without_losses_or_returns():
    none, gains, one = (pd.Series(numbers, dtype="float64") for numbers in ([], [0.01, 0.02], [0.01, -0.02]))
    assert [math.isnan(downside_deviation(none, downside=kind)) for kind in get_args(Downside)] == [True] * 4
    assert downside_deviation(gains, downside="rms_all") == 0.0
    assert math.isnan(downside_deviation(gains, downside="rms_losses"))
    assert math.isnan(downside_deviation(gains, downside="std_losses"))
    assert downside_deviation(gains, downside="std_zeroed") == 0.0
    assert math.isnan(downside_deviation(one, downside="std_losses"))


def test_equal_losses_have_no_spread_and_no_huge_ratio():
    values = pd.Series([100 * 0.99**n for n in range(50)])
    assert math.isnan(sortino_ratio(values.pct_change().dropna(), downside="std_losses"))


def test_an_unknown_name_and_nan_are_refused():
    with pytest.raises(BadOption, match=r"downside='semi' must be one of .*rms_all"):
        downside_deviation(RETURNS, downside="semi")
    with pytest.raises(BadOption, match="downside='semi'"):
        sortino_ratio(RETURNS, downside="semi")
    with pytest.raises(BadOption, match="returns"):
        sortino_ratio(pd.Series([0.1, math.nan]))
