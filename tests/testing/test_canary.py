"""Canaries: what is planted, what is found, and what is not mistaken for one."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from quantgraph.data.as_of import AsOfSource
from quantgraph.data.sample import SampleSource
from quantgraph.errors import NoData
from quantgraph.market.actions import ACTION_FIELDS, DATE_FIELDS
from quantgraph.market.moment import PHASES, Moment
from quantgraph.state import DataState, Record, growing_view
from quantgraph.testing import (
    CanaryFound,
    CanarySource,
    CanaryStore,
    CanaryWatch,
    ScriptedChatModel,
    differences,
    find_canaries,
)

SAMPLE = SampleSource()
ONE, TWO = "000341.SZ", "000342.SZ"
START, END = pd.Timestamp("2024-06-03"), pd.Timestamp("2024-06-28")
MOMENT = Moment.at("20240613", "open")
HUGE = 7.7e76


@dataclass
class Thing:
    inside: object


def noted(frame, **attrs):
    frame.attrs.update(attrs)
    return frame


def caused():
    try:
        try:
            raise ValueError(f"last is {HUGE}")
        except ValueError as error:
            raise KeyError("clean") from error
    except KeyError as error:
        return error


@pytest.mark.parametrize(
    "thing",
    [
        HUGE,
        -HUGE,
        HUGE * 1e-15,
        HUGE**0.5,
        complex(0, HUGE),
        np.complex128(HUGE),
        np.array([complex(1, -HUGE)]),
        np.array([1.0, float("inf")], dtype=np.float32),
        np.array([1.0, 3e38], dtype=np.float32),
        np.array([-np.inf], dtype=np.float16),
        "about 7.71×10^76",
        "7.71 × 10⁷⁶",
        r"$7.7 \times 10^{76}$",
        "7.7*10**76",
        f"{HUGE**0.5:,.2f}",
        HUGE**2,
        np.float64(HUGE),
        Decimal("-7.7E+76"),
        7 * 10**76,
        float("inf"),
        f"close {HUGE}",
        f"close {-HUGE:.2f}",
        f"close {HUGE:,.0f}",
        f"{HUGE:.2%}",
        f"{HUGE:.3e}",
        str(Decimal(HUGE)),
        str(pd.DataFrame({"a": [1.0, HUGE]})),
        repr(np.array([HUGE])),
        "the last session is 2177-07-09",
        "21770708",
        "2177/7/7",
        "2177年7月7日",
        "2177 年 07 月 08 日",
        "Jul 08 2177",
        "July 8th, 2177",
        "Tue Jul  8 00:00:00 2177",
        "08-Jul-2177",
        "8/7/2177",
        "07.08.2177",
        "合成银行01 CANARY",
        b"...21770708...",
        date(2177, 7, 8),
        pd.Timestamp("2177-07-08"),
        np.datetime64("2177-07-08"),
        np.array([[1.0, HUGE]]),
        np.array(["2024-01-02", "2177-07-08"], dtype="datetime64[us]"),
        np.array(["CANARY.SH"], dtype=object),
        pd.DataFrame({"a": [1.0, -HUGE]}),
        pd.DataFrame({"CANARY.SH": [1.0]}),
        pd.Series([1.0], index=pd.DatetimeIndex(["2177-07-08"])),
        pd.Index(["CANARY.SH"]),
        noted(pd.DataFrame({"a": [1.0]}), last=HUGE),
        noted(pd.Series([1.0]), last="2177-07-08"),
        pd.DataFrame({"a": [1.0]}).rename_axis(columns="CANARY"),
        pd.DataFrame({"a": [1.0]}).rename_axis(index="CANARY"),
        pd.Series([1.0], name="CANARY"),
        {"a": {"b": [1, (2, {HUGE})]}},
        {"CANARY.SH": 1},
        Thing(inside=Thing(inside=[HUGE])),
        NoData("nothing", last=pd.Timestamp("2177-07-08")),
        caused(),
        HumanMessage(f"{HUGE}"),
        AIMessage("", tool_calls=[{"name": "t", "args": {"x": HUGE}, "id": "1"}]),
        ToolMessage("", artifact={"last": "21770709"}, tool_call_id="1"),
        [AIMessage("", additional_kwargs={"deep": {"x": "CANARY"}})],
    ],
)
def test_a_sentinel_is_found_wherever_it_is(thing):
    assert find_canaries(thing)


@pytest.mark.parametrize(
    "thing",
    [
        None,
        True,
        0.0,
        -1e36,
        2**127,
        1 + 2j,
        float("nan"),
        Decimal("sNaN"),
        np.array([np.nan, 1e36]),
        np.array([np.nan, 1e36], dtype=np.float32),
        np.array([1j]),
        "10^20 and 10**8, 10⁻⁷⁶, 10^7 of 76 and 3.10^76",
        "Jul 08 2017, 7/8/2017, Julia 2177 and 21770 pieces",
        pd.NaT,
        np.datetime64("NaT"),
        "2024-01-02 to 2025-12-31, 2.177 and 21777.07 CNY, 12177-07-08 pieces",
        "commit 12e99a0b4c5d and 7e7612345678 and 3e+12",
        "a" * 30 + "0123456789" * 7,  # a hash in hexadecimal digits
        "1" * 60,
        "1,234,567.89",
        "a canary in a mine",
        pd.DataFrame({"a": [1.0], "b": ["x"]}, index=pd.DatetimeIndex(["2024-01-02"])),
        {"pe": None, "rows": range(3), "kinds": frozenset({"x"})},
        ValueError("clean"),
        object(),
    ],
)
def test_nothing_else_is_taken_for_one(thing):
    assert find_canaries(thing) == []


def test_a_finding_names_its_place():
    thing = {"messages": [HumanMessage("fine"), HumanMessage(f"the close is {HUGE}")]}
    assert find_canaries(thing) == ["['messages'][1].content: the close is 7.7e+76"]
    assert find_canaries(f"CANARY {HUGE} 2177-07-08") == [
        "it: CANARY 7.7e+76 2177-07-08",
        "it: CANARY 7.7e+76 2177-07-08",
        "it: CANARY 7.7e+76 2177-07-08",
    ]


def test_what_holds_itself_is_walked_once():
    loop: list[object] = [1]
    loop.append(loop)
    assert find_canaries(loop) == []


# The store ---------------------------------------------------------------------------------------


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
def test_views_walks_and_readings_show_what_a_plain_store_shows(phase):
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


def test_a_cut_that_is_one_row_too_long_shows(monkeypatch):
    from quantgraph.state import cut

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


def test_two_plantings_have_opposite_signs():
    one, other = (
        store.snapshot(ref)["ohlcv"]["close"][ONE].iloc[-1] for store, ref in (filled(0), filled(1))
    )
    assert one > 1e76
    assert other < -1e76
    assert filled(0)[1] == filled(1)[1], "what is committed is the same"


def test_two_plantings_compare_otherwise():
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


def test_an_announced_action_stays_and_one_that_is_not_does_not():
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


def test_a_sentinel_that_is_committed_is_kept_in_mind():
    store, _ = filled()
    assert store.leaks == []
    store.update("ohlcv", CanarySource(SAMPLE, MOMENT).bars([ONE], START, END))
    store.record([Record("news", date(2024, 1, 1), ONE, {"text": "CANARY"})])
    store.override(indicators={"pe": pd.DataFrame({ONE: [HUGE]}, index=pd.DatetimeIndex([START]))})
    places = [leak.split(":")[0] for leak in store.leaks]
    assert {"committed ohlcv", "committed records", "committed panels"} == set(places)


# The source --------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", PHASES)
def test_a_source_tells_sentinels_after_the_moment_and_the_one_as_of_it_none(phase):
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


def test_up_to_the_moment_it_is_the_source():
    source = CanarySource(SAMPLE, MOMENT)
    before = pd.Timestamp("2024-06-12")
    for name, frame in source.bars([ONE], START, before).items():
        pd.testing.assert_frame_equal(frame, SAMPLE.bars([ONE], START, before)[name], check_freq=False)
    assert source.members("990030.SH", before) == SAMPLE.members("990030.SH", before)
    assert source.names_on(before) == SAMPLE.names_on(before)
    assert source.symbols_on(before) == SAMPLE.symbols_on(before)


def test_a_refusal_tells_its_end():
    with pytest.raises(NoData, match="its sessions run to 2177-07-09"):
        CanarySource(SAMPLE, MOMENT).bars([ONE], pd.Timestamp("2019-01-02"), pd.Timestamp("2019-01-03"))


# The watch ---------------------------------------------------------------------------------------


def speak(model, text="hello"):
    return model.invoke([HumanMessage(text)])


@pytest.mark.parametrize(
    ("say", "where"),
    [
        (lambda: speak(ScriptedChatModel(["fine"]), f"now {HUGE}"), "prompt "),
        (lambda: speak(ScriptedChatModel([f"it was {HUGE}"])), "reply "),
        (lambda: logging.getLogger("a.b").debug("close %s", HUGE), "log of a.b "),
        (lambda: logging.getLogger("a.b").error("x", exc_info=caused()), "log of a.b "),
    ],
)
def test_what_is_said_anywhere_is_heard(say, where):
    with pytest.raises(CanaryFound) as caught, CanaryWatch() as watch:
        say()
    assert where in str(caught.value)
    assert watch.found


def test_an_error_that_ends_the_run_is_looked_into():
    with pytest.raises(CanaryFound, match=r"the run ended with .*7\.7e\+76") as caught, CanaryWatch():
        raise NoData(f"last is {HUGE}")
    assert isinstance(caught.value.__cause__, NoData)
    with pytest.raises(NoData, match="clean"), CanaryWatch():
        raise NoData("clean")


def test_a_model_that_fails_is_heard():
    with pytest.raises(CanaryFound, match="error of a model"), CanaryWatch():
        speak(ScriptedChatModel([ValueError(f"no model for {HUGE}")]))


def test_outside_of_it_nothing_is_heard_and_logging_is_as_before():
    level, handlers = logging.getLogger().level, list(logging.getLogger().handlers)
    with CanaryWatch() as watch:
        speak(ScriptedChatModel(["in"]))
    speak(ScriptedChatModel([f"{HUGE}"]))
    logging.getLogger("a.b").error("%s", HUGE)
    assert watch.transcript == ("prompt: human: hello", "reply: ai: in")
    assert (logging.getLogger().level, logging.getLogger().handlers) == (level, handlers)


def test_a_stores_leaks_fail_the_run():
    store = CanaryStore(MOMENT)
    with pytest.raises(CanaryFound, match=r"committed ohlcv: \['close'\]"), CanaryWatch(store):
        store.update("ohlcv", {"close": pd.DataFrame({ONE: [HUGE]}, index=pd.DatetimeIndex([START]))})


def _speak_from_threads(count):
    with CanaryWatch() as watch:
        threads = [threading.Thread(target=watch.see, args=(f"thread {n}", HUGE)) for n in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_threads_are_heard_and_a_long_list_is_cut():
    with pytest.raises(CanaryFound) as caught:
        _speak_from_threads(30)
    assert str(caught.value).endswith("and 10 more")


def test_two_runs_are_compared_whatever_the_order():
    runs = []
    for lines in (("a", "b"), ("b", "a"), ("a", "c")):
        with CanaryWatch() as watch:
            for line in lines:
                watch.see("said", line)
        runs.append(watch)
    assert differences(runs[0], runs[1]) == []
    assert differences(runs[0], runs[2]) == ["only the first said said: b", "only the second said said: c"]
