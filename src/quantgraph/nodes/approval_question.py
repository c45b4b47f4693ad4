"""The question whether a session's orders are sent, in Chinese and English."""

from __future__ import annotations

from quantgraph._texts import Language, say
from quantgraph.broker.approval import Shown
from quantgraph.market.moment import session_of
from quantgraph.subgraphs.signal.answers import answer_schema
from quantgraph.subgraphs.signal.state import Clarification

__all__ = ["approval_question", "is_yes"]

_WORDS: dict[Language, tuple[str, str]] = {"zh": ("同意", "拒绝"), "en": ("approve", "reject")}
_SIDES = {"buy": "买入", "sell": "卖出"}
_TYPES = {"open": ("开盘", "at the open"), "close": ("收盘", "at the close"), "limit": ("限价", "at a limit")}


def is_yes(answer: str) -> bool:
    """Whether an answer sends the orders.

    >>> is_yes("同意"), is_yes("approve"), is_yes("reject")
    (True, True, False)
    """
    return any(answer == yes for yes, _ in _WORDS.values())


def approval_question(name: str, session: str, orders: list[Shown], language: Language) -> Clarification:
    """The question of the id ``name``; both languages' words are answers, and none is the default."""
    yes, no = _WORDS[language]
    day = f"{session_of(session):%Y-%m-%d}"
    reason = say(language, zh=f"{day} 的订单需要批准", en=f"the orders of {day} need approval")
    how = say(
        language,
        zh=f"回复“{yes}”按所列发送，回复“{no}”则当日全部不发送。",
        en=f'Answer "{yes}" to send them as they stand, "{no}" to send none of them.',
    )
    lines = [f"{place}. {_line(order, language)}" for place, order in enumerate(orders, 1)]
    return {
        "id": name,
        "kind": "approval",
        "reason": reason,
        "question": "\n".join([reason + say(language, zh="：", en=":"), *lines, how]),
        "options": [yes, no],
        "default": no,
        "answer_schema": answer_schema(name, [word for words in _WORDS.values() for word in words]),
        "rounds_left": 0,
        "language": language,
        "unread": [],
        "orders": [dict(order) for order in orders],
    }


def _line(order: Shown, language: Language) -> str:
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
