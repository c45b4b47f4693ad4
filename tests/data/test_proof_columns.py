"""Columns that say something about others: adjustment factors are actions, changes and amounts are held against bars."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph.data import open_source
from quantgraph.data.files import CallerTables
from quantgraph.errors import BadFile
from quantgraph.settings import TableOptions

DAYS = pd.bdate_range("2024-01-02", periods=30).strftime("%Y%m%d")


def bars(close, **columns) -> pd.DataFrame:
    prices = dict.fromkeys(("open", "high", "low", "close"), close)
    return pd.DataFrame({"ts_code": "600000.SH", "trade_date": DAYS, **prices, "vol": 1000.0, **columns})


def events(source) -> dict[str, dict[str, float]]:
    found = {}
    for name in ("dividend", "split"):
        column = source.market.bars.get(name)
        cells = {} if column is None else column["600000.SH"].dropna().to_dict()
        found[name] = {f"{day:%Y%m%d}": value for day, value in cells.items()}
    return found


def told(source) -> str:
    return "\n".join(source.provenance("en"))


def test_a_factor_of_raw_prices_is_a_dividend_and_a_bonus():
    # Ten get four new shares and 3 in cash on 2024-01-16: (20 - 0.3) / 1.4 = 14.07; a dividend of 0.2 ten rows later.
    close = [20.0] * 10 + [14.07] * 10 + [13.87] * 10
    factor = [1.0] * 10 + [20 / 14.07] * 10 + [20 / 14.07 * 14.07 / 13.87] * 10
    source = open_source(bars(close, adj_factor=factor))
    assert events(source) == {
        "dividend": {DAYS[10]: pytest.approx(0.302), DAYS[20]: pytest.approx(0.2, abs=1e-3)},
        "split": {DAYS[10]: 1.4},
    }
    assert "2 dividends or splits are from adj_factor" in told(source)
    once = bars(close, adj_factor=factor, dividend=[0.0] * 10 + [0.302] + [0.0] * 19)
    assert events(open_source(once)) == {"dividend": {DAYS[10]: 0.302}, "split": {}}, (
        "a column of events says it"
    )


def test_the_previous_close_has_the_action_to_the_tick():
    close = [20.0] * 10 + [19.77] * 20
    factor = [1.0] * 10 + [1.012] * 20  # three decimals say 0.237
    source = open_source(bars(close, adj_factor=factor, pre_close=[20.0] * 10 + [19.77] * 20))
    assert events(source)["dividend"] == {DAYS[10]: pytest.approx(0.23)}


def test_a_factor_of_adjusted_prices_pays_nothing(tmp_path):
    path = tmp_path / "600000.SH_qfq.csv"
    bars([20.0] * 30, adj_factor=[1.0] * 10 + [2.0] * 20).to_csv(path, index=False)
    source = open_source(path)
    assert events(source) == {"dividend": {}, "split": {}}
    assert "adj_factor = adj_factor (in adjusted prices already; not paid again)" in told(source)


def test_rows_in_another_unit_are_refused_with_their_place_and_mended_on_request():
    # 1,000 hands at 10 are 1,000 thousand yuan; three rows have the volume in shares.
    table = bars([10.0] * 30, amount=1000.0)
    table.loc[9:11, "vol"] = 100_000.0
    with pytest.raises(
        BadFile,
        match=r"amount / vol is not between low and high in 3 rows, the first 600000.SH 2024-01-15: 0.1; vol is",
    ) as caught:
        open_source(table).sessions()
    assert (caught.value.data["parameter"], caught.value.data["choices"]) == ("unit_change", ("mend",))
    mended = CallerTables(table, options=TableOptions(unit_change="mend"))
    assert mended.market.bars["vol"]["600000.SH"].tolist() == [1000.0] * 30
    assert "vol is in another unit there" in told(mended)


def test_a_row_that_contradicts_is_named():
    table = bars([10.0] * 30, amount=1000.0)
    table.loc[4, "amount"] = 1500.0
    assert "amount / vol is not between low and high in 1 rows, the first 600000.SH 2024-01-08: 15" in told(
        open_source(table)
    )


def test_a_percent_change_beside_a_previous_close_is_held_against_both():
    table = bars([10.0, 10.5] * 15, pre_close=[10.0] + [10.0, 10.5] * 14 + [10.0])
    table["pct_chg"] = ((table["close"] / table["pre_close"] - 1) * 100).round(4)
    assert "contradicts" not in told(open_source(table))
    table.loc[7, "pct_chg"] = 9.0
    assert "pct_chg contradicts the closes of 1 rows, the first on 2024-01-11; not used" in told(
        open_source(table)
    )


def test_a_unit_that_changes_is_named_whichever_the_most_rows_are_in():
    # 13 rows of volumes in hands and 17 in shares beside amounts in yuan: nothing but the numbers says it.
    table = bars([10.0] * 30).drop(columns="vol").assign(成交量=1000.0, **{"成交额(元)": 1e6})
    table.loc[13:, "成交量"] = 100_000.0
    with pytest.raises(
        BadFile, match=r"in 13 rows, .*; 成交量 is in another unit there; say unit_change=mend"
    ):
        open_source(table).sessions()
    mended = CallerTables(table, options=TableOptions(unit_change="mend"))
    assert mended.market.bars["vol"]["600000.SH"].tolist() == [1000.0] * 30
    for unit in ("hands", "shares"):
        with pytest.raises(BadFile, match="is in another unit there"):
            CallerTables(table, options=TableOptions(volume_unit=unit)).sessions()


def test_prices_in_billionths_are_no_prices():
    with pytest.raises(BadFile, match=r"row 1, column close: 1e\+10 is no price: is it in a smaller unit"):
        open_source(bars([1e10] * 30)).sessions()


@pytest.mark.parametrize("head", ["prev_close", "last_close"])
def test_a_vendors_previous_close_is_one(head):
    assert "pre_close" in open_source(bars([10.0] * 30, **{head: 10.0})).market.bars


@pytest.mark.parametrize("clock", [" 16:00:00", " 4:00:00 PM", " 12:00:00 AM"])
def test_one_time_of_day_behind_an_american_date_is_no_bar_of_a_day_s_part(clock):
    days = [f"{day:%m/%d/%Y}{clock}" for day in pd.to_datetime(DAYS)]
    source = open_source(bars([10.0] * 30).assign(trade_date=days))
    assert [f"{day:%Y%m%d}" for day in source.sessions()] == list(DAYS)


# Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"split": [1.0] * 15 + [2.0] + [1.0] * 14, "split_factor": [1.0] * 15 + [3.0] + [1.0] * 14},
            "row 16, column split_factor: 3, where split has 2; keep one",
        ),
        (
            {"dividend": [0.0] * 10 + [20.0] + [0.0] * 19},
            "row 11, column dividend: 20 is not below the close before",
        ),
        ({"split": [1.0] * 10 + [-1.0] + [1.0] * 19}, "row 11, column split: -1 is too small"),
        ({"adj_factor": [1.0] * 10 + [0.0] * 20}, "row 11, column adj_factor: 0 is too small"),
        ({"adj_factor": ["x"] * 30}, "row 1, column adj_factor: 'x' is not a number"),
    ],
)
def test_a_column_of_events_that_cannot_be_is_one_line_with_its_row(columns, words):
    with pytest.raises(BadFile, match=words):
        open_source(bars([10.0] * 30, **columns)).sessions()


def test_a_column_of_codes_with_an_empty_cell_is_named_with_the_row():
    table = bars([10.0] * 30).rename(columns={"ts_code": "anything"})
    table.loc[29, "anything"] = None
    with pytest.raises(BadFile, match="row 30, column ts_code: is empty"):
        open_source(table).sessions()


def test_a_close_that_crosses_the_raw_one_is_no_adjusted_close():
    close = [10 + step / 100 for step in range(30)]
    table = bars(close, **{"Adj Close": [5 + step / 3 for step in range(30)]})
    assert "Adj Close over the close moves 29 times; not used" in told(open_source(table))


@pytest.mark.parametrize("head", ["=cmd|'/C calc'!A0", "<script>alert(1)</script>", "@SUM(A1:A9)"])
def test_a_heading_that_is_a_formula_or_markup_is_a_name(head):
    assert f"unknown, so not used: {head}" in told(open_source(bars([10.0] * 30, **{head: 1.0})))


def test_a_flat_bar_without_a_volume_in_a_table_that_has_some_was_no_trading():
    table = bars([10.0] * 30)
    table.loc[[1, 5], "vol"] = None
    table.loc[5, "high"] = 10.5  # of a bar that moved the volume is not known
    vol = open_source(table).market.bars["vol"].iloc[:, 0]
    assert vol.iloc[1] == 0
    assert pd.isna(vol.iloc[5])
