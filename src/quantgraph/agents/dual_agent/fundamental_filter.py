"""The fundamental filter: which symbols need fundamentals, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from pydantic import BaseModel

from quantgraph.agents.dual_agent.agent_models import Agents
from quantgraph.agents.dual_agent.decision_batch import Batch
from quantgraph.agents.dual_agent.prompt_facts import filter_facts
from quantgraph.errors import ModelOutputInvalid, QuantGraphError
from quantgraph.llm.structured import ask_json
from quantgraph.llm.tags import wrap

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


def choose_fundamentals(batch: Batch, agents: Agents) -> Filtered:
    """Ask the filter about the symbols of a batch.

    An unreadable reply is asked for once more; then, or if the models are given up, all symbols need
    fundamentals. Symbols that were not asked about are dropped.

    Raises
    ------
    QuantGraphError
        What the model's call raises, and is not given up.
    """
    symbols, meter = list(batch.positions), agents.meter
    facts = filter_facts(batch.features, batch.portfolio, batch.history, rule=batch.rule)
    question: list[AnyMessage] = [
        SystemMessage(agents.filter_prompt),
        HumanMessage(wrap("filter_facts", json.dumps(facts, ensure_ascii=False))),
    ]

    def agent(state: dict[str, list[AnyMessage]]) -> dict[str, list[AnyMessage]]:
        return {"messages": [*state["messages"], agents.ask("filter", state["messages"])]}

    before = meter.calls
    try:
        reply = ask_json(agent, question, _Reply)
    except ModelOutputInvalid:
        meter.parse_errors += meter.calls - before
        return _all(symbols, _FAILED)
    except QuantGraphError as error:
        agents.give_up(error)
        return _all(symbols, error.line)
    meter.parse_errors += meter.calls - before - 1
    chosen = {*reply.stocks_need_fundamental}
    return Filtered(
        need=tuple(symbol for symbol in symbols if symbol in chosen),
        reasoning={symbol: reply.reasoning.get(symbol, _UNSAID)[:_REASON] for symbol in symbols},
    )


def _all(symbols: list[str], why: str) -> Filtered:
    return Filtered(need=tuple(symbols), reasoning=dict.fromkeys(symbols, why))
