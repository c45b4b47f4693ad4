"""The trading graph as a subagent of a deep agent: its question interrupts the agent, an answer resumes it.

    pip install deepagents

Here a script plays the deep agent's model. A real one, such as ChatOpenAI(...), delegates by the description.
"""

from __future__ import annotations

from deepagents import CompiledSubAgent, create_deep_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from quantgraph import create_trading_graph
from quantgraph.testing import ScriptedChatModel

TASK = "000341.SZ, buy when the 5-day average crosses above the 20-day average, sell when it crosses below"


def delegate(messages: list[BaseMessage]) -> AIMessage:
    """Give the task to the subagent, then tell the user what came of it."""
    if messages[-1].type == "tool":
        return AIMessage(f"The backtest is there. {messages[-1].text}")
    task = {"description": TASK, "subagent_type": "backtest"}
    return AIMessage("", tool_calls=[{"name": "task", "args": task, "id": "1"}])


if __name__ == "__main__":
    backtest = CompiledSubAgent(
        name="backtest",
        description="Backtests a trading rule. Each task names the stocks, the rule and the dates.",
        runnable=create_trading_graph(),
    )
    model = ScriptedChatModel(delegate)
    agent = create_deep_agent(model, subagents=[backtest], checkpointer=InMemorySaver())
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    question = HumanMessage("Does a crossing of averages pay on 000341.SZ?")
    state = agent.invoke({"messages": [question]}, thread)
    print(state["__interrupt__"][0].value["question"])
    state = agent.invoke(Command(resume="2025"), thread)
    print(state["messages"][-1].text)
