"""A source whose answers hold for a run: the same values and types, asked once, whatever the vendor does."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pytest

from quantgraph.data import AsOfSource, DatedLists, DatedRecords, MarketDataSource
from quantgraph.data.files import FileSource
from quantgraph.data.sample import SampleSource
from quantgraph.errors import NoData, RateLimited, RunDiverged, UnknownSymbol
from quantgraph.market import Moment
from quantgraph.recording import Recorder
from quantgraph.recording._source import recorded_source
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.state import Record

INDEX, LISTED = "990030.SH", "603425.SH"  # the stock is there since 20 March 2024
DAY, END = pd.Timestamp("2024-01-15"), pd.Timestamp("2024-03-29")
QUESTIONS = {
    "sessions": (),
    "symbols": (),
    "names": (),
    "symbols_on": (DAY,),
    "names_on": (DAY,),
    "members": (INDEX, DAY),
    "index_bars": (INDEX, DAY, END),
}


class Vendor(SampleSource):
    """The sample, which counts what it is asked, and may be broken."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.broken: Exception | None = None


def counted(name):
    def method(self, *arguments):
        self.asked.append(name)
        if self.broken is not None:
            raise self.broken
        return getattr(SampleSource, name)(self, *arguments)

    return method


for question in QUESTIONS:
    setattr(Vendor, question, counted(question))


@pytest.fixture
def run(tmp_path):
    """A scope of one run, in what might be another process each time."""

    def opened(mode="record", **options):
        recorder = Recorder(tmp_path / "ledger.sqlite", mode=mode)
        return in_scope(Scope(recording=recorder.of("run"), path="reflection", **options))

    return opened


def answers(source) -> dict:
    return {name: getattr(source, name)(*arguments) for name, arguments in QUESTIONS.items()}


def check_equal(found, expected) -> None:
    for name, value in expected.items():
        if not isinstance(value, Mapping):
            assert type(found[name]) is type(value), name
        if isinstance(value, pd.DataFrame):
            pd.testing.assert_frame_equal(found[name], value, check_exact=True)
        elif isinstance(value, pd.Index):
            pd.testing.assert_index_equal(found[name], value)
        else:
            assert found[name] == value, name
    assert list(found["names"]) == list(expected["names"]), "in the source's order"


def test_answers_are_the_sources_and_it_is_asked_once_for_a_run(run):
    expected = answers(SampleSource())
    vendor = Vendor()
    source = recorded_source(vendor)
    with run():
        check_equal(answers(source), expected)
        once = list(vendor.asked)
        check_equal(answers(source), expected)
    with run():
        check_equal(answers(source), expected)
    assert vendor.asked == once
    assert set(once) == set(QUESTIONS)
    assert expected["index_bars"].isna().to_numpy().sum() == 0
    assert isinstance(source, MarketDataSource)
    assert isinstance(source, DatedLists)


def test_missing_levels_come_back_as_missing(run):
    class Gap(SampleSource):
        def index_bars(self, index_code, start, end):
            frame = super().index_bars(index_code, start, end)
            frame.iloc[1, 2] = float("nan")
            return frame

    for _ in "asked", "served":
        with run():
            frame = recorded_source(Gap()).index_bars(INDEX, DAY, END)
        pd.testing.assert_frame_equal(frame, Gap().index_bars(INDEX, DAY, END), check_exact=True)


class NoLists:
    """A source of a host's own, without lists by day."""

    def __init__(self, source) -> None:
        self._source = source

    def __getattr__(self, name: str):
        if name.endswith("_on"):
            raise AttributeError(name)
        return getattr(self._source, name)


def test_a_source_without_lists_by_day_is_given_none():
    assert not isinstance(recorded_source(NoLists(SampleSource())), DatedLists)


def test_real_answers_are_the_same(run, a_share):
    inner = FileSource(a_share / "daily_prices_sse_50_20250102_20251031.csv")
    source = recorded_source(inner)
    with run():
        pd.testing.assert_index_equal(source.sessions(), inner.sessions())
        assert (source.symbols(), source.names()) == (inner.symbols(), inner.names())
        assert (source.name, source.synthetic) == (inner.name, False)


def test_a_source_as_known_at_a_moment_stays_so(run):
    with run():
        known = AsOfSource(recorded_source(SampleSource()), Moment.at("20240115"))
        assert LISTED not in known.symbols()
        assert LISTED not in known.names()
        assert known.sessions()[-1] == DAY


def test_a_vendor_that_changes_meanwhile_does_not_change_the_run(run):
    vendor = Vendor()
    source = recorded_source(vendor)
    with run():
        before = answers(source)
    vendor.broken = ConnectionError("gone")
    with run():
        check_equal(answers(source), before)
    with run(request=1), pytest.raises(ConnectionError):
        source.sessions()  # the next request of the thread asks anew
    with pytest.raises(ConnectionError):
        source.sessions()  # and outside of a run it is the vendor itself


def test_a_refusal_is_an_answer_and_what_may_pass_is_asked_again(run):
    vendor = Vendor()
    source = recorded_source(vendor)
    vendor.broken = error = UnknownSymbol("there is no 000001.XX", token="000001.XX")
    with run(), pytest.raises(UnknownSymbol, match=error.message):
        source.members("no_such", DAY)
    vendor.broken = None
    with run(), pytest.raises(UnknownSymbol, match=error.message) as caught:
        source.members("no_such", DAY)
    assert caught.value.data == error.data
    for passing in RateLimited("slower, please"), NoData("nothing on 15 January"):
        vendor.broken = passing
        with run(), pytest.raises(type(passing)):
            source.sessions()
    vendor.broken = None
    with run():
        assert len(source.sessions()) == len(SampleSource().sessions())


def test_a_replay_asks_the_source_nothing(run):
    source = recorded_source(Vendor())
    with run():
        sessions = source.sessions()
    silent = Vendor()
    silent.broken = AssertionError("asked")
    source = recorded_source(silent)
    with run("replay"):
        assert source.sessions().equals(sessions)
        with pytest.raises(RunDiverged):
            source.symbols()
        with pytest.raises(RunDiverged, match="takes bars from the run's commits"):
            source.bars([LISTED], DAY, END)
        with pytest.raises(RunDiverged, match="takes records from the run's commits"):
            source.records(["news"], [LISTED], DAY, END)


def test_kinds_of_records_hold_for_a_run_and_records_are_the_sources(run):
    class Newsy(SampleSource):
        record_kinds = ("filing", "news")

        def records(self, kinds, symbols, start, end):
            return (Record("news", start.date(), symbols[0], list(kinds)),)

    class Silent(Newsy):
        @property
        def record_kinds(self):
            raise AssertionError("asked")

    source = recorded_source(Newsy())
    assert isinstance(source, DatedRecords)
    with run():
        assert source.record_kinds == ("filing", "news")
        assert source.records(["news"], [LISTED], DAY, END) == (Record("news", DAY.date(), LISTED, ["news"]),)
    with run("replay"):
        assert recorded_source(Silent()).record_kinds == ("filing", "news")


def test_a_source_without_records_has_none(run):
    class Plain(NoLists):
        def __getattr__(self, name: str):
            if name.startswith("record"):
                raise AttributeError(name)
            return super().__getattr__(name)

    source = recorded_source(Plain(SampleSource()))
    with run():
        assert (source.record_kinds, source.records(["news"], [LISTED], DAY, END)) == ((), ())
    known = AsOfSource(source, Moment.at("20240115"))
    assert (known.record_kinds, known.records(["news"], [LISTED], DAY, END)) == ((), ())
