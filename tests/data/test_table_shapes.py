"""Dates and symbols of an index or of two headers become columns."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph.data._table_reader import long_table
from quantgraph.errors import BadFile

DAYS = pd.DatetimeIndex(["2024-01-02", "2024-01-03"], name="Date")
FIELDS = ["Close", "High", "Low", "Open", "Volume"]
ONE = pd.DataFrame({name: [10.0, 10.5] for name in FIELDS}, index=DAYS)
BOTH = {"AAPL": ONE, "MSFT": ONE * 2}
ROWS = pd.concat(BOTH, names=["symbol", "Date"])
COLUMNS = pd.concat(BOTH, axis="columns", names=["Ticker", "Price"])


@pytest.mark.parametrize(
    "table",
    [
        ROWS,
        ROWS.rename_axis([None, None]),
        ROWS.swaplevel(),
        ROWS.reset_index(),
        COLUMNS,
        COLUMNS.swaplevel(axis="columns"),
        COLUMNS.rename_axis(None).rename_axis([None, None], axis="columns"),
        COLUMNS.reset_index(),
    ],
    ids=["rows", "unnamed", "swapped", "columns", "wide", "yfinance", "wide_unnamed", "wide_reset"],
)
def test_all_shapes_hold_the_same_rows(table: pd.DataFrame) -> None:
    long = long_table(table, "frame").rename(columns={"symbol": "ts_code", "Date": "trade_date"})
    rows = long.sort_values(["ts_code", "trade_date"])[["ts_code", "trade_date", "Close"]]
    assert rows.to_numpy().tolist() == [
        ["AAPL", DAYS[0], 10.0],
        ["AAPL", DAYS[1], 10.5],
        ["MSFT", DAYS[0], 20.0],
        ["MSFT", DAYS[1], 21.0],
    ]


def test_sessions_that_a_symbol_does_not_have_are_left_out() -> None:
    assert len(long_table(COLUMNS.where(COLUMNS.notna(), 0).drop(index=DAYS[:0]), "frame")) == 4
    short = pd.concat({"AAPL": ONE, "MSFT": ONE.iloc[1:]}, axis="columns")
    assert len(long_table(short, "frame")) == 3


def test_an_index_of_numbers_without_a_name_is_no_column() -> None:
    assert list(long_table(ONE.set_axis([7, 8]), "frame")) == FIELDS


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            pd.concat({"x": COLUMNS}, axis="columns"),
            "its columns have 3 levels, such as \\('x', 'AAPL', 'Close'",
        ),
        (pd.DataFrame([[1.0]], columns=pd.MultiIndex.from_tuples([("a", "b")])), "valid are two levels"),
        (pd.concat([ONE, ONE], axis="columns"), "column Close is there twice"),
    ],
)
def test_other_shapes_are_refused(table: pd.DataFrame, said: str) -> None:
    with pytest.raises(BadFile, match=said):
        long_table(table, "frame")
