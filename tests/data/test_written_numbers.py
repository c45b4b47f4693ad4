"""Numbers as people write them, and what a comma is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph.data._table_numbers import plain_numbers, read_numbers
from quantgraph.errors import BadFile


def numbers(cells, field="close", *, option=None, **others):
    columns = {field: pd.Series(cells, name="N"), **{name: pd.Series(each) for name, each in others.items()}}
    return read_numbers(plain_numbers(columns, "a.csv", option).columns[field], "a.csv").tolist()


@pytest.mark.parametrize(
    ("cells", "field", "expected"),
    [
        (["1,234.5", "12"], "close", [1234.5, 12]),
        (["1,234,567", "1,234"], "vol", [1234567, 1234]),
        (["185,64", "1.185,64"], "close", [185.64, 1185.64]),
        (["0,123", "0,5"], "close", [0.123, 0.5]),
        (["1850,125", "12"], "close", [1850.125, 12]),
        (["$1,234.50", "￥12.5"], "close", [1234.5, 12.5]),
        (["1 234,5", "1\u00a0234,25"], "close", [1234.5, 1234.25]),
        (["12.3M", "4.5K", "1.2B"], "vol", [12.3e6, 4500, 1.2e9]),
        (["1.5万", "2亿"], "amount", [15000, 2e8]),
        (["2.37%", "-0.5%"], "turnover_rate", [2.37, -0.5]),
        (["'12.5", " 7 "], "close", [12.5, 7]),
        (["1e3", "+2.5"], "close", [1000, 2.5]),
    ],
)
def test_marks_are_taken_off(cells, field, expected):
    assert numbers(cells, field) == pytest.approx(expected, rel=1e-15)


def test_empty_cells_and_dashes_are_unknown():
    assert np.isnan(numbers(["-", "--", "", None, "N/A"])).all()


def test_another_column_tells_what_a_comma_is():
    assert numbers(["1,234", "5,678"], "vol", close=["12.34", "12.5"]) == [1234, 5678]
    assert numbers(["1,234", "5,678"], "vol", close=["12,34", "12,5"]) == [1.234, 5.678]


def test_what_nothing_tells_is_asked_for_and_taken_as_said():
    with pytest.raises(
        BadFile, match=r"a.csv, column N: '1,234' may be 1234 or 1.234, .*decimal=point or"
    ) as asked:
        numbers(["1,234"], "vol")
    assert (asked.value.data["parameter"], asked.value.data["choices"]) == ("decimal", ("point", "comma"))
    assert numbers(["1,234"], option="point") == [1234]
    assert numbers(["1,234"], option="comma") == [1.234]
    assert numbers(["1.234", "2.500"], option="comma") == [1234, 2500]


def test_contradictions_are_refused():
    with pytest.raises(
        BadFile, match=r"the comma means two things: '1,5' in column N and '2.5' in column None"
    ):
        numbers(["1,5"], vol=["2.5"])
    with pytest.raises(BadFile, match=r"decimal='comma' is set, and '2\.5' shows a decimal point"):
        numbers(["2.5"], option="comma")


@pytest.mark.parametrize("cell", ["12%", "1,23,4", "12.3M", "ten", "1.2.3", "12万", "€", "1;5"])
def test_what_is_no_number_of_its_column_is_named_as_it_is_written(cell):
    with pytest.raises(BadFile, match=r"a.csv, row 2, column N: .* is not a number") as refused:
        numbers(["1.5", cell])
    assert repr(cell) in refused.value.message
