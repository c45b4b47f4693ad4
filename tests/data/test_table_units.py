"""Units of volume and amount: 1,200 shares at about 10 yuan are 12 hands, and 12,000 yuan."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph.data._table_columns import column_names
from quantgraph.data._table_units import units_of
from quantgraph.errors import BadFile

HANDS, YUAN = 100.0, 1.0


def units(volume, amount=None, *, names=("成交量", "成交额"), rows=30, us=False, **given):
    numbers = {"low": 9.9, "high": 10.1, "vol": volume}
    heads = ["最低", "最高", names[0]]
    if amount is not None:
        numbers["amount"] = amount
        heads.append(names[1])
    columns = {name: pd.Series([value] * rows) for name, value in numbers.items()}
    wanted = {"volume_unit": None, "amount_unit": None} | given
    found = units_of(column_names(heads), columns, "a.csv", options=wanted, is_us=us)
    for error in found.withheld.values():
        raise error
    return found.volume, found.amount


@pytest.mark.parametrize(
    ("volume", "amount", "found"),
    [
        (12.0, 12_000.0, (100, 1)),  # akshare
        (1_200.0, 12_000.0, (1, 1)),
        (12.0, 12.0, (100, 1e3)),  # tushare
        (12.0, 1.2, (100, 1e4)),
    ],
)
def test_numbers_tell_their_units(volume, amount, found):
    assert units(volume, amount) == found


def test_names_say_units():
    assert units(12.0, 12_000.0, names=("成交量(手)", "成交额(元)")) == (HANDS, YUAN)
    assert units(1_200.0, names=("volume", "")) == (1.0, 1.0)
    assert units(12.0, names=("vol", "")) == (HANDS, 1.0)
    assert units(1_200.0, us=True) == (1.0, 1.0)


def test_volumes_of_us_shares_are_shares_whatever_their_column_is_called():
    assert units(1_200.0, names=("Vol", "")) == (HANDS, 1.0)
    assert units(1_200.0, names=("Vol", ""), us=True) == (1.0, 1.0)


def test_what_nobody_tells_is_asked_for():
    with pytest.raises(
        BadFile,
        match=r"column 成交量: neither its name nor its numbers show its unit.*volume_unit=shares or volume_unit=hands",
    ):
        units(12.0)
    assert units(12.0, volume_unit="hands") == (HANDS, 1.0)


def test_a_contradiction_names_the_units_that_fit():
    with pytest.raises(BadFile, match=r"they fit with volume_unit='shares', amount_unit='yuan'"):
        units(1_200.0, 12_000.0, names=("成交量(手)", "成交额(元)"))
    assert units(1_200.0, 12_000.0, names=("vol", "amount")) == (1, YUAN)  # a custom, which numbers refute
    assert units(1_200.0, 12_000.0, names=("vol", "amount"), rows=5) == (
        100,
        1e3,
    )  # a few odd rows prove nothing
    with pytest.raises(BadFile, match="the column 成交量\\(手\\) says another unit"):
        units(12.0, 12_000.0, names=("成交量(手)", "成交额"), volume_unit="shares")
