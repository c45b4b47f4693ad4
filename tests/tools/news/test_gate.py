"""The gate of news: shown is what was surely published before the moment, and nothing else."""

from __future__ import annotations

import logging
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgraph.market import Moment
from quantgraph.tools.news._gate import NewsItem, published_items

NOW = Moment.at("2025-10-15", "open")  # 09:00 at the exchange
SHANGHAI, NEW_YORK = ZoneInfo("Asia/Shanghai"), ZoneInfo("America/New_York")


def gate(published, page=None, *, source=None, exchange=SHANGHAI):
    dropped = []
    items = [NewsItem(title="x", published=published, page_published=page)]
    shown = published_items(items, NOW, source_zone=source, exchange_zone=exchange, dropped=dropped)
    return shown[0][1] if shown else dropped[0]


LATER, NO_TIME, UNREADABLE = "not_before_the_moment", "no_time", "unreadable_time"


@pytest.mark.parametrize(
    ("published", "answer"),
    [
        # All that AI-Trader's filter let through although it is later, or was not read at all.
        ("2026-01-01 10:00:00", LATER),
        ("December 1, 2025", LATER),
        ("2025-10-15T08:00:00-05:00", LATER),
        ("15/10/2025", UNREADABLE),
        ("45 minutes ago", UNREADABLE),
        ("2 days ago", UNREADABLE),
        ("yesterday", UNREADABLE),
        ("unknown", UNREADABLE),
        ("None", UNREADABLE),
        ("2025", UNREADABLE),
        ("20251014", UNREADABLE),
        ("2025-10-14T25:00:00Z", UNREADABLE),
        ("2025-02-30", UNREADABLE),
        ("Foo 1, 2025", UNREADABLE),
        ("9999-12-31T23:59:59-12:00", UNREADABLE),
        ("", NO_TIME),
        # A zone that is written proves nothing: where the clocks are last, 04:00 is midnight in Shanghai.
        ("2025-10-14T03:59:59Z", "2025-10-14"),
        ("2025-10-14T03:59:59+08:00", "2025-10-14"),
        ("2025-10-14 03:59", "2025-10-14"),
        ("2025-10-14 03:59:59 -0500", "2025-10-14"),
        ("2025-10-14T04:00:00.000Z", LATER),
        ("2025-10-14T04:00:00+08:00", LATER),
        ("Tue, 14 Oct 2025 03:30:00 GMT", "2025-10-14"),
        ("Tue, 14 Oct 2025 04:30:00 GMT", LATER),
        ("Tue, 14 Oct 2025 03:30:00 -0000", "2025-10-14"),
        # A day of no zone is over when it is over on the date line, at 20:00 of the next day in Shanghai.
        ("2025-10-13", "2025-10-14"),
        ("Oct 13, 2025", "2025-10-14"),
        ("October 13, 2025", "2025-10-14"),
        ("2025-10-14", LATER),
        ("2025-10-15", LATER),
        ("2025-10-16", LATER),
    ],
)
def test_a_source_without_a_zone(published, answer):
    assert gate(published) == answer


def test_no_time_at_all_is_not_shown():
    assert gate(None) == NO_TIME
    assert gate("", "") == NO_TIME
    assert gate(None, "2025-10-12") == "2025-10-13"


@pytest.mark.parametrize(
    ("published", "answer"),
    [
        ("2025-10-15 08:59:59", "2025-10-15 08:59"),
        ("2025-10-15 09:00", LATER),
        (datetime(2025, 10, 15, 8, 59), "2025-10-15 08:59"),
        (datetime(2025, 10, 15, 0, 59, tzinfo=UTC), "2025-10-15 08:59"),
        (date(2025, 10, 14), "2025-10-14"),
        (date(2025, 10, 15), LATER),
        (pd.Timestamp("2025-10-15 08:59:59.9"), "2025-10-15 08:59"),
        (pd.NaT, UNREADABLE),
        (1760000000, UNREADABLE),
    ],
)
def test_a_source_that_states_its_zone(published, answer):
    assert gate(published, source=SHANGHAI) == answer


