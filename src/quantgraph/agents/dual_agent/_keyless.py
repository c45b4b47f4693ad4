"""The keyless planner as the filter and the decision of the dual agent: fixed rules.

Its reasons begin with ``keyless rule:``, so that they are not taken for a language model's. The rules are
documented in ``docs/keyless-planner.md``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from langchain_core.messages import AIMessage, BaseMessage

from quantgraph._util.texts import Language
from quantgraph._util.values import finite_number, json_object
from quantgraph.agents.dual_agent._prompts import table_rows, told

_RANGE = 0.05
_MOMENTUM = 0.02
_INVESTED = 0.9
_CONFIDENCE = "0.5"

Facts = Mapping[str, Any]


def reply_to_filter(messages: Sequence[BaseMessage], text: str) -> Facts:  # noqa: ARG001 - one signature
    """Choose the symbols whose fundamentals are read: those held, and those whose 7-day range is above 5 %.

    The range is the highest close of ``close_7d`` less the lowest, over the lowest.
    """
    reasoning = {}
    for symbol, row in table_rows(json_object(text)).items():
        closes = _closes(row)
        spread = (max(closes) - min(closes)) / min(closes) if closes else 0.0
        if _number(row, "current_position_value") > 0:
            reasoning[symbol] = _reason("it is held")
        elif spread > _RANGE:
            reasoning[symbol] = _reason(f"the range of close_7d is {spread:.2%}, above {_RANGE:.0%}")
    return {"stocks_need_fundamental": list(reasoning), "reasoning": reasoning}


def reply_to_decision(messages: Sequence[BaseMessage], text: str) -> Facts:
    """Decide the symbols of the facts; behind a reply of its own those that the newest message asks for.

    What rose most has the cash first, of equals the first by symbol.
    """
    facts = json_object(text)
    rows = table_rows(facts)
    with_facts, _, behind = messages[-1].text.rpartition("</decision_facts>")
    listed = {name.strip() for name in re.split(r"[,，、]", re.split(r"[:：]", behind)[-1])}  # "股票：A、F"
    asked = [symbol for symbol in rows if symbol in listed]
    by_market = [told("by_market", language) for language in get_args(Language)]
    refused = [name for name in rows if any(f"- {name}: {each}" in behind for each in by_market)]
    retries = sum(isinstance(message, AIMessage) for message in messages)
    portfolio, limits = facts.get("portfolio_info"), facts.get("limits")
    total = _number(portfolio, "total_assets")
    reserve = _number(limits, "min_cash_ratio") * total
    room = max(0.0, _number(portfolio, "available_cash") - reserve) / (1 + _number(limits, "cost_rate"))
    share = total * _INVESTED / max(1, len(rows)) / 2**retries
    unexecuted = [_reason("the user's rule in words is not executed by it")] if facts.get("rule") else []
    decided, decisions = rows if with_facts or not asked else asked, {}
    for symbol in sorted(decided, key=lambda name: (-_momentum(rows[name]), name)):
        if symbol in (asked if with_facts else refused):
            action, why = "hold", "the market refused the order"
            target = _number(rows[symbol], "current_position_value")
        else:
            action, target, why = _decide(rows[symbol], share=share, room=room, retries=retries)
        room -= target if action == "increase" else 0.0
        decisions[symbol] = {
            "action": action,
            "target_cash_amount": f"{target:.2f}",
            "confidence": _CONFIDENCE,
            "reasons": [_reason(why), *unexecuted],
        }
    return {"decisions": decisions}


def _decide(row: Facts, *, share: float, room: float, retries: int) -> tuple[str, float, str]:
    """Return action, target and reason for one symbol."""
    value, price, momentum = _number(row, "current_position_value"), _number(row, "open"), _momentum(row)
    if price <= 0:
        return "hold", value, "there is no open today"
    if len(_closes(row)) < 2:
        return "hold", value, "close_7d has fewer than 2 closes"
    text = f"the momentum of close_7d is {momentum:+.2%}"
    if momentum < -_MOMENTUM and value > 0:
        is_sellable = row.get("sellable") is None or _number(row, "sellable") >= _number(row, "shares")
        if retries or not is_sellable:
            return "hold", value, f"{text}, and the position cannot be sold now"
        return "close", 0.0, f"{text}, below -{_MOMENTUM:.0%}, and there is a position"
    if momentum > _MOMENTUM and value <= 0:
        target = math.floor(100 * min(share, room)) / 100
        if target < price:
            return "hold", value, f"{text}, and the cash left does not buy a share"
        return "increase", target, f"{text}, above +{_MOMENTUM:.0%}, and there is no position"
    return "hold", value, text


def _reason(text: str) -> str:
    return f"keyless rule: {text}"


def _closes(row: Facts) -> list[float]:
    closes = row.get("close_7d")
    numbers = [finite_number(each) for each in closes] if isinstance(closes, list) else []
    return [each for each in numbers if each is not None and each > 0]


def _momentum(row: Facts) -> float:
    """From the first close to the last; 0 without any."""
    closes = _closes(row)
    return (closes[-1] - closes[0]) / closes[0] if closes else 0.0


def _number(fields: Any, name: str) -> float:
    return (finite_number(fields.get(name)) if isinstance(fields, Mapping) else None) or 0.0


KEYLESS = {"decision_facts": reply_to_decision, "filter_facts": reply_to_filter}
