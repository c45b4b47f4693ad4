#!/usr/bin/env python
"""Write what bt and vectorbt do with weights, entries and exits: tests/data/parity/weights.json.

usage: python scripts/parity_weights.py bt|vectorbt, each in an environment with that library.

Nothing of quantgraph is used. Rows are decided at a close and traded at the next open. bt trades parts of
shares, without costs and with those of the US, which it does not round; vectorbt trades 100 shares without
costs. The file has values of accounts and no price.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
PRICES = ROOT / ".." / "shared" / "data" / "ai-trader"
FILE = ROOT / "tests" / "data" / "parity" / "weights.json"
FIRST, CASH, PATHS, EVERY = "2025-06-10", 1_000_000.0, 10, 3
COMMISSION, ACTIVITY_FEE, MOST_OF_IT = 0.001, 0.000166, 8.30
"""Of an amount; of each share sold, and its most of a fill: FINRA, 2024 and 2025. The SEC's fee is 0 then."""


def panels() -> dict[str, pd.DataFrame]:
    """Opens of the symbols that have one in every session, under letters, which no A-share has."""
    rows = pd.concat(pd.read_csv(path) for path in sorted(PRICES.glob("a_share/daily_prices*.csv")))
    rows = rows.drop_duplicates(["ts_code", "trade_date"])
    rows["day"] = pd.to_datetime(rows.trade_date.astype(str))
    sse = rows.pivot_table(index="day", columns="ts_code", values="open")
    path = PRICES / "us" / "daily_prices_nasdaq_100_20250610_20251030.csv.gz"
    us = pd.read_csv(path, parse_dates=["date"]).pivot_table(index="date", columns="symbol", values="open")
    found = {}
    for name, traded in (("sse", sse), ("nasdaq", us)):
        opens = traded.loc[FIRST:].dropna(axis=1)
        opens.columns = [f"Q{chr(65 + at // 26)}{chr(65 + at % 26)}" for at in range(opens.shape[1])]
        found[name] = opens
    return found


def weights_of(opens: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Random weights of some symbols on every third row, with cash left; other rows are NaN."""
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(np.nan, index=opens.index, columns=opens.columns)
    for at in range(0, len(opens) - 1, EVERY):
        chosen = rng.random(opens.shape[1]) < rng.uniform(0.1, 0.9)
        drawn = rng.exponential(size=opens.shape[1]) * chosen
        made.iloc[at] = np.round(drawn / max(drawn.sum(), 1e-9) * rng.uniform(0.3, 0.97), 6)
    return made


def events_of(opens: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Random entries and exits, at times both."""
    rng = np.random.default_rng(seed)
    shape, labels = opens.shape, {"index": opens.index, "columns": opens.columns}
    return pd.DataFrame(rng.random(shape) < 0.05, **labels), pd.DataFrame(rng.random(shape) < 0.05, **labels)


def by_bt(opens: pd.DataFrame, weights: pd.DataFrame, commission: float) -> list[float]:
    """Values of the account after the trades of each open, in which a row is traded."""
    import bt

    def costs(shares: float, price: float) -> float:
        activity = min(MOST_OF_IT, -shares * ACTIVITY_FEE) if shares < 0 and commission else 0.0
        return abs(shares) * price * commission + activity

    targets = weights.shift(1).dropna(how="all")
    moves = bt.algos.RunOnDate(*targets.index), bt.algos.WeighTarget(targets), bt.algos.Rebalance()
    strategy = bt.Strategy("weights", [*moves])
    done = bt.Backtest(
        strategy, opens, initial_capital=CASH, commissions=costs, integer_positions=False, progress_bar=False
    )
    done.run()
    return [round(float(value), 4) for value in done.strategy.values.loc[targets.index]]


def by_vectorbt(opens: pd.DataFrame, entries: pd.DataFrame, exits: pd.DataFrame) -> float:
    """Value of the account at the last open."""
    import vectorbt as vbt

    traded = {
        "entries": (entries & ~exits).shift(1, fill_value=False),
        "exits": exits.shift(1, fill_value=False),
    }
    done = vbt.Portfolio.from_signals(
        opens, **traded, size=100, init_cash=10 * CASH, cash_sharing=True, group_by=True, freq="1D"
    )
    return round(float(done.value().iloc[-1]), 4)


def main() -> None:
    """Add a library's values to the file."""
    (library,) = sys.argv[1:]
    told: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    found: dict[str, list[Any]] = {}
    for name, opens in panels().items():
        for seed in range(PATHS):
            if library == "bt":
                weights = weights_of(opens, seed)
                values: Any = [by_bt(opens, weights, rate) for rate in (0.0, COMMISSION)]
            else:
                values = by_vectorbt(opens, *events_of(opens, seed))
            found.setdefault(name, []).append(values)
    told[library] = {"version": version(library), **found}
    FILE.write_text(json.dumps(told) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
