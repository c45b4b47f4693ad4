"""Formulas of Sharpe ratios against their papers and other libraries."""

import math

import numpy as np
import pytest

from quantgraph.errors import BadOption
from quantgraph.judgement import (
    SessionSharpe,
    Shape,
    YearSharpe,
    deflated_sharpe,
    least_backtest_years,
    least_track_record,
    observed_false_discovery,
    power_of,
    probabilistic_sharpe,
    sharpe_of,
)
from quantgraph.judgement._sharpe import expected_best, false_discovery, sessions_needed

# A fund of 24 months: Bailey and López de Prado (2012), figure 2, and SSRN 5520741.
FUND = SessionSharpe(0.036 / 0.079)
FUND_SHAPE = Shape(sessions=24, skewness=-2.448, kurtosis=10.164)
TO_THE_PAPER = {"abs": 5e-4}


def test_the_best_of_many_without_skill():
    assert expected_best(10) == pytest.approx(1.575, abs=5e-4)
    assert expected_best(1) == 0
    assert least_backtest_years(45) == pytest.approx(4.998, abs=5e-4)
    assert least_backtest_years(100) == pytest.approx(6.404, abs=5e-4)


@pytest.mark.parametrize(
    ("tries", "skewness", "kurtosis", "expected"),
    [(100, -3, 10, 0.900397), (46, -3, 10, 0.9505), (88, 0, 3, 0.9505)],
)
def test_the_deflated_ratio_of_its_paper(tries, skewness, kurtosis, expected):
    sharpe, shape = (
        YearSharpe(2.5).per_session(250),
        Shape(sessions=1250, skewness=skewness, kurtosis=kurtosis),
    )
    assert deflated_sharpe(sharpe, shape, tries=tries, spread=0.5 / 250) == pytest.approx(
        expected, abs=1e-6 if tries == 100 else 5e-5
    )
    assert math.sqrt(0.5 / 250) * expected_best(100) == pytest.approx(0.113172, abs=1e-6)


def test_the_probabilistic_ratio_has_two_variances():
    assert probabilistic_sharpe(FUND, FUND_SHAPE) == pytest.approx(0.91271, abs=5e-6)
    assert probabilistic_sharpe(FUND, Shape(sessions=24)) == pytest.approx(0.98124, abs=5e-6)
    assert FUND_SHAPE.error(FUND) == pytest.approx(0.329, **TO_THE_PAPER)
    assert Shape(sessions=24).error(FUND) == pytest.approx(0.214, **TO_THE_PAPER)
    null = {"variance": "null"}
    assert probabilistic_sharpe(FUND, FUND_SHAPE, **null) == pytest.approx(0.987, **TO_THE_PAPER)
    above = SessionSharpe(0.1)
    assert probabilistic_sharpe(FUND, FUND_SHAPE, above=above, **null) == pytest.approx(0.939, **TO_THE_PAPER)


def test_the_least_track_record():
    assert least_track_record(FUND, FUND_SHAPE, variance="null") == pytest.approx(13.029, abs=1e-3)
    for periods, shape, years in (
        (250, Shape(sessions=1), 2.732),
        (252, Shape(sessions=1), 2.734),
        (52, Shape(sessions=1), 2.83),
        (12, Shape(sessions=1), 3.24),
        (12, Shape(sessions=1, skewness=-0.72, kurtosis=5.78), 4.99),
    ):
        found = least_track_record(
            YearSharpe(2).per_session(periods), shape, above=YearSharpe(1).per_session(periods)
        )
        assert found / periods == pytest.approx(years, abs=5e-3)
    assert least_track_record(SessionSharpe(-0.1), FUND_SHAPE) == math.inf


def test_power_and_false_discoveries():
    one = SessionSharpe(0.5)
    missed = 1 - power_of(one, FUND_SHAPE)
    assert missed == pytest.approx(0.315, **TO_THE_PAPER)
    assert false_discovery(significance=0.05, power=1 - 0.315, prior=0.05) == pytest.approx(
        0.581, **TO_THE_PAPER
    )
    found = observed_false_discovery(FUND, FUND_SHAPE, with_skill=one, prior=0.05)
    assert found == pytest.approx(0.306, **TO_THE_PAPER)
    for years, power in ((0.68, 0.21), (1, 0.26), (3, 0.54), (6.18, 0.80)):
        yearly = power_of(YearSharpe(1).per_session(252), Shape(sessions=252 * years))
        assert yearly == pytest.approx(power, abs=6e-3)
    assert sessions_needed(YearSharpe(1).per_session(252)) / 252 == pytest.approx(6.18, abs=5e-3)
    assert sessions_needed(SessionSharpe(0)) == math.inf


def test_a_sample_against_skfolio():
    returns = np.random.default_rng(0).standard_t(4, 500) * 0.01 + 0.001
    assert probabilistic_sharpe(*sharpe_of(returns)) == pytest.approx(0.9955100979865106, abs=1e-12)


@pytest.mark.parametrize("wrong", [YearSharpe(1.2), 0.1])
def test_a_yearly_ratio_does_not_enter_a_formula_of_sessions(wrong):
    with pytest.raises(BadOption, match=r"per_session\(252\)"):
        probabilistic_sharpe(wrong, FUND_SHAPE)


def test_a_table_of_returns_is_refused():
    with pytest.raises(BadOption, match=r"the shape \(250, 3\)"):
        sharpe_of(np.zeros((250, 3)))


def test_what_does_not_vary_has_no_ratio():
    assert math.isnan(sharpe_of(np.full(100, 0.001))[0])
    assert math.isnan(sharpe_of(np.array([0.01]))[0])
