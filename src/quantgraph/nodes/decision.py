"""The decision: a decider sees the view of the open, its orders are filled, the day is committed."""

from __future__ import annotations

from typing import Any

from quantgraph.broker.simulate import trade_session
from quantgraph.market.moment import Moment, session_of
from quantgraph.nodes.desk import TradingDesk
from quantgraph.nodes.state import TradingState

__all__ = ["decision_node"]


def decision_node(state: TradingState, *, desk: TradingDesk) -> dict[str, Any]:
    """Trade the session and commit it as one transaction.

    A session that is in the ledger already (the process was killed after its commit) is not traded again.
    """
    run_id, session = state["run_id"], session_of(state["session"])
    ledger = desk.open_run(run_id, state)
    last = ledger.last_session(run_id)
    if last is not None and session <= last:
        return {}
    ref = state["data_ref"]
    result = trade_session(
        desk.store.view(Moment(session, "open"), ref),
        desk.store.view(Moment(session, "close"), ref),
        ledger.account(run_id),
        desk.decider,
        desk.rules,
    )
    ledger.commit_day(
        run_id, session, result.decider, result.account, result.outcomes, result.marks, result.value
    )
    return {}
