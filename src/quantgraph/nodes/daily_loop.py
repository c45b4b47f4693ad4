"""The daily loop: one step for each turn, so that a run can be stopped and resumed between turns."""

from __future__ import annotations

from typing import Any, Literal

from quantgraph._util.run_id import new_run_id, run_id_of
from quantgraph.nodes.approval import earlier_approvals
from quantgraph.nodes.state import TradingState
from quantgraph.nodes.trading import Trading
from quantgraph.runtime.endings import has_ended_run


def begin_node(state: TradingState) -> dict[str, Any]:
    """Reset the result for a new request; give it a new run if its run id belongs to an ended request."""
    given = run_id_of(state.get("run_id"))
    run_id = new_run_id() if has_ended_run(state, given) else given
    return {"session": None, "summary": {}, "approved_from": None, "run_id": run_id}


def daily_loop_node(state: TradingState, *, trading: Trading) -> dict[str, Any]:
    """Open the run, and set the first session that is not in the ledger, or None if all are.

    The ledger decides, not the checkpoint, which may lag behind it.

    Raises
    ------
    UnknownSymbol
        If the rulebook has no board for a symbol.
    LedgerConflict
        If the ledger's run of this id has other cash, data, strategy, decider, rules or window.
    """
    sessions, run_id = trading.sessions(state), state.get("run_id") or new_run_id()
    done = trading.open_run(run_id, state).last_session(run_id)
    if done is None:
        trading.check_tradable(state)
    left = sessions if done is None else sessions[sessions > done]
    is_first_turn = trading.approve and not state.get("session")
    return {
        **(earlier_approvals(state, done) if is_first_turn and done is not None else {}),
        "run_id": run_id,
        "session": f"{left[0]:%Y%m%d}" if len(left) else None,
    }


def route_after_daily_loop(state: TradingState) -> Literal["decision", "report", "__end__"]:
    """After the loop: the decision if there is a session, else the report; the end if the run ended."""
    if state.get("ended_because") not in (None, "done"):
        return "__end__"
    return "decision" if state.get("session") else "report"


def route_after_decision(state: TradingState) -> Literal["daily_loop", "report"]:
    """After the decision: the next session; the report if the run ended."""
    return "daily_loop" if state.get("ended_because") in (None, "done") else "report"
