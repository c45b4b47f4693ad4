# %% [markdown]
# # Inside your own LangGraph app
#
# Both graphs are ordinary compiled graphs: nodes of yours, with your checkpointer, your stream and your
# state. The data are quantgraph's built-in sample, which is synthetic.

# %%
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from quantgraph import GLOBAL_DATA_STATE, create_signal_subgraph


class DeskState(MessagesState):
    """What the desk keeps; fields of these names come back from the subgraph."""

    data_ref: str
    quantgraph: dict[str, Any]
    ended_because: str
    verdict: str


def judge(state: DeskState) -> dict[str, Any]:
    """Look at the signal, as a desk would before it trades."""
    signal = GLOBAL_DATA_STATE.snapshot(state["data_ref"])["signal"][state["quantgraph"]["strategy"]["name"]]
    buys = int((signal == 1).sum().sum())
    return {"verdict": f"{state['quantgraph']['strategy']['name']}: {buys} buys over {len(signal)} sessions"}


builder = StateGraph(DeskState)
builder.add_node("signal", create_signal_subgraph())
builder.add_node("judge", judge)
builder.add_edge(START, "signal")
builder.add_conditional_edges(
    "signal", lambda state: "judge" if state["ended_because"] == "done" else END, ["judge", END]
)
builder.add_edge("judge", END)
desk = builder.compile(checkpointer=InMemorySaver())

# %% [markdown]
# Its picture, drawn where Mermaid is shown, as in JupyterLab; `get_graph(xray=True)` opens the subgraph.

# %%
from IPython.display import Markdown

Markdown(f"```mermaid\n{desk.get_graph().draw_mermaid()}```")

# %% [markdown]
# ## A question interrupts the host
#
# The sentence does not say which stocks. The subgraph asks; the whole graph waits, in your checkpointer.

# %%
thread = {"configurable": {"thread_id": "desk-1"}}
sentence = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below, 2025"
state = desk.invoke({"messages": [("user", sentence)]}, thread)
question = state["__interrupt__"][0].value
print(question["question"])

# %%
state = desk.invoke(Command(resume="members of 合成30"), thread)
state["ended_because"], state["verdict"]

# %% [markdown]
# ## What was proved
#
# The code of the signal was run with other futures, and its signal held against the first one.

# %%
state["quantgraph"]["progress"]["validation"]["data_summary"]["causality"]["text"]

# %% [markdown]
# Frames are not in the state. `data_ref` names the commit that holds them.

# %%
GLOBAL_DATA_STATE.snapshot(state["data_ref"])["signal"][state["quantgraph"]["strategy"]["name"]].iloc[-3:, :4]

# %% [markdown]
# ## Signals to trades
#
# The trading graph has that subgraph inside, and goes on: one session a turn, decided at the open from what
# was known then. It is a node, too. The node behind it reads the summary that comes back, a plain dict in
# the state: as a `RunResult` it has its tables, its numbers and its picture.

# %%
from quantgraph import create_trading_graph
from quantgraph.runs import RunResult


class FundState(MessagesState):
    """What the fund keeps."""

    summary: dict[str, Any]
    verdict: str


def review(state: FundState) -> dict[str, Any]:
    """Hold the account against buy-and-hold."""
    equity = RunResult(state["summary"]).equity
    gained = equity.iloc[-1] / equity.iloc[0] - 1
    return {"verdict": "keep" if gained["account"] > gained["benchmark"] else "drop"}


builder = StateGraph(FundState)
builder.add_node("trading", create_trading_graph(cash=1_000_000))
builder.add_node("review", review)
builder.add_edge(START, "trading")
builder.add_edge("trading", "review")
builder.add_edge("review", END)
fund = builder.compile()
Markdown(f"```mermaid\n{fund.get_graph().draw_mermaid()}```")

# %% [markdown]
# The stream of your graph has the events of both: here each session is counted as it is traded.

# %%
asked = {"messages": [("user", f"members of 合成30, {sentence}")]}
sessions, final = 0, {}
for namespace, mode, part in fund.stream(asked, stream_mode=["custom", "values"], subgraphs=True):
    if mode == "values":
        final = final if namespace else part
    elif part["event"] == "quantgraph.session":
        sessions += 1
print(sessions, "sessions;", final["messages"][-1].text)
print("verdict:", final["verdict"])

# %%
result = RunResult(final["summary"])
result

# %%
result.returns.describe().round(4)

# %% [markdown]
# ## Another decider
#
# A decider may think for itself. This one decides each symbol step by step; every step is kept, and one
# execution is a picture.

# %%
from quantgraph import run_strategy
from quantgraph.agents.execution import draw_execution
from quantgraph.broker.ledger import Ledger

stepwise = run_strategy("execution agent on 600958.SH, 20250102 to 20250106", decider="execution")
with Ledger(stepwise.folder / "ledger.sqlite") as ledger:
    executions = ledger.executions(stepwise["run_id"])
draw_execution(executions[1])
