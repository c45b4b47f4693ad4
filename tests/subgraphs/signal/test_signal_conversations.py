"""Three messages on one thread: each changes one thing of the request before it, and the rest stays."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from states import flat

from quantgraph import create_trading_graph
from quantgraph.broker.ledger import Ledger
from quantgraph.llm.messages import _json as tags
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import SignalSubgraphState, create_signal_subgraph

pytestmark = pytest.mark.proof

THREAD = {"configurable": {"thread_id": "t"}}
ZH = "000341.SZ，收盘价上穿5日均线买入，下穿卖出，2024年1月到2月"
EN = "000341.SZ: buy when the close crosses above its 5-day SMA, sell when it crosses below, 20240102 to 20240229"
JAN_FEB = ["20240101", "20240229"]
FEW_DAYS = ["20240102", "20240229"]

# Messages, and after each: code, span, and the periods in the signal's name.
CONVERSATIONS = [
    (ZH, "改成8天", "000341.SZ", JAN_FEB, "8", "换成000342.SZ", "000342.SZ", JAN_FEB, "8"),
    (ZH, "换成000342.SZ", "000342.SZ", JAN_FEB, "5", "2024年3月呢？", "000342.SZ", ["20240301", "20240331"], "5"),
    (ZH, "2024年3月呢", "000341.SZ", ["20240301", "20240331"], "5", "那就用10天吧", "000341.SZ", ["20240301", "20240331"], "10"),
    (EN, "now use 8 days", "000341.SZ", FEW_DAYS, "8", "switch to 000342.SZ", "000342.SZ", FEW_DAYS, "8"),
    (EN, "what about 000342.SZ?", "000342.SZ", FEW_DAYS, "5", "and March 2024?", "000342.SZ", ["20240301", "20240331"], "5"),
    (EN, "March 2024 instead", "000341.SZ", ["20240301", "20240331"], "5", "make it 8 days", "000341.SZ", ["20240301", "20240331"], "8"),
]  # fmt: skip


def understood(state):
    understanding = flat(state)["understanding"]
    (span,) = understanding["windows"]
    return understanding["trade"], span, flat(state)["strategy"]["name"].rpartition("_")[2]


@pytest.mark.parametrize("talk", CONVERSATIONS)
def test_the_planner_changes_what_a_message_changes(talk):
    first, second, code, span, period, third, last_code, last_span, last_period = talk
    graph = create_signal_subgraph(
        source="sample", checkpointer=InMemorySaver(), resources=Resources(store=DataState())
    )
    graph.invoke({"messages": [("user", first)]}, THREAD)
    state = graph.invoke({"messages": [("user", second)]}, THREAD)
    assert (state["ended_because"], *understood(state)) == ("done", [code], span, period)
    state = graph.invoke({"messages": [("user", third)]}, THREAD)
    assert (state["ended_because"], *understood(state)) == ("done", [last_code], last_span, last_period)
    assert [
        clause for clause in flat(state)["understanding"]["clauses"] if clause["status"] == "default"
    ] == []


def test_a_whole_new_sentence_is_a_new_request_and_a_fragment_of_nothing_is_asked_about():
    graph = create_signal_subgraph(
        source="sample", checkpointer=InMemorySaver(), resources=Resources(store=DataState())
    )
    graph.invoke({"messages": [("user", ZH)]}, THREAD)
    state = graph.invoke({"messages": [("user", "000342.SZ，RSI低于30买入，高于70卖出，2024年")]}, THREAD)
    assert understood(state)[:2] == (["000342.SZ"], ["20240101", "20241231"])
    alone = graph.invoke(
        {"messages": [("user", "now use 30 days")]}, {"configurable": {"thread_id": "other"}}
    )
    assert alone["__interrupt__"][0].value["kind"] == "symbol"


@pytest.mark.parametrize("way", ["node", "second process"])
def test_a_node_and_a_process_that_opens_the_thread_anew_know_the_last_request(way, tmp_path):
    place = tmp_path / "checkpoints.sqlite"

    def say(text):
        with closing(sqlite3.connect(place, check_same_thread=False)) as connection:
            store = DataState(tmp_path / "data")
            graph = create_signal_subgraph(
                source="sample",
                checkpointer=None if way == "node" else SqliteSaver(connection),
                resources=Resources(store=store),
            )
            if way == "node":
                host = StateGraph(SignalSubgraphState)
                host.add_node("signal", graph)
                host.add_edge(START, "signal")
                graph = host.compile(checkpointer=SqliteSaver(connection))
            return graph.invoke({"messages": [("user", text)]}, THREAD)

    say(ZH)
    say("改成8天")
    state = say("换成000342.SZ")
    assert (state["ended_because"], *understood(state)) == ("done", ["000342.SZ"], JAN_FEB, "8")


@pytest.mark.parametrize(
    ("message", "changed"),
    [
        ("take 000342.SZ", {"ts_code": "000342.SZ"}),
        ("换成2024年3月", {"start_date": "20240301", "end_date": "20240331"}),
        ("after two up days", {"strategy_desc": "buy after two up days"}),
    ],
)
def test_a_model_is_shown_the_last_request_and_its_code_in_every_turn(play, graph_of, message, changed):
    replies = [play.intent(), play.intent(**changed), play.intent(**changed, exit="after a down day")]
    cast = play.Cast(reflect=lambda messages, turn: json.dumps(replies[turn - 1]))
    graph = graph_of(cast, checkpointer=InMemorySaver())
    for text in (play.SENTENCE, message, "sell after a down day"):
        state = graph.invoke({"messages": [("user", text)]}, THREAD)
        assert state["ended_because"] == "done", state["error_messages"]
    shown = [json.loads(tags.read("last_request", said) or "{}") for said in cast.said["reflect"]]
    assert shown[0] == {}
    for name, value in changed.items():
        assert (shown[1][name], shown[2][name]) == (replies[0]["user_intent"]["params"][name], value)
    assert all(play.GOOD_CODE.strip() in said for said in cast.said["code"][1:])


def test_a_model_that_answers_a_change_with_the_change_alone_keeps_the_rest(play, graph_of):
    fragment = play.intent(ts_code=play.TWO, start_date="", end_date="", strategy_desc="")
    cast = play.Cast(reflect=lambda messages, turn: json.dumps(play.intent() if turn == 1 else fragment))
    graph = graph_of(cast, checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", play.SENTENCE)]}, THREAD)
    state = graph.invoke({"messages": [("user", f"take {play.TWO}")]}, THREAD)
    assert state["ended_because"] == "done"
    assert flat(state)["understanding"]["trade"] == [play.TWO]
    assert flat(state)["understanding"]["windows"] == [list(play.WINDOW)]
    assert flat(state)["request"]["strategy"] == play.RULE


@pytest.mark.parametrize("by", ["planner", "model"])
def test_thanks_change_nothing_and_run_nothing_and_the_next_change_is_of_the_same_request(
    play, store, runner, by
):
    other = play.intent(ts_code=play.TWO)
    cast = play.Cast(reflect=lambda messages, turn: json.dumps(play.intent() if turn == 1 else other))
    sentence = ZH if by == "planner" else play.SENTENCE
    model = None if by == "planner" else cast.model
    graph = create_signal_subgraph(
        resources=Resources(source="sample", store=store, runner=runner, model=model),
        checkpointer=InMemorySaver(),
    )
    before = graph.invoke({"messages": [("user", sentence)]}, THREAD)
    after = graph.invoke({"messages": [("user", "谢谢！")]}, THREAD)
    kept = ("ended_because", "data_ref", "signal_ready", "user_intent", "execution_history")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert flat(after)["strategy"] == flat(before)["strategy"]
    assert str(after["messages"][-1].text).startswith("不客气")
    assert cast.turns["reflect"] == (by == "model")
    changed = graph.invoke({"messages": [("user", "换成000342.SZ")]}, THREAD)
    assert changed["ended_because"] == "done"
    assert flat(changed)["last_request"]["ts_code"] == "000341.SZ"


def test_thanks_in_a_trading_graph_leave_the_run_as_it_is(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    graph = create_trading_graph(
        source="sample", checkpointer=InMemorySaver(), resources=Resources(store=DataState(), ledger=ledger)
    )
    before = graph.invoke({"messages": [("user", ZH)]}, THREAD)
    after = graph.invoke({"messages": [("user", "thanks a lot")]}, THREAD)
    assert (after["run_id"], after["summary"]) == (before["run_id"], before["summary"])
    assert before["summary"]
    assert str(after["messages"][-1].text).startswith("You are welcome")
    assert list(ledger.runs()) == [before["run_id"]]


GREETINGS = {"hello": "Please describe your strategy", "你好": "请说说您的策略"}


@pytest.mark.parametrize("greeting", GREETINGS)
@pytest.mark.parametrize("by", ["planner", "model"])
def test_a_greeting_trades_nothing_and_is_told_what_a_request_looks_like(play, store, runner, greeting, by):
    cast = play.Cast()
    model = None if by == "planner" else cast.model
    resources = Resources(source="sample", store=store, runner=runner, model=model, on_clarify="default")
    final = create_signal_subgraph(resources=resources).invoke({"messages": [("user", greeting)]})
    assert final["ended_because"] == "needs_answer"
    assert GREETINGS[greeting] in final["error_messages"][0]
    assert flat(final)["open_question"]["options"][0].startswith("000341.SZ")
    assert cast.turns["reflect"] == 0
    assert not final["data_ready"]


def test_the_planner_asks_in_the_persons_words_and_one_answer_settles_all_that_is_open():
    graph = create_signal_subgraph(
        source="sample", checkpointer=InMemorySaver(), resources=Resources(store=DataState())
    )
    sentence = "收盘价上穿5日均线买入，下穿卖出，跌8%止损，2倍杠杆"
    asked = graph.invoke({"messages": [("user", sentence)]}, THREAD)["__interrupt__"][0].value
    assert asked["kind"] == "symbol"
    assert "- 哪段时间" in asked["question"]
    assert "- 目前做不到：「2倍杠杆」。" in asked["question"]
    answer = "000341.SZ，2024年1月到2月，止损不要了，杠杆也不要了"
    final = graph.invoke(Command(resume=answer), THREAD)
    assert final["ended_because"] == "done", final["error_messages"]
    assert understood(final)[:2] == (["000341.SZ"], JAN_FEB)
    not_done = [
        each["words"] for each in flat(final)["understanding"]["clauses"] if each["status"] == "not_done"
    ]
    assert set(not_done) == {"跌8%止损", "2倍杠杆"}
    assert flat(final)["understanding"]["plan"] == {}


def test_the_planner_says_what_remains_without_what_it_cannot_do():
    graph = create_signal_subgraph(
        source="sample", checkpointer=InMemorySaver(), resources=Resources(store=DataState())
    )
    asked = graph.invoke({"messages": [("user", f"{ZH}，2倍杠杆")]}, THREAD)["__interrupt__"][0].value
    assert (
        asked["question"]
        == "目前做不到：「2倍杠杆」。去掉的话，执行的是：买入 收盘价上穿5日均线；卖出 收盘价下穿5日均线。去掉它继续吗？"
    )
    final = graph.invoke(Command(resume="1"), THREAD)
    assert final["ended_because"] == "done", final["error_messages"]
