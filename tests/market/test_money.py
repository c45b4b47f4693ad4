from decimal import Decimal

import numpy as np
import pytest

from quantgraph.errors import BadOption
from quantgraph.market.money._fees import money, to_decimal


@pytest.mark.parametrize(
    ("amount", "rounded"),
    [("1.005", "1.01"), ("1.0049", "1.00"), ("-1.005", "-1.01"), ("0.125", "0.13"), ("7", "7.00")],
)
def test_half_a_cent_goes_up_where_bankers_would_go_to_even(amount, rounded):
    assert str(money(Decimal(amount))) == rounded


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.15, "1.15"), (10, "10"), (10.0, "10"), (np.float64(6.67), "6.67"), ("0.1", "0.1"), (1e6, "1000000")],
)
def test_a_number_is_read_as_it_is_written(value, text):
    assert to_decimal(value) == Decimal(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "ten", Decimal("NaN")])
def test_what_is_not_a_finite_number_is_refused_by_its_name(value):
    with pytest.raises(BadOption, match="cash="):
        to_decimal(value, name="cash")


@pytest.mark.parametrize("value", [None, [], object(), True, "", "1,000"])
def test_what_is_no_number_is_named(value):
    with pytest.raises(BadOption, match=r"cash=.* is not a finite number"):
        to_decimal(value, name="cash")


def test_a_whole_number_keeps_every_digit():
    assert f"{to_decimal(12345678901234567)}" == "12345678901234567"
    assert to_decimal(10**400) == Decimal(10) ** 400
