"""The daily loop: one session a turn, so that a run can be stopped and resumed between any two."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd

from quantgraph.market.moment import session_of
from quantgraph.nodes.desk import TradingDesk, new_run_id
from quantgraph.nodes.state import TradingState

__all__ = ["daily_loop_node", "route_after_daily_loop"]


def daily_loop_node(state: TradingState, *, desk: TradingDesk) -> dict[str, Any]:
    """Open the run on the first turn, and set the next session, or None after the last.

    A run that the ledger knows already goes on after its last recorded session.
    """
    sessions = desk.sessions(state)
    session = state.get("session")
    done: pd.Timestamp | None
    if session is not None:
        done = session_of(session)
        run_id = state["run_id"]
    else:
        finished = state.get("summary", {}).get("run_id")
        run_id = state.get("run_id") or ""
        run_id = run_id if run_id and run_id != finished else new_run_id()
        ledger = desk.ledger_of(run_id)
        ledger.open_run(run_id, desk.cash, _identity(state, desk))
        done = ledger.last_session(run_id)
    left = sessions if done is None else sessions[sessions > done]
    return {"run_id": run_id, "session": f"{left[0]:%Y%m%d}" if len(left) else None}


def _identity(state: TradingState, desk: TradingDesk) -> dict[str, Any]:
    fees = desk.rules.fees
    return {
        "data_ref": state["data_ref"],
        "code_hash": state["strategy"]["code_hash"],
        "decider": desk.decider.name,
        "rules": desk.rules.name,
        "commission": {"rate": str(fees.commission_rate), "min": str(fees.commission_min)},
        "window": [state["request"]["start"], state["request"]["end"]],
    }


def route_after_daily_loop(state: TradingState) -> Literal["decision", "report"]:
    """A session to trade, or the report."""
    return "decision" if state.get("session") else "report"
