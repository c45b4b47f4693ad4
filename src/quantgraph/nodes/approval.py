"""Trade approval: a session's orders are shown to somebody before they are sent.

The decider is asked in one step, somebody in the next, and the orders are sent in the one after it: what was
shown is what is sent, and neither is asked twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, cast

import pandas as pd

from quantgraph.broker.ledger import Ledger
from quantgraph.broker.open_session import (
    OrderProposal,
    SessionResult,
    collect_orders,
    fill_orders,
    open_session,
    propose_orders,
    reject_orders,
)
from quantgraph.broker.orders import Order, order_from_json, order_to_json
from quantgraph.errors import BadOption
from quantgraph.market.moment import Moment, session_of
from quantgraph.nodes.approval_question import approval_question, read_approval
from quantgraph.nodes.state import Proposal, TradingState
from quantgraph.nodes.trading_resources import TradingDesk
from quantgraph.recording import Entry, Giver, canonical, current_scope, keep_answer, recorded_answer
from quantgraph.runtime.endings import ended, language, succeeded
from quantgraph.runtime.questions import answer_of, assumed, check_remembered, question_id
from quantgraph.runtime.state import Clarification
from quantgraph.state import deciding

__all__ = [
    "answered_before",
    "approve_node",
    "propose_node",
    "route_after_approve",
    "route_after_propose",
    "settled",
]


def propose_node(state: TradingState, *, desk: TradingDesk) -> dict[str, Any]:
    """Ask the decider for the session's orders, and write down the question whether to send them.

    Where all that follow were approved there is no question.

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
        orders = collect_orders(desk.decider, walk.at(Moment(session, "open")), morning.account)
    proposal: Proposal = {
        "session": f"{session:%Y%m%d}",
        "orders": [order_to_json(order) for order in orders],
        "question": None,
        "approved": [],
    }
    name = question_id(state, proposal["session"], canonical(proposal["orders"]))
    if orders and _approved_before(state, name):
        proposal["approved"] = [order["sequence"] for order in proposal["orders"]]
    elif orders:
        proposal["question"] = approval_question(
            name, proposal["session"], propose_orders(morning, orders), language(state)
        )
    return {"proposal": proposal}


def approve_node(state: TradingState, *, desk: TradingDesk) -> dict[str, Any]:
    """Ask whether the orders are sent; where nobody is asked, they are not.

    A session that is in the ledger already (the process was killed after its commit) is not asked about. Who
    answers sees what the decider saw, and the answer is one of this session.
    """
    proposal = cast("Proposal", state["proposal"])
    task = cast("Clarification", proposal["question"])
    if _is_done(desk.open_run(state["run_id"], state), state):
        return {"proposal": None}
    try:
        with deciding(Moment(session_of(proposal["session"]), "open")):
            said, who = _said(task, desk)
    except BadOption as error:
        desk.close(state["run_id"])
        return ended(state, "needs_answer", f"needs_answer: {error.message}")
    sequences = sorted(read_approval(said, cast("list[OrderProposal]", task["orders"])).sequences)
    approved = {**proposal, "approved": [str(sequence) for sequence in sequences]}
    return {"proposal": approved, **_answered(state, proposal["session"], said, who)}


def answered_before(state: TradingState, done: pd.Timestamp) -> dict[str, Any]:
    """What was answered about the sessions up to ``done``, for a run that was begun anew after them."""
    scope = current_scope()
    if scope is None:
        return {}
    host = scope.path.rpartition("/")[0]
    told: dict[str, Entry] = {}
    for entry in scope.recording.entries():
        node, _, session = entry.key.path.rpartition("/")
        if entry.key.kind == "answer" and entry.error is None and node == f"{host}/approve".lstrip("/"):
            told[session] = entry
    now: dict[str, Any] = {}
    for session in sorted(told):
        if session_of(session) <= done:
            said, who = told[session].outcome(), told[session].facts.get("role")
            now |= _answered(cast("TradingState", {**state, **now}), session, said, who)
    return now


def settled(state: TradingState, desk: TradingDesk) -> SessionResult | None:
    """The session, traded as it was approved; None if that is not known of this session.

    Orders that were not approved are rejections, ``not_approved``.
    """
    proposal, run_id = state.get("proposal"), state["run_id"]
    if proposal is None or proposal["session"] != state["session"]:
        return None
    account = desk.ledger_of(run_id).account(run_id)
    morning = open_session(desk.market(state), session_of(state["session"]), account)
    orders: dict[bool, list[Order]] = {True: [], False: []}
    for told in proposal["orders"]:
        orders[told["sequence"] in proposal["approved"]].append(order_from_json(told))
    result = fill_orders(morning, desk.decider.name, orders[True])
    refused = reject_orders(
        morning, desk.decider.name, orders[False], "not_approved", "the order was not approved"
    )
    return replace(result, outcomes=(*result.outcomes, *refused.outcomes))


def route_after_propose(state: TradingState) -> Literal["approve", "decision", "report"]:
    """Somebody is asked where there are orders; the report of the sessions before where nobody decided."""
    if state.get("ended_because") not in (None, "done"):
        return "report"
    proposal = state.get("proposal")
    return "approve" if proposal and proposal["question"] else "decision"


def route_after_approve(state: TradingState) -> Literal["decision", "report"]:
    """On to the decision; the report of the sessions before where nobody answered."""
    return "decision" if state.get("ended_because") in (None, "done") else "report"


def _approved_before(state: TradingState, name: str) -> bool:
    """Whether an answer about an earlier session sends these orders, and nobody is or was asked about them.

    In a branch that is live somebody is: what was said of the old run's orders is not said of these.
    """
    since, scope = state.get("approved_from"), current_scope()
    if since is None or scope is None:
        return since is not None
    live = scope.recording.until
    anew = live is not None and since < live <= cast("str", state["session"])
    return not anew and recorded_answer(scope.recording, name) is None


def _is_done(ledger: Ledger, state: TradingState) -> bool:
    done = ledger.last_session(state["run_id"])
    return done is not None and session_of(state["session"]) <= done


def _answered(state: TradingState, session: str, said: str, who: Giver | None) -> dict[str, Any]:
    """What an answer leaves behind beside the session's own orders."""
    rest = {"approved_from": session} if read_approval(said, ()).rest else {}
    told = succeeded(state, f"approval: {session} {said}")
    return {**told, **assumed(state, "approval", f"{session} {said}", who), **rest}


def _said(task: Clarification, desk: TradingDesk) -> tuple[str, Giver | None]:
    """The answer, and who gave it if it was no person."""
    if desk.on_clarify == "fail":
        raise BadOption(task["reason"])
    if desk.on_clarify == "default":
        said = cast("str", task["default"])
        return said, keep_answer(task["id"], said, "default")
    return answer_of(task, desk.on_clarify)
