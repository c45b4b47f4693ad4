"""The fundamental filter: which symbols need fundamentals, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from pydantic import BaseModel

from quantgraph.agents.dual_agent.agent_models import Ask, Meter
from quantgraph.agents.dual_agent.prompt_facts import filter_facts
from quantgraph.errors import ModelOutputInvalid
from quantgraph.llm.structured import ask_json
from quantgraph.llm.tags import wrap

__all__ = ["Filtered", "choose_fundamentals"]

_FAILED = "the filter gave no usable answer: fundamentals are shown"
_UNSAID = "the filter gave no reason"
_REASON = 500


class _Reply(BaseModel):
    stocks_need_fundamental: list[str]
    reasoning: dict[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class Filtered:
    """The filter's choice.

    Attributes
    ----------
    need
        Symbols whose fundamentals the decision is shown, in the order of the features.
    reasoning
        Why, or why not, by symbol.
    """

    need: tuple[str, ...]
    reasoning: Mapping[str, str]


def choose_fundamentals(
    features: Sequence[Mapping[str, Any]],
    portfolio: Mapping[str, float],
    history: Mapping[str, str],
    *,
    prompt: str,
    rule: str,
    ask: Ask,
    meter: Meter,
) -> Filtered:
    """Ask the filter about the symbols of a batch.

    An unreadable reply is asked for once more; then all symbols need fundamentals. Symbols that were not
    asked about are dropped.

    Raises
    ------
    QuantGraphError
        What ``ask`` raises.
    """
    symbols = [item["symbol"] for item in features]
    facts = filter_facts(features, portfolio, history, rule=rule)
    question: list[AnyMessage] = [
        SystemMessage(prompt),
        HumanMessage(wrap("filter_facts", json.dumps(facts, ensure_ascii=False))),
    ]

    def agent(state: dict[str, list[AnyMessage]]) -> dict[str, list[AnyMessage]]:
        return {"messages": [*state["messages"], ask("filter", state["messages"])]}

    before = meter.calls
    try:
        reply = ask_json(agent, question, _Reply)
    except ModelOutputInvalid:
        meter.parse_errors += meter.calls - before
        return Filtered(need=tuple(symbols), reasoning=dict.fromkeys(symbols, _FAILED))
    meter.parse_errors += meter.calls - before - 1
    chosen = {*reply.stocks_need_fundamental}
    return Filtered(
        need=tuple(symbol for symbol in symbols if symbol in chosen),
        reasoning={symbol: reply.reasoning.get(symbol, _UNSAID)[:_REASON] for symbol in symbols},
    )
