"""A notebook shows the graphs without asking a server."""

from __future__ import annotations

import socket

import pytest
from langgraph.graph.state import CompiledStateGraph

from quantgraph import create_signal_subgraph, create_trading_graph
from quantgraph.agents.dual_agent import create_dual_agent_subgraph
from quantgraph.agents.execution import create_execution_subgraph
from quantgraph.agents.trader import create_trader_subgraph


@pytest.mark.parametrize(
    ("make", "nodes"),
    [
        (create_signal_subgraph, ["reflection", "data_fetch", "signal_generate", "validate", "clarify"]),
        (create_trading_graph, ["signal", "daily_loop", "decision", "report"]),
        (create_dual_agent_subgraph, ["begin", "think", "act", "observe"]),
        (create_execution_subgraph, ["begin", "think", "act", "observe"]),
        (create_trader_subgraph, ["begin", "think", "act", "observe"]),
    ],
)
def test_a_graph_is_shown_as_mermaid_text(make, nodes, monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("it is sent away"))
    graph = make()
    assert isinstance(graph, CompiledStateGraph)
    for each in (graph, graph.with_config(tags=["mine"])):
        shown = each._repr_mimebundle_(include=None, exclude=None)
        assert set(shown) == {"text/plain", "text/vnd.mermaid"}
        for node in nodes:
            assert f"{node}({node})" in shown["text/plain"]
