"""A process of its own: pauses at a question and exits, or resumes what another process left.

Usage: clarify_child.py FOLDER ask|ANSWER. Each way to use the subgraph is tried, with all that it keeps in
FOLDER/WAY. Prints one JSON object: what came of it, by way.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

from states import flat

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

from typing import NotRequired

from langchain_core.messages import AnyMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from typing_extensions import TypedDict

from quantgraph.llm import KeylessPlanner
from quantgraph.llm.messages import _json as tags
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph, map_to_main_state, map_to_subgraph_state
from quantgraph.testing import ScriptedChatModel

SENTENCE = (
    "000341.SZ, buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
)
ANSWER = "from 20240102 to 20240628"
WAYS = ("alone", "node", "inside")


class Parent(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    data_ref: NotRequired[str]
    quantgraph: NotRequired[dict[str, Any]]
    ended_because: NotRequired[str | None]
    turns: NotRequired[int]


def without_question(reply: str) -> str:
    """A reflection reply that leaves it to the model of clarify to word the question."""
    read = json.loads(reply.removeprefix("```json").removesuffix("```"))
    return json.dumps({**read, "clarification_question": None})


def counting_planner(calls: list[str]) -> ScriptedChatModel:
    """The keyless planner behind a script that writes down whose prompt it was given."""
    planner = KeylessPlanner()

    def answer(messages: list[Any]) -> Any:
        text = "\n".join(str(message.text) for message in messages)
        roles = {"clarify": "clarify", "validate": "validate", "fetch": "fetch", "strategy": "code"}
        role = next((name for tag, name in roles.items() if tags.read(tag, text) is not None), "reflect")  # type: ignore[arg-type]
        calls.append(role)
        tools = {"fetch": ["tushare_daily_bar", "tushare_daily_basic"], "code": ["python_repl"]}.get(role, [])
        specs = [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": "",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
            for name in tools
        ]
        if role == "reflect":
            return without_question(planner.invoke(messages).text)
        return planner.bind_tools(specs).invoke(messages) if specs else planner.invoke(messages)

    return ScriptedChatModel(answer)


def host(way: str, saver: Any, store: DataState, calls: list[str]) -> Any:
    """The three ways to use the subgraph."""
    options: dict[str, Any] = {
        "model": counting_planner(calls),
        "source": "sample",
        "resources": Resources(store=store),
    }
    if way == "alone":
        return create_signal_subgraph(**options, checkpointer=saver)
    subgraph = create_signal_subgraph(**options)

    def inside(state: Parent) -> dict[str, Any]:
        calls.append("wrapper")
        return map_to_main_state(subgraph.invoke(map_to_subgraph_state(state)))

    def first(state: Parent) -> dict[str, Any]:
        calls.append("first")
        return {"turns": state.get("turns", 0) + 1}

    graph = StateGraph(Parent)
    graph.add_node("first", first)
    graph.add_node("signal", subgraph if way == "node" else inside)
    graph.add_edge(START, "first")
    graph.add_edge("first", "signal")
    graph.add_edge("signal", END)
    return graph.compile(checkpointer=saver)


def told(way: str, folder: Path, what: str) -> dict[str, Any]:
    calls: list[str] = []
    config: Any = {"configurable": {"thread_id": "t"}}
    folder.mkdir(parents=True, exist_ok=True)
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        store = DataState(folder / "data")
        graph = host(way, saver, store, calls)
        task: Any = {"messages": [("user", SENTENCE)]} if what == "ask" else Command(resume=what)
        state = graph.invoke(task, config, durability="sync")
    asked = state.get("__interrupt__")
    ref = state.get("data_ref")
    return {
        "calls": calls,
        "question": asked[0].value["question"] if asked else None,
        "ended_because": state.get("ended_because"),
        "data_ref": ref,
        "code_hash": flat(state).get("strategy", {}).get("code_hash"),
        "messages": [[message.type, message.text] for message in state["messages"]],
        "signal": store.snapshot(ref)["signal"]["cross_up_sma_5_sma_20"].shape if ref and not asked else None,
    }


if __name__ == "__main__":
    print(json.dumps({way: told(way, Path(sys.argv[1], way), sys.argv[2]) for way in WAYS}))
