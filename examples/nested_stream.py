"""The subgraph nested two graphs deep, and the events that a host sees while it runs.

Events have stable names (``quantgraph.node``, ``quantgraph.model``, ``quantgraph.session``,
``quantgraph.question``) and are plain JSON; ``subgraphs=True`` shows them from any depth.
"""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from quantgraph import create_signal_subgraph


class DeskState(MessagesState):
    """The graph in between: it shares messages and the end with the subgraph."""

    ended_because: str


class FirmState(MessagesState):
    """The outermost graph, with a list of its own that adds up."""

    log: Annotated[list[str], operator.add]
    ended_because: str


def build() -> Any:
    desk = StateGraph(DeskState).add_node("signal", create_signal_subgraph())
    firm = StateGraph(FirmState).add_node("desk", desk.add_edge(START, "signal").compile())
    firm.add_node("note", lambda state: {"log": [f"the desk says {state['ended_because']}"]})
    return firm.add_edge(START, "desk").add_edge("desk", "note").compile(checkpointer=InMemorySaver())


async def show(firm: Any, task: Any) -> None:
    config = {"configurable": {"thread_id": "firm-1"}}
    async for part in firm.astream(task, config, stream_mode="custom", subgraphs=True, version="v2"):
        event = part["data"]
        if event["event"] == "quantgraph.question":
            print("asked:", event["clarification"]["question"].splitlines()[0])
        elif event["event"] == "quantgraph.node" and event["status"] == "finished":
            print(event["path"], "|", event["line"])
    print((await firm.aget_state(config)).values.get("log"))


async def main() -> None:
    firm = build()
    await show(firm, {"messages": [("user", "合成30成分股，5日均线上穿20日均线买入，下穿卖出")]})
    await show(firm, Command(resume="2025年"))


if __name__ == "__main__":
    asyncio.run(main())
