"""add and multiply: floats, finite or refused."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from decision_views import trading_tools_at

from quantgraph.errors import BadOption
from quantgraph.tools import call_tool, tools_of

FRAME = pd.DataFrame({"600519.SH": [10.0]}, index=pd.to_datetime(["2025-10-15"]))
CONTEXT = trading_tools_at({"open": FRAME, "close": FRAME}, "2025-10-15")


def call(name, a, b):
    return call_tool(tools_of("trader")[name], {"a": a, "b": b}, CONTEXT, timeout=5)


def test_sums_and_products_are_floats():
    assert call("multiply", 145.2, 20) == 2904.0
    assert call("add", 2904, 0.5) == 2904.5
    assert type(call("add", 1, 2)) is float
    assert call("add", 0.1, 0.2) == 0.1 + 0.2


@pytest.mark.parametrize("name", ["add", "multiply"])
@pytest.mark.parametrize("wrong", ["1", "", None, True, False, [1], {}, "nan"], ids=repr)
def test_what_is_not_a_number_is_refused(name, wrong):
    with pytest.raises(BadOption, match=r"a=.* must be a number, without quotes"):
        call(name, wrong, 1)
    with pytest.raises(BadOption, match=r"b=.* must be a number, without quotes"):
        call(name, 1, wrong)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 10**400, -(10**5000)], ids=list("abcde"))
def test_what_is_not_finite_is_refused(wrong):
    with pytest.raises(BadOption, match="b must be a finite number"):
        call("add", 1, wrong)


def test_a_result_that_is_not_finite_is_refused():
    for name, a, b in (("multiply", 1e308, 10), ("add", 1.7e308, 1.7e308), ("multiply", -1e200, 1e200)):
        with pytest.raises(BadOption, match="larger than a number can be"):
            call(name, a, b)
