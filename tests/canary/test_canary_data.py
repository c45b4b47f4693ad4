"""A canary store and source: data up to the moment, and sentinels after it."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from canary_data import CanarySource, CanaryStore
from canary_sentinels import find_canaries

from quantgraph.data import AsOfSource
from quantgraph.data.sample import SampleSource
from quantgraph.errors import NoData
from quantgraph.market import PHASES, Moment
from quantgraph.market.actions import ACTION_FIELDS, DATE_FIELDS
from quantgraph.state import DataState, Record
from quantgraph.state import _growing_view as growing_view

SAMPLE = SampleSource()
ONE, TWO = "000341.SZ", "000342.SZ"
START, END = pd.Timestamp("2024-06-03"), pd.Timestamp("2024-06-28")
MOMENT = Moment.at("20240613", "open")
HUGE = 7.7e76


def filled(seed=0, moment=MOMENT):
    store = CanaryStore(moment, seed=seed)
    ohlcv = SAMPLE.bars([ONE, TWO], START, END)
    store.update("ohlcv", ohlcv)
    store.update("indicators", SAMPLE.indicators([ONE, TWO], START, END, ["pe"]))
    store.record(
        [Record("news", date(2024, 6, day), ONE, {"text": f"of the {day}th"}) for day in (3, 12, 13)]
    )
    return store, store.update("signal", {"flat": ohlcv["close"] * 0})


@pytest.mark.parametrize("phase", PHASES)
def test_every_kind_of_view_equals_that_of_a_plain_store(phase):
    store, ref = filled(PHASES.index(phase))
    plain = DataState()
    plain.adopt(DataState.view(store, Moment(END), ref).frozen())
    plain.record(DataState.snapshot(store, ref).records("news"))
    walk = store.growing_view(ref)
    for session in SAMPLE.bars([ONE], START, END)["open"].index[::4]:
        moment = Moment(session, phase)
        expected = plain.view(moment)
        for seen in (store.view(moment, ref), walk.at(moment), store.checkout(ref).view(moment)):
            assert find_canaries(seen) == []
            assert seen.data_ref == ref
            assert seen.actions() == expected.actions()
            assert seen.records("news") == expected.records("news")
        for panel in expected:
            for name in expected[panel]:
                for seen in (store.view(moment, ref), walk.at(moment), store.trusted_view(moment, ref)):
                    pd.testing.assert_frame_equal(seen[panel][name], expected[panel][name])


def test_a_cut_that_is_one_row_too_long_shows_a_sentinel(monkeypatch):
    from quantgraph.state.frames import _cut as cut

    store, ref = filled()
    rows = cut.known_rows
    for module in (cut, growing_view):
        monkeypatch.setattr(module, "known_rows", lambda *given: rows(*given) + 1)
    walk = store.growing_view(ref)
    for moment in (Moment.at("20240612", "open"), MOMENT):
        assert find_canaries(store.view(moment, ref)["ohlcv"])
        assert find_canaries(walk.at(moment)["ohlcv"])
        assert find_canaries(store.trusted_view(moment, ref)["ohlcv"])


@pytest.mark.parametrize("read", [CanaryStore.snapshot, lambda store, ref: store.checkout(ref).snapshot()])
def test_a_snapshot_has_sentinels_after_the_runs_moment(read):
    store, ref = filled()
    close, opens = (read(store, ref)["ohlcv"][name][ONE] for name in ("close", "open"))
    later = close.index >= MOMENT.session
    assert (close[later].abs() > 1e76).all()
    assert (close[~later] < 1e3).all()
    assert list((opens.abs() > 1e76)[opens.index >= MOMENT.session][:2]) == [False, True]
    assert close.index[-1] == pd.Timestamp("2177-07-09")
    assert close[later].is_unique
    assert [record.body["text"] for record in read(store, ref).records("news", ONE)] == [
        "of the 3th",
        "of the 12th",
        "CANARY",
    ]


def test_sentinels_of_two_seeds_have_opposite_signs():
    one, other = (
        store.snapshot(ref)["ohlcv"]["close"][ONE].iloc[-1] for store, ref in (filled(0), filled(1))
    )
    assert one > 1e76
    assert other < -1e76
    assert filled(0)[1] == filled(1)[1], "what is committed is the same"


def test_sentinels_of_two_seeds_have_another_order():
    """What two later rows are to each other is of ordinary size, and no sentinel shows in it."""
    one, other = (
        store.snapshot(ref)["ohlcv"]["close"].loc[MOMENT.session :] for store, ref in (filled(0), filled(1))
    )
    for compared in (
        lambda close: np.sign(close.pct_change().iloc[1:]),
        lambda close: np.sign(close.diff().iloc[1:]),
        lambda close: close.rank(axis=1),
        lambda close: close.rank(),
    ):
        assert find_canaries(compared(one).to_numpy()) == []
        assert 0.2 < (compared(one) != compared(other)).to_numpy().mean()
    rose = one.pct_change().iloc[1:].to_numpy()
    assert 0.2 < (rose > 0).mean() < 0.8
    assert (np.abs(rose) > 0.01).mean() > 0.8


def test_an_announced_action_stays_and_others_become_sentinels():
    """The sample has no announcements; here are two dividends of 14 June, one of them declared before."""
    ex, store = pd.Timestamp("2024-06-14"), CanaryStore(MOMENT)
    index = SAMPLE.bars([ONE], START, END)["open"].index
    empty = pd.DataFrame(np.nan, index=index, columns=[ONE, TWO])
    dividend, declared = empty.copy(), empty.copy()
    dividend.loc[ex] = 0.5
    declared.loc[ex, ONE] = 20240603.0
    ref = store.update("ohlcv", {"open": empty + 1, "dividend": dividend, "action_declared": declared})
    assert set(ACTION_FIELDS + DATE_FIELDS) >= {"dividend", "action_declared"}
    (known,) = store.view(MOMENT, ref).actions()
    assert (known.symbol, known.ex, known.cash) == (ONE, ex, Decimal("0.5"))
    later = store.snapshot(ref)["ohlcv"]["dividend"].loc[ex]
    assert later[ONE] == 0.5
    assert later[TWO] > 1e76


def test_a_committed_sentinel_is_a_leak():
    store, _ = filled()
    assert store.leaks == []
    store.update("ohlcv", CanarySource(SAMPLE, MOMENT).bars([ONE], START, END))
    store.record([Record("news", date(2024, 1, 1), ONE, {"text": "CANARY"})])
    store.override(indicators={"pe": pd.DataFrame({ONE: [HUGE]}, index=pd.DatetimeIndex([START]))})
    places = [leak.split(":")[0] for leak in store.leaks]
    assert {"committed ohlcv", "committed records", "committed panels"} == set(places)


@pytest.mark.parametrize("phase", PHASES)
def test_a_source_has_sentinels_after_the_moment_and_its_as_of_source_none(phase):
    moment = Moment(MOMENT.session, phase)
    source = CanarySource(SAMPLE, moment, seed=1)
    far = pd.Timestamp("2200-01-01")
    for known in (source, AsOfSource(source, moment)):
        answers = [
            known.bars([ONE], START, far),
            known.indicators([ONE], START, far, ["pe"]),
            known.index_bars("990030.SH", START, far),
            known.members("990030.SH", far),
            known.names(),
            known.symbols(),
            known.sessions(),
        ]
        assert [bool(find_canaries(each)) for each in answers] == [known is source] * len(answers)


def test_up_to_the_moment_answers_are_those_of_the_source():
    source = CanarySource(SAMPLE, MOMENT)
    before = pd.Timestamp("2024-06-12")
    for name, frame in source.bars([ONE], START, before).items():
        pd.testing.assert_frame_equal(frame, SAMPLE.bars([ONE], START, before)[name], check_freq=False)
    assert source.members("990030.SH", before) == SAMPLE.members("990030.SH", before)
    assert source.names_on(before) == SAMPLE.names_on(before)
    assert source.symbols_on(before) == SAMPLE.symbols_on(before)


def test_an_error_names_the_last_sentinel_session():
    with pytest.raises(NoData, match="its sessions run to 2177-07-09"):
        CanarySource(SAMPLE, MOMENT).bars([ONE], pd.Timestamp("2019-01-02"), pd.Timestamp("2019-01-03"))


def test_records_of_a_source_are_sentinels_after_the_moment_and_as_of_it_there_are_none():
    class Newsy(SampleSource):
        record_kinds = ("news",)

        def records(self, kinds, symbols, start, end):
            days = (date(2024, 6, day) for day in (3, 12, 13, 14))
            return tuple(Record("news", day, symbols[0], {"title": f"{day}"}) for day in days)

    source = CanarySource(Newsy(), MOMENT)
    wanted = ["news"], [ONE], START, END
    assert source.record_kinds == ("news",)
    known = AsOfSource(source, MOMENT).records(*wanted)
    assert [each.body["title"] for each in known] == ["2024-06-03", "2024-06-12"]
    assert find_canaries(known) == []
    found = source.records(*wanted)
    assert len(found) == 2 + 2 + 1
    assert [bool(find_canaries(each.body)) for each in found] == [False, False, True, True, True]
