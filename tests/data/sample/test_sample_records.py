"""News and filings of the sample: invented, the same each time, in accord with its prices and indicators."""

from __future__ import annotations

import datetime as dt
import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quantgraph.data import open_source
from quantgraph.data import sample as package
from quantgraph.data._source import DatedRecords
from quantgraph.data.sample import SampleSource
from quantgraph.market import Moment
from quantgraph.state import DataState, Record

FIRST, LAST = pd.Timestamp("1970-01-01"), pd.Timestamp("2100-01-01")
BARS = "daily.parquet"
LISTED = {"301844.SZ": "2023-08-15", "603425.SH": "2024-03-20", "920873.BJ": "2024-10-16"}


@pytest.fixture(scope="module")
def source() -> SampleSource:
    return SampleSource()


@pytest.fixture(scope="module")
def news(source: SampleSource) -> tuple[Record, ...]:
    return source.records(["news"], source.symbols(), FIRST, LAST)


@pytest.fixture(scope="module")
def filings(source: SampleSource) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {symbol: [] for symbol in source.symbols()}
    for record in source.records(["filing"], source.symbols(), FIRST, LAST):
        found[record.symbol].append(record)
    return found


def test_it_has_both_kinds_for_every_symbol(source, news, filings):
    assert isinstance(source, DatedRecords)
    assert source.record_kinds == ("name", "filing", "news", "action")
    assert {record.symbol for record in news} == set(source.symbols())
    assert all(8 <= len(each) <= 16 for each in filings.values())
    assert 1_000 < len(news) < 5_000


def test_they_are_the_same_in_every_process_and_the_shipped_files_are_those_of_before(news):
    shipped = Path(package.__file__).parent / "market" / BARS
    assert hashlib.sha256(shipped.read_bytes()).hexdigest() == (
        "a3a2edff6c5877e9ff653b963f144eecfbe9654583e298a5f5bde6032ae1b5b2"
    )
    store = DataState()
    assert store.record(news) == "be2e55972c7cb4c97301737b978d227f"


def test_texts_are_in_both_languages_and_say_who_invented_them(news):
    for record in news:
        title, description = record.body["title"], record.body["description"]
        for text in (title, description):
            chinese, _, english = text.partition(" / ")
            assert any("\u4e00" <= character <= "\u9fff" for character in chinese)
            assert english.isascii()
            assert len(english) > 8
        assert "合成" in title
        assert "Synthetic" in title
        assert record.body["publisher"] == "合成通讯 Synthetic Wire"
    assert len({record.body["id"] for record in news}) == len(news)


def test_news_is_published_at_all_hours_of_a_day(news):
    hours = pd.Series([record.known.hour for record in news]).value_counts()
    assert all(isinstance(record.known, dt.datetime) for record in news)
    assert {8, 9, 11, 14, 15, 18, 19, 21} == set(hours.index)
    assert hours.min() > 100


def test_a_close_at_the_limit_is_told_after_it_and_no_other_is(source, news):
    bars = source.bars(source.symbols(), source.sessions()[0], source.sessions()[-1])
    close = bars["close"]
    expected = {
        (symbol, day.date(), way)
        for way, limit in (("涨停", bars["up_limit"]), ("跌停", bars["down_limit"]))
        for day, symbol in close[close == limit].stack().dropna().index
    }
    told = {
        (record.symbol, record.known.date(), record.body["title"].partition(" /")[0][-2:])
        for record in news
        if "收盘" in record.body["title"]
    }
    assert told == expected
    assert all(record.known.time() == dt.time(15, 30) for record in news if "收盘" in record.body["title"])


def test_four_known_quarters_sum_up_to_the_trailing_profit_of_the_indicators(source, filings):
    """The profit is the market value over ``pe_ttm``, which has four decimals."""
    panel = source.indicators(source.symbols(), FIRST, LAST, ["total_mv", "pe_ttm", "total_share"])
    checked = 0
    for symbol, records in filings.items():
        for session in panel["pe_ttm"].index[::37]:
            pe = panel["pe_ttm"].at[session, symbol]
            if np.isnan(pe):
                continue
            known = [record for record in records if record.known < session.date()][-4:]
            expected = panel["total_mv"].at[session, symbol] / pe * 10_000
            total = sum(record.body["net_income_loss"] for record in known)
            assert total == pytest.approx(expected, rel=2e-5)
            newest = known[-1].body
            assert newest["basic_earnings_per_share"] == pytest.approx(
                newest["net_income_loss"] / newest["basic_average_shares"], abs=6e-5
            )
            checked += 1
    assert checked > 900


def test_quarters_follow_each_other_and_are_filed_after_they_end(source, filings):
    for symbol, records in filings.items():
        quarters = [(each.body["fiscal_year"], each.body["fiscal_period"]) for each in records]
        counted = [year * 4 + int(period[1]) for year, period in quarters]
        assert counted == list(range(counted[0], counted[0] + len(counted)))
        assert all(each.body["end_date"] < str(each.known) for each in records)
        begin = dt.date.fromisoformat(LISTED.get(symbol, "2023-01-03"))
        assert sum(each.known < begin for each in records) == 4
        if symbol in LISTED:
            assert records[0].known == begin - dt.timedelta(days=1)


def test_the_next_report_is_not_in_a_view_before_its_evening(source):
    store, session = DataState(), Moment.at("2024-04-26", "close")  # the annual reports of 26 April
    store.record(source.records(["filing"], ["000341.SZ"], FIRST, LAST))
    walk = store.growing_view()
    assert len(walk.at(session).records("filing", "000341.SZ")) == 8
    assert len(walk.at(Moment.at("2024-04-29", "pre_open")).records("filing", "000341.SZ")) == 10


def test_it_is_asked_for_by_symbol_and_day(source):
    day = pd.Timestamp("2024-04-26")
    found = open_source().records(["news", "filing"], ["000341.SZ"], day, day)
    assert [record.kind for record in found] == ["filing", "filing", "news"]
    assert {record.symbol for record in found} == {"000341.SZ"}
