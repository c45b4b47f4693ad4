"""The rule that a text says whole: every word is read, and entry and exit are both said."""

from __future__ import annotations

from typing import Literal

from quantgraph.llm.planner.lexicon import tokens_of
from quantgraph.llm.planner.normalisation import normalise
from quantgraph.llm.planner.request import ParsedRequest
from quantgraph.llm.planner.rules import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Cross,
    Extreme,
    TradingRule,
    opposite,
)
from quantgraph.llm.planner.watched_security import watched_of

_EXIT_WORDS = frozenset({"SELL", "ELSE", "REVERSE"})


def said_rule(text: str, request: ParsedRequest) -> TradingRule | None:
    """Return the rule of a text, given what was read in it; None if a part is not said or not read.

    That is an unread word, an open clause of a trade plan, an exit that is a default, or a rule of several
    securities for others.

    >>> from quantgraph.llm.planner.request import RequestContext, read_request
    >>> text = "5日均线上穿20日均线买入"
    >>> said_rule(text, read_request(text, RequestContext())) is None
    True
    """
    rule = request.strategy
    if rule is None or request.unread or request.open:
        return None
    if request.watch != request.trade and watched_of(request.watch, request.trade) is None:
        return None
    return rule if names_exit(text) or rule.exit != opposite(rule.entry) else None


def names_exit(text: str) -> bool:
    """Whether a text has a word of selling.

    >>> names_exit("RSI低于30买入，高于70卖出"), names_exit("buy the dip")
    (True, False)
    """
    return any(token.kind in _EXIT_WORDS for token in tokens_of(normalise(text)))


def event_of(condition: Condition) -> Literal["", "cross", "break"]:
    """Return whether a condition is a cross, a breakout, or a state (empty)."""
    match condition:
        case Cross():
            return "cross"
        case Compare(right=Extreme()):
            return "break"
        case AllOf(parts=parts):
            kinds = {event_of(part) for part in parts}
            return "cross" if "cross" in kinds else "break" if "break" in kinds else ""
        case AnyOf(parts=parts):
            kinds = {event_of(part) for part in parts}
            return "cross" if kinds == {"cross"} else "" if "" in kinds else "break"
    return ""
