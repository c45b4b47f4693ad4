"""get_price_local on real bars: the file's own numbers, a holiday before a session, and no bar of a day to come."""

from __future__ import annotations

import csv
import gzip
import random

import pandas as pd
import pytest

from quantgraph.broker import Account
from quantgraph.data.files import FileSource
from quantgraph.market import Moment, Rulebook
from quantgraph.state import DataState
from quantgraph.tools import ToolContext, call_tool, tools_of

FILES = {
    "us": ("us/daily_prices_nasdaq_100_20250610_20251030.csv.gz", "2025-06-10", "2025-10-30"),
    "cn": ("a_share/daily_prices_sse_50_20250102_20251031.csv", "2025-01-02", "2025-10-31"),
}
RULES = {"us": Rulebook.us(), "cn": Rulebook.mainland()}


@pytest.fixture(scope="module")
def stores(shared_data):
    made = {}
    for market, (name, first, last) in FILES.items():
        source = FileSource(shared_data / "ai-trader" / name)
        store = DataState()
        store.update("ohlcv", source.bars(source.symbols(), pd.Timestamp(first), pd.Timestamp(last)))
        made[market] = store
    return made


@pytest.fixture(scope="module")
def rows(shared_data):
    """The files as csv reads them."""
    with gzip.open(shared_data / "ai-trader" / FILES["us"][0], "rt") as us:
        american = list(csv.DictReader(us))
    with (shared_data / "ai-trader" / FILES["cn"][0]).open() as cn:
        return {"us": american, "cn": list(csv.DictReader(cn))}


def at(stores, market, day):
    view = stores[market].view(Moment.at(day, "open"))
    return ToolContext(view, Account.opening(10_000), RULES[market])


def price(context, symbol, date):
    return call_tool(
        tools_of("trader")["get_price_local"], {"symbol": symbol, "date": date}, context, timeout=5
    )


def test_past_bars_are_the_files_numbers(stores, rows):
    american = {(each["symbol"], each["date"]): each for each in rows["us"]}
    chinese = {(each["ts_code"], each["trade_date"]): each for each in rows["cn"]}
    rng = random.Random(3)
    for market, table, volume, unit in (("us", american, "volume", 1), ("cn", chinese, "vol", 100)):
        context = at(stores, market, FILES[market][2])
        days = [key for key in sorted(table) if key[1].replace("-", "") < FILES[market][2].replace("-", "")]
        for symbol, day in rng.sample(days, 60):
            row, answer = table[symbol, day], price(context, symbol, day)
            assert answer["date"].replace("-", "") == day.replace("-", "")
            for name in ("open", "high", "low", "close"):
                assert answer[name] == float(row[name])
            assert answer["volume"] == pytest.approx(float(row[volume]) * unit, abs=0.01)


def test_the_day_after_a_holiday_has_the_session_before_it(stores):
    """2025-09-01 is Labor Day, 2025-10-01 to 2025-10-08 the holidays of China: no weekday arithmetic finds what was before."""
    for market, symbol, day, before, holiday in (
        ("us", "AAPL", "2025-09-02", "2025-08-29", "2025-09-01"),
        ("cn", "600519.SH", "2025-10-09", "2025-09-30", "2025-10-08"),
    ):
        context = at(stores, market, day)
        answer = call_tool(
            tools_of("trader")["get_price_history"], {"symbol": symbol, "limit": 1}, context, timeout=5
        )
        assert answer["bars"][0]["date"] == before
        assert price(context, symbol, before)["close"] == answer["bars"][0]["close"]
        assert price(context, symbol, holiday)["code"] == "not_a_session"


def test_a_bar_that_is_in_the_file_and_to_come_is_not_there(stores):
    context = at(stores, "us", "2025-10-10")
    later = [price(context, "AAPL", day) for day in ("2025-10-13", "2025-10-29", "2025-10-11", "2025-12-25")]
    assert later == [later[0]] * 4
    assert later[0]["code"] == "no_data"
    assert "2025" not in str(later[0])
    assert price(context, "AAPL", "2025-10-10")["close"] is None


def test_the_last_day_of_the_data_is_like_every_other(stores, rows):
    """Its close is known in the session after it and not before, whether or not the file goes on."""
    row = next(each for each in rows["us"] if (each["symbol"], each["date"]) == ("AAPL", "2025-10-29"))
    assert price(at(stores, "us", "2025-10-29"), "AAPL", "2025-10-29")["close"] is None
    assert price(at(stores, "us", "2025-10-30"), "AAPL", "2025-10-29")["close"] == float(row["close"])
