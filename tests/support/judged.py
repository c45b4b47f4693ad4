"""Runs to judge: signals traded over prices, and accounts of given returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from quantgraph.agents import SignalRule
from quantgraph.broker import Market, TradePlan
from quantgraph.broker.ledger import CHARGES, Ledger, OrderTable
from quantgraph.broker.session import run_sessions
from quantgraph.judgement import Circumstances, Tries, judge
from quantgraph.market import Rulebook, sessions
from quantgraph.report import summarise
from quantgraph.state import DataState

NOTHING = Circumstances()


def walk(seed: int, count: int, symbols: int = 5, drift: float = 0.0003) -> dict[str, pd.DataFrame]:
    """Opens and closes in cents of so many sessions from 2018 on."""
    random = np.random.default_rng(seed)
    days = sessions("2018-01-02", "2024-12-31")[:count]
    steps = random.normal(drift / 2, 0.011, (2 * count, symbols)).cumsum(axis=0)
    codes = [f"60{place:04d}.SH" for place in range(1, symbols + 1)]
    prices = 20 * np.exp(steps).round(6)
    frames = {"open": prices[::2].round(2), "close": prices[1::2].round(2)}
    made = {name: pd.DataFrame(values, days, codes) for name, values in frames.items()}
    sides = {"high": np.maximum(made["open"], made["close"]), "low": np.minimum(made["open"], made["close"])}
    return made | sides | {"pre_close": made["close"].shift().fillna(made["open"])}


def judged(
    bars: Mapping[str, pd.DataFrame],
    signal: pd.DataFrame,
    *,
    plan: TradePlan | None = None,
    tries: Tries | None = None,
    rules: Rulebook | None = None,
    circumstances: Circumstances = NOTHING,
) -> dict[str, Any]:
    """The judgement of a signal that is traded over bars."""
    store = DataState()
    store.update("ohlcv", dict(bars))
    ref = store.update("signal", {"s": signal})
    market = Market(store=store, data_ref=ref, rules=rules or Rulebook.mainland(), blocks_from=0)
    days, cash = bars["close"].index, Decimal(1_000_000)
    with TemporaryDirectory() as folder, Ledger(Path(folder) / "ledger.sqlite") as ledger:
        run_sessions(
            market, days, SignalRule(), cash=cash, ledger=ledger, run_id="r", plan=plan or TradePlan()
        )
        summary = summarise(
            ledger,
            "r",
            market,
            days,
            signal="s",
            cash=cash,
            judge=lambda run, against: judge(run, against, tries or Tries(), circumstances),
        )
    found: dict[str, Any] = summary["judgement"]
    return found


@dataclass
class AccountOf:
    """An account of given returns, half of it invested, that opened and closed two positions."""

    returns: np.ndarray
    events: tuple[()] = ()
    round_trips: Mapping[str, Any] = field(default_factory=lambda: {"round_trips": 2, "profits": [1.0, 1.0]})

    @cached_property
    def index(self) -> pd.DatetimeIndex:
        """A session for each return."""
        return sessions("2010-01-04", "2024-12-31")[: len(self.returns)]

    @cached_property
    def values(self) -> pd.Series:
        """The initial cash, and a value for each session."""
        days = self.index.insert(0, self.index[0] - pd.Timedelta(days=1))
        return pd.Series(1e6 * np.cumprod([1.0, *(1 + self.returns)]), days)

    @cached_property
    def days(self) -> pd.DataFrame:
        """The sums of each session; all of the gain is realised."""
        value = self.values.iloc[1:]
        realised = np.diff(self.values.to_numpy())
        columns = {"value": value, "stocks": value / 2, "realised": realised, "traded": 4.0}
        columns |= dict.fromkeys((*CHARGES, "dividends"), 0.0) | {"fills": 1.0}
        return pd.DataFrame(columns, self.index)

    @cached_property
    def orders(self) -> OrderTable:
        """Two purchases of one share at 1, and their sales."""
        day, one = f"{self.index[0]:%Y-%m-%d}", [10_000] * 4
        flags = np.zeros(4, dtype=bool)
        return OrderTable(
            days=(day, f"{self.index[1]:%Y-%m-%d}"),
            symbols=("600001.SH", "600002.SH"),
            day=np.array([0, 0, 1, 1]),
            symbol=np.array([0, 1, 0, 1]),
            wishes_to_buy=~flags,
            sells=np.array([False, False, True, True]),
            at_open=~flags,
            by_plan=flags,
            refused=[None] * 4,
            quantity=one,
            price=one,
            cost=[0] * 4,
            digits=4,
        )

    @property
    def bars(self) -> dict[str, pd.DataFrame]:
        """Prices of 1."""
        ones = pd.DataFrame(1.0, self.index, ["600001.SH", "600002.SH"])
        return {"open": ones, "close": ones}

    def judged(self, benchmark: np.ndarray, tries: Tries | None = None) -> dict[str, Any]:
        """Its judgement beside a benchmark of given returns."""
        against = pd.Series(1e6 * np.cumprod([1.0, *(1 + benchmark)]), self.values.index)
        return judge(
            SimpleNamespace(**{name: getattr(self, name) for name in _PARTS}),
            against,
            tries or Tries(),
            NOTHING,
        )


_PARTS = ("values", "days", "orders", "events", "bars", "round_trips")
