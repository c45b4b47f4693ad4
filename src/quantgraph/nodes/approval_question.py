"""The question whether a session's orders are sent, in Chinese and English, and what its answers mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from quantgraph._util.texts import Language, say
from quantgraph.broker.open_session import OrderProposal
from quantgraph.market.moment import session_of
from quantgraph.runtime.questions import answer_schema
from quantgraph.runtime.state import Clarification

__all__ = ["Approval", "approval_question", "read_approval"]

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


def read_approval(answer: str, orders: Sequence[OrderProposal]) -> Approval:
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
