# %% [markdown]
# # Tutorial: from a sentence to a comparison
#
# One sentence in; an audited signal, trades in a ledger and a page to read come out. The data are
# quantgraph's built-in sample. They are synthetic: nothing here says anything about a market.

# %%
from quantgraph import run_strategy

sentence = (
    "members of 合成30, buy when the 5-day average crosses above the 20-day, sell when it crosses below, 2025"
)
result = run_strategy(sentence)
result

# %% [markdown]
# What was understood, word by word. What is not done would be named here, too.

# %%
print(*result.understanding, sep="\n")

# %% [markdown]
# The code that made the signal. It was run again for each session from what was known by then, and the signal
# stayed what it was: that is the look-ahead check of the first lines.

# %%
print(result.code)

# %% [markdown]
# ## Tables
#
# Everything that was traded is in the run's ledger, and comes as frames: round trips, fills, orders, equity,
# months, drawdowns and all numbers. `profit` counts all charges; `mae` and `mfe` are the worst and the best
# price on the way.

# %%
result.round_trips.nlargest(5, "profit")[
    ["ts_code", "opened", "closed", "quantity", "entry_price", "exit_price", "profit", "return", "mae", "mfe"]
]

# %%
result.orders["code"].replace("", "filled").value_counts()

# %%
result.monthly.mul(100).round(1)

# %%
result.drawdowns.head(3)

# %%
result.metrics.loc[["return", "sharpe", "max_drawdown", "win_rate"]].round(3)

# %% [markdown]
# ## The page
#
# `report()` writes one page with all of it: figures, curves, each trade on its chart with its reasons, every
# number with its formula. It opens offline, and gets the same bytes when it is written again. Beside it lies
# a card to share. `result.plot()` draws the curves here, to hover over.

# %%
from IPython.display import SVG

page = result.report()
print(page)
SVG(filename=page.with_name("report.svg"))

# %% [markdown]
# ## Two runs
#
# Another rule, and what is different: first the numbers, then what was said.

# %%
from quantgraph.runs import compare, list_runs

other = run_strategy("members of 合成30, buy when RSI(14) is below 30, sell above 70, 2025")
both = compare(result, other)
both.numbers.set_axis(["crossover", "RSI"], axis=1).loc[
    ["return", "max_drawdown", "sharpe", "trades", "turnover"]
]

# %%
list_runs("runs")[["sentence", "ended", "return", "max_drawdown"]].reset_index(drop=True)

# %% [markdown]
# ## Again, byte for byte
#
# A replay needs no data, model or network: everything the run was told is in its folder.

# %%
from quantgraph.runs import replay

replay(result.folder)

# %% [markdown]
# ## Your own prices
#
# A frame, frames by symbol, or a file. Which column was taken for what is the first thing it tells.

# %%
import numpy as np
import pandas as pd

from quantgraph import open_source

days = pd.bdate_range("2024-01-02", periods=250, name="Date", tz="America/New_York")
close = 100 + 10 * np.sin(np.arange(250) / 9)
frame = pd.DataFrame(
    {"Open": close, "High": close + 1, "Low": close - 1, "Close": close, "Volume": 1_000_000}, index=days
)
source = open_source({"WAVE": frame})
print(*source.provenance("en"), sep="\n")

# %%
run_strategy("5-day average crosses above the 20-day average buy, below sell", symbols="WAVE", source=source)
