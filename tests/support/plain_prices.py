"""The price files in plain pandas, and what a sentence means on them: what the product's signals are held against."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
Bars = Mapping[str, Any]
"""Frames of the fields, ``adj_`` those of adjusted prices, and ``level``, the closes of the SSE 50 index."""


def cell(name: str, *changes: tuple[str, str]) -> str:
    """A cell that a model wrote, with changes that mend it or break it."""
    text = Path(SHARED, "model-replies", "cells", f"{name}.py").read_text(encoding="utf-8")
    for before, after in changes:
        assert before in text, (name, before)
        text = text.replace(before, after)
    return text


@cache
def a_share() -> Bars:
    """Frames of all prices, the closes adjusted by each ex-day's reference price, and the levels of the index."""
    folder = SHARED / "ai-trader" / "a_share"
    rows = pd.concat(pd.read_csv(path) for path in sorted(folder.glob("daily_prices*.csv")))
    rows = rows.drop_duplicates(["ts_code", "trade_date"])
    rows["day"] = pd.to_datetime(rows.trade_date.astype(str))
    fields = ("open", "high", "low", "close", "pre_close", "vol")
    made = {name: rows.pivot(index="day", columns="ts_code", values=name) for name in fields}
    steps = {
        code: made["close"][code].dropna().shift(1) / made["pre_close"][code].dropna()
        for code in made["close"]
    }
    factor = pd.DataFrame(steps).fillna(1.0).cumprod().reindex(made["close"].index).ffill().round(10)
    made |= {f"adj_{name}": made[name] * factor for name in ("high", "low", "close")}
    levels = {}
    for path in sorted(folder.glob("index_daily*.json")):
        days = json.loads(path.read_text(encoding="utf-8"))["Time Series (Daily)"]
        levels |= {pd.Timestamp(day): float(row["4. close"]) for day, row in days.items()}
    return made | {"level": pd.Series(levels).sort_index().reindex(made["close"].index)}


@cache
def nasdaq() -> Bars:
    """Frames of the prices as traded."""
    path = SHARED / "ai-trader" / "us" / "daily_prices_nasdaq_100_20250610_20251030.csv.gz"
    rows = pd.read_csv(path, parse_dates=["date"]).rename(columns={"volume": "vol"})
    fields = ("open", "high", "low", "close", "vol")
    made = {name: rows.pivot(index="date", columns="symbol", values=name) for name in fields}
    return made | {f"adj_{name}": made[name] for name in ("high", "low", "close")}


def own(frame: pd.DataFrame, function: Callable[[pd.Series], pd.Series]) -> pd.DataFrame:
    """A function of each stock's own sessions."""
    return pd.DataFrame({code: function(frame[code].dropna()) for code in frame}).reindex(frame.index)


def mean(frame: pd.DataFrame, n: int) -> pd.DataFrame:
    return own(frame, lambda s: s.rolling(n).mean())


def before(frame: pd.DataFrame, n: int = 1) -> pd.DataFrame:
    return own(frame, lambda s: s.shift(n))


def change(frame: pd.DataFrame, n: int) -> pd.DataFrame:
    return own(frame, lambda s: s / s.shift(n) - 1)


def ups(fast: pd.DataFrame, slow: pd.DataFrame) -> pd.DataFrame:
    """Where one line crosses above another."""
    gap = fast - slow
    return (gap > 0) & (before(gap) <= 0)


def marks(buy: Any, sell: Any, like: pd.DataFrame) -> pd.DataFrame:
    """1 and -1 where it is bought and sold; selling wins."""
    made = np.zeros(like.shape)
    made[np.broadcast_to(np.asarray(buy), like.shape)] = 1
    made[np.broadcast_to(np.asarray(sell), like.shape)] = -1
    return pd.DataFrame(made, index=like.index, columns=like.columns)


def rsi(frame: pd.DataFrame, n: int) -> pd.DataFrame:
    """Wilder's index: an average of the first n changes, smoothed by 1/n."""

    def of(s: pd.Series) -> pd.Series:
        steps, made = s.diff().to_numpy(), np.full(len(s), np.nan)
        up, down = steps[1 : n + 1].clip(0).mean(), -steps[1 : n + 1].clip(None, 0).mean()
        for t in range(n, len(s)):
            if t > n:
                up, down = (up * (n - 1) + max(steps[t], 0)) / n, (down * (n - 1) - min(steps[t], 0)) / n
            made[t] = 100 * up / (up + down)
        return pd.Series(made, index=s.index)

    return own(frame, of)


def firsts(index: pd.DatetimeIndex, period: str) -> Any:
    """The first sessions of a week or month, as a column."""
    names = index.to_period(period)
    return np.append(True, names[1:] != names[:-1])[:, None]


def best(score: pd.DataFrame, n: int) -> pd.DataFrame:
    return score.rank(axis=1, ascending=False, method="first") <= n


def path(enter: pd.DataFrame, leaves: Callable[[str, int, int], bool]) -> pd.DataFrame:
    """Entries and exits of each stock; ``leaves`` is asked with the code, the row and the entry's row."""
    made = np.zeros(enter.shape)
    for column, code in enumerate(enter):
        entered: int | None = None
        for row, begins in enumerate(enter[code]):
            if entered is None and begins:
                made[row, column], entered = 1, row
            elif entered is not None and leaves(code, row, entered):
                made[row, column], entered = -1, None
    return pd.DataFrame(made, index=enter.index, columns=enter.columns)


def positions(signal: pd.DataFrame) -> pd.DataFrame:
    """1 while held, else 0, from nothing held."""
    return signal.where(signal != 0).ffill().fillna(-1).clip(0)


def assert_right(
    signal: pd.DataFrame,
    right: Callable[[Bars], pd.DataFrame],
    *,
    first: pd.Timestamp,
    source: str = "a_share",
) -> None:
    """A signal holds what an independent computation holds, from its first judged session on."""
    bars = a_share() if source == "a_share" else nasdaq()
    own_bars = {name: frame[signal.columns] if frame.ndim == 2 else frame for name, frame in bars.items()}
    expected = right(own_bars).reindex(index=signal.index).loc[first:]
    assert (expected == 1).any(axis=None), "the sentence buys in this window"
    pd.testing.assert_frame_equal(positions(signal.loc[first:]), positions(expected), check_names=False)
