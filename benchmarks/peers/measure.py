"""How every tool is measured: the median of warm runs, and the peak memory of its own process."""

from __future__ import annotations

import gc
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

BUDGET = 3.0 / float(os.environ.get("BENCH_SLACK", "1"))
"""Seconds of warm runs, at least three of them."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a tool took and what it came to.

    ``seconds`` is the median of ``runs``. ``peak_mb`` is what the process grew above its peak before the
    first run: compilation included, the panel in the tool's own form not. ``trades`` counts fills, ``equity``
    is the final one in CNY.
    """

    seconds: float
    runs: int
    peak_mb: float
    trades: int
    equity: float


def measure(run: Callable[[], tuple[int, float]], *, compiles: bool = False) -> Figures:
    """Measure a call that simulates once, and returns the number of fills and the final equity.

    The first run does not count, unless it took longer than the budget and the tool ``compiles`` nothing.
    """
    before = _peak_mb()
    first, (trades, equity) = _timed(run)
    times = [first]
    if compiles or first <= BUDGET:
        times = [_timed(run)[0] for _ in range(3)]
        while sum(times) < BUDGET and len(times) < 200:
            times.append(_timed(run)[0])
    return Figures(
        seconds=statistics.median(times),
        runs=len(times),
        peak_mb=_peak_mb() - before,
        trades=int(trades),
        equity=float(equity),
    )


def _timed(run: Callable[[], tuple[int, float]]) -> tuple[float, tuple[int, float]]:
    gc.collect()  # what the run before has left
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
