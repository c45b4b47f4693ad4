"""A consumer of LangGraph's v3 event streaming reads the same events as one of the custom stream."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest
from langchain_core._api import LangChainBetaWarning
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.stream import CustomTransformer
from langgraph.types import Command

from quantgraph import DataState, create_signal_subgraph, create_trading_graph
from quantgraph.broker.ledger import Ledger
from quantgraph.runtime import Resources
from quantgraph.runtime.dialogue import EventsTransformer

pytestmark = pytest.mark.proof

THREAD = {"configurable": {"thread_id": "t"}}
SENTENCE = "000341.SZ, buy when the 5-day average crosses above the 20-day average, 20250101 to 20250301"
TASK = {"messages": [("user", SENTENCE)], "run_id": "r"}


class Host(MessagesState):
    run_id: str
    summary: dict[str, Any]


def trading(ledger):
    resources = Resources(store=DataState(), ledger=ledger)
    return create_trading_graph(on_clarify="default", resources=resources)


def streamed(graph, task, **options):
    """Start a v3 stream; LangGraph warns, once in a process, that it is experimental."""
    with warnings.catch_warnings(record=True, action="always") as seen:
        run = graph.stream_events(task, THREAD, version="v3", **options)
    assert {warning.category for warning in seen} <= {LangChainBetaWarning}
    return run


def hosted(graph):
    return StateGraph(Host).add_node("team", graph).add_edge(START, "team").compile()


@pytest.mark.parametrize("depth", [1, 2])
def test_the_projection_has_the_events_of_the_custom_stream_in_order_at_any_depth(depth, tmp_path):
    seen, journals = [], []
    for way in ("custom", "v3"):
        graph, ledger = trading(tmp_path / f"{way}.sqlite"), tmp_path / f"{way}.sqlite"
        options = {"transformers": [EventsTransformer]} if depth == 2 else {}
        graph = hosted(graph) if depth == 2 else graph
        if way == "v3":
            run = streamed(graph, TASK, **options)
            seen.append(list(run.extensions["quantgraph"]))
            assert run.output["summary"]["account"]["trades"] > 0
        else:
            parts = graph.stream(TASK, THREAD, stream_mode="custom", subgraphs=True, version="v2")
            seen.append([part["data"] for part in parts])
        with Ledger(ledger) as book:
            journals.append(list(book.journal("r")))
    assert seen[0] == seen[1]
    assert {event["event"] for event in seen[1]} == {
        *("quantgraph.node", "quantgraph.model", "quantgraph.said", "quantgraph.session")
    }
    assert journals[0] == journals[1]


def test_a_question_is_in_the_projection_and_the_answer_continues_on_the_thread():
    graph = create_signal_subgraph(resources=Resources(store=DataState()), checkpointer=InMemorySaver())
    run = streamed(graph, {"messages": [("user", SENTENCE.rpartition(",")[0])]})
    (question,) = [event for event in run.extensions["quantgraph"] if event["event"] == "quantgraph.question"]
    assert run.interrupted
    assert run.interrupts[0].value == question["clarification"]
    run = streamed(graph, Command(resume="20250101 to 20250301"))
    nodes = [event for event in run.extensions["quantgraph"] if event["event"] == "quantgraph.node"]
    assert (nodes[0]["path"], nodes[-1]["ended_because"]) == ("clarify", "done")


def test_an_async_consumer_has_the_same_events_and_a_subgraph_its_own(tmp_path):
    async def consume():
        with warnings.catch_warnings(record=True, action="always"):
            run = await trading(tmp_path / "a.sqlite").astream_events(TASK, THREAD, version="v3")
        return [event async for event in run.extensions["quantgraph"]]

    whole = asyncio.run(consume())
    run = streamed(trading(tmp_path / "b.sqlite"), TASK)
    (signal,) = [list(part.extensions["quantgraph"]) for part in run.subgraphs if part.graph_name == "signal"]
    assert signal == [event for event in whole if event["path"].startswith("signal/")]


def test_the_events_of_other_writers_are_not_in_the_projection_and_custom_has_them():
    def writes(state):
        get_stream_writer()({"event": "mine"})
        get_stream_writer()("text")
        return {}

    graph = StateGraph(Host).add_node("writes", writes).add_edge(START, "writes").compile()
    for projection, expected in (("quantgraph", []), ("custom", [{"event": "mine"}, "text"])):
        run = streamed(graph, TASK, transformers=[EventsTransformer, CustomTransformer])
        assert list(run.extensions[projection]) == expected


def test_a_copy_of_the_graph_with_another_configuration_keeps_the_projection():
    graph = create_signal_subgraph(on_clarify="fail").with_config(tags=["mine"])
    assert "quantgraph" in streamed(graph, TASK).extensions
