"""Instants in the local time of the exchange of a symbol."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quantgraph.errors import BadOption, UnknownSymbol
from quantgraph.market._calendar import exchange_time, exchange_zone, in_zone, time_zone


@pytest.mark.parametrize(
    ("symbol", "local"),
    [  # New York is 4 hours behind UTC in summer and 5 in winter; Shanghai 8 ahead all year
        ("AAPL", (2025, 3, 7, 8, 30)),
        ("BRK.B", (2025, 3, 7, 8, 30)),
        ("600519.SH", (2025, 3, 7, 21, 30)),
        ("000001.SZ", (2025, 3, 7, 21, 30)),
        ("920002.BJ", (2025, 3, 7, 21, 30)),
        ("000300.SH", (2025, 3, 7, 21, 30)),
    ],
)
def test_an_instant_is_local_time_of_the_exchange(symbol, local):
    instant = datetime(2025, 3, 7, 13, 30, tzinfo=UTC)
    assert exchange_time(instant, exchange_zone(symbol)) == datetime(*local)


def test_the_clock_of_new_york_is_set_forth_in_march():
    zone = exchange_zone("AAPL")
    before, after = datetime(2025, 3, 7, 14, tzinfo=UTC), datetime(2025, 3, 10, 13, tzinfo=UTC)
    assert [exchange_time(instant, zone).hour for instant in (before, after)] == [9, 9]


def test_a_local_time_that_there_is_twice_or_never_is_the_later_instant():
    zone = exchange_zone("AAPL")
    twice, never = datetime(2025, 11, 2, 1, 30), datetime(2025, 3, 9, 2, 30)
    assert in_zone(twice, zone) == datetime(2025, 11, 2, 6, 30, tzinfo=UTC)
    assert in_zone(never, zone) == datetime(2025, 3, 9, 7, 30, tzinfo=UTC)
    shanghai = time_zone("Asia/Shanghai", "zone")
    assert in_zone(datetime(2025, 3, 3, 9), shanghai).utcoffset() == timedelta(0)
    assert in_zone(datetime(2025, 3, 3, 9), shanghai).hour == 1


@pytest.mark.parametrize("symbol", ["0700.HK", "aapl", ""])
def test_another_exchange_is_not_guessed(symbol):
    with pytest.raises(UnknownSymbol):
        exchange_zone(symbol)


@pytest.mark.parametrize("name", ["Shanghai", "", "/etc/passwd", "../UTC", "Asia"])
def test_a_name_that_is_no_time_zone_is_refused(name):
    with pytest.raises(BadOption, match="is not a time zone"):
        time_zone(name, "record_zone")
