"""Daily A-share bars by akshare, from Sina, as a source of your own; without akshare on invented prices.

    pip install akshare

Sina blocks addresses that ask for many stocks at once: name a few.
"""

from __future__ import annotations

import importlib
import importlib.util

import numpy as np
import pandas as pd

from quantgraph import run_strategy
from quantgraph.data import FrameSource, open_source

CODES = ("600519.SH", "000001.SZ")


def from_sina(code: str) -> pd.DataFrame:
    """Unadjusted bars of 2024: volume in shares, amount in yuan."""
    akshare = importlib.import_module("akshare")
    digits, _, exchange = code.partition(".")
    code = f"{exchange.lower()}{digits}"
    frame: pd.DataFrame = akshare.stock_zh_a_daily(code, "20240101", "20241231", adjust="")
    return frame


def invented(code: str) -> pd.DataFrame:
    """A table in the same form, with waves for prices."""
    days = pd.bdate_range("2024-01-02", "2024-12-31")
    close = np.round(20 + int(code[:6]) % 7 + 3 * np.sin(np.arange(len(days)) / 9), 2)
    prices = {"open": close, "high": close + 0.1, "low": close - 0.1, "close": close}
    volume = np.full(len(days), 1_000_000.0)
    return pd.DataFrame({"date": days.date, **prices, "volume": volume, "amount": volume * close})


def sina(codes: tuple[str, ...]) -> FrameSource:
    """The bars of some stocks as a source. Keep the frames in files: Sina is asked once."""
    there = importlib.util.find_spec("akshare") is not None
    print("bars of Sina" if there else "akshare is not installed: invented prices in its form")
    source = open_source({code: from_sina(code) if there else invented(code) for code in codes})
    assert isinstance(source, FrameSource)  # frames make one
    return source


if __name__ == "__main__":
    source = sina(CODES)
    print(*source.provenance("en"), sep="\n")
    rule = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
    result = run_strategy(f"all stocks, {rule}, 2024", source=source)
    print(result["ended_because"], len(result.round_trips), "round trips")
