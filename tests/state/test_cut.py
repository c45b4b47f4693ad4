"""Nothing that a view, or a walk's view, consists of leads to what was not known at its moment."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
from collections.abc import Callable, Iterator
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from reachable import reachable

from quantgraph.errors import BadFrame
from quantgraph.market import Moment, sessions
from quantgraph.state import DataState, Record, View

pytestmark = pytest.mark.proof

PHASES = ("pre_open", "open", "close", "post_close")
DAYS = sessions("2024-01-02", "2024-01-31")
CODES = ["000001.SZ", "600000.SH", "600519.SH", "688981.SH"]
FROM = {
    **dict.fromkeys(("pre_close", "up_limit", "adj_factor", "dividend", "split", "action_declared"), 0),
    **dict.fromkeys(("is_st", "listing_day"), 0),
    "open": 1,
    **dict.fromkeys(("high", "close", "vol"), 2),
    **dict.fromkeys(("pe", "s"), 3),
}
"""The phase, by position, from which a row is known: written down once more, by hand."""

Ways = dict[str, Callable[[DataState, str, Moment], View]]
WAYS: Ways = {
    "cut": lambda store, ref, moment: store.view(moment, ref),
    "walk": lambda store, ref, moment: _walked(store, ref, moment),
    "jump": lambda store, ref, moment: store.growing_view(ref, "open").at(moment),
}


def _walked(store: DataState, ref: str, moment: Moment) -> View:
    walk = store.growing_view(ref, "open")
    for day in DAYS[DAYS < moment.session]:
        walk.at(Moment(day, "open"))
    return walk.at(moment)


@pytest.fixture(scope="module")
def told() -> dict[str, dict[str, pd.DataFrame]]:
    """A market in which every number occurs once, so that one that is found tells where it comes from."""
    numbers = iter(np.random.default_rng(7).permutation(100_000) / 7 + 1_000)

    def frame(*, share: float = 1.0) -> pd.DataFrame:
        cells = [next(numbers) for _ in range(len(DAYS) * len(CODES))]
        made = pd.DataFrame(np.reshape(cells, (len(DAYS), -1)), index=DAYS, columns=CODES)
        return (
            made
            if share == 1
            else made.where(np.random.default_rng(int(made.iat[0, 0])).random(made.shape) < share)
        )

    ohlcv = {
        name: frame() for name in ("open", "high", "close", "vol", "pre_close", "up_limit", "adj_factor")
    }
    ohlcv |= {"listing_day": frame(share=0.3)}
    cash = frame(share=0.2)
    cash.loc[:, "688981.SH"] = np.nan
    cash.iloc[-1, 3] = 99_991.5  # its only dividend comes on the last day
    ohlcv["dividend"] = cash[["600000.SH", "688981.SH"]]
    declared = cash.notna() * np.array([[float(f"{day:%Y%m%d}")] for day in DAYS - pd.Timedelta(days=6)])
    ohlcv["action_declared"] = declared.where(cash.notna())[["600000.SH", "688981.SH"]]
    signal = pd.DataFrame(np.eye(len(DAYS), len(CODES)), index=DAYS, columns=CODES)
    index = {name: frame()[CODES[:1]].set_axis(["000016.SH"], axis=1) for name in ("open", "close")}
    return {"ohlcv": ohlcv, "indicators": {"pe": frame().iloc[:-2]}, "index": index, "signal": {"s": signal}}


NOTES = [
    Record(
        "news",
        day.to_pydatetime() + dt.timedelta(hours=hour),
        code,
        {"text": f"secret {day:%m%d} {hour} {code}"},
    )
    for day in DAYS
    for hour, code in ((8, "600000.SH"), (9, ""), (14, "688981.SH"), (20, "600519.SH"))
]


@pytest.fixture(scope="module")
def market(told: dict[str, dict[str, pd.DataFrame]]) -> tuple[DataState, str]:
    store = DataState()
    for panel, frames in told.items():
        store.update(panel, frames)
    return store, store.record(NOTES)


def found(root: object) -> tuple[set[float], set[int], str]:
    """Numbers, instants (in microseconds) and text among all that is reachable, whole buffers included."""
    numbers: set[float] = set()
    instants: set[int] = set()
    text = []
    for thing in reachable(root):
        if isinstance(thing, float | Decimal):
            numbers.add(float(thing))
        elif isinstance(thing, dt.datetime):
            instants.add(_micros(thing))
        elif isinstance(thing, str):
            text.append(thing)
        else:
            cells = _memory(thing)
            numbers.update(cells.view(np.float64).tolist())
            instants.update(cells.tolist())
    return numbers, instants, "\n".join(text)


def _micros(instant: dt.datetime) -> int:
    return int(np.datetime64(instant, "us").astype(np.int64))


def _memory(thing: object) -> np.ndarray:
    try:
        raw = memoryview(np.ascontiguousarray(thing) if isinstance(thing, np.ndarray) else thing).cast("B")
    except (TypeError, ValueError, BufferError):
        return np.empty(0, np.int64)
    return np.frombuffer(raw[: len(raw) // 8 * 8], np.int64) if len(raw) >= 8 else np.empty(0, np.int64)


def later(told: dict[str, dict[str, pd.DataFrame]], moment: Moment) -> tuple[set[float], set[int]]:
    """Numbers and sessions that are not known at a moment, by the hand-written table."""
    place, phase = DAYS.get_loc(moment.session), PHASES.index(moment.phase)
    numbers = {
        float(cell)
        for panel in ("ohlcv", "indicators")
        for name, frame in told[panel].items()
        for cell in frame.iloc[place + (FROM[name] <= phase) :].to_numpy().flat
        if name != "action_declared" and not np.isnan(cell)
    }
    return numbers, {_micros(day) for day in DAYS[place + 1 :]}


def used(view: View) -> View:
    """Ask a view for everything, so that all that it makes when asked is there."""
    for panel in view:
        for frame in view[panel].values():
            frame.sum(), frame.index.get_loc, frame.columns.get_indexer(CODES)
    view.adjusted(), view.row("ohlcv", "open"), view.actions(), view.frozen(), view.names()
    view.records("news"), view.all_records(), [view.records("news", symbol) for symbol in ("", *CODES)]
    return view


MOMENTS = [Moment(DAYS[place], phase) for place in (0, 1, 9, -2, -1) for phase in PHASES]


def test_no_later_number_session_or_word_can_be_reached_from_a_view(market, told, subtests):
    for way in WAYS:
        for moment in MOMENTS:
            with subtests.test(moment=moment, way=way):
                store, ref = market
                view = used(WAYS[way](store, ref, moment))
                numbers, instants, text = found(
                    [view, view.actions, view.row, view["ohlcv"].values, view.frozen()]
                )
                future, days = later(told, moment)
                announced = {float(action.cash) for action in view.actions()}
                assert not numbers & future - announced
                assert not instants & days - {_micros(action.ex) for action in view.actions()}
                known = [note for note in NOTES if moment.knows_published(note.known)]
                assert all((note.body["text"] in text) == (note in known) for note in NOTES)


def test_the_search_does_find_what_is_there(market, told):
    store, ref = market
    moment = Moment(DAYS[9], "open")
    future, days = later(told, moment)
    for leak in (store.trusted_view(moment, ref), store.snapshot(ref), store.growing_view(ref)):
        numbers, instants, text = found(leak)
        assert future <= numbers
        assert days <= instants
        assert NOTES[-1].body["text"] in text
    whole = store.snapshot(ref)["ohlcv"]["close"]
    assert later(told, moment)[0] & found(whole.iloc[:9])[0]
    assert later(told, moment)[0] & found(lambda: whole)[0]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda view: pickle.loads(pickle.dumps(view))])
@pytest.mark.parametrize("way", WAYS)
def test_copies_of_a_view_hold_no_more_than_it_and_the_same(market, told, way, copied):
    store, ref = market
    moment = Moment(DAYS[9], "open")
    view = used(WAYS[way](store, ref, moment))
    twin = used(copied(view))
    assert not found(twin)[0] & later(told, moment)[0] - {float(action.cash) for action in view.actions()}
    assert (twin.moment, twin.actions(), twin.records("news")) == (
        moment,
        view.actions(),
        view.records("news"),
    )
    for panel in view:
        for name, frame in view[panel].items():
            pd.testing.assert_frame_equal(twin[panel][name], frame)
    # Of a pickle nothing but the bytes remains; they are searched at every offset.
    content = pickle.dumps(view)
    assert not any(
        np.float64(number).tobytes() in content for number in told["ohlcv"]["close"].iloc[9:].to_numpy().flat
    )


def _arrays(frame: pd.DataFrame) -> Iterator[np.ndarray]:
    yield from (frame.to_numpy(), frame.values, frame["600519.SH"].to_numpy(), frame.index.values)


@pytest.mark.parametrize("way", WAYS)
def test_no_array_down_the_chain_of_a_view_can_be_written_to(market, way):
    store, ref = market
    view = WAYS[way](store, ref, Moment(DAYS[9], "open"))
    arrays = [array for name in ("open", "dividend") for array in _arrays(view["ohlcv"][name])]
    arrays += [view.row("ohlcv", "open").to_numpy(), view.frozen()["signal"]["s"].values]
    for array in arrays:
        links = 0
        while isinstance(array, np.ndarray):
            with pytest.raises(ValueError, match=r"WRITEABLE|writeable"):
                array.flags.writeable = True
            array, links = array.base, links + 1
        assert links > 1
        assert memoryview(array).readonly
        with pytest.raises((TypeError, ValueError)):
            np.frombuffer(array, np.float64)[0] = 1.0
    mine = view["ohlcv"]["open"]
    mine.iloc[0, 0] = -1.0
    assert view["ohlcv"]["open"].iat[0, 0] != -1.0


@pytest.mark.parametrize("way", WAYS)
def test_strides_past_the_end_meet_the_end_of_the_memory_or_rows_that_are_not_written(market, told, way):
    store, ref = market
    place, width = 9, len(CODES)
    values = WAYS[way](store, ref, Moment(DAYS[place], "open"))["ohlcv"]["close"].to_numpy()
    root = values
    while isinstance(root, np.ndarray):
        root = root.base
    assert values.tobytes() == told["ohlcv"]["close"].iloc[:place].to_numpy().tobytes()
    if way == "cut":
        assert len(root) == values.nbytes
    else:
        assert not as_strided(values, (16, width), values.strides)[place:].any()


def test_the_size_of_a_walks_memory_does_not_tell_how_many_sessions_are_to_come(store, told):
    def sizes(days: int) -> list[int]:
        walk = store.growing_view(store.override(ohlcv={"close": told["ohlcv"]["close"].iloc[:days]}))
        roots = [walk.at(Moment(DAYS[row]))["ohlcv"]["close"].to_numpy() for row in (0, 9, 15, 16, 17)]
        while any(isinstance(root, np.ndarray) for root in roots):
            roots = [root.base if isinstance(root, np.ndarray) else root for root in roots]
        return [len(root) for root in roots]

    row = 8 * (1 + len(CODES))
    assert sizes(18) == sizes(len(DAYS)) == [16 * row] * 3 + [256 * row] * 2


def test_views_from_before_a_walk_moved_on_keep_what_they_had(store, told):
    close = told["ohlcv"]["close"]
    walk = store.growing_view(store.update("ohlcv", {"close": close}))
    views = [walk.at(Moment(day)) for day in DAYS]
    for rows, view in enumerate(views, start=1):
        assert view["ohlcv"]["close"].to_numpy().tolist() == close.iloc[:rows].to_numpy().tolist()
        assert list(view["ohlcv"]["close"].index) == list(DAYS[:rows])


def test_an_earlier_view_of_a_walk_meets_nothing_that_the_run_does_not_know_by_now(market, told):
    store, ref = market
    walk = store.growing_view(ref)
    early = used(walk.at(Moment(DAYS[3], "open")))
    before = early["ohlcv"]["close"]
    now = Moment(DAYS[12], "close")
    late = walk.at(now)
    assert not found(early)[0] & later(told, now)[0] - {float(action.cash) for action in late.actions()}
    pd.testing.assert_frame_equal(early["ohlcv"]["close"], before)
    assert (len(before), len(late["ohlcv"]["close"])) == (3, 13)


def test_two_walks_over_a_commit_share_no_memory(market, told):
    store, ref = market
    first, second = store.growing_view(ref), store.growing_view(ref)
    early = first.at(Moment(DAYS[2], "open"))
    second.at(Moment(DAYS[-1]))
    assert not found(early)[0] & later(told, Moment(DAYS[2], "open"))[0] - {
        float(a.cash) for a in early.actions()
    }


@pytest.mark.parametrize("way", WAYS)
def test_columns_of_events_do_not_tell_whom_something_will_happen_to(market, way):
    store, ref = market
    for day in (DAYS[0], DAYS[9], DAYS[-1]):
        view = WAYS[way](store, ref, Moment(day))
        for name in ("dividend", "action_declared", "listing_day"):
            assert list(view["ohlcv"][name].columns) == CODES
    assert view["ohlcv"]["dividend"].iat[-1, 3] == 99_991.5
    assert view["ohlcv"]["dividend"]["000001.SZ"].isna().all()


@pytest.mark.parametrize("way", WAYS)
def test_columns_of_a_sparse_field_do_not_tell_who_is_to_win(store, told, way):
    close = told["ohlcv"]["close"][CODES[:3]]
    pe = pd.DataFrame(np.nan, index=DAYS, columns=["600519.SH", "688981.SH"])
    pe.iloc[9:, 0], pe.iloc[12:, 1] = 7.5, 8.5
    store.update("ohlcv", {"open": close, "close": close, "limit_hits": pe})
    ref = store.update("indicators", {"pe": pe})
    for day in DAYS:
        view = WAYS[way](store, ref, Moment(day))
        for frame in (view["indicators"]["pe"], view["ohlcv"]["limit_hits"]):
            assert list(frame) == CODES[:3] + ["688981.SH"] * (day >= DAYS[12])
            assert frame["600519.SH"].notna().sum() == max(0, len(frame) - 9)
            assert frame["000001.SZ"].isna().all()


@pytest.mark.parametrize("way", WAYS)
def test_without_an_open_only_columns_with_a_known_event_are_there(store, told, way):
    ref = store.update("ohlcv", {"dividend": told["ohlcv"]["dividend"]})
    first = told["ohlcv"]["dividend"]["600000.SH"].first_valid_index()
    shown = [list(WAYS[way](store, ref, Moment(day))["ohlcv"]["dividend"]) for day in DAYS]
    assert shown == [["600000.SH"] * (day >= first) + ["688981.SH"] * (day == DAYS[-1]) for day in DAYS]


@pytest.mark.parametrize("way", WAYS)
def test_a_bad_event_of_the_future_is_told_without_saying_where(store, way):
    cash = pd.DataFrame(1.0, index=DAYS, columns=CODES).mask(pd.DataFrame(index=DAYS, columns=CODES).isna())
    cash.iloc[-1, 2] = -54_321.5
    ref = store.update("ohlcv", {"open": pd.DataFrame(9.0, index=DAYS, columns=CODES), "dividend": cash})
    view = WAYS[way](store, ref, Moment(DAYS[3]))
    with pytest.raises(BadFrame, match="corporate actions are not valid") as caught:
        view.actions()
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert -54_321.5 not in found(view)[0]
    assert list(view["ohlcv"]["open"].index) == list(DAYS[:4])


def test_where_everything_is_known_a_view_costs_no_copy(store, told):
    events = told["ohlcv"]["dividend"].reindex(columns=CODES)
    ref = store.update("ohlcv", {"open": told["ohlcv"]["open"], "dividend": events})
    stored, known = store.snapshot(ref)["ohlcv"], store.view(Moment(DAYS[-1]), ref)["ohlcv"]
    for name in known:
        assert np.shares_memory(stored[name].to_numpy(), known[name].to_numpy())


@st.composite
def panels(draw: st.DrawFn) -> dict[str, dict[str, pd.DataFrame]]:
    """Fields that begin and end on their own days, each with symbols of its own."""

    def field(name: str) -> pd.DataFrame:
        days = sorted(draw(st.sets(st.integers(0, 9), min_size=1)))
        codes = draw(st.lists(st.sampled_from(CODES), min_size=1, unique=True))
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        values = np.where(
            rng.random((len(days), len(codes))) < 0.3,
            np.nan,
            np.round(rng.uniform(1, 9, (len(days), len(codes))), 2),
        )
        return pd.DataFrame(values * 0 + 1 if name == "s" else values, index=DAYS[days], columns=codes)

    names = draw(st.sets(st.sampled_from([name for name in FROM if name != "action_declared"])))
    made: dict[str, dict[str, pd.DataFrame]] = {"ohlcv": {}, "indicators": {}, "signal": {}}
    for name in sorted(names):
        made["indicators" if name == "pe" else "signal" if name == "s" else "ohlcv"][name] = field(name)
    return made


MOMENT = st.builds(Moment, st.sampled_from(list(DAYS[:11])), st.sampled_from(PHASES))


@settings(max_examples=80, deadline=None)
@given(panels(), st.lists(MOMENT, min_size=1, max_size=6))
def test_a_walk_a_cut_and_rows_taken_by_pandas_are_the_same(made, moments):
    store = DataState()
    for panel in ("signal", "ohlcv", "indicators"):  # a signal is held against the prices that are there
        store.update(panel, made[panel])
    walk = store.growing_view()
    for moment in sorted(moments, key=lambda each: (each.session, PHASES.index(each.phase))):
        cut, walked = store.view(moment), walk.at(moment)
        assert cut.actions() == walked.actions()
        for panel, frames in made.items():
            assert list(cut[panel]) == list(walked[panel])
            assert set(cut[panel]) == set(frames)
            for name, frame in frames.items():
                known = FROM[name] <= PHASES.index(moment.phase)
                expected = frame[frame.index <= moment.session if known else frame.index < moment.session]
                if name not in ("open", "close", "s"):
                    listed = list(made["ohlcv"].get("close", made["ohlcv"].get("open", pd.DataFrame())))
                    more = [code for code in expected.dropna(axis=1, how="all") if code not in listed]
                    expected = expected.reindex(columns=listed + more)
                for got in (cut[panel][name], walked[panel][name]):
                    pd.testing.assert_frame_equal(got, expected, check_names=False, check_freq=False)
                assert cut.frozen()[panel][name].digest == walked.frozen()[panel][name].digest
