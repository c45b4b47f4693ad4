"""Bars that cannot be are found where they are asked about, and nowhere else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit.bars import impossible_bars

SESSIONS = pd.DatetimeIndex(["2025-01-02", "2025-01-03", "2025-01-06"])


def bars(**cell: float) -> dict[str, pd.DataFrame]:
    """Two symbols with right bars, and one cell of B on the second session changed."""
    prices = {"open": 10.0, "high": 11.0, "low": 9.0, "close": 10.5}
    frames = {name: pd.DataFrame(price, index=SESSIONS, columns=["A", "B"]) for name, price in prices.items()}
    for name, price in cell.items():
        frames[name].iloc[1, 1] = price
    return frames


@pytest.mark.parametrize(
    "cell", [{"low": 0.0}, {"close": -1.0}, {"close": 11.5}, {"close": 8.5}, {"open": 12.0}, {"high": 8.0}]
)
def test_a_bar_that_cannot_be_is_found_with_its_session(cell: dict[str, float]) -> None:
    found = impossible_bars(bars(**cell), symbols=["A", "B"], sessions=SESSIONS)
    assert found == {"B": "2025-01-03"}
    assert impossible_bars(bars(**cell), symbols=["A"], sessions=SESSIONS) == {}
    assert impossible_bars(bars(**cell), symbols=["B"], sessions=SESSIONS[2:]) == {}


def test_right_bars_suspensions_and_missing_fields_are_no_finding() -> None:
    assert impossible_bars(bars(), symbols=["A", "B"], sessions=SESSIONS) == {}
    assert impossible_bars(bars(close=np.nan), symbols=["A", "B"], sessions=SESSIONS) == {}
    closes = {"close": bars()["close"]}
    assert impossible_bars(closes, symbols=["A", "B"], sessions=SESSIONS) == {}
