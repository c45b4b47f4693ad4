"""In an asynchronous host: the graphs run, pause and resume, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from load_script import load_script

from quantgraph import DataState, create_trading_graph
from quantgraph.data import open_source
from quantgraph.runtime import Resources

child = load_script(Path(__file__).parents[1] / "support" / "clarify_child.py")

THREAD = {"configurable": {"thread_id": "t"}}
WAIT = 0.2
"""Seconds that a model and a source take to answer."""


class Calls(list[str]):
    """Whose model was called; each call takes its time."""

    def append(self, role: str) -> None:
        super().append(role)
        time.sleep(WAIT)


class SlowSource:
    """The sample, slowly."""

    def __init__(self) -> None:
        self._inner = open_source("sample")
        self.name, self.synthetic = "slow", True

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return getattr(self._inner, name)

    def bars(self, *asked: Any) -> Any:
        time.sleep(WAIT)
        return self._inner.bars(*asked)


def trading_graph(folder: Path, calls: Calls) -> Any:
    return create_trading_graph(
        model=child.counting_planner(calls),
        source=SlowSource(),
        resources=Resources(store=DataState(folder / "data"), ledger=folder / "ledger.sqlite"),
    )


@asynccontextmanager
async def hosted(graph: Any, folder: Path) -> AsyncIterator[Any]:
    """The graph as a node of a host with an asynchronous saver."""
    async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        yield (
            StateGraph(MessagesState)
            .add_node("ours", graph)
            .add_edge(START, "ours")
            .compile(checkpointer=saver)
        )


async def beating(work: Any) -> tuple[Any, list[float]]:
    """What work gives, and how late a task was that wanted to wake every five milliseconds meanwhile."""
    late: list[float] = []

    async def beat() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0.005)
            late.append(time.perf_counter() - begun - 0.005)

    heart = asyncio.create_task(beat())
    try:
        return await work, sorted(late)
    finally:
        heart.cancel()


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """What is imported at first use is imported: loading a library holds the interpreter."""
    create_trading_graph(on_clarify="default", resources=Resources(store=DataState())).invoke(
        {"messages": [("user", child.SENTENCE)]}
    )


@pytest.mark.proof
def test_the_loop_goes_on_while_models_sources_and_code_are_waited_for(tmp_path):
    async def pause_and_resume(graph: Any) -> tuple[dict[str, Any], list[Any]]:
        async with hosted(graph, tmp_path) as host:
            waiting = await host.ainvoke({"messages": [("user", child.SENTENCE)]}, THREAD)
            stream = host.astream(
                Command(resume=child.ANSWER), THREAD, stream_mode="custom", subgraphs=True, version="v2"
            )
            return waiting, [part["data"] async for part in stream]

    calls = Calls()
    (waiting, told), late = asyncio.run(beating(pause_and_resume(trading_graph(tmp_path, calls))))
    assert waiting["__interrupt__"][0].value["kind"] == "window"
    ended = [event["ended_because"] for event in told if event.get("ended_because")]
    assert set(ended) == {"done"}
    assert (calls.count("clarify"), calls.count("reflect")) == (1, 2)
    assert late[-1] < WAIT, "nothing that is waited for blocks the loop"
    assert late[int(len(late) * 0.99)] < 0.05
    assert len(late) > 100


@pytest.mark.proof
def test_a_task_that_is_cancelled_ends_at_once_and_the_thread_goes_on_later(tmp_path):
    asked, failures = threading.Event(), []
    read_twice = child.SENTENCE.partition(", sell")[0]  # no exit is said

    class Waiting(Calls):
        def append(self, role: str) -> None:
            if role == "validate":
                asked.set()
            super().append(role)

    async def cancelled(calls: Calls) -> float:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        async with hosted(trading_graph(tmp_path, calls), tmp_path) as host:
            work = asyncio.create_task(
                host.ainvoke({"messages": [("user", f"{read_twice}, {child.ANSWER}")]}, THREAD)
            )
            await asyncio.to_thread(asked.wait, 30)
            begun = time.perf_counter()
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            return time.perf_counter() - begun

    async def resumed(calls: Calls) -> dict[str, Any]:
        async with hosted(trading_graph(tmp_path, calls), tmp_path) as host:
            return await host.ainvoke(None, THREAD)

    before, after = Waiting(), Calls()
    assert asyncio.run(cancelled(before)) < WAIT
    state = asyncio.run(resumed(after))
    assert "Done: return" in state["messages"][-1].text
    assert failures == []
    assert before.count("reflect") == 1
    assert "reflect" not in after
    assert before.count("validate") + after.count("validate") == 1, "what had been sent is not sent again"
