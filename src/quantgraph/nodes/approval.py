"""Trade approval: a session's orders are shown to somebody before they are sent.

The decider is asked in one step, somebody in the next, and the orders are sent in the one after it: what was
shown is what is sent, and neither is asked twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import pandas as pd

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.texts import Language, say
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
from quantgraph.nodes.state import Proposal, TradingState
from quantgraph.nodes.trading_resources import TradingResources
from quantgraph.recording import AnsweredBy, Entry, current_scope, keep_answer, recorded_answer
from quantgraph.runtime.endings import end_update, language, success_update
from quantgraph.runtime.questions import (
    answer_schema,
    ask_question,
    assumption_update,
    check_checkpointer,
    question_id,
)
from quantgraph.runtime.state import Clarification
from quantgraph.state import deciding

__all__ = [
    "Approval",
    "approval_question",
    "approve_node",
    "approved_result",
    "earlier_approvals",
    "parse_approval",
    "propose_node",
    "route_after_approve",
    "route_after_propose",
]

_WORDS: dict[Language, tuple[str, str, str]] = {
    "zh": ("同意", "拒绝", "后续全部同意"),
    "en": ("approve", "reject", "approve all that follow"),
}
_YES, _NO, _REST = (tuple(words) for words in zip(*_WORDS.values(), strict=True))
_ALSO_YES, _ALSO_NO = ("是", "yes", "y"), ("否", "no", "n")
_BETWEEN = r"[\s,，、;；]+"
_SIDES = {"buy": "买入", "sell": "卖出"}
_TYPES = {"open": ("开盘", "at the open"), "close": ("收盘", "at the close"), "limit": ("限价", "at a limit")}


@dataclass(frozen=True, kw_only=True)
class Approval:
    """What an answer approves.

    Attributes
    ----------
    sequences
        Those of the orders that are sent.
    rest
        Whether the orders of all later sessions are sent, too, and nobody is asked about them.
    """

    sequences: frozenset[int]
    rest: bool = False


def parse_approval(answer: str, orders: Sequence[OrderProposal]) -> Approval:
    """What an answer that fits the question's schema approves.

    Numbers are the places in which the orders are shown, from 1; a symbol stands for all of its orders.

    >>> orders = [{"sequence": 7, "symbol": "AAPL"}, {"sequence": 3, "symbol": "MSFT"}]
    >>> for answer in ("yes", "2", "reject msft", "后续全部同意"):
    ...     approval = read_approval(answer, orders)
    ...     print(sorted(approval.sequences), approval.rest)
    [3, 7] False
    [3] False
    [7] False
    [3, 7] True
    """
    everything = frozenset(order["sequence"] for order in orders)
    said = answer.strip().casefold()
    if said in {*_YES, *_REST}:
        return Approval(sequences=everything, rest=said in _REST)
    chosen = {
        order["sequence"]
        for place, order in enumerate(orders, 1)
        if {str(place), order["symbol"].casefold()} & {*re.split(_BETWEEN, _without_verb(said))}
    }
    if chosen:
        return Approval(sequences=everything - chosen if said.startswith(_NO) else frozenset(chosen))
    return Approval(sequences=everything if said in _ALSO_YES else frozenset())


def approval_question(
    name: str, session: str, orders: list[OrderProposal], language: Language
) -> Clarification:
    """The question of the id ``name``; both languages' words are answers, and none is the default."""
    yes, no, rest = _WORDS[language]
    day = f"{session_of(session):%Y-%m-%d}"
    reason = say(language, zh=f"{day} 的订单需要批准", en=f"the orders of {day} need approval")
    how = say(
        language,
        zh=f"回复“{yes}”按所列发送，“{no}”则当日全部不发送，“{yes} 1”只发送所列编号（或代码）的订单，"
        f"“{rest}”则发送今日及以后的全部订单，不再询问。",
        en=f'Answer "{yes}" to send them as they stand, "{no}" to send none of them, "{yes} 1" to send those '
        f'of a number (or symbol), "{rest}" to send these and all later ones unasked.',
    )
    lines = [f"{place}. {_line(order, language)}" for place, order in enumerate(orders, 1)]
    return {
        "id": name,
        "kind": "approval",
        "reason": reason,
        "question": "\n".join([reason + say(language, zh="：", en=":"), *lines, how]),
        "options": [yes, no, rest],
        "default": no,
        "answer_schema": answer_schema(name, _pattern(orders)),
        "rounds_left": 0,
        "language": language,
        "unread": [],
        "orders": [dict(order) for order in orders],
    }


def _pattern(orders: Sequence[OrderProposal]) -> str:
    """The words alone, or numbers or symbols of orders, after a word or alone."""
    named = dict.fromkeys([*map(str, range(1, len(orders) + 1)), *(order["symbol"] for order in orders)])
    one = f"(?:{'|'.join(map(re.escape, named))})"
    some = rf"(?:(?:{'|'.join([*_YES, *_NO])})\s*)?{one}(?:{_BETWEEN}{one})*"
    return rf"^\s*(?:{'|'.join([*_YES, *_NO, *_REST, *_ALSO_YES, *_ALSO_NO, some])})\s*$"


