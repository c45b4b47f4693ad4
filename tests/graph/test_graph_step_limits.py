"""Hosts with a small ``recursion_limit``, and hosts that keep a run's name: nothing surfaces, nothing mixes."""

from __future__ import annotations

import pytest
from deciders import OneByOne
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from quantgraph import create_trading_graph
from quantgraph.broker.ledger import Ledger
from quantgraph.runtime import Resources

pytestmark = pytest.mark.proof

RULE = "000341.SZ, buy when the 5-day average crosses above the {} average, sell when below, 2025Q1"
SESSIONS = 57
"""Of the first quarter of 2025 in mainland China: 18 in January, 18 in February, 21 in March."""


class Named(MessagesState):
    run_id: str
    ended_because: str


def host(path, state=Named, *, checkpointer=None, **options):
    graph = create_trading_graph(
        source="sample", decider=OneByOne(), resources=Resources(ledger=path), **options
    )
    builder = StateGraph(state).add_node("desk", graph).add_edge(START, "desk").add_edge("desk", END)
    return builder.compile(checkpointer=checkpointer)


def asked(days="20-day", **more):
    return {"messages": [("user", RULE.format(days))], **more}


@pytest.fixture(scope="module")
def by_itself(tmp_path_factory):
    """Ledger of the run that a host limits nowhere."""
    path = tmp_path_factory.mktemp("alone") / "ledger.sqlite"
    assert host(path).invoke(asked(run_id="r"))["ended_because"] == "done"
    return ledger_of(path)


def ledger_of(path, run_id="r"):
    with Ledger(path) as book:
        return list(book.results(run_id))


@pytest.mark.parametrize("limit", [9, 12, 25])
def test_a_host_that_allows_few_steps_gets_the_whole_run(limit, by_itself, tmp_path):
    path = tmp_path / "ledger.sqlite"
    final = host(path).invoke(asked(run_id="r"), {"recursion_limit": limit})
    assert final["ended_because"] == "done"
    assert ledger_of(path) == by_itself
    assert len(by_itself) == SESSIONS


@pytest.mark.parametrize("limit", [4, 6, 8])
def test_a_host_that_allows_too_few_is_told_which_limit_was_in_the_way(limit, tmp_path):
    final = host(tmp_path / "ledger.sqlite").invoke(asked(), {"recursion_limit": limit})
    assert final["ended_because"] == "cancelled"
    assert "recursion_limit is used up" in final["messages"][-1].text


def test_sessions_that_are_approved_end_with_a_report_where_the_steps_do(by_itself, tmp_path):
    path = tmp_path / "ledger.sqlite"
    graph = host(path, approve=True, on_clarify=lambda _asked: "approve")
    final = graph.invoke(asked(run_id="r"), {"recursion_limit": 40})
    assert final["ended_because"] == "cancelled"
    done = ledger_of(path)
    assert done == by_itself[: len(done)]
    assert 5 < len(done) < SESSIONS


def test_a_second_request_is_a_new_run_though_the_host_keeps_the_name_of_the_first(tmp_path):
    graph = host(tmp_path / "ledger.sqlite", checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t"}}
    first, second = (graph.invoke(asked(days), thread) for days in ("20-day", "10-day"))
    assert [first["ended_because"], second["ended_because"]] == ["done", "done"]
    assert first["run_id"] != second["run_id"]
