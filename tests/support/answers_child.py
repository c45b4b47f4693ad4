"""A process of its own: begins a request, or answers the question that the last process left open.

Usage: answers_child.py FOLDER SAVER STEP. SAVER is the URL of a PostgreSQL server, or ``sqlite``. STEP 0 begins,
and STEP n gives the n-th answer. Each way to use the graphs is tried, with all that it keeps in FOLDER/WAY.
Prints one JSON object: what was asked, by way.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NotRequired

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

from langchain_core.messages import AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, StateSnapshot
from typing_extensions import TypedDict

from quantgraph.errors import UnknownQuestion
from quantgraph.graph import create_trading_graph
from quantgraph.recording import Recorder
from quantgraph.runs import RunSpec, replay, resume_run, run_strategy
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph

SENTENCE = "买入"
ANSWERS = ("000341.SZ", "5日均线上穿20日均线买入，下穿卖出", "2025年4月到10月")
GRAPHS = ("alone", "message", "node", "inside", "trading", "trading_node")
SIDES = ("left", "right")
FOREIGN = {"answer": "000342.SZ", "id": "0" * 24}


class Parent(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    run_id: str
    data_ref: NotRequired[str]
    ended_because: NotRequired[str | None]


class Pair(TypedDict):
    left: NotRequired[str]
    right: NotRequired[str]


@contextmanager
def saver_of(folder: Path, where: str, way: str) -> Iterator[Any]:
    if where == "sqlite":
        with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
            yield saver
    else:
        with PostgresSaver.from_conn_string(where) as saver:
            saver.setup()
            yield saver


def thread(way: str) -> Any:
    return {"configurable": {"thread_id": way}}


def host(way: str, folder: Path, saver: Any, *, mode: str = "record") -> Any:
    resources = Resources(
        source="sample",
        store=DataState(folder / "data"),
        recorder=Recorder(folder / "run.sqlite", mode=mode),  # type: ignore[arg-type]
    )
    if way in {"alone", "message"}:
        return create_signal_subgraph(resources=resources, checkpointer=saver)
    if way == "trading":
        return create_trading_graph(resources=resources, checkpointer=saver)
    made = create_trading_graph if way == "trading_node" else create_signal_subgraph
    graph: Any = made(resources=resources)
    if way == "pair":

        def side(name: str) -> Any:
            begun = {"messages": [("user", SENTENCE)], "run_id": name}
            return lambda _: {name: graph.invoke(begun)["ended_because"]}

        pair = StateGraph(Pair)
        for name in SIDES:
            pair.add_node(name, side(name)).add_edge(START, name).add_edge(name, END)
        return pair.compile(checkpointer=saver)

    def inside(state: Parent) -> dict[str, Any]:
        made = graph.invoke({"messages": state["messages"], "run_id": state["run_id"]})
        return {key: made[key] for key in ("messages", "data_ref", "ended_because")}

    line = StateGraph(Parent).add_node("desk", inside if way == "inside" else graph)
    return line.add_edge(START, "desk").add_edge("desk", END).compile(checkpointer=saver)


def asked(state: dict[str, Any]) -> dict[str, Any]:
    """The open question, or how it ended."""
    pauses = state.get("__interrupt__")
    if not pauses:
        return {"ended": state["ended_because"]}
    (pause,) = pauses
    return {"id": pause.value["id"], "error": pause.value.get("error")}


def refused(graph: Any, way: str, answer: Any) -> str | None:
    try:
        graph.invoke(Command(resume=answer), thread(way), durability="sync")
    except UnknownQuestion as error:
        return error.code
    return None


def graph_step(way: str, folder: Path, saver: Any, step: int) -> dict[str, Any]:
    graph = host(way, folder, saver)
    first: Any = {"messages": [("user", SENTENCE)], "run_id": "r"}
    if not step:
        return {"next": asked(graph.invoke(first, thread(way), durability="sync"))}
    again = asked(graph.invoke(None, thread(way), durability="sync"))
    told = {"again": again, "refused": refused(graph, way, FOREIGN)}
    text = ANSWERS[step - 1]
    task: Any = {"messages": [("user", text)]} if way == "message" else Command(resume=text)
    state = graph.invoke(task, thread(way), durability="sync")
    told["next"] = asked(state)
    if step == len(ANSWERS):
        told["replayed"] = replayed(way, folder, first) == said(state)
    return told


def said(state: dict[str, Any]) -> Any:
    return [(message.type, message.text) for message in state["messages"]], state["data_ref"]


def replayed(way: str, folder: Path, first: Any) -> Any:
    """What a replay says that is given the same answers, and whose models and data are the record's."""
    graph = host(way, folder, InMemorySaver(), mode="replay")
    state = graph.invoke(first, thread(way))
    for text in ANSWERS:
        task: Any = {"messages": [("user", text)]} if way == "message" else Command(resume=text)
        state = graph.invoke(task, thread(way))
    return said(state)