def _without_verb(said: str) -> str:
    verb = next((verb for verb in (*_YES, *_NO) if said.startswith(verb)), "")
    return said.removeprefix(verb).strip()


def _line(order: OrderProposal, language: Language) -> str:
    """``buy 9900 600000.SH at the open, reference price 10 (signal 1)``."""
    side, shares = order["side"] or "", order["shares"] or ""
    (zh_when, en_when), price = _TYPES[order["type"]], order["price"] or "-"
    wish = "" if order["wish"].startswith("quantity") else order["wish"]
    why = "; ".join(part for part in (wish, order["reason"], order["refused"]) if part)
    zh = [_SIDES.get(side, ""), order["symbol"], shares and f"{shares} 股"]
    en = [side, shares, order["symbol"]]
    return say(
        language,
        zh=f"{' '.join(filter(None, zh))}，{zh_when}，参考价 {price}" + (f"（{why}）" if why else ""),
        en=f"{' '.join(filter(None, en))} {en_when}, reference price {price}" + (f" ({why})" if why else ""),
    )


def propose_node(state: TradingState, *, resources: TradingResources) -> dict[str, Any]:
    """Ask the decider for the session's orders, and write down the question whether to send them.

    Where all that follow were approved there is no question.

    Raises
    ------
    CheckpointerRequired
        If somebody is to be asked, and the host has no checkpointer.
    """
    run_id, session = state["run_id"], session_of(state["session"])
    if resources.on_clarify == "ask":
        check_checkpointer("approve=True")
    ledger = resources.open_run(run_id, state)
    if _is_done(ledger, state):
        return {"proposal": None}
    morning = open_session(resources.market(state), session, ledger.account(run_id))
    with resources.walk(run_id, state, session) as walk:
        orders = collect_orders(resources.decider, walk.at(Moment(session, "open")), morning.account)
    proposal: Proposal = {
        "session": f"{session:%Y%m%d}",
        "orders": [order_to_json(order) for order in orders],
        "question": None,
        "approved": [],
    }
    name = question_id(state, proposal["session"], canonical_json(proposal["orders"]))
    if orders and _approved_before(state, name):
        proposal["approved"] = [order["sequence"] for order in proposal["orders"]]
    elif orders:
        proposal["question"] = approval_question(
            name, proposal["session"], propose_orders(morning, orders), language(state)
        )
    return {"proposal": proposal}


def approve_node(state: TradingState, *, resources: TradingResources) -> dict[str, Any]:
    """Ask whether the orders are sent; where nobody is asked, they are not.

    A session that is in the ledger already (the process was killed after its commit) is not asked about. Who
    answers sees what the decider saw, and the answer is one of this session.
    """
    proposal = cast("Proposal", state["proposal"])
    task = cast("Clarification", proposal["question"])
    if _is_done(resources.open_run(state["run_id"], state), state):
        return {"proposal": None}
    try:
        with deciding(Moment(session_of(proposal["session"]), "open")):
            said, who = _said(task, resources)
    except BadOption as error:
        resources.close(state["run_id"])
        return end_update(state, "needs_answer", f"needs_answer: {error.message}")
    sequences = sorted(parse_approval(said, cast("list[OrderProposal]", task["orders"])).sequences)
    approved = {**proposal, "approved": [str(sequence) for sequence in sequences]}
    return {"proposal": approved, **_answered(state, proposal["session"], said, who)}


def earlier_approvals(state: TradingState, done: pd.Timestamp) -> dict[str, Any]:
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


def approved_result(state: TradingState, resources: TradingResources) -> SessionResult | None:
    """The session, traded as it was approved; None if that is not known of this session.

    Orders that were not approved are rejections, ``not_approved``.
    """
    proposal, run_id = state.get("proposal"), state["run_id"]
    if proposal is None or proposal["session"] != state["session"]:
        return None
    account = resources.ledger_of(run_id).account(run_id)
    morning = open_session(resources.market(state), session_of(state["session"]), account)
    orders: dict[bool, list[Order]] = {True: [], False: []}
    for told in proposal["orders"]:
        orders[told["sequence"] in proposal["approved"]].append(order_from_json(told))
    result = fill_orders(morning, resources.decider.name, orders[True])
    refused = reject_orders(
        morning, resources.decider.name, orders[False], "not_approved", "the order was not approved"
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


def _answered(state: TradingState, session: str, said: str, who: AnsweredBy | None) -> dict[str, Any]:
    """What an answer leaves behind beside the session's own orders."""
    rest = {"approved_from": session} if parse_approval(said, ()).rest else {}
    told = success_update(state, f"approval: {session} {said}")
    return {**told, **assumption_update(state, "approval", f"{session} {said}", who), **rest}


def _said(task: Clarification, resources: TradingResources) -> tuple[str, AnsweredBy | None]:
    """The answer, and who gave it if it was no person."""
    if resources.on_clarify == "fail":
        raise BadOption(task["reason"])
    if resources.on_clarify == "default":
        said = cast("str", task["default"])
        return said, keep_answer(task["id"], said, "default")
    return ask_question(task, resources.on_clarify)
