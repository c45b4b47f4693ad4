"""A whole decision: the filter chooses symbols for fundamentals, then all symbols are decided in batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from pydantic import BaseModel

from quantgraph._util.texts import Language
from quantgraph.agents.dual_agent._batch import Batch, decide_batch, fallback_hold
from quantgraph.agents.dual_agent._config import DualAgentConfig
from quantgraph.agents.dual_agent._features import add_fundamentals, positions_of
from quantgraph.agents.dual_agent._models import Agents
from quantgraph.agents.dual_agent._prompts import filter_facts, load_prompt_strictly
from quantgraph.errors import BadOption, ModelOutputInvalid, QuantGraphError
from quantgraph.llm.messages import ask_json, wrap
from quantgraph.settings import Role

_FAILED = "the filter gave no usable answer: fundamentals are shown"
_UNSAID = "the filter gave no reason"
_REASON = 500


class _Reply(BaseModel):
    stocks_need_fundamental: list[str]
    reasoning: dict[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class Filtered:
    """The filter's choice."""

    need: tuple[str, ...]
    reasoning: Mapping[str, str]


def choose_fundamentals(batch: Batch, agents: Agents) -> Filtered:
    """Ask the filter about the symbols of a batch.

    An unreadable reply is asked for once more; then, or if the models are given up, all symbols need
    fundamentals.
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


Fundamentals = Callable[[Collection[str]], Mapping[str, Mapping[str, Any]]]

_NOT_REJECTED = "its order was not rejected, so it is not decided again"

BATCH_SIZE = 50
"""Symbols that one call decides."""

ROLES: tuple[Role, ...] = ("filter", "decision")
"""Roles of the two agents."""

DECISION_PROMPT = "decision_agent_v1.txt"
"""File of the decision's prompt where none is configured."""

_PROMPTS: dict[Role, dict[Language, str]] = {
    "filter": {"en": "fundamental_filter_agent_v1.txt", "zh": "fundamental_filter_agent_v1_zh.txt"},
    "decision": {"en": DECISION_PROMPT, "zh": "decision_agent_v1_zh.txt"},
}


@dataclass(frozen=True, kw_only=True)
class Decided:
    """Decisions, reasons of the filter and model calls made, by symbol; the features that were seen."""

    decisions: Mapping[str, dict[str, Any]]
    reasoning: Mapping[str, str]
    attempts: Mapping[str, int]
    features: Sequence[Mapping[str, Any]]


def prompts_of(config: DualAgentConfig, language: Language) -> tuple[str, str]:
    """Return the system prompts of the filter and of the decision."""
    first, second = (
        load_prompt_strictly(config.agent(role).prompt or names[language]) for role, names in _PROMPTS.items()
    )
    return first, second


def decide_all(batch: Batch, agents: Agents, fundamentals: Fundamentals | None) -> Decided:
    """Filter and decide all symbols, in batches of :data:`BATCH_SIZE`, one after another in their order.

    After an error that :attr:`Agents.is_given_up` takes, the symbols that are left are held.
    """
    decisions: dict[str, dict[str, Any]] = {}
    reasoning: dict[str, str] = {}
    attempts: dict[str, int] = {}
    seen: list[Mapping[str, Any]] = []
    portfolio = batch.portfolio
    for items in batches(batch.features):
        now = replace(batch, features=items, portfolio=portfolio)
        decided = _decide_one(now, agents, fundamentals)
        portfolio = portfolio_after(portfolio, now.positions, decided.decisions)
        decisions |= decided.decisions
        reasoning |= decided.reasoning
        attempts |= decided.attempts
        seen += decided.features
    return Decided(decisions=decisions, reasoning=reasoning, attempts=attempts, features=seen)


