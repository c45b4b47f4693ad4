"""A host's commit above a source: covered cells are the commit's, the source fills the rest."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph.data._as_of import AsOfSource
from quantgraph.data._commit_source import commit_source
from quantgraph.data._source import DatedLists
from quantgraph.data.sample import SampleSource
from quantgraph.errors import FutureRequested, NoData, UnknownSymbol
from quantgraph.market import Moment

KNOWN, OWN = "000341.SZ", "MINE.US"
DAYS = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-05"])
"""Without 4 January, which is a session of the sample."""
FIRST, LAST = pd.Timestamp("2024-01-02"), pd.Timestamp("2024-01-08")


@pytest.fixture
def sample():
    return SampleSource()


@pytest.fixture
def source(sample, store):
    closes = pd.DataFrame({KNOWN: [1.0, np.nan, 3.0], OWN: [10.0, 20.0, 30.0]}, index=DAYS)
    store.update("ohlcv", {"open": closes, "close": closes})
    store.update("indicators", {"pe": closes})
    return commit_source(sample, store.snapshot())


def test_a_commit_without_bars_leaves_the_source_as_it_is(sample, store):
    assert commit_source(sample, store.snapshot()) is sample


def test_a_covered_bar_is_the_commits_whole(source, sample):
    found = source.bars([KNOWN], FIRST, LAST)
    theirs = sample.bars([KNOWN], FIRST, LAST)
    assert found["close"][KNOWN].iloc[:3].tolist()[::2] == [1.0, 3.0]
    assert np.isnan(found["close"][KNOWN].iloc[1])
    assert found["vol"][KNOWN].iloc[:3].isna().all()
    after = pd.Timestamp("2024-01-08")
    assert found["close"].at[after, KNOWN] == theirs["close"].at[after, KNOWN]
    assert found["vol"].at[after, KNOWN] == theirs["vol"].at[after, KNOWN]


def test_the_sessions_of_covered_symbols_are_the_commits_within_its_span(source, sample):
    for symbols in ([KNOWN], [KNOWN, OWN]):
        found = source.bars(symbols, FIRST, LAST)["close"].index
        assert found.tolist() == [*DAYS, pd.Timestamp("2024-01-08")]
    assert source.bars([OWN], FIRST, LAST)["close"].index.tolist() == [*DAYS]
    assert source.bars(["000342.SZ"], FIRST, LAST)["close"].index.tolist() == [
        *sample.sessions()[sample.sessions().slice_indexer(FIRST, LAST)]
    ]


def test_symbols_of_both_are_there_and_the_source_is_asked_for_its_own_alone(source, sample):
    assert set(source.symbols()) == {OWN, *sample.symbols()}
    both = source.bars([OWN, "000342.SZ"], FIRST, LAST)["close"]
    theirs = sample.bars(["000342.SZ"], FIRST, LAST)["close"]
    np.testing.assert_array_equal(both["000342.SZ"], theirs["000342.SZ"])
    assert both[OWN].dropna().tolist() == [10.0, 20.0, 30.0]
    with pytest.raises(UnknownSymbol, match="NEVER"):
        source.bars([OWN, "NEVER"], FIRST, LAST)


def test_indicators_are_covered_field_by_field(source, sample):
    found = source.indicators([KNOWN], FIRST, LAST, ["pe", "pb"])
    theirs = sample.indicators([KNOWN], FIRST, LAST, ["pe", "pb"])
    assert found["pe"].at[DAYS[2], KNOWN] == 3.0
    assert found["pb"].at[DAYS[2], KNOWN] == theirs["pb"].at[DAYS[2], KNOWN]


def test_nothing_later_than_the_moment_is_shown(source):
    known = AsOfSource(source, Moment(DAYS[1], "open"))
    bars = known.bars([OWN], FIRST, LAST)
    assert bars["open"][OWN].tolist() == [10.0, 20.0]
    assert bars["close"][OWN].iloc[0] == 10.0
    assert np.isnan(bars["close"][OWN].iloc[1])
    assert known.sessions_of([OWN]).tolist() == [*DAYS[:2]]
    with pytest.raises(FutureRequested):
        known.bars([OWN], DAYS[2], LAST)


def test_a_window_that_nobody_has_is_no_data(source):
    known = AsOfSource(source, Moment(LAST, "close"))
    with pytest.raises(NoData, match=OWN):
        known.bars([OWN], pd.Timestamp("2024-01-06"), LAST)


def test_levels_of_an_index_are_the_commits_where_it_has_them(sample, store):
    closes = pd.DataFrame({OWN: [1.0]}, index=DAYS[:1])
    store.update("ohlcv", {"open": closes, "close": closes})
    store.update("index", {"close": pd.DataFrame({"990030.SH": [7.0]}, index=DAYS[:1])})
    store.update("index", {"close": pd.DataFrame({"000016.SH": [8.0]}, index=DAYS[:1])})
    source = commit_source(sample, store.snapshot())
    levels = source.index_bars("990030.SH", FIRST, LAST)["close"]
    theirs = sample.index_bars("990030.SH", FIRST, LAST)["close"]
    assert levels.iloc[0] == 7.0
    assert levels.iloc[1:].tolist() == theirs.iloc[1:].tolist()
    assert source.index_bars("000016.SH", FIRST, LAST)["close"].tolist() == [8.0]
    with pytest.raises(UnknownSymbol):
        source.index_bars("000300.SH", FIRST, LAST)


def test_lists_by_day_stay_those_of_the_source(store):
    class Dated(SampleSource):
        def symbols_on(self, day):
            return ("000341.SZ",)

        def names_on(self, day):
            return {"000341.SZ": "before"}

    closes = pd.DataFrame({OWN: [1.0]}, index=DAYS[:1])
    store.update("ohlcv", {"open": closes, "close": closes})
    source = commit_source(Dated(), store.snapshot())
    assert isinstance(source, DatedLists)
    assert source.symbols_on(FIRST) == ("000341.SZ", OWN)
    assert source.names_on(FIRST) == {"000341.SZ": "before"}
