"""The subgraph as a node of a parent graph: a question interrupts the parent, and an answer resumes it.

The saver is a file and the data state spills to a folder, so the second half could run in another process.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from quantgraph import DataState, create_signal_subgraph
from quantgraph.runtime import Resources


class DeskState(MessagesState):
    """What the parent keeps; fields of the same name come back from the subgraph."""

    data_ref: str
    quantgraph: dict[str, Any]
    ended_because: str


def file_it(state: DeskState) -> dict[str, Any]:
    """Stand for whatever the parent does with a signal."""
    name = state["quantgraph"]["strategy"]["name"]
    return {"messages": [("ai", f"{state['ended_because']}: filed {name}")]}


def run(folder: Path, task: Any) -> dict[str, Any]:
    """Build everything anew, as another process would, and do one step."""
    builder = StateGraph(DeskState)
    builder.add_node("signal", create_signal_subgraph(resources=Resources(store=DataState(folder / "data"))))
    builder.add_node("file_it", file_it)
    builder.add_edge(START, "signal")
    builder.add_edge("signal", "file_it")
    builder.add_edge("file_it", END)
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        desk = builder.compile(checkpointer=saver)
        return desk.invoke(task, {"configurable": {"thread_id": "desk-1"}})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        state = run(
            home, {"messages": [("user", "buy when the 5-day SMA crosses above the 20-day SMA, 2025")]}
        )
        print(state["__interrupt__"][0].value["question"])
        state = run(home, Command(resume="members of 合成30"))
        print(state["messages"][-1].text)
