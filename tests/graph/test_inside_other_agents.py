"""The graphs inside a deep agent and an agent's tool: questions, kills, few steps, savers that fail, hosts that lack a field."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import inside_agents as inside
import pytest
from deepagents import DeepAgentState
from inside_agents import QUARTER, RULE, THREAD
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from thinned import thinned
from typing_extensions import TypedDict

from quantgraph import create_signal_subgraph, create_trading_graph
from quantgraph.errors import BadOption
from quantgraph.runtime import Resources
from quantgraph.runtime.graph_state import Groups, replace_groups
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import map_to_subgraph_state

pytestmark = pytest.mark.proof

SESSIONS = 57
"""Of the first quarter of 2025 in mainland China: 18 in January, 18 in February, 21 in March."""
GRAPHS = {"signal": inside.signal_graph, "trading": inside.trading_graph}
AGENTS = {"deep agent": inside.deep_agent, "tool": inside.agent_with_tool}


def asked(text: str) -> dict[str, Any]:
    return {"messages": [("user", text)]}


def said_by(graph: str, folder: Path) -> str:
    """The last words of a graph that runs alone and is asked everything at once."""
    return str(GRAPHS[graph](folder).invoke(asked(QUARTER))["messages"][-1].text)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {graph: said_by(graph, tmp_path_factory.mktemp("alone")) for graph in GRAPHS}


def check(waiting: dict[str, Any], final: dict[str, Any], words: str) -> None:
    (pause,) = waiting["__interrupt__"]
    assert pause.value["kind"] == "window"
    assert [message.type for message in final["messages"]] == ["human", "ai", "tool", "ai"]
    assert final["messages"][2].text == words
    assert final["messages"][3].text == f"It says: {words}"


@pytest.mark.parametrize("saver", ["memory", "sqlite"])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("agent", AGENTS)
def test_a_question_interrupts_the_agent_and_the_answer_comes_back_through_it(
    agent, graph, saver, alone, tmp_path
):
    kept = InMemorySaver()

    def send(task: Any) -> dict[str, Any]:
        if saver == "memory":
            return AGENTS[agent](GRAPHS[graph](tmp_path), kept).invoke(task, THREAD)
        with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as opened:
            return AGENTS[agent](GRAPHS[graph](tmp_path), opened).invoke(task, THREAD)

    check(send(asked(RULE)), send(Command(resume="2025Q1")), alone[graph])


@pytest.mark.parametrize("saver", ["memory", "sqlite"])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("agent", AGENTS)
def test_an_asynchronous_agent_pauses_and_resumes_too(agent, graph, saver, alone, tmp_path):
    kept = InMemorySaver()

    async def send(task: Any) -> dict[str, Any]:
        if saver == "memory":
            return await AGENTS[agent](GRAPHS[graph](tmp_path), kept).ainvoke(task, THREAD)
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as opened:
            return await AGENTS[agent](GRAPHS[graph](tmp_path), opened).ainvoke(task, THREAD)

    check(asyncio.run(send(asked(RULE))), asyncio.run(send(Command(resume="2025Q1"))), alone[graph])


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("agent", AGENTS)
def test_two_calls_at_once_ask_and_are_answered_each(agent, graph, alone, tmp_path):
    together = AGENTS[agent](GRAPHS[graph](tmp_path), InMemorySaver())
    pauses = together.invoke(asked(f"{RULE}\n{RULE.replace('000341', '000343')}"), THREAD)["__interrupt__"]
    assert len({pause.id for pause in pauses}) == 2
    waiting = together.invoke(Command(resume={pauses[0].id: "2025Q1"}), THREAD)
    assert [pause.id for pause in waiting["__interrupt__"]] == [pauses[1].id]
    final = together.invoke(Command(resume={pauses[1].id: "2025Q1"}), THREAD)
    first, second = (message.text for message in final["messages"] if message.type == "tool")
    assert first == alone[graph]
    assert first != second


class Kept(DeepAgentState, total=False):
    quantgraph: Annotated[Groups, replace_groups]


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_deep_agent_that_keeps_the_groups_may_change_its_last_task(graph, tmp_path):
    agent = inside.deep_agent(GRAPHS[graph](tmp_path), InMemorySaver(), state_schema=Kept)
    agent.invoke(asked(QUARTER), THREAD)
    final = agent.invoke(asked("now use 000343.SZ"), THREAD)
    assert "__interrupt__" not in final
    assert final["quantgraph"]["request"]["checked"]["trade"] == "000343.SZ"
    assert final["quantgraph"]["request"]["checked"]["end"] == "20250331"


def test_a_task_without_the_groups_is_a_request_of_its_own(tmp_path):
    agent = inside.deep_agent(inside.signal_graph(tmp_path), InMemorySaver())
    agent.invoke(asked(QUARTER), THREAD)
    (pause,) = agent.invoke(asked("now use 000343.SZ"), THREAD)["__interrupt__"]
    assert pause.value["kind"] == "window"


# Kills.


def killed_or_done(folder: Path, session: int | None) -> list[str]:
    """Start the deep agent's process; kill it when it decides its n-th session. What it printed."""
    command = [sys.executable, inside.__file__, str(folder)]
    printed: list[str] = []
    with (
        (folder / "log").open("a") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line.strip())
            if len(printed) == session:
                process.kill()
    assert process.returncode == (0 if session is None else -9), (folder / "log").read_text()
    return printed


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_a_trading_graph_killed_inside_a_deep_agent_ends_with_the_ledger_of_the_whole_run(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    *sessions, words = killed_or_done(whole, None)
    assert len(sessions) == SESSIONS
    begun = [killed_or_done(killed, number)[0] for number in (1, 9, 20)]
    *rest, last_words = killed_or_done(killed, None)
    assert sessions[0] == begun[0] < begun[2] < rest[0]
    assert last_words == words
    assert inside.journal(killed) == inside.journal(whole)
    days = [session for session, kind, _ in inside.journal(killed) if kind == "day"]
    assert len(days) == len({*days}) == SESSIONS
    assert killed_or_done(killed, None) == [words], "a finished agent does nothing more"


# Few steps.


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("agent", AGENTS)
def test_the_usual_limit_of_steps_around_an_agent_is_enough(agent, graph, alone, tmp_path):
    final = AGENTS[agent](GRAPHS[graph](tmp_path)).invoke(asked(QUARTER), {"recursion_limit": 25})
    assert final["messages"][-1].text == f"It says: {alone[graph]}"


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_usual_limit_of_steps_around_a_node_is_enough(graph, alone, tmp_path):
    host = (
        StateGraph(MessagesState).add_node("ours", GRAPHS[graph](tmp_path)).add_edge(START, "ours").compile()
    )
    assert host.invoke(asked(QUARTER), {"recursion_limit": 25})["messages"][-1].text == alone[graph]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("limit", [4, 6, 8])
def test_a_node_with_too_few_steps_says_so_and_raises_nothing(graph, limit, tmp_path):
    host = (
        StateGraph(MessagesState).add_node("ours", GRAPHS[graph](tmp_path)).add_edge(START, "ours").compile()
    )
    final = host.invoke(asked(QUARTER), {"recursion_limit": limit})
    assert "recursion_limit is used up" in final["messages"][-1].text


@pytest.mark.parametrize("limit", [4, 6, 8])
def test_a_tool_with_too_few_steps_tells_the_agent_so(limit, tmp_path):
    agent = inside.agent_with_tool(inside.signal_graph(tmp_path))
    final = agent.invoke(asked(QUARTER), {"recursion_limit": limit})
    assert "recursion_limit is used up" in final["messages"][-1].text


# Savers that fail.


class FullDisk(SqliteSaver):
    """A saver that fails once, when a checkpoint is written for the n-th time."""

    def __init__(self, connection: Any, number: int) -> None:
        super().__init__(connection)
        self.left = number

    def put(self, *arguments: Any, **more: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise OSError("no space left on device")
        return super().put(*arguments, **more)


@contextmanager
def saver_in(folder: Path, number: int = 0) -> Iterator[FullDisk]:
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as opened:
        yield FullDisk(opened.conn, number)


class Named(MessagesState, total=False):
    run_id: str


class NamedAgent(DeepAgentState, total=False):
    run_id: str


def as_node(graph: Any, saver: Any) -> Any:
    return StateGraph(Named).add_node("ours", graph).add_edge(START, "ours").compile(checkpointer=saver)


def in_agent(graph: Any, saver: Any) -> Any:
    return inside.deep_agent(graph, saver, state_schema=NamedAgent)


JANUARY = asked(f"{RULE}, January 2025")
"""Eighteen sessions, each a step of its own."""


@pytest.fixture(scope="module")
def january(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    folder = tmp_path_factory.mktemp("january")
    inside.trading_graph(folder).invoke(JANUARY)
    assert Counter(kind for _, kind, _ in inside.journal(folder))["day"] == 18
    return inside.journal(folder)


@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize(
    "number", thinned([1, 2, 3, 7, 12, 16, 29, 48], lambda _, number: number in {1, 3, 12, 29})
)
@pytest.mark.parametrize("host", [as_node, in_agent])
def test_a_saver_that_fails_reaches_the_caller_and_a_resume_loses_and_doubles_nothing(
    host, number, durability, january, tmp_path
):
    # A run without a name gets one, which is lost with its checkpoint unless the host waits for each.
    task = JANUARY if durability == "sync" else {**JANUARY, "run_id": "r"}
    with saver_in(tmp_path, number) as saver, pytest.raises(OSError, match="no space left"):
        host(inside.trading_graph(tmp_path), saver).invoke(task, THREAD, durability=durability)
    with saver_in(tmp_path) as saver:
        graph = host(inside.trading_graph(tmp_path), saver)
        begun = graph.get_state(THREAD).values
        final = graph.invoke(None if begun else task, THREAD, durability=durability)
    assert "Done: return" in final["messages"][-1].text
    assert inside.journal(tmp_path) == january


# Hosts that lack messages.


class Question(TypedDict, total=False):
    question: str


class Reference(Question, total=False):
    data_ref: str
    run_id: str


@pytest.mark.parametrize("state", [Question, Reference, MessagesState])
@pytest.mark.parametrize("make", [create_signal_subgraph, create_trading_graph])
def test_a_host_without_messages_is_told_what_to_add(make, state):
    host = StateGraph(state).add_node("signal", make()).add_edge(START, "signal").compile()
    with pytest.raises(BadOption, match="the host's state has no messages: add the field messages") as raised:
        host.invoke({"question": "buy low", "messages": []})
    assert raised.value.data["parameter"] == "messages"
    assert "\n" not in str(raised.value)


def test_a_host_without_messages_may_give_the_data_to_a_decider_that_needs_no_signal(tmp_path):
    class Host(TypedDict, total=False):
        data_ref: str
        ended_because: str
        run_id: str
        summary: dict[str, Any]

    resources = Resources(store=DataState(tmp_path / "data"), ledger=tmp_path / "ledger.sqlite")
    graph = create_trading_graph(decider="buy_and_hold", resources=resources, on_clarify="fail")
    alone = graph.invoke({"messages": [("user", "合成30成分股，2024年3月")], "run_id": "alone"})
    host = StateGraph(Host).add_node("trade", graph).add_edge(START, "trade").compile()
    state = host.invoke({"data_ref": alone["data_ref"], "run_id": "hosted"})
    assert state["summary"]["account"] == alone["summary"]["account"]


def test_a_host_without_messages_that_maps_its_state_is_told_so_too():
    with pytest.raises(BadOption, match="the host's state has no messages"):
        map_to_subgraph_state({"question": "buy low"})


@pytest.mark.parametrize("make", [create_signal_subgraph, create_trading_graph])
def test_a_graph_alone_without_messages_asks_for_the_request(make):
    (pause,) = make(checkpointer=InMemorySaver()).invoke({"messages": []}, THREAD)["__interrupt__"]
    assert pause.value["question"].startswith("Please describe your strategy")
