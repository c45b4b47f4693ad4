"""Trade approval: a session's orders are shown, and sent only if approved.

The decider decides in one step, the question is asked in the next, and the orders are sent in the one after:
the orders sent are the orders shown, and neither the decider nor the user is asked twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import pandas as pd

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.texts import Language, say
from quantgraph.broker import Decision, ExitRule, Order, Rejection, Session, SessionResult, plan_words
from quantgraph.broker.accounts import order_from_json, order_to_json
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import OrderProposal, collect_decision, context_of, exits_of, propose_orders
from quantgraph.errors import BadOption
from quantgraph.graph._state import Proposal, TradingState
from quantgraph.graph._trading import Trading
from quantgraph.market import Moment, session_of
from quantgraph.recording import Entry
from quantgraph.recording.scope import AnsweredBy, current_scope, keep_answer, recorded_answer
from quantgraph.runtime.dialogue import (
    answer_schema,
    ask_question,
    assumption_update,
    check_checkpointer,
    question_id,
)
from quantgraph.runtime.endings import end_update, language, success_update
from quantgraph.runtime.graph_state import Clarification, changed, written
from quantgraph.state import deciding

_WORDS: dict[Language, tuple[str, str, str]] = {
    "zh": ("同意", "拒绝", "后续全部同意"),
    "en": ("approve", "reject", "approve all that follow"),
}
_YES, _NO, _ALL_LATER = (tuple(words) for words in zip(*_WORDS.values(), strict=True))
_ALSO_YES, _ALSO_NO = ("是", "yes", "y"), ("否", "no", "n")
_SEPARATOR = r"[\s,，、;；]+"
_COLON = "[:：]"
_SIDES = {"buy": "买入", "sell": "卖出"}
_TYPES = {
    "open": ("开盘", "at the open"),
    "close": ("收盘", "at the close"),
    "limit": ("限价", "at a limit"),
    "stop": ("止损价", "at a stop"),
}


@dataclass(frozen=True, kw_only=True)
class Approval:
    """What an answer approves."""

    sequences: frozenset[int]
    all_later: bool = False


def parse_approval(answer: str, orders: Sequence[OrderProposal]) -> Approval:
    """Read an answer that fits the question's schema.

    Numbers are the orders' positions in the question, from 1; a symbol stands for all of its orders. What
    follows a colon is the reason, which decides nothing; an answer that sends all orders has none.

    >>> orders = [{"sequence": 7, "symbol": "AAPL"}, {"sequence": 3, "symbol": "MSFT"}]
    >>> for answer in ("yes", "2", "reject msft: too large", "后续全部同意"):
    ...     approval = parse_approval(answer, orders)
    ...     print(sorted(approval.sequences), approval.all_later)
    [3, 7] False
    [3] False
    [7] False
    [3, 7] True
    """
    everything = frozenset(order["sequence"] for order in orders)
    reply = re.split(_COLON, answer, maxsplit=1)[0].strip().casefold()  # "no: too large"
    if reply in {*_YES, *_ALL_LATER}:
        return Approval(sequences=everything, all_later=reply in _ALL_LATER)
    if reply in {*_NO, *_ALSO_NO}:
        return Approval(sequences=frozenset())
    chosen = {
        order["sequence"]
        for place, order in enumerate(orders, 1)
        if {str(place), order["symbol"].casefold()} & {*re.split(_SEPARATOR, _without_verb(reply))}  # "1, 2"
    }
    if chosen:
        return Approval(sequences=everything - chosen if reply.startswith(_NO) else frozenset(chosen))
    return Approval(sequences=everything if reply in _ALSO_YES else frozenset())


def approval_question(
    name: str,
    session: str,
    orders: list[OrderProposal],
    language: Language,
    *,
    exits: Sequence[Mapping[str, Any]] = (),
) -> Clarification:
    """Return the question with the id ``name``; it takes words of both languages, and rejects by default.

    ``exits`` are rules as JSON that come into force with the orders.
    """
    yes, no, rest = _WORDS[language]
    date = f"{session_of(session):%Y-%m-%d}"
    reason = say(language, zh=f"{date} 的订单需要批准", en=f"the orders of {date} need approval")
    how = say(
        language,
        zh=f"回复“{yes}”按所列发送，“{no}”则当日全部不发送，“{yes} 1”只发送所列编号（或代码）的订单，"
        f"“{rest}”则发送今日及以后的全部订单，不再询问。",
        en=f'Answer "{yes}" to send them as they stand, "{no}" to send none of them, "{yes} 1" to send those '
        f'of a number (or symbol), "{rest}" to send these and all later ones unasked.',
    )
    lines = [f"{place}. {_line(order, language)}" for place, order in enumerate(orders, 1)]
    for rule in exits:
        words = plan_words({part: value for part, value in rule.items() if part != "symbol"}, language)
        symbol = rule["symbol"]
        shown = say(language, zh="、", en=", ").join(words) or say(language, zh="无", en="none")
        lines.append(say(language, zh=f"{symbol} 的离场：{shown}", en=f"exits of {symbol}: {shown}"))
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
    """Match a word, or numbers or symbols of orders, with or without a word before them and a reason behind.

    A symbol that is a short word, such as NO, is neither: it needs its number. A reason does not begin like
    a list of orders.
    """
    symbols, short = [order["symbol"] for order in orders], {*_ALSO_YES, *_ALSO_NO}
    short -= {symbol.casefold() for symbol in symbols}
    yes, no = ([word for word in words if word in short] for words in (_ALSO_YES, _ALSO_NO))
    plain = [symbol for symbol in symbols if symbol.casefold() not in (*_ALSO_YES, *_ALSO_NO)]
    named = dict.fromkeys([*map(str, range(1, len(orders) + 1)), *plain])
    one = f"(?:{'|'.join(map(re.escape, named))})"
    some = rf"(?:(?:{'|'.join([*_YES, *_NO])})\s*)?{one}(?:{_SEPARATOR}{one})*"
    reason = rf"\s*{_COLON}(?!\s*{one}(?:{_SEPARATOR}|{_COLON}|$))[\s\S]*"
    sends_all, others = "|".join([*_YES, *_ALL_LATER, *yes]), "|".join([*_NO, *no, some])
    return rf"^\s*(?:(?:{sends_all})|(?:{others})(?:{reason})?)\s*$"


def _without_verb(reply: str) -> str:
    verb = next((verb for verb in (*_YES, *_NO) if reply.startswith(verb)), "")
    return reply.removeprefix(verb).strip()


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


def propose_node(state: TradingState, *, trading: Trading) -> dict[str, Any]:
    """Ask the decider for the session's orders, and word the question whether to send them.

    There is no question if all later orders were approved before. To ask a person needs a checkpointer.
    """
    run_id, day = state["run_id"], session_of(state["session"])
    if trading.resources.on_clarify == "ask":
        check_checkpointer("approve=True")
    ledger = trading.open_run(run_id, state)
    if _is_done(ledger, state):
        return {"proposal": None}
    market, run = trading.market(state), trading.run_context(run_id, state)
    session = Session.open(market, day, ledger.account(run_id), exits_of(run, market))
    with trading.growing_view(run_id, state, day) as growing:
        context = context_of(session, growing.at(Moment(day, "open")), run)
        decision = collect_decision(trading.decider, context)
    orders = decision.orders
    proposal: Proposal = {
        "session": f"{day:%Y%m%d}",
        "orders": [order_to_json(order) for order in orders],
        "notes": dict(decision.notes),
        "in_order": decision.in_order,
        "exits": [rule.to_json() for rule in decision.exits],
        "question": None,
        "approved": [],
    }
    shown = [proposal["orders"], proposal["exits"]] if proposal["exits"] else proposal["orders"]
    name = question_id(state, proposal["session"], canonical_json(shown))
    if orders and _approved_before(state, name):
        proposal["approved"] = [order["sequence"] for order in proposal["orders"]]
    elif orders:
        proposal["question"] = approval_question(
            name,
            proposal["session"],
            propose_orders(session, decision),
            language(state),
            exits=proposal["exits"],
        )
    return {"proposal": proposal}


def approve_node(state: TradingState, *, trading: Trading) -> dict[str, Any]:
    """Ask whether to send the orders; without a person to ask they are not sent.

    There is no question about a session that is in the ledger already (the process was killed after its
    commit). Code that answers sees what the decider saw, and the answer belongs to this session.
    """
    proposal = cast("Proposal", state["proposal"])
    task = cast("Clarification", proposal["question"])
    if _is_done(trading.open_run(state["run_id"], state), state):
        return {"proposal": None}
    try:
        with deciding(Moment(session_of(proposal["session"]), "open")):
            answer, who = _ask(task, trading)
    except BadOption as error:
        trading.close(state["run_id"])
        ended = end_update(state, "needs_answer", f"needs_answer: {error.message}")
        return written(state, {**ended, "open_question": task})
    sequences = sorted(parse_approval(answer, cast("list[OrderProposal]", task["orders"])).sequences)
    approved = {**proposal, "approved": [str(sequence) for sequence in sequences]}
    answered = _approval_update(state, proposal["session"], answer, who)
    return written(state, {"proposal": approved, **answered})


def earlier_approvals(state: TradingState, done: pd.Timestamp) -> dict[str, Any]:
    """Return the update of the answers about sessions up to ``done``, for a run restarted after them."""
    scope = current_scope()
    if scope is None:
        return {}
    host = scope.path.rpartition("/")[0]
    answers: dict[str, Entry] = {}
    for entry in scope.recording.entries():
        node, _, session = entry.key.path.rpartition("/")
        if entry.key.kind == "answer" and entry.error is None and node == f"{host}/approve".lstrip("/"):
            answers[session] = entry
    update: dict[str, Any] = {}
    for session in sorted(answers):
        if session_of(session) <= done:
            answer, who = answers[session].outcome(), answers[session].facts.get("role")
            update |= _approval_update(changed(state, update), session, answer, who)
    return written(state, update)


def approved_result(state: TradingState, trading: Trading) -> SessionResult | None:
    """Return the session's result with the approved orders; None if there is no proposal for it.

    Orders that were not approved are rejected as ``not_approved``. If none was approved, the decision's exit
    rules do not come into force either.
    """
    proposal, run_id = state.get("proposal"), state["run_id"]
    if proposal is None or proposal["session"] != state["session"]:
        return None
    account, market = trading.ledger_of(run_id).account(run_id), trading.market(state)
    exits = exits_of(trading.run_context(run_id, state), market)
    session = Session.open(market, session_of(state["session"]), account, exits)
    orders: dict[bool, list[Order]] = {True: [], False: []}
    for order in proposal["orders"]:
        orders[order["sequence"] in proposal["approved"]].append(order_from_json(order))
    approved = Decision(
        orders[True],
        notes=proposal["notes"],
        in_order=proposal["in_order"],
        exits=[ExitRule.of(rule) for rule in proposal["exits"] if orders[True] or not orders[False]],
    )
    result = session.close(approved, decider=trading.decider.name)
    refused = [
        Rejection(order=order, session=session.day, code="not_approved", message="the order was not approved")
        for order in orders[False]
    ]
    return replace(result, outcomes=(*result.outcomes, *refused))


def route_after_propose(state: TradingState) -> Literal["approve", "decision", "report"]:
    """After propose: ask if there is a question, else trade; report if the run ended."""
    if state.get("ended_because") not in (None, "done"):
        return "report"
    proposal = state.get("proposal")
    return "approve" if proposal and proposal["question"] else "decision"


def route_after_approve(state: TradingState) -> Literal["decision", "report"]:
    """After approve: trade, or report if the run ended."""
    return "decision" if state.get("ended_because") in (None, "done") else "report"


def _approved_before(state: TradingState, name: str) -> bool:
    """Whether an earlier answer approved these orders, and there is no question about them."""
    since, scope = state.get("approved_from"), current_scope()
    return since is not None and (scope is None or recorded_answer(scope.recording, name) is None)


def _is_done(ledger: Ledger, state: TradingState) -> bool:
    done = ledger.last_session(state["run_id"])
    return done is not None and session_of(state["session"]) <= done


def _approval_update(
    state: TradingState, session: str, answer: str, who: AnsweredBy | None
) -> dict[str, Any]:
    """Return the update of an answer, besides the session's own orders."""
    later = {"approved_from": session} if parse_approval(answer, ()).all_later else {}
    line = f"{session} {answer}"
    done = success_update(state, f"approval: {line}")
    return {**done, **assumption_update(state, "approval", line, who), **later}


def _ask(task: Clarification, trading: Trading) -> tuple[str, AnsweredBy | None]:
    """Return the answer, and who gave it if not a person."""
    if trading.resources.on_clarify == "fail":
        raise BadOption(task["reason"])
    if trading.resources.on_clarify == "default":
        answer = cast("str", task["default"])
        return answer, keep_answer(task["id"], answer, "default")
    return ask_question(task, trading.resources.on_clarify, trading.resources.questions)
