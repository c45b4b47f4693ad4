"""A market of one symbol whose bars are written by hand."""

from __future__ import annotations

import pandas as pd

from quantgraph.broker import Market
from quantgraph.market import Rulebook
from quantgraph.state import DataState

ONE = "600000.SH"
BARS = ("open", "high", "low", "close")
FLAT = (10.0, 10.0, 10.0, 10.0)


def market_of(rows, signal=(1,), *, rules=None, symbol=ONE, **more):
    """A market of one symbol: rows of open, high, low, close by session, and a signal that is 0 behind its end."""
    days = pd.bdate_range("2024-01-02", periods=len(rows), name="trade_date").as_unit("us")
    frames = {
        name: pd.DataFrame({symbol: [row[at] for row in rows]}, index=days) for at, name in enumerate(BARS)
    }
    frames |= {
        name: pd.DataFrame({symbol: [float(value) for value in values]}, index=days)
        for name, values in more.items()
    }
    store = DataState()
    store.update("ohlcv", frames)
    opinions = pd.DataFrame({symbol: [*map(float, signal), *[0.0] * (len(rows) - len(signal))]}, index=days)
    return Market(
        store=store,
        data_ref=store.update("signal", {"demo": opinions}),
        rules=rules or Rulebook.zero_cost("cn"),
    ), days
