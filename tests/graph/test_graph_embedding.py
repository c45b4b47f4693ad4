"""The subgraph alone, as a node of a host's graph, and called inside a host's node: the same result."""

from __future__ import annotations

import asyncio
import json
import operator
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from load_script import load_script
from states import flat
from typing_extensions import TypedDict

from quantgraph.errors import CheckpointerRequired
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph, map_to_main_state, map_to_subgraph_state

CHILD = Path(__file__).parents[1] / "support" / "clarify_child.py"
child = load_script(CHILD)

WAYS = child.WAYS
THREAD = {"configurable": {"thread_id": "t"}}
WHOLE = f"{child.SENTENCE}, {child.ANSWER}"


def ask(text: str) -> dict[str, Any]:
    return {"messages": [("user", text)]}


def result(state: dict[str, Any]) -> tuple[Any, ...]:
    """What has to be the same whichever way the subgraph was used."""
    said = [(message.type, message.text) for message in state["messages"]]
    return state["ended_because"], state["data_ref"], flat(state)["strategy"]["code_hash"], said


@pytest.fixture(scope="module")
def expected() -> tuple[Any, ...]:
    """What the subgraph alone gives."""
    return result(child.host("alone", None, DataState(), []).invoke(ask(WHOLE)))


@pytest.mark.parametrize("way", WAYS)
def test_the_result_is_the_same_and_no_message_is_doubled(way, expected):
    calls = []
    state = child.host(way, None, DataState(), calls).invoke(ask(WHOLE))
    assert result(state) == expected
    assert [message.type for message in state["messages"]] == ["human", "ai"]
    assert len({message.id for message in state["messages"]}) == 2
    assert calls.count("reflect") == 1


class Host(TypedDict):
    """A host with keys of its own, and lists that add up."""

    messages: Annotated[list[AnyMessage], add_messages]
    log: Annotated[list[str], operator.add]
    owner: str
    ended_because: NotRequired[str | None]
    data_ref: NotRequired[str]
    quantgraph: NotRequired[dict[str, Any]]


@pytest.mark.parametrize("way", ["node", "inside"])
def test_a_hosts_own_keys_and_adding_lists_are_left_alone(way, expected):
    subgraph = create_signal_subgraph(source="sample", resources=Resources(store=DataState()))
    inside = lambda state: map_to_main_state(subgraph.invoke(map_to_subgraph_state(state)))  # noqa: E731
    graph = StateGraph(Host)
    graph.add_node("before", lambda state: {"log": ["before"]})
    graph.add_node("signal", subgraph if way == "node" else inside)
    graph.add_node("after", lambda state: {"log": ["after"]})
    graph.add_edge(START, "before")
    graph.add_edge("before", "signal")
    graph.add_edge("signal", "after")
    graph.add_edge("after", END)
    state = graph.compile().invoke({**ask(WHOLE), "log": ["begin"], "owner": "me"})
    assert (state["log"], state["owner"]) == (["begin", "before", "after"], "me")
    assert result(state) == expected


@pytest.mark.parametrize("way", WAYS)
def test_a_question_pauses_and_its_answer_resumes_without_doing_anything_twice(way, expected):
    calls: list[str] = []
    graph = child.host(way, InMemorySaver(), DataState(), calls)
    waiting = graph.invoke(ask(child.SENTENCE), THREAD)
    question = waiting["__interrupt__"][0].value
    state = graph.invoke(Command(resume=child.ANSWER), THREAD)
    assert (calls.count("first"), calls.count("clarify")) == (way != "alone", 1)
    assert calls.count("reflect") == 2, "once before the question, once on its answer"
    assert [message.text for message in state["messages"][1:3]] == [question["question"], child.ANSWER]
    assert [message.type for message in state["messages"]] == ["human", "ai", "human", "ai"]
    assert result(state)[:3] == expected[:3]


