"""The outcome of a run: what its state says of the end, and the files that are written for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from quantgraph._util.files import write_atomic
from quantgraph.audit import signal_counts
from quantgraph.data import MarketDataSource
from quantgraph.data.as_of import AsOfSource
from quantgraph.market.moment import Moment
from quantgraph.state import DataState
from quantgraph.runs.strategy_file import strategy_source
from quantgraph.subgraphs.signal.data_request import request_symbols
from quantgraph.subgraphs.signal.warm_up import EVALUATION_FIELDS

__all__ = ["run_outcome", "save_outputs"]

_REPORTED = ("account", "benchmark", "index", "periods_per_year", "cash", "equity")
"""What a result repeats of a report's summary."""


def run_outcome(state: Mapping[str, Any], market: MarketDataSource) -> dict[str, Any]:
    """What the state says of the end and of the request."""
    request, history = state.get("request") or {}, list(state.get("execution_history") or [])
    because, errors = state.get("ended_because") or "cancelled", state.get("error_messages") or []
    why = errors[-1] if errors else ": ".join([because, *history[-1:]])
    return {
        "ended_because": because,
        **({} if because == "done" else {"error": why}),
        "assumptions": list(state.get("assumptions") or []),
        "notes": [*(request.get("notes") or []), *(state.get("summary") or {}).get("notes", [])],
        "symbols": list(request_symbols(request, _known(market))) if request else [],
        "window": {"start": request.get("start"), "end": request.get("end")},
        "data_ref": state.get("data_ref"),
        "validation": state.get("validation"),
        "history": history,
    }


def _known(market: MarketDataSource) -> AsOfSource:
    return AsOfSource(market, Moment(market.sessions()[-1]))


def save_outputs(folder: Path, question: str, state: Mapping[str, Any], store: DataState) -> dict[str, Any]:
    """Write strategy and signal, if there are any, and say where they and the account are."""
    strategy, summary = state.get("strategy") or {}, state.get("summary") or {}
    told: dict[str, Any] = {"strategy": None, "signal": None}
    if strategy and state.get("signal_ready"):
        path = folder / "strategy.py"
        write_atomic(path, strategy_source(strategy, question).encode())
        told["strategy"] = {key: strategy[key] for key in ("name", "code_hash", "data_ref")} | {
            "path": str(path)
        }
        signal = store.snapshot(state["data_ref"])["signal"][strategy["name"]]
        told["signal"] = _save_signal(folder / "signal.parquet", strategy["name"], signal)
    found = (state.get("validation") or {}).get("data_summary", {})
    told |= {key: found.get(key) for key in EVALUATION_FIELDS}
    return told | {key: summary.get(key) for key in _REPORTED}


def _save_signal(path: Path, name: str, signal: pd.DataFrame) -> dict[str, Any]:
    write_atomic(path, signal.to_parquet())
    return {"name": name, "path": str(path), "counts": signal_counts(signal)}
