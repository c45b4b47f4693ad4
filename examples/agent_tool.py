"""The signal subgraph as a tool of an agent: its question passes through the tool to whoever runs the agent.

Here a script plays the agent's model. A real one, such as ChatOpenAI(...), calls the tool by its docstring.
"""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from quantgraph import GLOBAL_DATA_STATE, create_signal_subgraph
from quantgraph.testing import ScriptedChatModel

signal = create_signal_subgraph()  # without a checkpointer: inside the tool it uses the agent's


@tool
def make_signal(request: str) -> str:
    """Count the buy and sell signals of a rule. The request names the stocks, the rule and the dates."""
    state = signal.invoke({"messages": [("user", request)]})  # after an answer LangGraph calls the tool again
    if state["ended_because"] != "done":
        return str(state["messages"][-1].text)
    name = state["quantgraph"]["strategy"]["name"]
    frame = GLOBAL_DATA_STATE.snapshot(state["data_ref"])["signal"][name]
    return f"{name}: {(frame == 1).sum().sum()} times buy, {(frame == -1).sum().sum()} times sell"


def call_once(messages: list[BaseMessage]) -> AIMessage:
    """Pass the user's words to the tool, then its result to the user."""
    if messages[-1].type == "tool":
        return AIMessage(f"The signal is there. {messages[-1].text}.")
    call = {"name": "make_signal", "args": {"request": messages[-1].text}, "id": "1"}
    return AIMessage("", tool_calls=[call])


if __name__ == "__main__":
    agent = create_agent(ScriptedChatModel(call_once), [make_signal], checkpointer=InMemorySaver())
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    rule = "buy when RSI(14) is below 30, sell when it is above 70, 2025"
    state = agent.invoke({"messages": [HumanMessage(rule)]}, thread)
    print(state["__interrupt__"][0].value["question"])
    state = agent.invoke(Command(resume="000341.SZ"), thread)
    print(state["messages"][-1].text)
