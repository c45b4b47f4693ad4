"""How to test one node or one route: ``pytest examples/test_one_node.py``. No key, no network, no graph."""

from __future__ import annotations

import json

from langchain_core.messages import HumanMessage

from quantgraph import DataState
from quantgraph.runtime import Resources
from quantgraph.runtime.graph_state import changed
from quantgraph.subgraphs.signal import SignalSubgraphState, reflection_node, route_from_reflection
from quantgraph.testing import ScriptedChatModel

REPLY = {
    "task_type": "signal_gen",
    "user_intent": {
        "type": "signal_gen",
        "params": {
            "ts_code": "990030.SH",
            "start_date": "20250101",
            "end_date": "20250630",
            "strategy_desc": "buy when the close is above its 20-day average",
        },
    },
}


def test_reflection_reads_what_the_model_replies_and_fetches_first() -> None:
    model = ScriptedChatModel([f"```json\n{json.dumps(REPLY)}\n```"])
    resources = Resources(model={"reflection": model}, store=DataState())
    state: SignalSubgraphState = {"messages": [HumanMessage("whatever the script answers to", id="1")]}

    update = reflection_node(state, resources=resources)

    assert update["quantgraph"]["request"]["checked"]["start"] == "20250101"
    assert update["data_ready"] is False
    assert route_from_reflection(changed(state, update)) == "data_fetch"
    assert len(model.calls) == 1


def test_a_question_comes_before_everything_else() -> None:
    state: SignalSubgraphState = {"messages": [], "clarification_needed": "which stocks?", "data_ready": True}
    assert route_from_reflection(state) == "clarify"
