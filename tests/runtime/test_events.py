"""What a host sees while a graph runs: events under names that stay, and each token once."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, get_args, get_type_hints

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from states import flat

from quantgraph import DataState, create_signal_subgraph, create_trading_graph
from quantgraph.broker.ledger import Ledger
from quantgraph.recording import Recorder
from quantgraph.runtime._resources import Resources, open_resources
from quantgraph.runtime._run_node import run_node
from quantgraph.runtime.dialogue import _events as events
from quantgraph.subgraphs.signal import reflection_node
from quantgraph.testing import ScriptedChatModel

THREAD = {"configurable": {"thread_id": "t"}}
CROSS = "000341.SZ, buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
NODES = ["reflection", "data_fetch", "validate", "reflection", "signal_generate", "validate"]
KEYS = {
    "quantgraph.node": {"path": str, "status": str, "line": str, "ended_because": str | None},
    "quantgraph.model": {
        "path": str,
        "role": str | None,
        "model": str | None,
        "prompt_tokens": int | None,
        "completion_tokens": int | None,
        "cost": str | None,
        "served": bool,
        "error": str | None,
    },
    "quantgraph.session": {"path": str, "session": str, "value": str, "number": int, "sessions": int},
    "quantgraph.question": {"path": str, "clarification": dict},
    "quantgraph.said": {"path": str, "lines": list},
    "quantgraph.orders": {"path": str, "why": str},
    "quantgraph.proof": {"path": str, "runs": int, "seconds": int, "line": str},
}


def ask(text: str) -> dict[str, Any]:
    return {"messages": [("user", text)]}


def nested(subgraph: Any, depth: int) -> Any:
    """A graph as a node of a graph as a node of a graph."""
    for level in range(depth, 0, -1):
        host = StateGraph(MessagesState).add_node(f"level{level}", subgraph)
        host.add_edge(START, f"level{level}").add_edge(f"level{level}", END)
        subgraph = host.compile(checkpointer=InMemorySaver() if level == 1 else None)
    return subgraph


def told(graph: Any, task: Any) -> list[tuple[int, dict[str, Any]]]:
    """Events with the depth of the graph that they were told in."""
    parts = graph.stream(task, THREAD, stream_mode="custom", subgraphs=True, version="v2")
    return [(len(part["ns"]), part["data"]) for part in parts]


def test_names_and_keys_of_the_events_are_these_and_no_others():
    declared = [get_type_hints(kind) for kind in get_args(events.Event)]
    assert {get_args(keys.pop("event"))[0]: set(keys) for keys in declared} == {
        name: set(keys) for name, keys in KEYS.items()
    }
    assert get_args(events.Status) == ("started", "finished", "paused")


@pytest.mark.parametrize("depth", [0, 2])
def test_a_host_sees_the_same_events_at_any_depth_and_they_are_plain_json(depth, tmp_path):
    graph = create_signal_subgraph(
        checkpointer=None if depth else InMemorySaver(),
        resources=Resources(store=DataState(), recorder=Recorder(tmp_path / "run.sqlite")),
    )
    graph = nested(graph, depth)
    seen = told(graph, ask(CROSS)) + told(graph, Command(resume="2024"))
    prefix = "".join(f"level{level}/" for level in range(1, depth + 1))
    for _, event in seen:
        assert json.loads(json.dumps(event)) == event
        assert set(event) == {"event", *KEYS[event["event"]]}
        assert all(isinstance(event[key], kind) for key, kind in KEYS[event["event"]].items())
        assert event["path"].startswith(prefix)
    steps = [(event["path"].rpartition("/")[2], event["status"]) for _, event in seen if "status" in event]
    asked = ["reflection", "clarify", "clarify", "clarify"]
    assert [name for name, status in steps if status == "started"] == [*asked, *NODES]
    assert [name for name, status in steps if status == "paused"] == ["clarify"]
    assert [name for name, status in steps if status == "finished"] == [*asked[:2], "clarify", *NODES]
    (question,) = [event["clarification"] for _, event in seen if event["event"] == "quantgraph.question"]
    assert question["kind"] == "window"
    assert {level for level, event in seen if event["event"] == "quantgraph.node"} == {depth}
    assert [event["ended_because"] for _, event in seen if event.get("ended_because")] == ["done"]


def test_every_model_call_is_told_with_its_role_and_tokens_and_served_ones_say_so(tmp_path):
    graph = create_signal_subgraph(
        resources=Resources(store=DataState(), recorder=Recorder(tmp_path / "run.sqlite"))
    )
    begun = {**ask(f"{CROSS}, 2024"), "run_id": "r"}
    first, again = ([e for _, e in told(graph, begun) if e["event"] == "quantgraph.model"] for _ in range(2))
    assert Counter(event["role"] for event in first)["reflection"] == 1
    assert {event["role"] for event in first} == {"reflection"}
    assert ({event["served"] for event in first}, {event["served"] for event in again}) == ({False}, {True})
    assert [event["path"] for event in again] == [event["path"] for event in first]


def test_a_session_is_told_once_with_the_value_that_the_ledger_has(tmp_path):
    graph = create_trading_graph(
        checkpointer=InMemorySaver(), resources=Resources(store=DataState(), ledger=tmp_path / "l.sqlite")
    )
    seen = told(graph, ask(f"{CROSS}, from 20240102 to 20240329"))
    sessions = {e["session"]: e["value"] for _, e in seen if e["event"] == "quantgraph.session"}
    assert len(sessions) == sum(e["event"] == "quantgraph.session" for _, e in seen)
    numbers = [(e["number"], e["sessions"]) for _, e in seen if e["event"] == "quantgraph.session"]
    assert numbers == [(number, 58) for number in range(1, 59)]  # 22 + 15 + 21 sessions of three months
    days = Ledger(tmp_path / "l.sqlite").results(graph.get_state(THREAD).values["run_id"])
    assert sessions == {f"{day.session:%Y%m%d}": str(day.value) for day in days}


def test_each_token_of_a_model_is_streamed_once_and_in_order():
    intent = {"ts_code": "", "start_date": "", "end_date": "", "strategy_desc": ""}
    reply = json.dumps({"task_type": "unclear", "user_intent": {"type": "unclear", "params": intent}})
    wording = "Which stocks do you mean, and which strategy?"
    model = {"reflection": ScriptedChatModel([reply]), "clarify": ScriptedChatModel([wording])}
    graph = nested(create_signal_subgraph(model=model, resources=Resources(store=DataState())), 2)
    parts = list(graph.stream(ask("buy"), THREAD, stream_mode="messages", subgraphs=True, version="v2"))
    streamed: dict[str, list[str]] = {}
    for message, _ in (part["data"] for part in parts):
        if isinstance(message, AIMessageChunk) and message.text:
            streamed.setdefault(message.id, []).append(message.text)
    pieces = [[text[at : at + 7] for at in range(0, len(text), 7)] for text in (reply, wording)]
    assert list(streamed.values()) == pieces


def test_events_do_not_disturb_a_node_that_runs_outside_of_a_graph():
    resources, state = (
        open_resources(Resources(store=DataState())),
        {"messages": [HumanMessage(CROSS, id="1")]},
    )
    update = run_node(
        lambda state: reflection_node(state, resources=resources), "reflection", Recorder(), state
    )
    assert flat(update)["clarification"]["kind"] == "window"
