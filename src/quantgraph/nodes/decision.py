"""The decision: the decider sees the view of the open, its orders are filled, the day is committed."""

from __future__ import annotations

from functools import partial
from typing import Any

from quantgraph.broker.simulate import BLOCK_SESSIONS, commit_sessions
from quantgraph.market.moment import session_of
from quantgraph.nodes.approval import approved_result
from quantgraph.nodes.state import TradingState
from quantgraph.nodes.trading import Trading
from quantgraph.runtime.events import emit_session
from quantgraph.runtime.nested_graphs import STEP_LIMIT


def decision_node(state: TradingState, *, trading: Trading) -> dict[str, Any]:
    """Trade the session and those after it that belong to this step; whole sessions enter the ledger.

    A step is one session, or as many as :data:`BLOCK_SESSIONS` while the decider has a block rule. It is more
    if the host's ``recursion_limit`` leaves too few steps for the rest of the window. A session that is in
    the ledger already (the process was killed after its commit) is not traded again. With ``approve`` the
    step is one session, traded as approved.
    """
    run_id, first = state["run_id"], session_of(state["session"])
    ledger = trading.open_run(run_id, state)
    done, sessions = ledger.last_session(run_id), trading.sessions(state)
    if done is not None and first <= done:
        return {"proposal": None} if trading.approve else {}
    left = sessions[sessions >= first]
    at_least = -(-len(left) // _turns(state))
    if trading.approve:
        result = approved_result(state, trading)
        if result is not None:
            ledger.commit_day(run_id, result)
            emit_session(result.session, result.value, window=sessions)
        return {"proposal": None}
    with trading.growing_view(run_id, state, first) as walk:
        commit_sessions(
            trading.market(state),
            list(left[: max(BLOCK_SESSIONS, at_least)]),
            trading.decider,
            ledger=ledger,
            run_id=run_id,
            run=trading.run_context(run_id, state),
            growing_view=walk,
            at_least=at_least,
            on_session=partial(emit_session, window=sessions),
        )
    return {}


def _turns(state: TradingState) -> int:
    """Decisions that the steps left allow: each is followed by the loop, the last by report and end too."""
    return max(1, (state.get("remaining_steps", STEP_LIMIT) - 2) // 2)
