"""Serving requests inside a code process: a run of cells, or a walk of many."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import quantgraph.state
from quantgraph.sandbox.cell_runner import Cell, CellOutcome, cell_namespace, new_signals, run_cells
from quantgraph.sandbox.view_sync import FramesReceiver
from quantgraph.sandbox.wire import Block, Frames, Read, encode_frames, read_header
from quantgraph.state.frames import FrozenFrame, freeze

if sys.platform != "win32":
    import resource

__all__ = ["REQUEST_LIMIT", "exact_reader", "preload", "serve_cells", "serve_walk"]

REQUEST_LIMIT = 8 << 30

Write = Callable[[Block], Any]


def serve_cells(header: dict[str, Any], frames: Frames, write: Write) -> None:
    """Run the cells of a request and write the reply."""
    before = _kilobytes()
    outcome, signals = _run(_compiled(header["cells"]), frames, header["output_limit"])
    _reply(write, outcome, signals, before)


def serve_walk(header: dict[str, Any], read: Read, write: Write) -> None:
    """Run the cells of a request at each step of a walk, and of walks after it, until the host hangs up."""
    before = _kilobytes()
    cells, growing = _compiled(header["walk"]), FramesReceiver()
    while True:
        try:
            step, size = read_header(read, limit=REQUEST_LIMIT)
        except EOFError:
            return
        frames = growing.add(step, read(size))
        outcome, signals = _run(cells, frames, header["output_limit"])
        _reply(write, outcome, signals, before)


def _compiled(cells: list[str]) -> list[Cell]:
    return [Cell(source, number) for number, source in enumerate(cells, start=1)]


def _run(cells: list[Cell], frames: Frames, output_limit: int) -> tuple[CellOutcome, dict[str, FrozenFrame]]:
    # Every run draws its own randomness, so that an unseeded strategy is seen to be one.
    random.seed()
    np.random.seed()  # noqa: NPY002 - the global generator is the one that generated code uses
    store = quantgraph.state.DataState()
    store.adopt(frames)
    # Whatever way the code imports it, it is this one.
    quantgraph.state.GLOBAL_DATA_STATE = store
    outcome = run_cells(cells, cell_namespace(store), output_limit)
    return outcome, new_signals(store, frames)


def _reply(write: Write, outcome: CellOutcome, signals: dict[str, FrozenFrame], before: int) -> None:
    header = {
        "stdout": outcome.stdout,
        "value": outcome.value,
        "error": outcome.error,
        "kilobytes": _kilobytes() - before,
    }
    for part in encode_frames(header, {"signal": signals}):
        write(part)


def _kilobytes() -> int:
    """The most memory that this process has held so far."""
    if sys.platform == "win32":
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most // 1024 if sys.platform == "darwin" else most


def exact_reader(stream: Any) -> Read:
    """Exactly as many bytes of a stream as asked for."""

    def read(size: int) -> bytes:
        data: bytes = stream.read(size)
        if len(data) != size:
            raise EOFError("the request ended early")
        return data

    return read


def preload() -> None:
    """What strategies do, done once: what libraries import and build on first use is then there."""
    import talib  # noqa: F401 - imported once, so that every fork has it

    index = pd.date_range("2024-01-01", periods=30)
    close = freeze("ohlcv", "close", pd.DataFrame(np.ones((30, 2)), index=index, columns=["a", "b"]))
    cell = (
        "close = snapshot['ohlcv']['close']\n"
        "mean, rank = close.rolling(5).mean(), close.rank(axis=1, pct=True)\n"
        "signal = ((mean > close.shift(1)) & (rank > 0.5)).astype(float).where(mean.notna())\n"
        "GLOBAL_DATA_STATE.update('signal', {'s': signal})\n"
        "print(signal)\n"
        "signal.loc['2024-01-05':].iloc[-1]"
    )
    serve_cells({"cells": [cell], "output_limit": 1_000}, {"ohlcv": {"close": close}}, len)
