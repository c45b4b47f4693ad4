"""A graph of ours as a tool: one argument, the closing text, and questions that reach whoever runs the agent."""

import asyncio
import json

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from quantgraph import create_signal_subgraph, create_trading_graph
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.testing import ScriptedChatModel

pytestmark = pytest.mark.filterwarnings("ignore:This API is in beta")
RULE = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"


def graph_of(make):
    return make(resources=Resources(store=DataState()), source="sample")


@pytest.mark.parametrize(
    ("make", "start"),
    [
        (create_signal_subgraph, "Signal cross_up_sma_5_sma_20 is ready"),
        (create_trading_graph, "Synthetic data: "),
    ],
)
def test_it_takes_the_request_in_one_text_and_returns_the_closing_one(make, start):
    tool, asked = graph_of(make).as_tool(name="backtest"), {"request": f"000341.SZ, {RULE}, 2025"}
    assert [*tool.args] == ["request"]
    assert len(json.dumps(tool.tool_call_schema.model_json_schema())) < 600
    assert tool.invoke(asked).startswith(start)
    assert asyncio.run(tool.ainvoke(asked)).startswith(start)


def test_its_question_interrupts_the_agent_and_the_answer_goes_on():
    def speak(messages):
        if messages[-1].type == "tool":
            return AIMessage(messages[-1].text)
        return AIMessage(
            "", tool_calls=[{"name": "signal", "args": {"request": messages[-1].text}, "id": "1"}]
        )

    tool = graph_of(create_signal_subgraph).as_tool()
    agent = create_agent(ScriptedChatModel(speak), [tool], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    asked = agent.invoke({"messages": [("user", f"{RULE}, 2025")]}, thread)["__interrupt__"][0].value
    assert asked["kind"] == "symbol"
    told = agent.invoke(Command(resume="000341.SZ"), thread)
    assert told["messages"][-1].text.startswith("Signal cross_up_sma_5_sma_20 is ready")


def test_with_a_schema_of_ones_own_it_is_langchains():
    tool = graph_of(create_signal_subgraph).as_tool(
        arg_types={"messages": list}, name="own", description="mine"
    )
    assert [*tool.args] == ["messages"]
