"""The keys that LangGraph does not document are there and mean what we take them for."""

from __future__ import annotations

from dataclasses import fields

from langgraph._internal import _constants
from langgraph._internal._scratchpad import PregelScratchpad
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from quantgraph.runtime import _run_node as nested_graphs


def test_the_keys_are_langgraphs():
    assert nested_graphs._CALL == _constants.CONFIG_KEY_CALL
    assert nested_graphs._CHECKPOINTER == _constants.CONFIG_KEY_CHECKPOINTER
    assert nested_graphs._DURABILITY == _constants.CONFIG_KEY_DURABILITY
    assert nested_graphs._RESUME_MAP == _constants.CONFIG_KEY_RESUME_MAP
    assert nested_graphs._PLAIN_RESUME == _constants.NULL_TASK_ID
    assert _constants.CONFIG_KEY_CHECKPOINT_MAP == "checkpoint_map"
    assert nested_graphs._SCRATCHPAD == _constants.CONFIG_KEY_SCRATCHPAD
    assert {"resume", "get_null_resume"} <= {field.name for field in fields(PregelScratchpad)}


def test_a_graph_knows_whether_it_is_remembered():
    seen = []

    def node(state):
        seen.append(nested_graphs.has_checkpointer())
        return {}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    thread = {"configurable": {"thread_id": "t"}}
    builder.compile(checkpointer=InMemorySaver()).invoke({"messages": []}, thread)
    builder.compile().invoke({"messages": []}, thread)
    assert seen == [True, False]
    assert nested_graphs.has_checkpointer()
