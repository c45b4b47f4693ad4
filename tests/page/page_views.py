"""Views made by hand, for the tests of pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from quantgraph.page._data import CallStory, RunView, SessionStory

__all__ = ["HOSTILE", "hostile_view", "view_of"]

HOSTILE = '</script><img src=x onerror="window.pwned=1"><b>&"\u202e\u2028'

FILLS = ("session", "symbol", "side", "quantity", "price", "notional", "cost", "sequence", "reason")
REFUSED = ("session", "symbol", "side", "quantity", "code", "message", "sequence", "reason")


def view_of(
    fills: list[tuple[Any, ...]],
    sessions: list[str],
    *,
    low: list[float] | None = None,
    high: list[float] | None = None,
    **more: Any,
) -> RunView:
    """A view of fills in the symbol A, with lows and highs by session."""
    index = pd.DatetimeIndex(sessions, dtype="datetime64[us]", name="trade_date")
    days = pd.DataFrame({"value": 1000.0, "stocks": 0.0, "positions": 0, "traded": 0.0}, index=index)
    bars = {
        name: pd.DataFrame({"A": prices}, index=index)
        for name, prices in (("low", low), ("high", high), ("close", low))
        if prices is not None
    }
    result = {
        "question": "buy A",
        "ended_because": "done",
        "state": "ended",
        "started": "2024-01-01T00:00:00+00:00",
        "source": {"name": "panel", "synthetic": False},
    }
    given: dict[str, Any] = {
        "run_id": "run-1",
        "language": "en",
        "result": result,
        "decider": "signal_rule",
        "understood": ["rule: buy A"],
        "parameters": {"rules.market": "cn"},
        "hashes": {"ledger": "abc (3)"},
        "days": days,
        "fills": pd.DataFrame(fills, columns=FILLS),
        "refused": pd.DataFrame([], columns=REFUSED),
        "bars": bars,
    }
    return RunView(**{**given, **more})


def hostile_view() -> RunView:
    """A view in which every text tries to leave its place."""
    days = [f"{day:%Y-%m-%d}" for day in pd.bdate_range("2024-01-01", periods=4)]
    index = pd.DatetimeIndex(days, dtype="datetime64[us]", name="trade_date")
    call = CallStory(
        path=f"decision/{HOSTILE}",
        kind="model",
        role=HOSTILE,
        model=HOSTILE,
        asked=((HOSTILE, HOSTILE),),
        reply=HOSTILE,
        tools=((HOSTILE, HOSTILE),),
        tokens=3,
    )
    lines = pd.DataFrame({HOSTILE: [1.0, 2.0, 3.0, 4.0]}, index=index)
    base = view_of([], days)
    result = {
        **base.result,
        "question": HOSTILE,
        "ended_because": HOSTILE,
        "error": HOSTILE,
        "notes": [HOSTILE],
        "assumptions": [HOSTILE],
        "history": [HOSTILE],
        "strategy": {"said": HOSTILE, "name": "s"},
        "validation": {"issues_found": [{"severity": "error", "code": "x", "message": HOSTILE}]},
        "open_question": {"question": HOSTILE, "options": [HOSTILE]},
        "source": {"name": HOSTILE, "synthetic": True, "provenance": [HOSTILE]},
        "versions": {HOSTILE: HOSTILE},
    }
    return view_of(
        [(days[0], HOSTILE, "buy", 100.0, 2.0, 200.0, 1.0, 1, HOSTILE)],
        days,
        result=result,
        closing=HOSTILE,
        resumed_by=HOSTILE,
        decider=HOSTILE,
        understood=[HOSTILE],
        parameters={HOSTILE: HOSTILE},
        hashes={"run": HOSTILE, "ledger": HOSTILE},
        refused=pd.DataFrame(
            [(days[1], HOSTILE, "buy", 100.0, HOSTILE, HOSTILE, 2, HOSTILE)], columns=REFUSED
        ),
        bars=dict.fromkeys(("open", "high", "low", "close"), lines),
        indicators=lambda symbols: {HOSTILE: lines[list(symbols)]},
        stories=[
            SessionStory(session="20240101", calls=(call,), notes={HOSTILE: HOSTILE}, after={HOSTILE: 100.0})
        ],
        calls=[call],
        code=HOSTILE,
        signal=pd.DataFrame({HOSTILE: np.array([1.0, 0.0, -1.0, np.nan])}, index=index),
    )
