"""Dates of a column in every common spelling; what cannot be told is asked."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph.data.date_columns import DateOrder, dates_in_order, read_dates
from quantgraph.errors import BadFile


@pytest.mark.parametrize(
    "text",
    [
        "20240102",
        "2024-01-02",
        "2024/1/2",
        "2024.01.02",
        "2024年1月2日",
        "Jan 2, 2024",
        "2 January 2024",
        "02-Jan-2024",
        "2024-01-02 00:00:00",
        "2024-01-02 00:00:00-05:00",
        "2024-01-02T00:00:00.000Z",
        " 2024-01-02 ",
    ],
)
def test_spellings_of_one_day(text: str) -> None:
    assert read_dates(pd.Series([text]), "a.csv").tolist() == [pd.Timestamp("2024-01-02")]


def test_a_session_is_the_local_date_of_its_stamp() -> None:
    new_york = pd.Series(pd.DatetimeIndex(["2024-01-02", "2024-07-02"], tz="America/New_York"))
    assert read_dates(new_york, "a").tolist() == [pd.Timestamp("2024-01-02"), pd.Timestamp("2024-07-02")]


@pytest.mark.parametrize(
    ("texts", "given", "first", "order"),
    [
        (["01/02/2024", "01/13/2024"], None, "2024-01-02", "month_first"),
        (["01/02/2024", "13/02/2024"], None, "2024-02-01", "day_first"),
        (["01/02/2024"], "day_first", "2024-02-01", "day_first"),
        (["2024/1/2"], "day_first", "2024-01-02", None),
    ],
)
def test_the_order_of_days_and_months_is_told_by_the_column_or_its_owner(
    texts: list[str], given: DateOrder | None, first: str, order: DateOrder | None
) -> None:
    dates, told = dates_in_order(pd.Series(texts), "a.csv", given)
    assert (dates[0], told) == (pd.Timestamp(first), order)


@pytest.mark.parametrize(
    ("texts", "given", "said"),
    [
        (
            ["01/02/2024", "03/04/2024"],
            None,
            "may be 2024-01-02 or 2024-02-01, and no date of the column tells",
        ),
        (["01/13/2024", "13/01/2024"], None, "some dates have the month first and others the day"),
        (["01/13/2024"], "day_first", "date_order='day_first' is given, and the column has dates"),
        (["20240102", "2024-02-30"], None, "row 2, column d: 2024-02-30 is not a day of the calendar"),
        (["2024-01-02 05:00:00+00:00"], None, "has a time of day in its time zone"),
        (["1/2/24"], None, "its year has two digits"),
        (["45293"], None, "as a day number of Excel it would be 2024-01-02"),
        ([""], None, "an empty cell"),
        (["soon"], None, "soon is not a date; write YYYYMMDD or YYYY-MM-DD"),
    ],
)
def test_what_is_no_session_is_named(texts: list[str], given: DateOrder | None, said: str) -> None:
    with pytest.raises(BadFile) as caught:
        dates_in_order(pd.Series(texts, name="d"), "a.csv", given)
    assert said in caught.value.message
