"""Many runs in one process over the process's one data state: none sees another's data."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from states import flat

from quantgraph.data.sample import SampleSource
from quantgraph.settings import load_settings
from quantgraph.state import GLOBAL_DATA_STATE
from quantgraph.subgraphs.signal import create_signal_subgraph

pytestmark = pytest.mark.proof

START, END = "20240102", "20240531"
FAST, SLOW = 5, 20
EARLIER = pd.Timestamp("2023-12-04")
"""Twenty sessions before the window: a mean of 20 needs 19, its crossing one more."""


def sentence(symbol: str) -> str:
    return (
        f"{symbol}, {FAST}-day average crosses above the {SLOW}-day: buy, below: sell, from {START} to {END}"
    )


def spreads(closes: pd.Series) -> list[int | None]:
    """Fast minus slow average in whole cents (times 100), None while the slow one is not full."""
    cents = [round(close * 100) for close in closes]
    return [
        SLOW * sum(cents[i - FAST + 1 : i + 1]) - FAST * sum(cents[i - SLOW + 1 : i + 1])
        if i >= SLOW - 1
        else None
        for i in range(len(cents))
    ]


def crosses(symbol: str) -> list[int]:
    """Sessions (by position) of buys, from the source's closes in whole cents with plain Python."""
    closes = SampleSource().bars([symbol], EARLIER, pd.Timestamp(END))["close"][symbol]
    above = [None if spread is None else spread > 0 for spread in spreads(closes)]
    return [i - SLOW for i in range(1, len(above)) if above[i] and above[i - 1] is False]


def check(symbol: str, state: dict) -> None:
    assert state["ended_because"] == "done", (symbol, state["error_messages"])
    snapshot = GLOBAL_DATA_STATE.snapshot(state["data_ref"])
    for panel in ("ohlcv", "signal"):
        for name, frame in snapshot[panel].items():
            assert list(frame.columns) == [symbol], (
                f"{panel}[{name!r}] of {symbol} holds {list(frame.columns)}"
            )
    assert list(snapshot["signal"]) == [flat(state)["strategy"]["name"]]
    signal = snapshot["signal"][flat(state)["strategy"]["name"]][symbol]
    assert [i for i, value in enumerate(signal) if value == 1.0] == crosses(symbol)


@pytest.fixture(scope="module")
def symbols() -> list[str]:
    """Fifty stocks that trade in every session and have no exact tie, which rounding would decide."""
    source = SampleSource()
    closes = source.bars(source.symbols(), EARLIER, pd.Timestamp(END))["close"].dropna(axis=1)
    return [symbol for symbol in closes.columns if 0 not in spreads(closes[symbol])][:50]


@pytest.mark.proof
def test_fifty_runs_at_once_see_only_their_own_data(symbols):
    short = load_settings(
        audit={"prove": "sampled", "cuts": 1}
    )  # fifty whole proofs would take half a minute
    graph = create_signal_subgraph(source="sample", settings=short, checkpointer=InMemorySaver())

    def run(symbol: str) -> dict:
        return graph.invoke(
            {"messages": [("user", sentence(symbol))]}, {"configurable": {"thread_id": symbol}}
        )

    with ThreadPoolExecutor(50) as pool:
        states = list(pool.map(run, symbols))
    assert len(states) == 50
    assert len({state["data_ref"] for state in states}) == 50
    for symbol, state in zip(symbols, states, strict=True):
        check(symbol, state)


def test_asynchronous_runs_at_once_see_only_their_own_data(symbols):
    graph = create_signal_subgraph(source="sample")

    async def run_all() -> list[dict]:
        runs = [graph.ainvoke({"messages": [("user", sentence(symbol))]}) for symbol in symbols[:10]]
        return await asyncio.gather(*runs)

    for symbol, state in zip(symbols[:10], asyncio.run(run_all()), strict=True):
        check(symbol, state)
