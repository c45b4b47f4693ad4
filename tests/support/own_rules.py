"""The demo's rule as a function, one that reads the future, and a child process that is killed in a run."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pandas as pd

MEMBERS, START, END = "合成30", "20250101", "20251231"


def average_cross(panels):
    """1 where the 5-day average crosses above the 20-day one, -1 where it crosses below."""
    close, made = panels["ohlcv"]["close"] * panels["ohlcv"]["adj_factor"], {}
    for code in close:
        apart = (own := close[code].dropna()).rolling(5).mean() - own.rolling(20).mean()
        side = (apart > 1e-9 * own) * 1.0 - (apart < -1e-9 * own)
        made[code] = side.where(side * side.shift(1) <= 0, 0.0).where(apart.shift(1).notna())
    return pd.DataFrame(made).reindex_like(close)


def leaky(panels):
    """1 before a day on which the price rises."""
    close = panels["ohlcv"]["close"]
    return (close.shift(-1) > close).astype(float)


def run_own(kind, demo, out, **options):
    """Run the demo's rule as a ``frame``, a ``function`` or a ``file``; ``demo`` is its folder."""
    from quantgraph.runs import run_signal, run_strategy

    if kind == "frame":
        return run_signal(pd.read_parquet(demo / "signal.parquet"), prices="sample", out=out, **options)
    if kind == "file":
        return run_strategy(demo / "strategy.py", source="sample", out=out, **options)
    window = {"symbols": MEMBERS, "start": START, "end": END}
    return run_strategy(average_cross, source="sample", out=out, **window, **options)


def _die_at_session(number):
    def watch(event):
        if event.kind == "traded" and event.number == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return watch


if __name__ == "__main__":
    from quantgraph.runtime import Resources

    run_own(
        sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), resources=Resources(watch=_die_at_session(100))
    )
