"""A decider that uses no signal: a request for data alone is traded, and the data that it needs are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from deciders import Needing
from langgraph.runtime import RunControl
from states import flat, grouped

from quantgraph.agents import SignalRule
from quantgraph.broker import Market
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.data.sample import SampleSource
from quantgraph.errors import NoData
from quantgraph.graph._graph import create_trading_graph, route_after_data
from quantgraph.llm import get_llm
from quantgraph.market import Rulebook
from quantgraph.report import BuyAndHold
from quantgraph.runs import replay, resume_run, run_strategy
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.testing import ScriptedChatModel

pytestmark = pytest.mark.proof

CODES = "000341.SZ,000342.SZ,000343.SZ"
MARCH = ("2024-03-01", "2024-03-29")
RULE = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"


class Watching(Needing):
    """Keeps what it was shown on each session, and buys nothing."""

    name = "watching"

    def decide(self, context):
        high, indicators = context.view["ohlcv"]["high"], context.view["indicators"]
        self.seen[f"{context.session:%Y%m%d}"] = high, {name: len(indicators[name]) for name in indicators}
        return []


def sessions_of(first: str, last: str) -> list[pd.Timestamp]:
    sessions = SampleSource().sessions()
    return list(sessions[(sessions >= first) & (sessions <= last)])


def journal(ledger: Ledger, run_id: str):
    return (
        ledger.sessions(run_id),
        ledger.order_records(run_id),
        list(ledger.values(run_id)),
        ledger.account(run_id),
    )


def ask(text: str, **more):
    return {"messages": [("user", text)], "run_id": "r", **more}


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


@pytest.fixture
def graph(store, ledger):
    """Builds the graph of a decider; every role but those given is the keyless planner, and no question is asked."""

    def build(decider, **options):
        options = {"source": "sample", "on_clarify": "fail", **options}
        resources = Resources(store=store, ledger=ledger)
        return create_trading_graph(decider=decider, resources=resources, **options)

    return build


def by_hand(store: DataState, ref: str, sessions, tmp_path: Path):
    """Buy-and-hold of a commit by the broker alone."""
    market = Market(store=store, data_ref=ref, rules=Rulebook.mainland())
    with Ledger(tmp_path / "hand.sqlite") as book:
        run_sessions(market, sessions, BuyAndHold(), cash=1_000_000, ledger=book, run_id="r")
        return journal(book, "r")


# A request for data alone ------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["合成30成分股，2024年3月", "SYN30, March 2024"])
def test_a_request_for_data_alone_is_traded_on_every_session(graph, store, ledger, tmp_path, text):
    nodes, state = [], {}
    for mode, part in graph(BuyAndHold()).stream(ask(text), stream_mode=["updates", "values"]):
        if mode == "values":
            state = part
        else:
            nodes += part
    assert nodes == ["begin", "signal", "daily_loop", "decision", "daily_loop", "report"]
    assert (state["ended_because"], flat(state)["strategy"]) == ("done", {})
    assert not list(store.snapshot(state["data_ref"])["signal"])
    assert ledger.sessions("r") == sessions_of(*MARCH)
    assert journal(ledger, "r") == by_hand(store, state["data_ref"], sessions_of(*MARCH), tmp_path)
    assert ledger.meta("r")["code_hash"] is None
    assert state["summary"]["signal"] is None
    assert state["summary"]["account"]["return"] == state["summary"]["benchmark"]["return"]


def test_bars_of_a_file_are_traded_without_a_rule(graph, store, ledger, tmp_path):
    days = pd.bdate_range("2024-01-02", periods=4)
    rows = [
        {"ts_code": code, "trade_date": f"{day:%Y%m%d}"}
        | dict.fromkeys(("open", "high", "low", "close"), 10.0 + place)
        | {"vol": 1000}
        for code in ("600000.SH", "600519.SH")
        for place, day in enumerate(days)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "bars.csv", index=False)
    text = "600000.SH, 600519.SH, 20240103-20240105"
    state = graph(BuyAndHold(), source=tmp_path / "bars.csv").invoke(ask(text))
    assert ledger.sessions("r") == list(days[1:])
    assert journal(ledger, "r") == by_hand(store, state["data_ref"], days[1:], tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{CODES}, {RULE}, March 2024", "decider buy_and_hold does not execute: "),
        (f"{CODES}，5日均线上穿20日均线买入，下穿卖出，2024年3月", "决策器 buy_and_hold 不执行："),
    ],
)
def test_a_rule_that_was_said_is_named_as_not_done(graph, ledger, text, line):
    state = graph(BuyAndHold()).invoke(ask(text))
    (named,) = [note for note in flat(state)["request"]["notes"] if note.startswith(line)]
    assert "20" in named.removeprefix(line)
    assert named in state["messages"][-1].text
    assert flat(state)["strategy"] == {}
    assert not [path for path in flat(state)["calls"] if "signal_generate" in path]
    assert ledger.sessions("r") == sessions_of(*MARCH)


def test_a_rule_nobody_understands_and_the_indicators_of_a_rule_hold_nothing_up(graph):
    state = graph(BuyAndHold()).invoke(ask(f"{CODES}, buy when the moon is full, March 2024"))
    assert any(
        note.endswith("not execute: buy when the moon is full") for note in flat(state)["request"]["notes"]
    )
    state = graph(BuyAndHold()).invoke(ask(f"{CODES}，市盈率低于10买入，高于20卖出，2024年3月", run_id="pe"))
    assert (state["ended_because"], flat(state)["request"]["indicators"]) == ("done", [])


def test_symbols_and_window_are_still_asked_for(graph):
    questions = []

    def answer(task):
        questions.append(task["kind"])
        return {"symbol": CODES, "window": "March 2024"}[task["kind"]]

    state = graph(BuyAndHold(), on_clarify=answer).invoke(ask("hello"))
    assert (state["ended_because"], questions) == ("done", ["symbol", "window"])
    silent = create_trading_graph(decider=BuyAndHold(), on_clarify="default", source="sample")
    assert flat(silent.invoke({"messages": []}))["assumptions"] == [
        "symbol: all stocks (default)",
        "window: from 20250101 to 20251231 (default)",
    ]


def test_a_decider_that_uses_the_signal_does_not_trade_a_request_for_data(graph, ledger):
    params = {"ts_code": CODES, "start_date": "20240301", "end_date": "20240331", "strategy_desc": ""}
    intent = {"type": "data_fetch", "params": {**params, "required_indicators": []}}
    told = {"analysis": "", "task_type": "data_fetch", "next_action": "data_fetch", "reasoning": ""}
    reply = json.dumps({**told, "user_intent": {**intent, "needs_clarification": False}})
    roles = ("data_fetch", "signal_generate", "validation", "clarify")
    model = {role: get_llm(role, model="keyless") for role in roles}
    model["reflection"] = ScriptedChatModel(lambda _: f"```json\n{reply}\n```")
    state = graph(SignalRule(), model=model).invoke(ask("only the data"))
    assert (state["ended_because"], state["summary"]) == ("done", {})
    assert state["messages"][-1].text == "The data is ready: 2024-03-01 - 2024-03-29, 3 x 21."
    assert not ledger.runs()


@pytest.mark.parametrize(
    ("state", "target"),
    [
        ({"ended_because": "done", "data_ready": True}, "daily_loop"),
        ({"ended_because": "done", "data_ready": False}, "__end__"),
        ({"ended_because": "data_unavailable", "data_ready": True}, "__end__"),
        ({}, "__end__"),
    ],
)
def test_only_validated_data_are_traded(state, target):
    assert route_after_data(state) == target


# Needs -------------------------------------------------------------------------------------------


def test_the_high_of_52_weeks_is_known_on_the_first_session(graph, ledger):
    decider = Watching(sessions=252, indicators=("pe_ttm",))
    state = graph(decider).invoke(ask(f"{CODES}, March 2024"))
    high, indicators = decider.seen["20240301"]
    before = SampleSource().sessions()
    before = before[before < "2024-03-01"][-252:]
    assert list(high.index) == list(before)
    expected = SampleSource().bars(tuple(CODES.split(",")), before[0], before[-1])["high"]
    assert high.max().to_dict() == expected.max().to_dict()
    assert indicators == {"pe_ttm": 252}
    assert flat(state)["request"]["data_start"] == f"{before[0]:%Y%m%d}"
    assert [f"{day:%Y%m%d}" for day in ledger.sessions("r")] == list(decider.seen)
    assert ledger.sessions("r") == sessions_of(*MARCH)
    assert len(state["summary"]["equity"]["sessions"]) == 21 + 1


def test_fewer_sessions_than_needed_and_records_are_named_before_the_first_session(graph):
    decider = Watching(sessions=100_000, records=("suspension", "memory"))
    there = int((SampleSource().sessions() < "2024-03-01").sum())
    for mode in graph(decider).stream(ask(f"{CODES}, March 2024"), stream_mode="values"):
        if mode.get("session"):
            notes = flat(mode)["request"]["notes"]
            break
    assert notes[1:] == [
        "no source gives records of kind suspension",
        "no source gives records of kind memory",
        f"decider watching needs 100000 sessions before the window; the data have {there}",
    ]


def test_a_stock_that_was_listed_later_has_what_there_is(graph, ledger, tmp_path):
    days = pd.bdate_range("2024-01-02", periods=9)
    rows = [
        {"ts_code": code, "trade_date": f"{day:%Y%m%d}"}
        | dict.fromkeys(("open", "high", "low", "close"), 10.0)
        | {"vol": 1000}
        for code, first in (("600000.SH", 0), ("600519.SH", 5))
        for day in days[first:]
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "bars.csv", index=False)
    decider = Watching(sessions=4)
    text = f"600519.SH, {days[7]:%Y%m%d}-{days[8]:%Y%m%d}"
    state = graph(decider, source=tmp_path / "bars.csv").invoke(ask(text))
    assert ledger.sessions("r") == list(days[7:])
    high, _ = decider.seen[f"{days[7]:%Y%m%d}"]
    assert list(high.index) == list(days[3:7])
    assert list(high["600519.SH"].notna()) == [False, False, True, True]
    assert flat(state)["request"]["data_start"] == f"{days[3]:%Y%m%d}"


class Late(SampleSource):
    """A source that lists sessions before those of its bars."""

    first = pd.Timestamp("2024-02-28")

    def bars(self, symbols, start, end):
        if end < self.first:
            raise NoData("no bars")
        return super().bars(symbols, max(start, self.first), end)


@pytest.mark.parametrize(("first", "there"), [("2024-02-28", 2), ("2024-03-01", 0)])
def test_bars_that_begin_later_than_the_sessions_are_named(graph, ledger, monkeypatch, first, there):
    monkeypatch.setattr(Late, "first", pd.Timestamp(first))
    decider = Watching(sessions=5)
    state = graph(decider, source=Late()).invoke(ask(f"{CODES}, March 2024"))
    assert (state["ended_because"], len(decider.seen["20240301"][0])) == ("done", there)
    line = f"decider watching needs 5 sessions before the window; the data have {there}"
    assert flat(state)["request"]["notes"][1:] == [line]
    assert flat(state)["request"].get("data_start") == ("20240228" if there else None)
    assert ledger.sessions("r") == sessions_of(*MARCH)


def test_the_needs_of_a_decider_that_uses_the_signal_are_there_too(graph, ledger):
    decider = Watching(signal=True, sessions=252, indicators=("pe_ttm",), records=("memory",))
    state = graph(decider).invoke(ask(f"{CODES}, {RULE}, March 2024"))
    high, indicators = decider.seen["20240301"]
    assert (len(high), indicators, flat(state)["strategy"]["warm_up"]) == (252, {"pe_ttm": 252}, 21)
    assert ledger.sessions("r") == sessions_of(*MARCH)
    assert "no source gives records of kind memory" in flat(state)["request"]["notes"]


def test_the_signal_is_the_same_with_and_without_earlier_data_for_the_decider(graph, store):
    signals = []
    for number, needed in enumerate((0, 252)):
        decider = Watching(signal=True, sessions=needed)
        state = graph(decider).invoke(ask(f"{CODES}, {RULE}, March 2024", run_id=f"r{number}"))
        signals.append(store.snapshot(state["data_ref"])["signal"]["cross_up_sma_5_sma_20"])
    pd.testing.assert_frame_equal(*signals)


# Data of the host --------------------------------------------------------------------------------


class Refusing(SampleSource):
    """A source that has nothing to say."""

    def bars(self, *_):
        raise AssertionError("the data are there")


@pytest.fixture
def refuses():
    """A model that must not be asked, and a source without bars."""

    def refuse(_):
        raise AssertionError("no model is needed")

    return {"model": ScriptedChatModel(refuse), "source": Refusing()}


class Commit(NamedTuple):
    """Bars of three symbols over the first quarter of 2024."""

    store: DataState
    ref: str


@pytest.fixture
def commit(store):
    bars = SampleSource().bars(tuple(CODES.split(",")), *map(pd.Timestamp, ("2024-01-01", "2024-03-31")))
    return Commit(store, store.update("ohlcv", bars, base=store.empty))


def test_a_commit_alone_is_traded_without_a_model_or_a_source(graph, ledger, commit, refuses, tmp_path):
    state = graph(BuyAndHold(), **refuses).invoke({"data_ref": commit.ref, "run_id": "r"})
    sessions = sessions_of("2024-01-01", "2024-03-29")
    assert (state["ended_because"], state["data_ref"], flat(state)["calls"]) == ("done", commit.ref, {})
    assert (
        flat(state)["request"]["ts_code"],
        flat(state)["request"]["start"],
        flat(state)["request"]["end"],
    ) == (CODES, "20240102", "20240329")
    assert journal(ledger, "r") == by_hand(commit.store, commit.ref, sessions, tmp_path)


def test_given_symbols_and_dates_of_a_commit_are_traded_with_what_is_before_them(
    graph, ledger, commit, refuses
):
    decider = Watching(sessions=60)
    given = {"ts_code": "000343.SZ, 000341.SZ", "start_date": "20240301", "end_date": "20240315"}
    state = graph(decider, **refuses).invoke(grouped({"data_ref": commit.ref, "given": given, "run_id": "r"}))
    assert ledger.sessions("r") == sessions_of("2024-03-01", "2024-03-15")
    high, _ = decider.seen["20240301"]
    there = sessions_of("2024-01-01", "2024-02-29")
    assert (list(high.columns), list(high.index)) == (["000341.SZ", "000343.SZ"], there)
    assert flat(state)["request"]["notes"] == [
        f"decider watching needs 60 sessions before the window; the data have {len(there)}"
    ]
    assert flat(state)["request"]["notes"][0] in state["messages"][-1].text


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"ts_code": "600000.SH"}, "unknown_symbol: the commit has no 600000.SH"),
        ({"start_date": "20250101"}, "bad_window: the commit has no session in the window"),
    ],
)
def test_a_commit_without_the_given_data_ends_the_run(graph, commit, refuses, given, line):
    state = graph(BuyAndHold(), **refuses).invoke(
        grouped({"data_ref": commit.ref, "given": given, "run_id": "r"})
    )
    assert state["ended_because"] == "data_unavailable"
    assert state["error_messages"][0].startswith(line)
    assert state["summary"] == {}


def test_a_commit_without_bars_ends_the_run(graph, store, refuses):
    state = graph(BuyAndHold(), **refuses).invoke({"data_ref": store.empty, "run_id": "r"})
    assert state["error_messages"][0].startswith("no_data: ")


def test_what_the_user_says_about_a_commit_is_read(graph, ledger, commit):
    graph(BuyAndHold()).invoke(ask("000341.SZ, March 2024", data_ref=commit.ref))
    assert ledger.sessions("r") == sessions_of(*MARCH)


# Runs in folders ---------------------------------------------------------------------------------


def test_a_run_of_data_alone_replays_identically(tmp_path):
    done = run_strategy(f"{CODES}, {RULE}, March 2024", decider=BuyAndHold(), out=tmp_path)
    assert (flat(done)["strategy"], done["signal"], done["ended_because"]) == (None, None, "done")
    assert any(note.startswith("decider buy_and_hold does not execute: ") for note in done["notes"])
    not_done = [each for each in flat(done)["understanding"]["clauses"] if each["status"] == "not_done"]
    assert [each["words"] for each in not_done] == [
        note.removeprefix("decider buy_and_hold does not execute: ")
        for note in done["notes"]
        if "does not execute" in note
    ]
    replayed = replay(done["run_dir"], decider=BuyAndHold())
    assert replayed.identical, replayed
    assert replayed.result["equity"] == done["equity"]


def test_a_stopped_run_with_needs_is_resumed_and_replays(tmp_path):
    text, needs = f"{CODES}, March 2024", {"sessions": 252, "indicators": ("pe",)}
    whole = run_strategy(text, decider=Watching(**needs), out=tmp_path / "whole")
    control = RunControl()

    def watch(event):
        if event.kind == "session" and event.text == "20240308":
            control.request_drain("enough")

    half = run_strategy(
        text, decider=Watching(**needs), out=tmp_path, resources=Resources(control=control, watch=watch)
    )
    assert half["ended_because"] == "cancelled"
    decider = Watching(**needs)
    done = resume_run(half["run_dir"], decider=decider)
    assert (done["equity"], done["data_ref"]) == (whole["equity"], whole["data_ref"])
    assert min(decider.seen) > "20240304"
    assert replay(done["run_dir"], decider=Watching(**needs)).identical


def test_its_graph_has_no_node_that_writes_code(graph):
    nodes = {each.rpartition(":")[2] for each in graph(BuyAndHold()).get_graph(xray=1).nodes}
    assert "signal_generate" not in nodes
    assert {"reflection", "data_fetch", "validate", "clarify"} <= nodes
