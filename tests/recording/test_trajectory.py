"""A recorded run as a trajectory: its form, and its steps counted from the events of the same run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import groupby
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from quantgraph import create_trading_graph, run_strategy
from quantgraph.broker import ModelDecider, Order
from quantgraph.errors import BadOption
from quantgraph.recording import trajectory
from quantgraph.runs import RunResult, RunSpec, open_run
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.testing import ScriptedChatModel

THREAD = {"configurable": {"thread_id": "t"}}
RULE = "buy when the 2-day average crosses above the 5-day average, sell when it crosses below"
MONTH = "20250101 to 20250214"
SIGNAL = ["reflection", "data_fetch", "validate", "signal_generate", "validate"]


class GraphTrajectory(TypedDict):
    """The fields of agentevals 0.0.9."""

    inputs: list[dict[str, Any]] | None
    results: list[dict[str, Any]]
    steps: list[list[str]]


def checked(found):
    """Check the form; agentevals reads the three lists side by side."""
    assert set(found) == set(GraphTrajectory.__annotations__)
    assert TypeAdapter(GraphTrajectory).validate_python(found, strict=True) == found
    assert len(found["inputs"]) == len(found["results"]) == len(found["steps"])
    return found


def events_of(graph, sentence, answers=()):
    """The events of a run that is answered in order."""
    events: list[dict[str, Any]] = []
    task: Any = {"messages": [("user", sentence)], "run_id": "r"}
    answers = iter(answers)
    while task:
        parts = graph.stream(task, THREAD, stream_mode="custom", subgraphs=True, version="v2")
        events += [part["data"] for part in parts]
        waits = events[-1].get("status") == "paused"
        task = Command(resume=next(answers)) if waits else None
    return events


def steps_by_events(events):
    """Steps without tools: a node for each of its model calls, or once if it fetches, checks or is answered."""
    steps, calls = [], []
    for event in events:
        if event["event"] == "quantgraph.model" and not event["served"]:
            calls.append(event["path"].replace("/", ":"))
        if event["event"] == "quantgraph.node" and event["status"] != "started":
            node = event["path"].replace("/", ":")
            if event["status"] == "paused":
                steps += [*(calls or [node]), "__interrupt__"]
            elif node.rpartition(":")[2] in ("data_fetch", "signal_generate", "validate"):
                steps += calls or [node]
            else:
                steps += calls
            calls = []
    return steps


def without_tools_and_sessions(found):
    """Nodes as events name them; a model step on each side of its tools stays two."""
    steps = [
        step for turn in found["steps"] for step in turn if step.split(":")[-1] not in ("python_repl", "buy")
    ]
    return [":".join(part for part in step.split(":") if not part.isdecimal()) for step in steps]


def test_a_signal_of_a_run_folder_begins_with_the_sentence_and_ends_with_how_it_ended(tmp_path):
    sentence = f"000341.SZ, {RULE}, {MONTH}"
    result = run_strategy(RunSpec(question=sentence, trade=False), out=tmp_path)
    assert checked(result.trajectory()) == {
        "inputs": [{"messages": [{"role": "user", "content": sentence}]}],
        "results": [{"ended_because": "done"}],
        "steps": [SIGNAL],
    }
    assert open_run(result["run_dir"]).trajectory() == result.trajectory()


def test_each_answer_of_a_person_begins_a_turn_and_the_steps_are_those_of_the_events(tmp_path):
    place = tmp_path / "ledger.sqlite"
    resources = Resources(store=DataState(), ledger=place)
    graph = create_trading_graph(approve=True, checkpointer=InMemorySaver(), resources=resources)
    events = events_of(graph, RULE, ["000341.SZ", MONTH, "approve", "approve all that follow"])
    found = checked(trajectory(place, "r"))
    assert found["inputs"][0] == {"run_id": "r"}
    assert [given["resume"] for given in found["inputs"][1:3]] == ["000341.SZ", MONTH]
    assert [turn[-1:] for turn in found["steps"]][:-1] == [["__interrupt__"]] * 4
    assert [step.split(":")[0] for turn in found["steps"][3:] for step in turn] == [
        "approve",
        "__interrupt__",
    ]
    assert without_tools_and_sessions(found) == steps_by_events(events)
    assert [step.removeprefix("signal:") for step in found["steps"][2][: len(SIGNAL)]] == SIGNAL


class Trader(ModelDecider):
    name = "trader"
    uses_signal = False
    roles = ("trader",)

    def decide(self, context):
        orders = []

        @tool
        def buy(quantity: int) -> str:
            """Buy at the open."""
            orders.append(Order(symbol="000341.SZ", side="buy", quantity=quantity, sequence=len(orders) + 1))
            return "noted"

        agent = create_agent(context.model("trader"), [buy])
        agent.invoke({"messages": [("user", f"{context.session:%Y-%m-%d}")]})
        return orders


def says(messages):
    if messages[-1].type == "tool":
        return AIMessage("done")
    return AIMessage("", tool_calls=[{"name": "buy", "args": {"quantity": 100}, "id": "1"}])


def test_the_calls_of_a_decider_are_steps_with_their_session_and_their_tools(tmp_path):
    place = tmp_path / "ledger.sqlite"
    resources = Resources(store=DataState(), ledger=place)
    graph = create_trading_graph(
        decider=Trader(), model={"trader": ScriptedChatModel(says)}, resources=resources
    )
    events = events_of(graph, f"000341.SZ, {RULE}, 20240102 to 20240104")
    found = checked(trajectory(place, "r"))
    decided = [step for step in found["steps"][0] if step.startswith("decision")]
    days = ("20240102", "20240103", "20240104")
    assert [list(group) for _, group in groupby(decided, lambda step: step[:17])] == [
        [f"decision:{day}", f"decision:{day}:buy", f"decision:{day}"] for day in days
    ]
    assert without_tools_and_sessions(found) == [
        ":".join(part for part in step.split(":") if not part.isdecimal()) for step in steps_by_events(events)
    ]


def test_a_missing_run_is_a_typed_error(tmp_path):
    with pytest.raises(BadOption, match="must be a file with recordings"):
        trajectory(tmp_path / "none.sqlite", "r")
    with pytest.raises(BadOption, match="must be a file with recordings"):
        trajectory(f"sqlite:///{tmp_path}/none.sqlite", "r")
    assert not (tmp_path / "none.sqlite").exists()
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as other:
        other.execute("CREATE TABLE mine (x)")
        other.commit()
    before = (tmp_path / "other.sqlite").read_bytes()
    with pytest.raises(BadOption, match="must be a file with recordings"):
        trajectory(tmp_path / "other.sqlite", "r")
    assert (tmp_path / "other.sqlite").read_bytes() == before
    result = run_strategy(RunSpec(question=f"000341.SZ, {RULE}, {MONTH}", trade=False), out=tmp_path)
    with pytest.raises(BadOption, match="run_id='other' must be a recorded run"):
        trajectory(f"{result['run_dir']}/ledger.sqlite", "other")
    with pytest.raises(BadOption, match="no folder"):
        RunResult({"run_id": "r", "ended_because": "done"}).trajectory()
