"""The subgraph alone: from features, or from a data state and a moment; with one repair; and what its state lacks."""

import pytest
from dual_agent_models import Models, decision
from langgraph.graph import END, START, StateGraph

from quantgraph.agents.dual_agent import DualAgentState, create_dual_agent_subgraph
from quantgraph.errors import BadOption
from quantgraph.runtime.resources import Resources


def test_it_decides_from_features_and_repairs_one_symbol(features):
    models = Models(
        {"AAPL": decision("increase", 7_500), "TSLA": decision("increase", 1)}, {"TSLA": decision("close")}
    )
    graph = create_dual_agent_subgraph(model=models.model)
    steps = [next(iter(step)) for step in graph.stream({"features_list": features, "cash": 50_000})]
    assert steps == ["filter", "features", "decide", "retry", "decide", "validate"]


def test_it_works_inside_of_another_graph(features):
    models = Models({"AAPL": decision("increase", 7_500), "TSLA": decision("hold")})
    host = StateGraph(DualAgentState)
    host.add_node("desk", create_dual_agent_subgraph(model=models.model))
    host.add_edge(START, "desk")
    host.add_edge("desk", END)
    done = host.compile().invoke({"features_list": features, "cash": 50_000})
    assert done["decisions"]["AAPL"]["cash_change"] == 2_500
    assert done["reasoning"]["TSLA"] == "why TSLA"
    assert done["meta"]["calls"] == 2


def test_it_decides_from_a_data_state_at_a_moment(small_market):
    market = small_market({"AAPL": [100.0] * 9, "MSFT": [200.0] * 9})
    models = Models({"AAPL": decision("increase", 5_000), "MSFT": decision("hold")})
    graph = create_dual_agent_subgraph(model=models.model, resources=Resources(store=market.store))
    state = {"data_ref": market.ref, "moment": "20240111", "cash": 20_000}
    done = graph.invoke(state)
    assert done["decisions"]["AAPL"]["target_cash_amount"] == 5_000
    assert done["features"][0]["features"]["market_data"] == {
        "ticker": "AAPL",
        "open": 100.0,
        "close_7d": [100.0] * 7,
        "date": "2024-01-11",
    }
    assert done["decisions"]["AAPL"]["timestamp"] == "2024-01-11T09:00:00"


def test_without_a_key_it_answers_by_a_rule(features, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = create_dual_agent_subgraph().invoke({"features_list": features, "cash": 50_000})
    assert all("keyless" in each["reasons"][0] for each in done["decisions"].values())


@pytest.mark.parametrize(
    ("state", "told"),
    [({"cash": 5}, "neither data_ref nor features_list"), ({"data_ref": "x"}, "needs a moment")],
)
def test_a_state_that_lacks_something(state, told):
    with pytest.raises(BadOption, match=told):
        create_dual_agent_subgraph(model="keyless").invoke(state)
