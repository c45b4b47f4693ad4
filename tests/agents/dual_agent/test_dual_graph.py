"""The subgraph alone: from features, or from a data state and a moment; with one repair; and what its state lacks."""

from typing import Any

import pytest
from dual_agent_models import Models, decision, item
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from quantgraph.agents.dual_agent import create_dual_agent_subgraph
from quantgraph.agents.dual_agent._graph import DualAgentState
from quantgraph.errors import BadOption, BadWindow, UnknownSymbol
from quantgraph.runtime import Resources

FILTERED = {"features": {"filter": True}}


def test_it_decides_from_features_and_repairs_one_symbol(features):
    models = Models(
        {"AAPL": decision("increase", 7_500), "TSLA": decision("increase", 1)}, {"TSLA": decision("close")}
    )
    graph = create_dual_agent_subgraph(model=models.model, cfg=FILTERED)
    steps = [next(iter(step)) for step in graph.stream({"features_list": features, "cash": 50_000})]
    assert steps == ["begin", "think", *["think", "act", "observe"] * 2]


def test_it_works_inside_of_another_graph(features):
    models = Models({"AAPL": decision("increase", 7_500), "TSLA": decision("hold")})
    host = StateGraph(DualAgentState)
    host.add_node("desk", create_dual_agent_subgraph(model=models.model, cfg=FILTERED))
    host.add_edge(START, "desk")
    host.add_edge("desk", END)
    done = host.compile().invoke({"features_list": features, "cash": 50_000})
    assert done["decisions"]["AAPL"]["cash_change"] == 2_500
    assert done["reasoning"] == {"AAPL": "why AAPL"}
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
    [
        ({"cash": 5}, "neither data_ref nor features_list"),
        ({"data_ref": "x"}, "has no moment"),
        ({"data_ref": "x", "features_list": [item("AAPL")]}, "both data_ref and features_list"),
        ({"features_list": [item(f"S{number}") for number in range(51)]}, "51 symbols; .* at most 50"),
        ({"features_list": [item("AAPL")], "account": {}}, "is not an account"),
    ],
)
def test_a_state_that_lacks_something(state, told):
    with pytest.raises(BadOption, match=told):
        create_dual_agent_subgraph(model="keyless").invoke(state)


class Sharing(TypedDict, total=False):
    """A host that shares the features and the counts, and no draft."""

    data_ref: str
    moment: str
    symbols: list[str]
    cash: float
    features: list[dict[str, Any]]
    decisions: dict[str, dict[str, Any]]
    meta: dict[str, Any]


@pytest.mark.parametrize("schema", [DualAgentState, Sharing])
def test_each_moment_of_a_thread_is_decided_on_its_own_features(small_market, schema):
    market = small_market({"AAPL": [float(100 + day) for day in range(9)]})
    models = Models(*[{"AAPL": decision("hold")}] * 3)
    host = StateGraph(schema)
    resources = Resources(store=market.store)
    host.add_node("desk", create_dual_agent_subgraph(model=models.model, resources=resources))
    host.add_edge(START, "desk")
    host.add_edge("desk", END)
    graph, thread = host.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "one"}}
    done = [
        graph.invoke({"data_ref": market.ref, "moment": day, "cash": 1_000}, thread)
        for day in ("20240109", "20240110", "20240111")
    ]
    shown = models.facts
    assert [each["date"] for each in shown] == ["2024-01-09", "2024-01-10", "2024-01-11"]
    # The market opens where it closes, at 100 and one more each weekday from 2024-01-01 on.
    assert [each["symbols"]["AAPL"]["open"] for each in shown] == [106.0, 107.0, 108.0]
    assert [each["decisions"]["AAPL"]["timestamp"][:10] for each in done] == [each["date"] for each in shown]
    assert [each["meta"]["calls"] for each in done] == [1, 1, 1]


def test_a_rejected_order_is_renewed_alone_and_once(features):
    models = Models(
        {"AAPL": decision("increase", 9_000), "TSLA": decision("increase", 4_000)},
        {"AAPL": decision("increase", 6_000)},
        {"AAPL": decision("hold"), "TSLA": decision("hold")},
    )
    host = StateGraph(DualAgentState)
    host.add_node("desk", create_dual_agent_subgraph(model=models.model, cfg=FILTERED))
    host.add_edge(START, "desk")
    host.add_edge("desk", END)
    graph, thread = host.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "one"}}
    first = graph.invoke({"features_list": features, "cash": 50_000}, thread)
    refused = {"symbol": "AAPL", "reason": "limit_up", "retry_count": 2}
    second = graph.invoke({"rejected_orders": [refused]}, thread)
    assert second["decisions"]["AAPL"]["target_cash_amount"] == 6_000
    assert second["decisions"]["TSLA"] == first["decisions"]["TSLA"]
    assert second["meta"]["calls"] == 2
    third = graph.invoke({"features_list": features}, thread)
    assert {each["hold_reason"] for each in third["decisions"].values()} == {"model"}


def test_what_the_data_does_not_have_is_refused(small_market):
    market = small_market({"AAPL": [100.0] * 9})
    graph = create_dual_agent_subgraph(model="keyless", resources=Resources(store=market.store))
    with pytest.raises(BadWindow, match="20240106"):  # a Saturday
        graph.invoke({"data_ref": market.ref, "moment": "20240106"})
    for symbols, error in ((["ZZZ"], UnknownSymbol), (["AAPL", "AAPL"], BadOption), ([" "], BadOption)):
        with pytest.raises(error, match=r"ZZZ|AAPL is listed twice|' ' is not a symbol"):
            graph.invoke({"data_ref": market.ref, "moment": "20240109", "symbols": symbols})
