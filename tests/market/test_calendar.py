import pandas as pd
import pytest

from quantgraph.errors import BadOption, BadWindow
from quantgraph.market._calendar import sessions


def test_sessions_leave_out_the_national_day_holidays_of_2025():
    days = sessions("2025-09-29", "2025-10-10")
    assert [f"{day:%m%d}" for day in days] == ["0929", "0930", "1009", "1010"]


def test_year_2025_has_as_many_sessions_as_the_exchange_announced():
    # SSE holiday notice for 2025: 261 weekdays, 18 of them closed.
    assert len(sessions("20250101", "20251231")) == 243


def test_sessions_are_naive_days_under_the_house_name():
    days = sessions("2024-01-01", "2024-01-05")
    assert days.name == "trade_date"
    assert days.tz is None
    assert days.dtype == "datetime64[us]"
    assert list(days) == [pd.Timestamp(f"2024-01-0{day}") for day in (2, 3, 4, 5)]


def test_sessions_reach_back_beyond_twenty_years():
    assert len(sessions("1995-01-01", "1995-12-31")) > 200


def test_a_weekend_holds_no_session():
    assert len(sessions("2025-08-30", "2025-08-31")) == 0


def test_sessions_jump_the_labour_day_weekend():
    days = sessions("2025-04-30", "2025-05-06")
    assert [f"{day:%m%d}" for day in days] == ["0430", "0506"]


@pytest.mark.parametrize("exchange", ["XSHE", "BJSE"])
def test_shenzhen_and_beijing_trade_on_the_days_of_shanghai(exchange):
    assert sessions("2024-01-01", "2024-12-31", exchange=exchange).equals(
        sessions("2024-01-01", "2024-12-31")
    )


def test_new_york_has_its_own_days():
    days = sessions("2025-07-03", "2025-07-07", exchange="XNYS")
    assert [f"{day:%m%d}" for day in days] == ["0703", "0707"]


def test_past_the_end_of_the_calendar_is_an_error_and_not_a_guess():
    with pytest.raises(BadWindow, match="runs from 1990-12-03 to"):
        sessions("2025-01-01", "2099-12-31")


def test_before_the_first_session_is_an_error():
    with pytest.raises(BadWindow, match="outside"):
        sessions("1980-01-01", "1991-01-01")


def test_a_reversed_window_is_an_error():
    with pytest.raises(BadWindow, match="after"):
        sessions("2025-02-01", "2025-01-01")


def test_an_unknown_exchange_is_named():
    with pytest.raises(BadOption, match="'MARS'"):
        sessions("2025-01-01", "2025-02-01", exchange="MARS")


def test_the_calendar_ends_with_the_session_that_it_names():
    with pytest.raises(BadWindow, match="XSHG") as refused:
        sessions("2025-01-01", "2099-12-31")
    last = refused.value.message.rpartition(" ")[2]
    assert sessions(last, last).size == 1