def test_times_are_those_of_the_exchange():
    assert gate("2025-10-15T08:59:00-04:00", source=NEW_YORK, exchange=NEW_YORK) == "2025-10-15 08:59"
    assert gate("2025-10-15T09:00:00-04:00", source=NEW_YORK, exchange=NEW_YORK) == LATER
    assert gate("2025-10-15 20:00", source=SHANGHAI, exchange=NEW_YORK) == "2025-10-15 08:00"


def test_of_two_times_the_latest_counts_and_both_must_be_read():
    assert gate("2025-10-12", "2025-10-14T00:00:00Z") == "2025-10-14"
    assert gate("2025-10-13", "2025-10-20T00:00:00Z") == LATER
    assert gate("2025-10-13", "3 days ago") == UNREADABLE


def test_of_two_instants_of_one_name_the_later_one_counts():
    """In New York 01:30 of 2025-11-02 is twice; the later one is 14:30 in Shanghai."""
    moment = Moment.at("2025-11-02", "close")  # 15:00
    for minute, shown in (("01:30", 1), ("02:30", 0)):
        items = [NewsItem(title="x", published=f"2025-11-02 {minute}")]
        found = published_items(items, moment, source_zone=NEW_YORK, exchange_zone=SHANGHAI, dropped=[])
        assert len(found) == shown


def test_each_drop_is_counted_and_logged_without_what_it_was(caplog):
    dropped = []
    items = [
        NewsItem(title="SECRET", content="SECRET", published=each) for each in (None, "soon", "2177-01-01")
    ]
    with caplog.at_level(logging.INFO):
        assert not published_items(items, NOW, source_zone=None, exchange_zone=SHANGHAI, dropped=dropped)
    assert dropped == [NO_TIME, UNREADABLE, LATER]
    assert len(caplog.records) == 3
    assert "SECRET" not in caplog.text
    assert "2177" not in caplog.text


INSTANTS = st.datetimes(datetime(2025, 10, 12), datetime(2025, 10, 18), timezones=st.just(UTC))
OFFSETS = st.integers(-14 * 4, 14 * 4).map(lambda quarters: timezone(timedelta(minutes=15 * quarters)))


@given(instant=INSTANTS, offset=OFFSETS, exchange=st.sampled_from([SHANGHAI, NEW_YORK]))
def test_an_instant_is_shown_if_and_only_if_it_was_before_the_moment(instant, offset, exchange):
    opened = datetime(2025, 10, 15, 9, tzinfo=exchange)
    local = instant.astimezone(offset)
    assert (gate(local.isoformat(), source=offset, exchange=exchange) != LATER) == (instant < opened)
    assert (gate(f"{local:%Y-%m-%dT%H:%M:%S.%f}", source=offset, exchange=exchange) != LATER) == (
        instant < opened
    )


@given(
    instant=INSTANTS,
    true=OFFSETS.filter(lambda zone: zone.utcoffset(None) >= timedelta(hours=-12)),
    written=OFFSETS,
    exchange=st.sampled_from([SHANGHAI, NEW_YORK]),
)
def test_whatever_zone_is_written_an_undeclared_stamp_is_shown_on_a_later_day_only(
    instant, true, written, exchange
):
    """The true zone is any of the world; another one, or none, stands behind the time."""
    local = instant.astimezone(true).replace(tzinfo=None)
    today = datetime(2025, 10, 15, tzinfo=exchange)
    for text in (local.isoformat(), local.replace(tzinfo=written).isoformat(), f"{local:%Y-%m-%d}"):
        if gate(text, exchange=exchange) != LATER:
            assert instant < today


@given(st.one_of(st.text(max_size=40), st.dates().map(str), st.datetimes().map(str)))
def test_whatever_is_written_nothing_fails_and_what_is_shown_is_a_past_day(text):
    answer = gate(text)
    assert answer in {LATER, NO_TIME, UNREADABLE} or answer < "2025-10-15 09:00"
