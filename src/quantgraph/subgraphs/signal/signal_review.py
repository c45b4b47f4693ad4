"""The review of a signal by a model: what it is shown, and what of its findings counts.

A model may warn. It stops a run only with a cell that reproduces the fault on the data and the signal.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from quantgraph._util.parsed_code import parse_code
from quantgraph.audit import Finding, signal_counts
from quantgraph.errors import BadWindow
from quantgraph.market.moment import session_of
from quantgraph.sandbox import CodeRunner
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import FrozenFrame, frozen_array
from quantgraph.subgraphs.signal.reply_schemas import Issue

_TRADES = 5


def review_facts(
    sentence: str,
    understanding: Mapping[str, Any] | str,
    cells: Sequence[str],
    signal: pd.DataFrame,
    close: pd.DataFrame,
) -> dict[str, Any]:
    """Return what the model is shown: the words, the code, the counts, and the first trades."""
    return {
        "sentence": sentence,
        "understanding": understanding,
        "code": "\n# %%\n".join(cells),
        "counts": signal_counts(signal),
        "trades": first_trades(signal, close),
    }


def first_trades(signal: pd.DataFrame, close: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the first five positions of a signal: sessions of entry and exit, and their closes.

    >>> days = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04"])
    >>> one = pd.DataFrame({"600519.SH": [1.0, 0.0, -1.0]}, index=days)
    >>> first_trades(one, one + 10)[0]["entry"], first_trades(one, one + 10)[0]["exit_close"]
    ('2024-01-02', 9.0)
    """
    found = []
    for symbol in signal.columns:
        entered: pd.Timestamp | None = None
        values = signal[symbol].to_numpy()
        for row in map(int, np.flatnonzero(np.nan_to_num(values))):
            session = pd.DatetimeIndex(signal.index)[row]
            if values[row] == 1 and entered is None:
                entered = session
            elif values[row] == -1 and entered is not None:
                found.append(_trade(close, str(symbol), entered, session))
                entered = None
        if entered is not None:
            found.append(_trade(close, str(symbol), entered, None))
    return sorted(found, key=lambda trade: (trade["entry"], trade["symbol"]))[:_TRADES]


def _trade(close: pd.DataFrame, symbol: str, begin: pd.Timestamp, end: pd.Timestamp | None) -> dict[str, Any]:
    trade: dict[str, Any] = {"symbol": symbol}
    for name, session in (("entry", begin), ("exit", end)):
        trade[name] = None if session is None else f"{session:%Y-%m-%d}"
        price = np.nan if session is None else float(close[symbol].loc[session])
        trade[f"{name}_close"] = None if np.isnan(price) else price
    return trade


def is_reproduced(issue: Issue, signal: pd.DataFrame, runner: CodeRunner, frames: Frames) -> bool:
    """Whether an issue's code fails an assertion on the signal, and on no other account than the named cell.

    It has to pass once that one cell of the signal has the value that the issue expects.

    Parameters
    ----------
    frames
        The data with the signal, as the issue's code sees them.
    """
    if issue.severity != "error" or issue.symbol not in signal.columns or not _asserts_signal(issue.cell):
        return False
    try:
        session = session_of(issue.date)
    except BadWindow:
        return False
    if session not in signal.index or issue.expected is None:
        return False
    if float(np.nan_to_num(signal[issue.symbol].loc[session])) == issue.expected:
        return False
    error = runner.run([issue.cell], frames).error
    if error is None or "AssertionError" not in error.message:
        return False
    values = signal.to_numpy(dtype=np.float64, copy=True)
    values[signal.index.get_loc(session), signal.columns.get_loc(issue.symbol)] = issue.expected
    mended = {name: _with_values(frame, values) for name, frame in frames["signal"].items()}
    return runner.run([issue.cell], {**frames, "signal": mended}).error is None


def _with_values(frame: FrozenFrame, values: npt.NDArray[np.float64]) -> FrozenFrame:
    return FrozenFrame(frame.sessions, frame.symbols, frozen_array(values))


def _asserts_signal(cell: str) -> bool:
    """Whether code has an assertion, of something that is computed, and reads the signal."""
    try:
        tree = parse_code(cell)
    except (SyntaxError, ValueError, RecursionError):
        return False
    asserts = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    read = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return "signal" in read and any(not isinstance(node.test, ast.Constant) for node in asserts)


def issue_finding(issue: Issue, *, reproduced: bool) -> Finding:
    """Return an issue as a finding: a fault that was reproduced, or at most a warning."""
    if reproduced:
        return Finding(
            severity="warning",
            code="meaning_review",
            message=f"The review reproduced a fault: {issue.message}. At {issue.date} {issue.symbol} the "
            f"words want {issue.expected:g}: {issue.why}. Its assertion fails:\n{issue.cell}",
            session=f"{session_of(issue.date):%Y-%m-%d}",
            symbol=issue.symbol,
        )
    return Finding(
        severity="warning" if issue.severity == "error" else issue.severity,
        code="model_finding",
        message=issue.message,
    )
