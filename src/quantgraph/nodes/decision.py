"""The decision: the decider sees the view of the open, its orders are filled, the day is committed."""

from __future__ import annotations

from typing import Any

from quantgraph.broker.simulate import commit_sessions
from quantgraph.market.moment import session_of
from quantgraph.nodes.approval import approved_result
from quantgraph.nodes.state import TradingState
from quantgraph.nodes.trading_resources import TradingResources
from quantgraph.runtime.events import emit_session
from quantgraph.runtime.nested_graphs import STEP_LIMIT

__all__ = ["decision_node"]


def decision_node(state: TradingState, *, resources: TradingResources) -> dict[str, Any]:
    """Trade the session and those after it that belong to this step; each is one transaction.

    A step trades more sessions if the host's ``recursion_limit`` leaves too few steps for the rest of the
    window. A session that is in the ledger already (the process was killed after its commit) is not traded
    again. With ``approve`` the step is one session, traded as approved.
    """
    run_id, first = state["run_id"], session_of(state["session"])
    ledger = resources.open_run(run_id, state)
    done, sessions = ledger.last_session(run_id), resources.sessions(state)
    step = sessions[sessions >= first]
    step = step[: max(resources.sessions_per_step, -(-len(step) // _turns(state)))]
    left = step if done is None else step[step > done]
    if resources.approve:
        result = approved_result(state, resources) if len(left) else None
        if result is not None:
            ledger.commit_day(run_id, result)
            emit_session(result.session, result.value)
        return {"proposal": None}
    if len(left):
        with resources.growing_view(run_id, state, left[0]) as walk:
            commit_sessions(
                resources.market(state),
                list(left),
                resources.decider,
                ledger=ledger,
                run_id=run_id,
                growing_view=walk,
                on_session=emit_session,
            )
    return {}


def _turns(state: TradingState) -> int:
    """Decisions that the steps left allow: each is followed by the loop, the last by report and end too."""
    return max(1, (state.get("remaining_steps", STEP_LIMIT) - 2) // 2)
