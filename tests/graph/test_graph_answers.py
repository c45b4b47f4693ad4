"""An answer belongs to the question that was open when it was given, in whatever process it arrives.

LangGraph keeps the value of ``Command(resume=value)`` with the checkpoint of the outermost graph. A subgraph asks
all its questions in one step of it, so a process that went on from there gave the first answer to the second
question.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from load_script import load_script

from quantgraph.llm import KeylessPlanner
from quantgraph.recording import Recorder
from quantgraph.runs import RunSpec, replay, run_strategy
from quantgraph.runtime import Resources
from quantgraph.runtime.dialogue import _questions as questions
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.testing import ScriptedChatModel

CHILD = Path(__file__).parents[1] / "support" / "answers_child.py"
child = load_script(CHILD)
postgres = load_script(Path(__file__).parents[1] / "broker" / "postgres.py")

THREAD = {"configurable": {"thread_id": "t"}}
TASK = {"messages": [("user", child.SENTENCE)], "run_id": "r"}


def recorded(folder: Path) -> list[tuple[str, str]]:
    """The answers in the records below a folder, in the order in which they were given: question and text."""
    rows = []
    for file in sorted(folder.rglob("*.sqlite")):
        with closing(sqlite3.connect(file)) as connection:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'recording'").fetchone():
                rows += connection.execute(
                    "SELECT run_id, request, reply FROM recording WHERE kind = 'answer' ORDER BY rowid"
                )
    return [(json.loads(request)["id"], json.loads(reply)) for _, request, reply in rows]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def processes(request, tmp_path_factory) -> tuple[Path, list[dict[str, Any]]]:
    """What four processes tell: the first begins, each of the others answers one question."""
    folder, told = tmp_path_factory.mktemp(request.param), []
    with postgres.server() as running:
        url = running.database().replace("+psycopg", "") if request.param == "postgres" else "sqlite"
        for step in range(4):
            done = subprocess.run(
                [sys.executable, str(CHILD), str(folder), url, str(step)],
                capture_output=True,
                text=True,
                check=False,
                cwd=folder,
            )
            assert done.returncode == 0, done.stderr[-2000:]
            told.append(json.loads(done.stdout))
    return folder, told


@pytest.mark.proof
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", [*child.GRAPHS, "run"])
def test_three_processes_answer_three_questions_and_each_answer_is_under_its_own(way, processes):
    folder, told = processes[0] / way, [step[way] for step in processes[1]]
    asked = [each["next"] for each in told]
    assert [each["again"] for each in told[1:]] == asked[:3], "a question without an answer is asked"
    assert {each["refused"] for each in told[1:]} == {"unknown_question"}
    assert [each.get("error") for each in asked] == [None] * 4, "what was refused left nothing behind"
    assert (asked[3], told[3]["replayed"]) == ({"ended": "done"}, True)
    ids = [each["id"][-16:] for each in asked[:3]]
    assert len(set(ids)) == 3
    assert recorded(folder) == list(zip(ids, child.ANSWERS, strict=True))


@pytest.mark.proof
def test_two_subgraphs_that_ask_at_once_are_answered_by_id_in_either_order(processes):
    folder, told = processes[0] / "pair", [step["pair"] for step in processes[1]]
    asked = [each["next"] for each in told]
    assert [each["again"] for each in told[1:]] == asked[:3]
    assert {each["refused"] for each in told[1:]} == {"unknown_question"}
    assert asked[3] == {side: {"ended": "done"} for side in child.SIDES}
    sides = [child.SIDES, child.SIDES[::-1], child.SIDES]
    expected = [
        (asked[step][side]["id"][-16:], child.ANSWERS[step]) for step in range(3) for side in sides[step]
    ]
    assert len(set(expected)) == 6
    assert recorded(folder) == expected


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_the_command_gives_each_answer_to_the_question_that_is_open(tmp_path):
    result = run_strategy(RunSpec(question=child.SENTENCE, on_clarify="ask"), out=tmp_path)
    folder, asked = tmp_path / result["run_id"], []
    for text in child.ANSWERS:
        asked.append(result["asked"]["id"])
        for named, codes in (("0" * 24, {2}), (asked[-1], {0, 1})):
            command = [sys.executable, "-m", "quantgraph", "resume", str(folder), "--json", "--headless"]
            told = subprocess.run(
                [*command, "--answer", text, "--question", named], capture_output=True, text=True, check=False
            )
            assert told.returncode in codes, told.stderr
        result = json.loads(told.stdout)
    assert result["ended_because"] == "done"
    assert recorded(folder) == [(each[-16:], text) for each, text in zip(asked, child.ANSWERS, strict=True)]
    assert replay(folder).differences == ()


# Killed around an answer -------------------------------------------------------------------------


def host(folder: Path, saver: Any, **options: Any) -> Any:
    """A host whose one step is the signal subgraph."""
    signal = create_signal_subgraph(
        resources=Resources(
            source="sample",
            store=DataState(folder / "data"),
            recorder=Recorder(folder / "run.sqlite"),
            **options,
        )
    )
    graph = StateGraph(child.Parent).add_node("desk", signal)
    return graph.add_edge(START, "desk").add_edge("desk", END).compile(checkpointer=saver)


def question(state: dict[str, Any]) -> dict[str, Any]:
    (pause,) = state["__interrupt__"]
    return pause.value


@pytest.fixture(params=["sync", "async"])
def killed(request, tmp_path):
    """Invoke on a connection of its own, as a process would."""

    def invoke(task: Any, **options: Any) -> dict[str, Any]:
        with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
            return host(tmp_path, saver, **options).invoke(task, THREAD, durability=request.param)

    return invoke


def test_an_answer_taken_before_a_kill_is_not_given_to_the_next_question(killed, tmp_path):
    def dead(_messages):
        raise SystemError

    first = question(killed(TASK))
    with pytest.raises(SystemError):
        killed(Command(resume=child.ANSWERS[0]), model=ScriptedChatModel(dead))
    second = question(killed(None, model=KeylessPlanner()))
    assert (first["kind"], second["kind"]) == ("symbol", "window")
    assert recorded(tmp_path) == [(first["id"][-16:], child.ANSWERS[0])]
    assert question(killed(None)) == second


def test_an_answer_that_was_not_kept_before_a_kill_is_still_that_of_its_question(
    killed, tmp_path, monkeypatch
):
    def dead(*_given):
        raise SystemError

    first = question(killed(TASK))
    with monkeypatch.context() as patch:
        patch.setattr(questions, "keep_answer", dead)
        with pytest.raises(SystemError):
            killed(Command(resume=child.ANSWERS[0]))
    assert recorded(tmp_path) == []
    assert question(killed(None))["kind"] == "window"
    assert recorded(tmp_path) == [(first["id"][-16:], child.ANSWERS[0])]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_asynchronous_hosts_ask_what_has_no_answer_of_its_own(kind, tmp_path):
    async def turns(saver: Any) -> list[dict[str, Any]]:
        graph = host(tmp_path, saver)
        return [
            question(await graph.ainvoke(task, THREAD))
            for task in (TASK, Command(resume=child.ANSWERS[0]), None, Command(resume=child.ANSWERS[1]), None)
        ]

    async def with_sqlite() -> list[dict[str, Any]]:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
            return await turns(saver)

    first, second, again, third, once_more = asyncio.run(
        turns(InMemorySaver()) if kind == "memory" else with_sqlite()
    )
    assert (second, third) == (again, once_more)
    assert len({each["id"] for each in (first, second, third)}) == 3


class AsyncOnly(InMemorySaver):
    """A host's saver that can only be awaited."""

    def get_tuple(self, config):
        raise NotImplementedError

    async def aget_tuple(self, config):
        return super().get_tuple(config)

    def put_writes(self, config, writes, task_id, task_path=""):
        raise NotImplementedError

    async def aput_writes(self, config, writes, task_id, task_path=""):
        super().put_writes(config, writes, task_id, task_path)


def test_a_saver_that_can_only_be_awaited_takes_an_answer(tmp_path):
    async def turns() -> list[dict[str, Any]]:
        graph = host(tmp_path, AsyncOnly())
        return [
            question(await graph.ainvoke(task, THREAD))
            for task in (TASK, Command(resume=child.ANSWERS[0]), Command(resume=child.ANSWERS[1]))
        ]

    assert len({each["id"] for each in asyncio.run(turns())}) == 3


def test_a_message_after_an_answer_begins_the_hosts_step_anew_and_is_no_answer(killed, tmp_path):
    first = question(killed(TASK))
    killed(Command(resume=child.ANSWERS[0]))
    asked = question(killed({"messages": [("user", child.ANSWERS[1])]}))
    assert (asked["kind"], asked["id"] == first["id"]) == ("symbol", False)
    assert recorded(tmp_path) == [(first["id"][-16:], child.ANSWERS[0])]