def _decide_one(batch: Batch, agents: Agents, fundamentals: Fundamentals | None) -> Decided:
    """Filter and decide one batch; hold it if the models were given up before."""
    why, meter = dict[str, str](), agents.meter
    if fundamentals is not None and not meter.failed:
        chosen = choose_fundamentals(batch, agents)
        why = dict(chosen.reasoning)
        found = {} if meter.failed else fundamentals(chosen.need)
        batch = replace(batch, features=add_fundamentals(batch.features, chosen.need, why, found))
    decisions, calls = decide_batch(batch, agents)
    return Decided(
        decisions=decisions, reasoning=why, attempts=dict.fromkeys(decisions, calls), features=batch.features
    )


def batches(features: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Cut features into batches."""
    for first in range(0, len(features), BATCH_SIZE):
        yield features[first : first + BATCH_SIZE]


def held(batch: Batch, reason: str) -> dict[str, dict[str, Any]]:
    """Hold every symbol of a batch at its current value."""
    return {
        symbol: fallback_hold(value, reason, batch.timestamp) for symbol, value in batch.positions.items()
    }


def portfolio_of(features: Sequence[Mapping[str, Any]], cash: float) -> dict[str, float]:
    """Return the portfolio of cash and the positions of the features."""
    held = sum(positions_of(features).values())
    return {"total_assets": cash + held, "available_cash": cash, "position_value": held}


def portfolio_after(
    portfolio: Mapping[str, float], positions: Mapping[str, float], decisions: Mapping[str, Mapping[str, Any]]
) -> dict[str, float]:
    """Return the portfolio once decisions are carried out, without costs."""
    spent = sum(each["target_cash_amount"] - positions[symbol] for symbol, each in decisions.items())
    return {
        **portfolio,
        "available_cash": portfolio["available_cash"] - spent,
        "position_value": portfolio["position_value"] + spent,
    }


def renewed_part(
    batch: Batch, earlier: Mapping[str, Mapping[str, Any]]
) -> tuple[Batch, dict[str, dict[str, Any]]]:
    """Return the batch of the symbols whose orders were rejected, and the decisions of the others.

    Those stand as in ``earlier``, and their cash is spent; one that is not there holds, ``hold_reason``
    is ``stands``.
    """
    if not batch.rejected:
        return batch, {}
    positions, rejected = batch.positions, {order.get("symbol") for order in batch.rejected}
    for symbol in rejected:
        if symbol not in positions:
            raise BadOption(
                f"rejected_orders: {symbol!r:.60} is not among the symbols that are decided, "
                f"{', '.join(list(positions)[:10])}",
                parameter="rejected_orders",
            )
    known = {name: dict(each) for name, each in earlier.items() if _has_target(each)}
    standing = {
        name: known.get(name) or fallback_hold(value, _NOT_REJECTED, batch.timestamp, why="stands")
        for name, value in positions.items()
        if name not in rejected
    }
    features = [item for item in batch.features if item["symbol"] in rejected]
    portfolio = portfolio_after(batch.portfolio, positions, standing)
    return replace(batch, features=features, portfolio=portfolio), standing


def _has_target(decision: object) -> bool:
    return isinstance(decision, Mapping) and isinstance(decision.get("target_cash_amount"), int | float)


def day_of(features: Sequence[Mapping[str, Any]]) -> str:
    """Return the date of the features' session; "" if they have none."""
    return max((str(item["features"]["market_data"].get("date") or "")[:10] for item in features), default="")


def decided_at(features: Sequence[Mapping[str, Any]]) -> str:
    """Return the open of the features' session, ISO; the time of the clock if they have no date."""
    date = day_of(features)
    return f"{date}T09:00:00" if date else datetime.now(UTC).isoformat()


def spent_attempts(rejected: Sequence[Mapping[str, Any]]) -> int:
    """Return how often the market has refused already."""
    return max((int(order.get("retry_count") or 0) for order in rejected), default=0)


def marked(
    decisions: Mapping[str, dict[str, Any]], rejected: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Name the market as the reason of a hold that stands in for a rejected order."""
    refused = {order["symbol"] for order in rejected}
    return {
        symbol: {**each, "hold_reason": "rejected"}
        if symbol in refused and each.get("hold_reason") == "fallback"
        else each
        for symbol, each in decisions.items()
    }
