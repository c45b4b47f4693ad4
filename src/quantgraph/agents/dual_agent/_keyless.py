"""The keyless planner as the filter and the decision of the dual agent: fixed rules.

Its reasons begin with ``keyless rule:``, so that they are not taken for a language model's. The rules are
documented in ``docs/keyless-planner.md``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
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


def filter_symbols(facts: Facts) -> dict[str, Any]:
    """Choose the symbols whose fundamentals are read: those held, and those whose 7-day range is above 5 %.

    The range is the highest close of ``close_7d`` less the lowest, over the lowest.
    """
    reasoning, need = {}, []
    for symbol, row in table_rows(facts).items():
        closes, value = _closes(row), _number(row, "current_position_value")
        spread = (max(closes) - min(closes)) / min(closes) if closes else 0.0
        if value > 0:
            why = "it is held"
        elif spread > _RANGE:
            why = f"the range of close_7d is {spread:.2%}, above {_RANGE:.0%}"
        else:
            continue
        need.append(symbol)
        reasoning[symbol] = _reason(why)
    return {"stocks_need_fundamental": need, "reasoning": reasoning}


def decide_portfolio(
    facts: Facts, *, symbols: Collection[str], retries: int = 0, rejected: Collection[str] = ()
) -> dict[str, Any]:
    """Decide by the momentum of ``close_7d``: buy what rose by more than 2 %, close what fell by as much."""
    portfolio, limits = _mapping(facts.get("portfolio_info")), _mapping(facts.get("limits"))
    total, cash = (_number(portfolio, name) for name in ("total_assets", "available_cash"))
    reserve = _number(limits, "min_cash_ratio") * total
    room = max(0.0, cash - reserve) / (1 + _number(limits, "cost_rate"))
    share = total * _INVESTED / max(1, len(table_rows(facts))) / 2**retries
    unexecuted = [_reason("the user's rule in words is not executed by it")] if facts.get("rule") else []
    decisions = {}
    for symbol, row in table_rows(facts).items():
        if symbol not in symbols:
            continue
        action, target, why = _decide(row, share=share, room=room, retries=retries)
        if symbol in rejected:
            action, target, why = (
                "hold",
                _number(row, "current_position_value"),
                "the market refused the order",
            )
        if action == "increase":
            room -= target
        decisions[symbol] = {
            "action": action,
            "target_cash_amount": f"{target:.2f}",
            "confidence": _CONFIDENCE,
            "reasons": [_reason(why), *unexecuted],
        }
    return {"decisions": decisions}


def _decide(row: Facts, *, share: float, room: float, retries: int) -> tuple[str, float, str]:
    """Return action, target and reason for one symbol."""
    closes, value = _closes(row), _number(row, "current_position_value")
    price = finite_number(row.get("open"))
    if price is None or price <= 0:
        return "hold", value, "there is no open today"
    if len(closes) < 2:
        return "hold", value, "close_7d has fewer than 2 closes"
    momentum = (closes[-1] - closes[0]) / closes[0]
    text = f"the momentum of close_7d is {momentum:+.2%}"
    if momentum < -_MOMENTUM and value > 0:
        if retries or not _is_sellable(row):
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


def _number(fields: Facts, name: str) -> float:
    return finite_number(fields.get(name)) or 0.0


def _is_sellable(row: Facts) -> bool:
    """Whether all of a position may be sold, as far as the facts say."""
    return row.get("sellable") is None or _number(row, "sellable") >= _number(row, "shares")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def reply_to_filter(messages: Sequence[BaseMessage], text: str) -> Mapping[str, Any]:  # noqa: ARG001 - one signature
    """The filter's reply to ``filter_facts``."""
    return filter_symbols(json_object(text))


def reply_to_decision(messages: Sequence[BaseMessage], text: str) -> Mapping[str, Any]:
    """Decide the symbols of the facts; behind a reply of its own those that the newest message asks for."""
    facts = json_object(text)
    symbols = list(table_rows(facts))
    facts_of_message, _, behind = messages[-1].text.rpartition("</decision_facts>")
    by_market = [told("by_market", language) for language in get_args(Language)]
    refused = [name for name in symbols if any(f"- {name}: {each}" in behind for each in by_market)]
    asked_for = _listed_last(behind, symbols)
    return decide_portfolio(
        facts,
        symbols=symbols if facts_of_message else asked_for or symbols,
        retries=sum(isinstance(message, AIMessage) for message in messages),
        rejected=asked_for if facts_of_message else refused,
    )


def _listed_last(text: str, symbols: Sequence[str]) -> list[str]:
    """The symbols that a text lists behind its last colon."""
    listed = {name.strip() for name in re.split(r"[,，、]", re.split(r"[:：]", text)[-1])}  # "股票：A、F"
    return [symbol for symbol in symbols if symbol in listed]


KEYLESS = {"decision_facts": reply_to_decision, "filter_facts": reply_to_filter}
