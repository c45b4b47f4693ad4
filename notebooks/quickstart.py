# %% [markdown]
# # From a sentence to trades
#
# The data are quantgraph's built-in sample. They are synthetic: nothing here says anything about a market.

# %%
from quantgraph import GLOBAL_DATA_STATE, create_signal_subgraph

graph = create_signal_subgraph()
print(graph.get_graph(xray=True).draw_mermaid())

# %% [markdown]
# A sentence goes in. The state that comes out says how it ended, how the sentence was understood,
# and which code made the signal.

# %%
sentence = "合成30成分股，MACD金叉买入，死叉卖出，2025年"
state = graph.invoke({"messages": [("user", sentence)]})
state["ended_because"], state["request"]

# %%
print(state["strategy"]["cells"][-1])

# %% [markdown]
# Frames are not in the state. `data_ref` names the commit that holds them.

# %%
signal = GLOBAL_DATA_STATE.snapshot(state["data_ref"])["signal"][state["strategy"]["name"]]
signal.tail()

# %% [markdown]
# The trading graph does the same and goes on: one session a turn, decided at the open from the signal of
# the session before.

# %%
from quantgraph import create_trading_graph

trading = create_trading_graph(cash=1_000_000)
summary = trading.invoke({"messages": [("user", sentence)]})["summary"]
{part: summary[part] for part in ("account", "benchmark")}

# %%
import pandas as pd

equity = pd.DataFrame(
    {name: summary["equity"][name] for name in ("account", "benchmark")},
    index=pd.to_datetime(summary["equity"]["sessions"]),
)
equity.iloc[::40]

# %% [markdown]
# Another decider is an agent that decides each symbol step by step. Every step is kept; one execution as
# a picture:

# %%
import tempfile

from quantgraph import run_strategy
from quantgraph.broker import Ledger
from quantgraph.report import draw_execution

desk = "execution agent on 600958.SH, 20250102 to 20250106"
done = run_strategy(desk, decider="execution", out=tempfile.mkdtemp())
with Ledger(f"{done['run_dir']}/ledger.sqlite") as ledger:
    executions = ledger.executions(done["run_id"])
draw_execution(executions[1])
