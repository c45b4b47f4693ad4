"""Units of volumes and amounts: said, or told by the prices, or asked for."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph.data.column_names import column_names
from quantgraph.data.table_units import TableUnits, units_of
from quantgraph.errors import BadFile

SHARES, PRICE = 150_000, 10.0


def units(
    header: str, vol: float, amount: float | None, rows: int = 1, *, is_us: bool = False, **given: str
) -> TableUnits:
    numbers = {"low": [PRICE * 0.99] * rows, "high": [PRICE * 1.01] * rows, "vol": [vol] * rows}
    numbers |= {} if amount is None else {"amount": [amount] * rows}
    columns = {name: pd.Series(values) for name, values in numbers.items()}
    return units_of(column_names(header.split()), columns, "a.csv", given=given, is_us=is_us)


@pytest.mark.parametrize("shares", [1, 100])
@pytest.mark.parametrize("yuan", [1, 1e3, 1e4])
def test_an_average_price_tells_both_units(shares: int, yuan: float) -> None:
    found = units("成交量 成交额", SHARES / shares, SHARES * PRICE / yuan)
    assert (found.volume, found.amount) == (shares, yuan)
    assert "told by the numbers" in found.notes["vol"].en


@pytest.mark.parametrize(
    ("header", "amount", "options", "volume"),
    [
        ("vol", None, {}, 100),
        ("volume", None, {}, 1),
        ("成交量(手)", None, {}, 100),
        ("成交量", None, {"volume_unit": "hands"}, 100),
        ("成交量", None, {"is_us": True}, 1),
    ],
)
def test_a_name_an_owner_or_the_market_says_it(
    header: str, amount: None, options: dict[str, object], volume: float
) -> None:
    assert units(header, SHARES, amount, **options).volume == volume  # type: ignore[arg-type]


def test_what_is_not_told_is_asked_for_with_its_option() -> None:
    with pytest.raises(BadFile, match=r"say volume_unit='shares' or volume_unit='hands' .QUANTGRAPH_VOL"):
        units("成交量", SHARES, None)
    with pytest.raises(
        BadFile, match=r"column 成交额: its unit is not told.*say amount_unit='yuan' or"
    ) as caught:
        units("volume 成交额", SHARES, SHARES * PRICE * 17)
    assert caught.value.data["parameter"] == "amount_unit"


def test_nothing_traded_asks_for_nothing() -> None:
    assert units("成交量", 0, None).notes == {}


def test_numbers_speak_against_a_convention_from_twenty_rows_on() -> None:
    of_shares = {"vol": SHARES, "amount": SHARES * PRICE}
    assert units("vol amount", **of_shares, rows=19).volume == 100
    with pytest.raises(BadFile, match="they fit with volume_unit='shares', amount_unit='yuan'"):
        units("vol amount", **of_shares, rows=20)
    assert units("vol amount", **of_shares, rows=20, volume_unit="shares", amount_unit="yuan").amount == 1


def test_an_option_against_the_columns_name_is_refused() -> None:
    with pytest.raises(
        BadFile, match=r"volume_unit='shares' is given, and the column 成交量\(手\) says another"
    ):
        units("成交量(手)", SHARES, None, volume_unit="shares")
