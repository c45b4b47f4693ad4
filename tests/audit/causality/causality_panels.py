"""Small panels and strategies for the tests of the causality gate."""

from __future__ import annotations

import numpy as np
import pandas as pd

from quantgraph.audit.causality._trials import TrialOutcome, prefix
from quantgraph.state.frames import FrozenFrame, frozen_array


def panel(sessions=60, symbols=3, seed=0, gaps=True):
    """Bars by field: a random walk, high and low around it, five sessions without trading a symbol."""
    rng = np.random.default_rng(seed)
    index = pd.bdate_range("2024-01-02", periods=sessions, name="trade_date")
    columns = pd.Index([f"{600000 + i}.SH" for i in range(symbols)], dtype="str", name="ts_code")
    steps = rng.normal(0, 0.02, (sessions, symbols))
    close = pd.DataFrame(50 * np.exp(steps.cumsum(axis=0)), index=index, columns=columns).round(2)
    start = (close.shift(1).fillna(50.0) * (1 + rng.normal(0, 0.005, close.shape))).round(2)
    frames = {
        "open": start,
        "high": np.maximum(start, close) * 1.01,
        "low": np.minimum(start, close) * 0.99,
        "close": close,
        "vol": pd.DataFrame(rng.integers(1_000, 9_000, close.shape) * 1.0, index=index, columns=columns),
    }
    if gaps:
        for column in range(symbols):
            first = int(rng.integers(10, sessions - 15))
            for frame in frames.values():
                frame.iloc[first : first + 5, column] = np.nan
    return frames


def sides(buy, sell):
    return buy.astype(float) - sell.astype(float)


def state(panel, fast=3, slow=8):
    """Above or below."""
    a, b = panel["close"].rolling(fast).mean(), panel["close"].rolling(slow).mean()
    return sides(a > b, a < b)


def cross(panel, fast=3, slow=8):
    """The sessions in which that changes."""
    a, b = panel["close"].rolling(fast).mean(), panel["close"].rolling(slow).mean()
    above, below = a > b, a < b
    return sides(above & (a.shift(1) <= b.shift(1)), below & (a.shift(1) >= b.shift(1)))


class Inline:
    """Trials without a process: for functions that remember nothing."""

    isolated = True
    threads = 1

    def __init__(self, function):
        self.function = function

    def prefixes(self, panel, moments, **rows):
        for moment in moments:
            yield self.whole(prefix(panel, moment))

    def whole(self, panel):
        fields = next(iter(panel.values()))
        try:
            signal = self.function({name: frame.frame for name, frame in fields.items()})
        except Exception as error:
            return TrialOutcome(error=str(error))
        sessions = frozen_array(signal.index.to_numpy().astype("datetime64[us]"))
        values = frozen_array(signal.to_numpy(dtype=float))
        return TrialOutcome(signal=FrozenFrame(sessions, tuple(signal.columns), values))