@pytest.mark.parametrize("way", WAYS)
def test_asynchronous_hosts_pause_and_resume_too(way, expected):
    async def run():
        calls: list[str] = []
        graph = child.host(way, InMemorySaver(), DataState(), calls)
        waiting = await graph.ainvoke(ask(child.SENTENCE), THREAD)
        return waiting, await graph.ainvoke(Command(resume=child.ANSWER), THREAD), calls

    waiting, state, calls = asyncio.run(run())
    assert waiting["__interrupt__"][0].value["kind"] == "window"
    assert result(state)[:3] == expected[:3]
    assert calls.count("reflect") == 2


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("way", WAYS)
def test_every_durability_of_the_host_works(way, durability, expected):
    graph = child.host(way, InMemorySaver(), DataState(), [])
    state = graph.invoke(ask(WHOLE), THREAD, durability=durability)
    assert result(state) == expected


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory) -> list[dict[str, Any]]:
    """What a process that asks tells, and one that is given the answer; each tries all ways."""
    folder, told = tmp_path_factory.mktemp("processes"), []
    for what in ("ask", child.ANSWER):
        done = subprocess.run(
            [sys.executable, str(CHILD), str(folder), what],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        told.append(json.loads(done.stdout))
    return told


@pytest.mark.proof
@pytest.mark.parametrize("way", WAYS)
def test_a_second_process_takes_the_answer_and_goes_on(way, two_processes, expected):
    first, second = (told[way] for told in two_processes)
    assert first["question"]
    assert first["ended_because"] is None
    assert (second["ended_because"], second["data_ref"], second["code_hash"]) == expected[:3]
    assert [text for _, text in second["messages"][1:3]] == [first["question"], child.ANSWER]
    assert (flat(first)["calls"] + flat(second)["calls"]).count("reflect") == 2
    assert flat(second)["calls"].count("first") == 0
    assert second["signal"] == [117, 1]


@pytest.mark.parametrize("config", [None, THREAD])
@pytest.mark.parametrize("way", WAYS)
def test_a_question_without_a_checkpointer_says_what_is_missing(way, config):
    with pytest.raises(CheckpointerRequired, match="compile the host with one"):
        child.host(way, None, DataState(), []).invoke(ask(child.SENTENCE), config)


def inside_with(config_of):
    """A host whose node hands a config of its own making to the subgraph."""
    calls: list[str] = []
    subgraph = create_signal_subgraph(
        model=child.counting_planner(calls), source="sample", resources=Resources(store=DataState())
    )

    def signal(state: child.Parent, config: RunnableConfig) -> dict[str, Any]:
        return map_to_main_state(subgraph.invoke(map_to_subgraph_state(state), config_of(config)))

    graph = StateGraph(child.Parent).add_node("signal", signal).add_edge(START, "signal")
    return graph.compile(checkpointer=InMemorySaver()), calls


def test_the_nodes_config_may_be_passed_on(expected):
    graph, calls = inside_with(lambda config: config)
    graph.invoke(ask(child.SENTENCE), THREAD)
    assert result(graph.invoke(Command(resume=child.ANSWER), THREAD))[:3] == expected[:3]
    assert calls.count("reflect") == 2


def test_a_thread_of_its_own_has_no_checkpointer_and_says_so():
    graph, _ = inside_with(lambda config: {"configurable": {"thread_id": "own"}})
    with pytest.raises(CheckpointerRequired):
        graph.invoke(ask(child.SENTENCE), THREAD)


@pytest.mark.parametrize(("on_clarify", "ending"), [("default", "done"), ("fail", "needs_answer")])
def test_without_a_checkpointer_nobody_is_asked_if_the_host_says_so(on_clarify, ending):
    subgraph = create_signal_subgraph(
        source="sample", on_clarify=on_clarify, resources=Resources(store=DataState())
    )
    graph = StateGraph(Host).add_node("signal", subgraph).add_edge(START, "signal").compile()
    assert graph.invoke({**ask(child.SENTENCE), "log": [], "owner": "me"})["ended_because"] == ending


def test_a_host_streams_the_subgraphs_nodes():
    graph = child.host("node", None, DataState(), [])
    parts = list(graph.stream(ask(WHOLE), stream_mode="updates", subgraphs=True))
    nodes = [next(iter(update)) for namespace, update in parts if len(namespace) == 1]
    assert nodes == ["reflection", "data_fetch", "validate", "reflection", "signal_generate", "validate"]


@pytest.mark.parametrize("way", WAYS)
def test_a_second_sentence_on_the_hosts_thread_is_a_request_of_its_own(way):
    store = DataState()
    graph = child.host(way, InMemorySaver(), store, [])
    first = graph.invoke(ask(WHOLE), THREAD)
    second = graph.invoke(
        ask("000342.SZ, buy when RSI(14) is below 30, sell above 70, 2024-07-01 to 2024-12-31"), THREAD
    )
    assert (flat(first)["strategy"]["name"], second["ended_because"]) == ("cross_up_sma_5_sma_20", "done")
    (signal,) = store.snapshot(second["data_ref"])["signal"].values()
    assert list(signal.columns) == ["000342.SZ"]
    assert f"{signal.index[0]:%Y%m%d}" == "20240701"
