"""Columns of dates: usual spellings are read, an open order is asked for, and what is no session is named."""

from __future__ import annotations

import datetime as dt

import pandas as pd
import pytest

from quantgraph.data._table_dates import dates_in_order, read_dates
from quantgraph.errors import BadFile

DAY = pd.Timestamp("2024-03-15")


def column(*cells):
    return pd.Series(list(cells), name="Date")


@pytest.mark.parametrize(
    "cell",
    [
        "2024-03-15",
        "20240315",
        20240315,
        20240315.0,
        "2024/3/15",
        "2024.03.15",
        "2024年3月15日",
        "15/03/2024",
        "3/15/2024",
        "15-Mar-2024",
        "Mar 15, 2024",
        "15 March 2024",
        " 2024-03-15 ",
        "2024-03-15 00:00:00",
        "2024-03-15T00:00:00-04:00",
        "2024-03-15 00:00:00+08:00",
        dt.date(2024, 3, 15),
        pd.Timestamp("2024-03-15", tz="America/New_York"),
    ],
)
def test_a_session_is_read_in_each_usual_spelling(cell):
    read = read_dates(column(cell), "a.csv")
    assert read.tolist() == [DAY]
    assert str(read.dtype) == "datetime64[us]"


def test_the_order_of_day_and_month_is_told_by_another_row():
    assert read_dates(column("01/02/2024", "13/02/2024"), "a.csv").tolist() == [
        pd.Timestamp("2024-02-01"),
        pd.Timestamp("2024-02-13"),
    ]
    assert dates_in_order(column("01/02/2024", "02/13/2024"), "a.csv")[1] == "month_first"
    assert dates_in_order(column("2024-01-02"), "a.csv")[1] is None


def test_an_open_order_is_asked_for_and_taken_as_said():
    with pytest.raises(BadFile, match=r"01/02/2024 may be 2024-01-02 or 2024-02-01.*date_order=month_first"):
        read_dates(column("01/02/2024", "03/04/2024"), "a.csv")
    said, _ = dates_in_order(column("01/02/2024"), "a.csv", "day_first")
    assert said.tolist() == [pd.Timestamp("2024-02-01")]
    with pytest.raises(BadFile, match="date_order='day_first' is set, and the column has dates"):
        dates_in_order(column("01/13/2024"), "a.csv", "day_first")
    with pytest.raises(BadFile, match="some dates have the month first and others the day"):
        read_dates(column("13/01/2024", "01/13/2024"), "a.csv")


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("2024-02-30", "is not a day of the calendar"),
        ("1/2/24", "its year has two digits"),
        ("45366", "as a day number of Excel it would be 2024-03-15"),
        ("yesterday", "is not a date; write YYYYMMDD"),
        ("2024-03-15 09:30", "the rows have several"),
        ("2024-03-15T04:00:00Z", "the rows have several"),
        (None, "is empty"),
        ("  ", "is not a date"),
    ],
)
def test_what_is_no_session_is_named_with_its_row(cell, told):
    with pytest.raises(BadFile, match=told) as raised:
        read_dates(column("2024-03-14", cell), "a.csv")
    assert raised.value.message.startswith("a.csv, row 2, column Date: ")
