"""Blocks and intervals against arch 8.0.0, and how often an interval of 95 % has the true value."""

import numpy as np
import pytest

from quantgraph.judgement._bootstrap import Blocks, blocks_of, interval, places


def mean(returns):
    return returns.mean(axis=-1)


def autoregressive(seed, count, rho):
    shocks = np.random.default_rng(seed).standard_normal(count)
    for place in range(1, count):
        shocks[place] += rho * shocks[place - 1]
    return shocks


@pytest.mark.parametrize(
    ("seed", "length"),
    [(0, 11.188459061870201), (1, 11.444488938075182), (2, 9.00659410316523), (3, 11.66058291762009)],
)
def test_blocks_are_as_long_as_those_of_arch(seed, length):
    assert blocks_of(autoregressive(seed, 1000, 0.5)).length == pytest.approx(length, abs=1e-9)


@pytest.mark.parametrize("seed", [3, 4])
def test_limits_are_those_of_arch(seed):
    returns = 0.01 * autoregressive(seed, 500, 0.3) ** 2 + 0.02 * autoregressive(seed + 10, 500, 0)
    found = interval(returns, mean, places(500, Blocks(length=blocks_of(returns).length), 4000))
    low, high = {3: (0.0090145, 0.01368883), 4: (0.01010647, 0.01475635)}[seed]
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.03 * (high - low))


@pytest.mark.proof
@pytest.mark.parametrize("rho", [0.0, 0.3])
@pytest.mark.parametrize("count", [250, 750, 1250])
def test_an_interval_has_the_true_value_in_95_of_100_accounts(count, rho):
    inside = 0
    for seed in range(1_000):
        returns = autoregressive(seed, count + 50, rho)[50:]
        blocks = blocks_of(returns)
        found = interval(returns, mean, places(count, blocks, 500), blocks.widening)
        inside += found.low <= 0 <= found.high
    assert 930 <= inside <= 970


@pytest.mark.parametrize("returns", [np.zeros(50), np.array([0.01, 0.02]), np.full(10, 0.01)])
def test_few_or_equal_returns_have_blocks_of_one(returns):
    assert blocks_of(returns) == Blocks()


def test_equal_returns_have_equal_intervals():
    returns = autoregressive(1, 300, 0.2)
    first, second = (interval(returns, mean, places(300, blocks_of(returns))) for _ in range(2))
    assert first == second
