"""Trade approval: a session's orders are shown to somebody before they are sent.

The decider is asked in one step, somebody in the next, and the orders are sent in the one after it: what was
shown is what is sent, and neither is asked twice.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from quantgraph.broker.approval import order_of, plain, shown
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.morning import asked, fill, open_session, refuse
from quantgraph.broker.result import SessionResult
from quantgraph.errors import BadOption
from quantgraph.market.moment import Moment, session_of
from quantgraph.nodes.approval_question import approval_question, is_yes
from quantgraph.nodes.desk import TradingDesk
from quantgraph.nodes.state import Proposal, TradingState
from quantgraph.recording import canonical
from quantgraph.subgraphs.signal.answers import answer_of, check_remembered
from quantgraph.subgraphs.signal.progress import assumed, ended, language, question_id, succeeded
from quantgraph.subgraphs.signal.state import Clarification

__all__ = ["approve_node", "propose_node", "route_after_approve", "route_after_propose", "settled"]


def propose_node(state: TradingState, *, desk: TradingDesk) -> dict[str, Any]:
    """Ask the decider for the session's orders, and write down the question whether to send them.

    Raises
    ------
    CheckpointerRequired
        If somebody is to be asked, and the host has no checkpointer.
    """
    run_id, session = state["run_id"], session_of(state["session"])
    if desk.on_clarify == "ask":
        check_remembered("approve=True")
    ledger = desk.open_run(run_id, state)
    if _is_done(ledger, state):
        return {"proposal": None}
    morning = open_session(desk.market(state), session, ledger.account(run_id))
    with desk.walk(run_id, state, session) as walk:
        orders = asked(desk.decider, walk.at(Moment(session, "open")), morning.account)
    proposal: Proposal = {
        "session": f"{session:%Y%m%d}",
        "orders": [plain(order) for order in orders],
        "question": None,
        "approved": False,
    }
    if orders:
        name = question_id(state, proposal["session"], canonical(proposal["orders"]))
        proposal["question"] = approval_question(
            name, proposal["session"], shown(morning, orders), language(state)
        )
    return {"proposal": proposal}


def approve_node(state: TradingState, *, desk: TradingDesk) -> dict[str, Any]:
    """Ask whether the orders are sent; where nobody is asked, they are not.

    A session that is in the ledger already (the process was killed after its commit) is not asked about.
    """
    proposal = cast("Proposal", state["proposal"])
    task = cast("Clarification", proposal["question"])
    if _is_done(desk.open_run(state["run_id"], state), state):
        return {"proposal": None}
    try:
        said, who = _said(task, desk)
    except BadOption as error:
        desk.close(state["run_id"])
        return ended(state, "needs_answer", f"needs_answer: {error.message}")
    return {
        "proposal": {**proposal, "approved": is_yes(said)},
        **succeeded(state, f"approval: {proposal['session']} {said}"),
        **(assumed(state, task, f"{proposal['session']} {said}", who) if who else {}),
    }


def settled(state: TradingState, desk: TradingDesk) -> SessionResult | None:
    """The session, traded as it was approved; None if that is not known of this session.

    Orders that were not approved are rejections, ``not_approved``.
    """
    proposal, run_id = state.get("proposal"), state["run_id"]
    if proposal is None or proposal["session"] != state["session"]:
        return None
    account = desk.ledger_of(run_id).account(run_id)
    morning = open_session(desk.market(state), session_of(state["session"]), account)
    orders = [order_of(order) for order in proposal["orders"]]
    if proposal["approved"]:
        return fill(morning, desk.decider.name, orders)
    return refuse(morning, desk.decider.name, orders, "not_approved", "the orders of the day were rejected")


def route_after_propose(state: TradingState) -> Literal["approve", "decision", "__end__"]:
    """Somebody is asked where there are orders."""
    if state.get("ended_because") not in (None, "done"):
        return "__end__"
    proposal = state.get("proposal")
    return "approve" if proposal and proposal["question"] else "decision"


def route_after_approve(state: TradingState) -> Literal["decision", "__end__"]:
    """On to the decision, unless nobody answered."""
    return "decision" if state.get("ended_because") in (None, "done") else "__end__"


def _is_done(ledger: Ledger, state: TradingState) -> bool:
    done = ledger.last_session(state["run_id"])
    return done is not None and session_of(state["session"]) <= done


def _said(task: Clarification, desk: TradingDesk) -> tuple[str, Literal["default", "callable"] | None]:
    """The answer, and who gave it if it was no person."""
    if desk.on_clarify == "fail":
        raise BadOption(task["reason"])
    if desk.on_clarify == "default":
        return cast("str", task["default"]), "default"
    said = answer_of(task, desk.on_clarify)
    return said, None if desk.on_clarify == "ask" else "callable"
