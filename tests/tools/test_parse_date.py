"""Dates as models write them: read in one way, or refused in one line that says how to write one."""

from __future__ import annotations

from datetime import date

import pytest

from quantgraph.errors import BadWindow
from quantgraph.market import Moment
from quantgraph.tools.trading._dates import parse_date

NOW = Moment.at("2025-10-15", "open")


@pytest.mark.parametrize(
    "text",
    [
        "2025-10-14", "20251014", "2025/10/14", "2025-10-14T00:00", "2025-10-14T00:00:00", "2025-10-14 00:00:00",
        " 2025-10-14 ", "2025年10月14日",
    ],
)  # fmt: skip
def test_a_date_that_can_be_read_in_one_way_is_read(text):
    assert parse_date(text, NOW) == date(2025, 10, 14)


@pytest.mark.parametrize("text", ["today", "Today", "今天", "今日"])
def test_today_is_the_session(text):
    assert parse_date(text, NOW) == date(2025, 10, 15)


@pytest.mark.parametrize(
    "text",
    [
        "", "Oct 14, 2025", "14/10/2025", "10/14/2025", "2025-10-14T09:30", "2025-10-14 10:00:00", "2025-10-14Z", "2025-10", "2025",
        "2025-13-01", "2025-02-29", "0000-01-01", "2025-10/14", "yesterday", "tomorrow", "latest", "٢٠٢٥-١٠-١٤", "2025-10-14\n2025-10-15",
        "\ud800", "9" * 100_000,
    ],
    ids=lambda text: ascii(text)[:20],
)  # fmt: skip
def test_everything_else_is_refused_in_one_line(text):
    with pytest.raises(BadWindow, match="is not a date; write YYYY-MM-DD") as refused:
        parse_date(text, NOW)
    assert len(refused.value.line) < 120
    assert "\n" not in refused.value.line
