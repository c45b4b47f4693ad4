"""Numbers from outside: no bool is one, and none is infinite by surprise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from quantgraph._util.values import finite_number, is_number, is_whole


@pytest.mark.parametrize("value", [0, -7, 10**400])
def test_an_int_is_whole_and_a_number(value):
    assert is_whole(value)
    assert is_number(value)


@pytest.mark.parametrize("value", [0.5, 2.0, math.nan, -math.inf, np.float64(1)])
def test_a_float_is_a_number_and_not_whole(value):
    assert is_number(value)
    assert not is_whole(value)


@pytest.mark.parametrize("value", [True, False, np.True_, None, "1", [1], 1j])
def test_what_is_neither_is_no_number(value):
    assert not is_whole(value)
    assert not is_number(value)
    assert finite_number(value) is None


def test_a_finite_number_is_a_float():
    assert [finite_number(value) for value in (3, -0.5)] == [3.0, -0.5]
    assert type(finite_number(3)) is float
    assert [finite_number(value) for value in (math.nan, math.inf, -math.inf, 10**400)] == [None] * 4