def open_interrupts(snapshot: StateSnapshot) -> dict[str, Any]:
    return {task.name: task.interrupts[0] for task in snapshot.tasks if task.interrupts}


def pair_step(folder: Path, saver: Any, step: int) -> dict[str, Any]:
    """Two subgraphs side by side; the order in which they are answered changes from step to step."""
    graph, place = host("pair", folder, saver), thread("pair")
    told: dict[str, Any] = {"again": {}}
    if not step:
        state = graph.invoke({}, place, durability="sync")
    else:
        graph.invoke(None, place, durability="sync")
        told["refused"] = refused(graph, "pair", {"0" * 32: "000342.SZ"})
        for side in SIDES if step % 2 else SIDES[::-1]:
            pause = open_interrupts(graph.get_state(place))[side]
            told["again"][side] = {"id": pause.value["id"], "error": pause.value.get("error")}
            answer = f"{ANSWERS[step - 1]}" if side == "left" else {"answer": ANSWERS[step - 1]}
            state = graph.invoke(Command(resume={pause.id: answer}), place, durability="sync")
    pauses = open_interrupts(graph.get_state(place))
    told["next"] = {
        side: asked({"__interrupt__": [pauses[side]]}) if side in pauses else {"ended": state.get(side)}
        for side in SIDES
    }
    return told


def run_step(folder: Path, saver: Any, step: int) -> dict[str, Any]:
    resources = Resources(checkpointer=None if isinstance(saver, SqliteSaver) else saver)
    if not step:
        spec = RunSpec(question=SENTENCE, on_clarify="ask")
        return {"next": outcome(run_strategy(spec, out=folder / "runs", resources=resources))}
    (run,) = (folder / "runs").glob("*/")
    told: dict[str, Any] = {"again": outcome(resume_run(run, resources=resources)), "refused": None}
    try:
        resume_run(run, answer=FOREIGN, resources=resources)
    except UnknownQuestion as error:
        told["refused"] = error.code
    told["next"] = outcome(resume_run(run, answer=ANSWERS[step - 1], resources=resources))
    if step == len(ANSWERS):
        told["replayed"] = replay(run).differences == ()
    return told


def outcome(result: Any) -> dict[str, Any]:
    question = result.get("asked")
    if question is None:
        return {"ended": result["ended_because"]}
    return {"id": question["id"], "error": question.get("error")}


def main(folder: Path, where: str, step: int) -> dict[str, Any]:
    told = {}
    for way in (*GRAPHS, "pair", "run"):
        (folder / way).mkdir(parents=True, exist_ok=True)
        with saver_of(folder / way, where, way) as saver:
            if way == "pair":
                told[way] = pair_step(folder / way, saver, step)
            elif way == "run":
                told[way] = run_step(folder / way, saver, step)
            else:
                told[way] = graph_step(way, folder / way, saver, step)
    return told


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
