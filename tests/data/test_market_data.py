"""Panels from long tables, and what every source of records holds to."""

from __future__ import annotations

from datetime import date, datetime

import pandas as pd
import pytest

from quantgraph.data._as_of import AsOfSource
from quantgraph.data._source import DatedRecords, MarketDataSource, long_to_panel, record_kinds_of, records_of
from quantgraph.data.files import FileSource
from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadOption, BadWindow
from quantgraph.market import FeedZones, Moment
from quantgraph.recording import recorded_source
from quantgraph.state import RECORD_KINDS, Record


def test_long_to_panel_refuses_a_repeated_cell() -> None:
    table = pd.DataFrame(
        {"ts_code": ["a", "a"], "trade_date": pd.to_datetime(["2024-01-02"] * 2), "close": [1, 2]}
    )
    with pytest.raises(ValueError, match="more than once"):
        long_to_panel(table, ["close"], pd.DatetimeIndex(["2024-01-02"]), ["a"])


FIRST, LAST = pd.Timestamp("1970-01-01"), pd.Timestamp("2100-01-01")


@pytest.fixture(scope="module")
def files(shared_data) -> FileSource:
    return FileSource(shared_data / "stockbench")


@pytest.fixture(params=["sample", "files", "recorded", "as of"])
def source(request, files) -> MarketDataSource:
    return {
        "sample": SampleSource(),
        "files": files,
        "recorded": recorded_source(files),
        "as of": AsOfSource(files, Moment.at("2025-06-30")),
    }[request.param]


class TestRecordsOfASource:
    def test_kinds_are_those_of_its_records_in_the_order_of_all_kinds(self, source):
        assert isinstance(source, DatedRecords)
        kinds = record_kinds_of(source)
        assert kinds == tuple(kind for kind in RECORD_KINDS if kind in kinds)
        named = ("name",) if isinstance(source, SampleSource) else ()
        assert kinds == (*named, "filing", "news", "action")
        for kind in RECORD_KINDS:
            found = source.records([kind], source.symbols(), FIRST, LAST)
            assert {record.kind for record in found} == {kind} & set(kinds)

    def test_records_are_about_the_symbols_or_about_none(self, source):
        some = source.symbols()[:3]
        found = source.records(["news", "filing"], some, FIRST, LAST)
        assert {record.symbol for record in found} - {""} == set(some)
        assert source.records(["news"], ["no such code"], FIRST, LAST) == ()
        assert source.records([], some, FIRST, LAST) == ()

    def test_two_windows_have_what_the_window_of_both_has(self, source):
        middle, end = pd.Timestamp("2025-03-14"), LAST
        whole, before, after = (
            {each for each in source.records(["news"], source.symbols(), *window) if each.known is not None}
            for window in ((FIRST, end), (FIRST, middle), (middle + pd.Timedelta(days=1), end))
        )
        assert whole == before | after
        assert not before & after
        assert all(pd.Timestamp(each.known).normalize() <= middle for each in before)

    def test_a_wrong_question_is_refused(self, source):
        with pytest.raises(BadWindow):
            source.records(["news"], source.symbols(), pd.Timestamp("2025-03-04"), pd.Timestamp("2025-03-03"))
        with pytest.raises(BadOption, match="kind='gossip'"):
            source.records(["gossip"], source.symbols(), FIRST, LAST)


def test_a_source_of_bars_alone_has_no_kinds():
    class Bars:
        name = "bars"

    assert not isinstance(Bars(), DatedRecords)
    assert record_kinds_of(Bars()) == ()


class Own:
    """A source of a user, of which only the records are asked here."""

    record_kinds = ("news", "filing")

    def __init__(self, zones: FeedZones | None = None) -> None:
        if zones is not None:
            self.feed_zones = zones

    def records(self, kinds, symbols, start, end):
        at = datetime(2025, 3, 10, 9, 45)
        return (
            Record("news", at, "AAPL", {"title": "Dow drops", "publisher": "MarketWatch"}),
            Record("news", at, "AAPL", "no publisher"),
            Record("news", date(2025, 3, 10), "AAPL", {"title": "a day"}),
            Record("filing", at, "AAPL", {}),
        )


def known(source) -> list[str]:
    wanted = ["news"], ["AAPL"], FIRST, LAST
    found = records_of(source, *wanted)
    assert [(each.kind, each.symbol, each.body) for each in found] == [
        (each.kind, each.symbol, each.body) for each in source.records(*wanted)
    ]
    return [str(each.known) for each in found]


def test_news_of_a_source_that_declares_nothing_is_known_at_the_end_of_its_day():
    """Filings are the source's own word, as a day alone is."""
    assert known(Own()) == ["2025-03-10", "2025-03-10", "2025-03-10", "2025-03-10 09:45:00"]
    assert known(Own(FeedZones({"*": "exchange"}))) == [*known(Own(FeedZones({"*": "America/New_York"})))]
    # 09:45 in UTC is 05:45 in New York, in summer since the day before.
    assert known(Own(FeedZones({"MarketWatch": "UTC"})))[:2] == ["2025-03-10 05:45:00", "2025-03-10"]
    assert known(Own(FeedZones({"*": "exchange"})))[:2] == ["2025-03-10 09:45:00"] * 2


def test_what_wraps_a_source_heeds_what_it_declares_once():
    source, wanted = Own(), (["news"], ["AAPL"], FIRST, LAST)
    assert [str(each.known) for each in records_of(recorded_source(source), *wanted)] == known(source)
    declared = Own(FeedZones({"*": "UTC"}))
    assert [str(each.known) for each in records_of(recorded_source(declared), *wanted)] == known(declared)
