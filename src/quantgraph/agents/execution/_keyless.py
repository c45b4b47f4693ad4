"""The keyless planner as the stepwise agent: a fixed rule, see ``docs/keyless-planner.md``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from quantgraph._util.values import finite_number, is_number, json_object
from quantgraph.agents.execution._prompt import column_of
from quantgraph.llm.messages import read

_BARS, _PERIOD, _RSI_PERIOD, _RSI_HIGH = 40, 20, 14, 70.0
_STEP_CONFIDENCE = 0.5


def next_action(
    facts: Mapping[str, Any], step: int, results: Sequence[Any], *, is_sent_back: bool = False
) -> dict[str, Any]:
    """Return the action of a step as JSON: bars, their average, RSI, the position, the decision."""
    symbol = str(facts.get("symbol") or "")
    if is_sent_back:
        return _decision(step, "hold", "the last reply was sent back", facts)
    failed = next((each for each in results if isinstance(each, Mapping) and "error" in each), None)
    if failed is not None:
        return _decision(step, "hold", f"a step failed: {failed['error']}", facts)
    closes = list(filter(is_number, column_of(results[0], "close"))) if results else []
    if results and len(closes) < _PERIOD:
        reason = f"{len(closes)} closes are known, {_PERIOD} are needed"
        return _decision(step, "hold", reason, facts)
    average = sum(closes[-_PERIOD:]) / _PERIOD if closes else math.nan
    match len(results):
        case 0:
            params = {"symbol": symbol, "timeframe": "1d", "limit": _BARS}
            return _call(step, "get_kline_data", params, f"the last {_BARS} closes are needed")
        case 1:
            return _action(
                step,
                "calculation",
                {
                    "calculation_type": "MA",
                    "formula": f"MA{_PERIOD} = sum(close[-{_PERIOD}:]) / {_PERIOD}",
                    "inputs": {"period": _PERIOD, "data": "close"},
                },
                f"the average of the last {_PERIOD} closes",
                intermediate_result={f"ma{_PERIOD}": round(average, 4), "close": closes[-1]},
            )
        case 2:
            params = {"symbol": symbol, "name": "RSI", "params": {"period": _RSI_PERIOD}}
            return _call(step, "get_indicator", params, f"RSI({_RSI_PERIOD}) says whether it is overbought")
        case 3:
            return _call(step, "get_position", {"symbol": symbol}, "what is held decides what may be done")
        case _:
            action, reason = _decided(closes[-1], average, column_of(results[2], "rsi"), results[3])
            return _decision(step, action, reason, facts)


def _decided(close: float, average: float, values: Sequence[Any], position: Any) -> tuple[str, str]:
    rsi = finite_number(values[-1]) if values else None
    held = position if isinstance(position, Mapping) else {}
    shares, sellable = (finite_number(held.get(name)) for name in ("shares", "sellable"))
    if rsi is None or shares is None:
        return "hold", "RSI or the position is not known"
    side = "above" if close > average else "below" if close < average else "at"
    numbers = f"the close of {close:g} is {side} MA{_PERIOD} of {average:.4f}, RSI is {rsi:.2f}"
    if close > average and rsi < _RSI_HIGH and not shares:
        return "buy", f"{numbers}, and nothing is held"
    if close < average and sellable:
        return "sell", f"{numbers}, and {sellable:g} shares may be sold"
    return "hold", f"{numbers}, and {shares:g} shares are held"


def _decision(step: int, action: str, reason: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    rule = "; the rule in words is not executed" if facts.get("user_requirements") else ""
    decided = {"action": action, "reason": f"keyless rule: {reason}{rule}", "confidence": _STEP_CONFIDENCE}
    return _action(step, "decision", decided, reason)


def _call(step: int, tool: str, params: Mapping[str, Any], reasoning: str) -> dict[str, Any]:
    return _action(step, "tool_call", {"tool_name": tool, "params": params}, reasoning)


def _action(
    step: int, kind: str, action: Mapping[str, Any], reasoning: str, intermediate_result: Any = None
) -> dict[str, Any]:
    return {
        "type": kind,
        "step": step,
        "reasoning": f"keyless rule: {reasoning}",
        "action": action,
        "result": None,
        "intermediate_result": intermediate_result,
        "next_step": None,
    }


def reply_to_step(messages: Sequence[BaseMessage], text: str) -> Mapping[str, Any]:
    """The next action of an execution: its step and the results so far stand in the messages."""
    texts = [message.text for message in messages if isinstance(message, HumanMessage | ToolMessage)]
    results = [json_object(part).get("result") for each in texts if (part := read("observation", each))]
    replies = sum(isinstance(message, AIMessage) for message in messages)
    return next_action(json_object(text), len(results) + 1, results, is_sent_back=replies > len(results))


KEYLESS = {"execution_facts": reply_to_step}
