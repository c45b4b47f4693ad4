"""Many sessions of one service, whose checkpointer needs the event loop's own threads to answer."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import AnyMessage
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from load_script import load_script
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from typing_extensions import TypedDict

from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph

postgres = load_script(Path(__file__).parents[1] / "broker" / "postgres.py")
RULE = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
ANSWERS = {"symbol": "000341.SZ", "window": "20250801 to 20251031"}
SESSIONS = 16


class Host(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    ended_because: NotRequired[str | None]


def graph_of(way: str, saver: Any) -> Any:
    if way == "alone":
        return create_signal_subgraph(
            resources=Resources(source="sample", store=DataState()), checkpointer=saver
        )
    inner = create_signal_subgraph(resources=Resources(source="sample", store=DataState()))
    host = StateGraph(Host).add_node("desk", inner).add_edge(START, "desk").add_edge("desk", END)
    return host.compile(checkpointer=saver)


async def session(graph: Any, name: str, asked: list[str], second: asyncio.Barrier) -> str | None:
    place = {"configurable": {"thread_id": name}}
    state = await graph.ainvoke({"messages": [("user", RULE)]}, place)
    while pauses := state.get("__interrupt__"):
        (pause,) = pauses
        asked.append(pause.value["kind"])
        await second.wait()  # all ask, and are answered, at once
        state = await graph.ainvoke(Command(resume={pause.id: ANSWERS[pause.value["kind"]]}), place)
    return state["ended_because"]


async def served(url: str, way: str, sessions: int) -> tuple[list[str | None], list[str], int]:
    """How the sessions ended, what was asked, and how often the loop did something else."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.05)

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(url, max_size=8, kwargs=options) as pool:
        saver = AsyncPostgresSaver(pool)  # type: ignore[arg-type]
        await saver.setup()
        graph, asked, second = graph_of(way, saver), list[str](), asyncio.Barrier(sessions)
        pulse = asyncio.create_task(beat())
        ended = await asyncio.gather(
            *(session(graph, f"{way}-{number}", asked, second) for number in range(sessions))
        )
        pulse.cancel()
    return ended, asked, beats


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["alone", "node"])
def test_sessions_that_ask_at_once_all_end_with_one_thread_for_the_loop(way):
    with postgres.server() as running:
        url = running.database().replace("+psycopg", "")
        ended, asked, beats = asyncio.run(served(url, way, SESSIONS))
    assert ended == ["done"] * SESSIONS
    assert sorted(asked) == ["symbol"] * SESSIONS + ["window"] * SESSIONS
    assert beats > 2 * SESSIONS, "the loop did other work meanwhile"
