"""The graphs inside other agents, for tests; as a script, a deep agent whose process a test kills.

Usage: ``inside_agents.py FOLDER``; it prints each session before it is decided, and at the end the agent's last words.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deciders import OneByOne
from deepagents import CompiledSubAgent, create_deep_agent
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.sqlite import SqliteSaver

from quantgraph import create_signal_subgraph, create_trading_graph
from quantgraph.broker import DecisionContext
from quantgraph.broker.ledger import Ledger
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.testing import ScriptedChatModel

THREAD: dict[str, Any] = {"configurable": {"thread_id": "t"}}
RULE = "000341.SZ, buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
QUARTER = f"{RULE}, 2025Q1"


class Announced(OneByOne):
    """Prints each session before it is decided."""

    def decide(self, context: DecisionContext) -> Any:
        print(f"{context.session:%Y%m%d}", flush=True)
        return super().decide(context)


def delegate(name: str, argument: str, **more: str) -> Callable[[list[Any]], AIMessage]:
    """A model that passes the user's words to a tool, each line by a call, and the last result to the user."""

    def reply(messages: list[Any]) -> AIMessage:
        if messages[-1].type == "tool":
            return AIMessage(f"It says: {messages[-1].text}")
        calls = [
            {"name": name, "args": {argument: line, **more}, "id": f"call-{len(messages)}-{number}"}
            for number, line in enumerate(messages[-1].text.splitlines())
        ]
        return AIMessage("", tool_calls=calls)

    return reply


def trading_graph(folder: Path, decider: Any = None) -> Any:
    resources = Resources(store=DataState(folder / "data"), ledger=folder / "ledger.sqlite")
    return create_trading_graph(source="sample", decider=decider or OneByOne(), resources=resources)


def signal_graph(folder: Path) -> Any:
    return create_signal_subgraph(source="sample", resources=Resources(store=DataState(folder / "data")))


def deep_agent(graph: Any, saver: Any = None, **more: Any) -> Any:
    """A deep agent with the graph as its subagent."""
    model = ScriptedChatModel(delegate("task", "description", subagent_type="ours"))
    subagent = CompiledSubAgent(name="ours", description="what we do", runnable=graph)
    return create_deep_agent(model, subagents=[subagent], checkpointer=saver, **more)


def agent_with_tool(graph: Any, saver: Any = None) -> Any:
    """An agent with the graph in a tool."""

    def ask(request: str) -> str:
        return str(graph.invoke({"messages": [("user", request)]})["messages"][-1].text)

    async def ask_async(request: str) -> str:
        return str((await graph.ainvoke({"messages": [("user", request)]}))["messages"][-1].text)

    tool = StructuredTool.from_function(ask, ask_async, name="ours", description="what we do")
    return create_agent(ScriptedChatModel(delegate("ours", "request")), [tool], checkpointer=saver)


def journal(folder: Path) -> list[tuple[Any, ...]]:
    """The lines of the only run in a folder's ledger, without what its name is part of."""
    with Ledger(folder / "ledger.sqlite") as ledger:
        (run,) = ledger.runs()
        ledger.check(run)
        return [(line["session"], line["kind"], line["body"]) for line in ledger.journal(run)]


def main(folder: Path) -> None:
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        agent = deep_agent(trading_graph(folder, Announced()), saver)
        saved = agent.get_state(THREAD)
        if saved.next or not saved.values:
            task = None if saved.values else {"messages": [("user", QUARTER)]}
            agent.invoke(task, THREAD, durability="sync")
        print(agent.get_state(THREAD).values["messages"][-1].text, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
