"""The decision: a decider sees the view of the open, its orders are filled, the day is committed."""

from __future__ import annotations

from typing import Any

from quantgraph.broker.simulate import commit_sessions
from quantgraph.market.moment import session_of
from quantgraph.nodes.approval import settled
from quantgraph.nodes.state import TradingState
from quantgraph.nodes.trading_resources import TradingDesk
from quantgraph.runtime.events import tell_session
from quantgraph.runtime.nested_graphs import STEP_LIMIT

__all__ = ["decision_node"]


def decision_node(state: TradingState, *, desk: TradingDesk) -> dict[str, Any]:
    """Trade the session, and those after it that belong to this step; each is one transaction.

    There are more of them where a host's ``recursion_limit`` leaves too few steps for all that are to come.
    A session that is in the ledger already (the process was killed after its commit) is not traded again.
    Where trades are approved it is the session whose orders were, or were not.
    """
    run_id, first = state["run_id"], session_of(state["session"])
    ledger = desk.open_run(run_id, state)
    done, sessions = ledger.last_session(run_id), desk.sessions(state)
    step = sessions[sessions >= first]
    step = step[: max(desk.sessions_per_step, -(-len(step) // _turns(state)))]
    left = step if done is None else step[step > done]
    if desk.approve:
        result = settled(state, desk) if len(left) else None
        if result is not None:
            ledger.commit_day(run_id, result)
            tell_session(result.session, result.value)
        return {"proposal": None}
    if len(left):
        with desk.walk(run_id, state, left[0]) as walk:
            commit_sessions(
                desk.market(state),
                list(left),
                desk.decider,
                ledger=ledger,
                run_id=run_id,
                growing_view=walk,
                on_session=tell_session,
            )
    return {}


def _turns(state: TradingState) -> int:
    """How often there may be a decision: each is followed by the loop, the last by report and end, too."""
    return max(1, (state.get("remaining_steps", STEP_LIMIT) - 2) // 2)
