"""Follow-ups in a host whose state has messages alone: each message changes the request before it.

The message that ends a request carries the request, so the host needs no field of ours.
"""

from __future__ import annotations

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from quantgraph import create_signal_subgraph

TALK = (
    "000341.SZ, buy when the close crosses above its 20-day average, sell when it crosses below, 2025",
    "now use 30 days",
    "换成000343.SZ",
    "2024",
    "thanks",
)


def show(state: MessagesState) -> None:
    """Print the request that the newest message on the thread ended."""
    closing = state["messages"][-1]
    if request := closing.additional_kwargs.get("quantgraph", {}).get("last_request"):
        print(request["ts_code"], request["start_date"], request["end_date"], request["entry"], sep=" | ")
    else:
        print(closing.text)


if __name__ == "__main__":
    builder = StateGraph(MessagesState)
    builder.add_node("signal", create_signal_subgraph())
    builder.add_node("show", show)
    builder.add_edge(START, "signal")
    builder.add_edge("signal", "show")
    host = builder.compile(checkpointer=InMemorySaver())
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    for text in TALK:
        print(">", text)
        host.invoke({"messages": [HumanMessage(text)]}, thread)
