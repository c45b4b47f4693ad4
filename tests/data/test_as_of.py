"""A source as known at a moment: no later row, list, name or date in any answer, and none in a refusal."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from quantgraph.data import MarketDataSource, Members
from quantgraph.data._as_of import AsOfSource
from quantgraph.data._source import DatedLists
from quantgraph.data.files import FileSource
from quantgraph.data.sample import SampleSource
from quantgraph.data.symbols import resolve_symbols
from quantgraph.errors import (
    BadFile,
    BadWindow,
    FutureRequested,
    NoData,
    QuantGraphError,
    SourceUnavailable,
    UnknownField,
    UnknownSymbol,
)
from quantgraph.market import PHASES, Moment

ONE, TWO = "000341.SZ", "000342.SZ"
LISTED = "603425.SH"  # since 20 March 2024
RENAMED, NAME = "000344.SZ", "合成科技01"  # *ST from 5 May 2023 until 12 June 2024
INDEX = "990030.SH"
START, END = pd.Timestamp("2024-01-02"), pd.Timestamp("2024-03-29")
DAY = pd.Timestamp("2024-01-15")
SAMPLE = SampleSource()


def at(day, phase="post_close", source=SAMPLE):
    return AsOfSource(source, Moment.at(day, phase))


def test_it_is_a_source_as_any_other():
    known = at("20240115")
    assert isinstance(known, MarketDataSource)
    assert (known.name, known.synthetic) == ("sample", True)
    assert repr(known) == "AsOfSource(SampleSource at 2024-01-15 post_close)"


# Rows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("day", ["20240115", "20240114"])  # a Monday, and the Sunday before
def test_sessions_end_with_the_moment(day):
    whole = SAMPLE.sessions()
    assert at(day).sessions().equals(whole[whole <= pd.Timestamp(day)])


def test_before_the_first_session_there_is_nothing():
    with pytest.raises(NoData, match=r"^sample has no session up to 2022-12-30$"):
        at("20221230").sessions()


def test_what_is_known_is_what_the_source_has():
    known, whole = at("20240115"), SAMPLE.bars([ONE, TWO], START, DAY)
    for field, frame in known.bars([ONE, TWO], START, END).items():
        pd.testing.assert_frame_equal(frame, whole[field])
    indicators = known.indicators([ONE], START, END, ["pe", "pb"])
    whole = SAMPLE.indicators([ONE], START, DAY, ["pe", "pb"])
    assert list(indicators) == ["pe", "pb"]
    for field, frame in indicators.items():
        pd.testing.assert_frame_equal(frame, whole[field])
    pd.testing.assert_frame_equal(known.index_bars(INDEX, START, END), SAMPLE.index_bars(INDEX, START, DAY))


KNOWN_FIELDS = {
    "pre_open": {"pre_close", "up_limit", "down_limit", "adj_factor", "dividend", "split"},
    "open": {"pre_close", "up_limit", "down_limit", "adj_factor", "dividend", "split", "open"},
}


@pytest.mark.parametrize("phase", PHASES)
def test_in_the_moments_session_only_fields_known_in_its_phase_have_values(phase):
    ex = pd.Timestamp("2024-06-14")
    bars = at(ex, phase).bars([ONE], ex - pd.Timedelta(days=5), ex + pd.Timedelta(days=5))
    whole = SAMPLE.bars([ONE], ex, ex)
    for field, frame in bars.items():
        assert frame.index[-1] == ex
        assert frame[ONE].iloc[:-1].notna().all() or field in {"dividend", "split"}
        now, known = frame[ONE].iloc[-1], field in KNOWN_FIELDS.get(phase, set(bars))
        np.testing.assert_equal(now, whole[field][ONE].iloc[0] if known else np.nan)


@pytest.mark.parametrize(("phase", "known"), [("close", 1), ("post_close", 2)])
def test_indicators_of_a_session_are_known_when_it_is_over(phase, known):
    pe = at(DAY, phase).indicators([ONE], pd.Timestamp("2024-01-12"), END)["total_mv"]
    assert pe.notna()[ONE].tolist() == [True, known == 2]


@pytest.mark.parametrize(
    ("phase", "known"), [("pre_open", []), ("open", ["open"]), ("close", ["open", "high", "low", "close"])]
)
def test_of_an_index_the_level_of_the_open_is_known_first(phase, known):
    last = at(DAY, phase).index_bars(INDEX, START, END).iloc[-1]
    assert last.name == DAY
    assert list(last.dropna().index) == known


def test_a_window_without_a_known_value_has_no_data():
    with pytest.raises(
        NoData, match=r"no indicators of 000341.SZ from 2024-01-15 to 2024-01-15; its sessions"
    ):
        at(DAY, "close").indicators([ONE], DAY, END)


def test_the_memory_behind_a_frame_holds_no_later_row():
    frame = at("20240115").bars([ONE], START, END)["close"]
    values = frame.to_numpy()
    assert values.size == len(frame)
    while values.base is not None:
        values = values.base
    assert values.size == len(frame)


def test_rows_beyond_the_requested_window_are_cut():
    class Generous(SampleSource):
        def bars(self, symbols, start, end):
            return super().bars(symbols, start, END)

        def index_bars(self, index_code, start, end):
            return super().index_bars(index_code, start, END)

    known = at("20240115", source=Generous())
    assert {frame.index[-1] for frame in known.bars([ONE], START, DAY).values()} == {DAY}
    assert known.index_bars(INDEX, START, DAY).index[-1] == DAY


@pytest.mark.parametrize("ask", ["bars", "indicators", "index_bars"])
def test_a_window_after_the_moment_is_refused_and_a_reversed_one_too(ask):
    what = INDEX if ask == "index_bars" else [ONE]
    with pytest.raises(FutureRequested, match=r"^start=2024-01-16 is after 2024-01-15, the last session"):
        getattr(at("20240115"), ask)(what, pd.Timestamp("2024-01-16"), END)
    with pytest.raises(BadWindow, match="give the earlier date first"):
        getattr(at("20240115"), ask)(what, DAY, START)


# Lists -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("day", "there"), [("20240319", False), ("20240320", True)])
def test_a_stock_is_listed_from_its_first_session_on(day, there):
    known = at(day)
    assert (LISTED in known.symbols()) is there
    assert (LISTED in known.names()) is there
    if there:
        assert known.bars([LISTED], START, END)["close"].notna().to_numpy().sum() == 1
    else:
        with pytest.raises(UnknownSymbol, match=rf"has no {LISTED}; it has 58 symbols"):
            known.bars([ONE, LISTED], START, END)
        with pytest.raises(UnknownSymbol, match="is not known to sample"):
            resolve_symbols(known, ["合成制造07"], pd.Timestamp(day))


@pytest.mark.parametrize(
    ("day", "name"),
    [("20230504", NAME), ("20230505", f"*ST{NAME}"), ("20240611", f"*ST{NAME}"), ("20240612", NAME)],
)
def test_names_are_those_of_the_day(day, name):
    assert at(day).names()[RENAMED] == name
    assert resolve_symbols(at(day), [name], pd.Timestamp(day)).symbols == (RENAMED,)


def test_members_are_never_those_of_a_later_list():
    known, june = at("20240627"), pd.Timestamp("2024-06-28")
    assert SAMPLE.members(INDEX, june).listed_on == june
    asked = known.members(INDEX, june)
    assert (asked.listed_on, asked.point_in_time) == (pd.Timestamp("2023-12-29"), True)
    assert at("20240628").members(INDEX, END + pd.Timedelta(days=400)).listed_on == june


def test_if_every_list_is_later_the_earliest_is_marked():
    assert at("20221229").members(INDEX, DAY) == Members(
        index_code=INDEX,
        symbols=SAMPLE.members(INDEX, pd.Timestamp("2022-12-30")).symbols,
        listed_on=pd.Timestamp("2022-12-30"),
        point_in_time=False,
    )


def test_a_source_without_dated_lists_shows_later_listings(plain):
    assert not isinstance(plain, DatedLists)
    known = AsOfSource(plain, Moment.at("20240115"))
    assert LISTED in known.symbols()
    assert known.names()["600956.SH"] == "ST合成科技07"  # since 30 April 2024
    assert known.sessions()[-1] == DAY


def test_names_with_a_start_date_hold_from_that_day(tmp_path):
    rows = ["ts_code,trade_date,open,high,low,close,vol"]
    rows += [f"{code},{day},1,1,1,1,1" for day in (20240102, 20240103) for code in (ONE, TWO)]
    (tmp_path / "bars.csv").write_text("\n".join([*rows, f"{LISTED},20240103,1,1,1,1,1"]))
    names = [f"{ONE},old,20200101", f"{ONE},ST new,20240103", f"{TWO},only,20240103"]
    (tmp_path / "names.csv").write_text("\n".join(["ts_code,name,start_date", *names]))
    source = FileSource(tmp_path)
    assert at("20240102", source=source).names() == {ONE: "old"}
    assert at("20240103", source=source).names() == {ONE: "ST new", TWO: "only"} == source.names()
    assert at("20240102", source=source).symbols() == (ONE, TWO)


# Refusals ----------------------------------------------------------------------------------------


@pytest.fixture
def plain():
    """A custom source with only the methods of the protocol."""

    class Plain:
        name, synthetic = "plain", True
        refusal = None

        def __getattr__(self, ask):
            if ask not in {"sessions", "symbols", "names", "members", "bars", "indicators", "index_bars"}:
                raise AttributeError(ask)

            def answer(*given):
                if self.refusal and ask not in {"sessions", "symbols", "names"}:
                    raise self.refusal
                return getattr(SAMPLE, ask)(*given)

            return answer

    return Plain()


def asked(known):
    """Errors of all requests that a source may refuse."""
    for ask in (
        lambda: known.bars([ONE], START, END),
        lambda: known.indicators([ONE], START, END),
        lambda: known.index_bars(INDEX, START, END),
        lambda: known.members(INDEX, END),
    ):
        with pytest.raises(QuantGraphError) as caught:
            ask()
        yield caught.value


def test_an_error_that_names_a_later_date_is_replaced(plain, subtests):
    for date in [
        *(
            "2025-10-31",
            "20251031",
            "2025/10/31",
            "2024-1-16",
            "2025.10.31",
            "2024年3月20日",
            "2024 年 1 月 16 日",
        ),
        *(
            "Mar 20 2024",
            "March 20, 2024",
            "20 Mar 2024",
            "20-mar-2024",
            "Jan. 16th, 2024",
            "date(2024, 1, 16)",
        ),
    ]:
        for kind in [NoData, BadWindow, UnknownSymbol]:
            with subtests.test(kind=kind, date=date):
                plain.refusal = kind(f"nothing there; plain has 2023-01-03 to {date}")
                for error in asked(AsOfSource(plain, Moment.at("20240115"))):
                    assert type(error) is kind
                    assert re.match("plain has no (bars|indicators|level|members) of ", error.message)
                    assert error.message.endswith("; its sessions run from 2023-01-03 to 2024-01-15")
                    assert (error.data, error.__cause__, error.__context__) == ({}, None, None)


def test_a_later_date_in_the_data_of_an_error_counts(plain):
    plain.refusal = NoData("nothing there", last=pd.Timestamp("2025-10-31"))
    for error in asked(AsOfSource(plain, Moment.at("20240115"))):
        assert error.data == {}


@pytest.mark.parametrize(
    "refusal",
    [
        NoData("plain has no daily indicator pe; it has: pb"),
        NoData("plain has no bars of 000341.SZ from 2024-01-02 to 2024-01-15; there are 20249999 others"),
        UnknownSymbol("plain has no 000341.SZ", symbols=(ONE,)),
        NoData("plain ends on Jan 15 2024, 2024年1月15日; 5 marks 2025 and may 99 2024 are no days"),
        BadWindow("no session with data in 2024-01-02 to 2024-01-15"),
        UnknownField("daily_basic has no field alpha"),
        SourceUnavailable("no answer since 2025-10-31"),
        BadFile("/data/bars_20250102_20251031.csv cannot be read"),
    ],
)
def test_an_error_without_a_later_date_passes(plain, refusal):
    plain.refusal = refusal
    assert all(error is refusal for error in asked(AsOfSource(plain, Moment.at("20240115"))))


def test_errors_of_the_own_sources_name_no_later_date(tmp_path):
    rows = ["ts_code,trade_date,open,high,low,close,vol"]
    rows += [f"{ONE},{day},1,1,1,1,1" for day in (20240102, 20240103, 20251031)]
    file = tmp_path / "bars_20240102_20251031.csv"
    file.write_text("\n".join([*rows, f"{TWO},20251031,1,1,1,1,1"]))
    for source in (FileSource(file), FileSource(tmp_path), SAMPLE):
        known, early = at("20240103", source=source), pd.Timestamp("2019-01-02")
        for ask in (
            lambda: known.bars([ONE], early, early),  # noqa: B023 - called at once
            lambda: known.bars([LISTED], early, DAY),  # noqa: B023
            lambda: known.indicators([ONE], early, early),  # noqa: B023
            lambda: known.index_bars(INDEX, early, early),  # noqa: B023
            lambda: known.index_bars(LISTED, early, DAY),  # noqa: B023
        ):
            with pytest.raises((NoData, UnknownSymbol)) as caught:
                ask()
            told = caught.value.message.replace(source.name, "")
            assert not re.search("2025|2024-0[2-9]", told)


def test_attrs_of_frames_are_dropped(plain):
    class Noting:
        def __getattr__(self, ask):
            def answer(*given):
                said = getattr(plain, ask)(*given)
                for frame in said.values() if isinstance(said, dict) else [said]:
                    frame.attrs["last"] = "2025-12-31"
                return said

            return answer if ask in {"bars", "indicators", "index_bars"} else getattr(plain, ask)

    known = AsOfSource(Noting(), Moment.at("20240115"))
    frames = [*known.bars([ONE], START, END).values(), *known.indicators([ONE], START, END).values()]
    assert [frame.attrs for frame in [*frames, known.index_bars(INDEX, START, END)]] == [{}] * (
        len(frames) + 1
    )


# One in another ----------------------------------------------------------------------------------


def test_of_two_moments_the_earlier_one_counts():
    early, late = Moment.at("20240115", "open"), Moment.at("20240320")
    for known in (AsOfSource(AsOfSource(SAMPLE, early), late), AsOfSource(AsOfSource(SAMPLE, late), early)):
        assert known.moment == early
        assert known.sessions()[-1] == DAY
        assert np.isnan(known.bars([ONE], START, END)["close"][ONE].iloc[-1])
