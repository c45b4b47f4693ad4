"""A question asked after the data was fetched is answered in a process that has none of it in memory."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from quantgraph.state import DataState

THREAD = {"configurable": {"thread_id": "t"}}


def begin(play):
    return {"messages": [("user", play.SENTENCE)]}


def test_the_data_comes_back_from_the_spill_folder(play, graph_of, tmp_path):
    cast = play.Cast(fetch={}, code=lambda messages, turn: "1 / 0" if turn < 4 else play.GOOD_CODE)

    def opened():
        connection = sqlite3.connect(tmp_path / "checkpoints.sqlite", check_same_thread=False)
        store = DataState(tmp_path / "data")
        return graph_of(cast, store=store, checkpointer=SqliteSaver(connection)), store, connection

    graph, _, connection = opened()
    with closing(connection):
        waiting = graph.invoke(begin(play), THREAD)
    assert waiting["__interrupt__"][0].value["kind"] == "failure"
    graph, store, connection = opened()
    with closing(connection):
        final = graph.invoke(Command(resume="try again"), THREAD)
    assert final["ended_because"] == "done"
    assert cast.turns["fetch"] == 1, "what was fetched once is not fetched again"
    assert store.snapshot(final["data_ref"])["signal"]["up_day"].shape == (22, 1)


def test_without_a_spill_folder_the_run_ends_and_says_why(play, graph_of):
    saver = InMemorySaver()
    graph = graph_of(play.Cast(code="1 / 0"), store=DataState(), checkpointer=saver)
    assert "__interrupt__" in graph.invoke(begin(play), THREAD)
    final = graph_of(play.Cast(), store=DataState(), checkpointer=saver).invoke(
        Command(resume="again"), THREAD
    )
    assert final["ended_because"] == "data_unavailable"
    (line,) = final["error_messages"]
    assert line.startswith("unknown_commit: ")
    assert "give spill_dir" in line


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("role", ["fetch", "code", "review"])
def test_a_stop_in_any_node_is_resumed_without_doing_the_earlier_ones_again(play, graph_of, durability, role):
    cast = play.Cast(fetch={})
    cast.stops.add(role)
    graph = graph_of(cast, checkpointer=InMemorySaver())
    with pytest.raises(SystemError, match="switched off"):
        graph.invoke(begin(play), THREAD, durability=durability)
    final = graph.invoke(None, THREAD, durability=durability)
    assert final["ended_because"] == "done"
    assert cast.turns == {"reflect": 1, "fetch": 1, "code": 1, "review": 1}
