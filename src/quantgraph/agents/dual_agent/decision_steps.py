"""A whole decision: filter, features and decisions of all symbols, in batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from quantgraph._util.texts import Language
from quantgraph.agents.dual_agent.agent_models import Ask, Meter
from quantgraph.agents.dual_agent.decision_batch import Batch, decide_batch, fallback_hold
from quantgraph.agents.dual_agent.dual_config import DualAgentConfig
from quantgraph.agents.dual_agent.features import add_fundamentals, positions_of
from quantgraph.agents.dual_agent.fundamental_filter import choose_fundamentals
from quantgraph.agents.dual_agent.prompt_files import load_prompt_strictly
from quantgraph.errors import QuantGraphError
from quantgraph.settings import Role

__all__ = [
    "BATCH_SIZE",
    "DECISION_PROMPT",
    "ROLES",
    "Agents",
    "Decided",
    "day_of",
    "decide_all",
    "decided_at",
    "held",
    "marked",
    "portfolio_of",
    "prompts_of",
    "spent_attempts",
]

Fundamentals = Callable[[Collection[str]], Mapping[str, Mapping[str, Any]]]

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
class Agents:
    """How the two agents are asked.

    Attributes
    ----------
    filter_prompt
        The system prompt of the filter; that of the decision is the batch's.
    ask, meter
        Asks a role's model, and counts.
    is_given_up
        Whether an error of ``ask`` makes the rest of the decision a fallback; others are raised.
    """

    filter_prompt: str
    ask: Ask
    meter: Meter
    is_given_up: Callable[[QuantGraphError], bool]


@dataclass(frozen=True, kw_only=True)
class Decided:
    """Decisions, reasons of the filter and model calls made, by symbol; the features that were seen."""

    decisions: Mapping[str, dict[str, Any]]
    reasoning: Mapping[str, str]
    attempts: Mapping[str, int]
    features: Sequence[Mapping[str, Any]]


def prompts_of(config: DualAgentConfig, language: Language) -> tuple[str, str]:
    """Return the system prompts of the filter and of the decision.

    Raises
    ------
    BadOption
        If a prompt's file is missing.
    """
    first, second = (
        load_prompt_strictly(config.agent(role).prompt or names[language]) for role, names in _PROMPTS.items()
    )
    return first, second


def decide_all(
    features: Sequence[Mapping[str, Any]],
    batch: Batch,
    agents: Agents,
    fundamentals: Fundamentals | None,
) -> Decided:
    """Filter and decide all symbols, in batches of :data:`BATCH_SIZE`, one after another in their order.

    After an error that :attr:`Agents.is_given_up` takes, the symbols that are left are held.

    Parameters
    ----------
    features
        An item for each symbol, without fundamentals.
    batch
        What is the same for all batches; its portfolio is that before the first one.
    fundamentals
        Returns the fundamentals of symbols; None leaves the filter out: the features are complete.
    """
    decisions: dict[str, dict[str, Any]] = {}
    reasoning: dict[str, str] = {}
    attempts: dict[str, int] = {}
    seen: list[Mapping[str, Any]] = []
    portfolio = batch.portfolio
    for items in batches(features):
        now = replace(batch, features=items, portfolio=portfolio)
        decided = _decide_one(now, agents, fundamentals)
        portfolio = portfolio_after(portfolio, now.positions, decided.decisions)
        decisions |= decided.decisions
        reasoning |= decided.reasoning
        attempts |= decided.attempts
        seen += decided.features
    return Decided(decisions=decisions, reasoning=reasoning, attempts=attempts, features=seen)


def _decide_one(batch: Batch, agents: Agents, fundamentals: Fundamentals | None) -> Decided:
    """Filter and decide one batch; hold it if the models were given up."""
    why, calls = dict[str, str](), batch.max_attempts
    if not agents.meter.failed:
        try:
            if fundamentals is not None:
                chosen = choose_fundamentals(
                    batch.features,
                    batch.portfolio,
                    batch.history,
                    prompt=agents.filter_prompt,
                    rule=batch.rule,
                    ask=agents.ask,
                    meter=agents.meter,
                )
                why = dict(chosen.reasoning)
                found = fundamentals(chosen.need)
                batch = replace(batch, features=add_fundamentals(batch.features, chosen.need, why, found))
            decisions, calls = decide_batch(batch, agents.ask, agents.meter)
        except QuantGraphError as error:
            if not agents.is_given_up(error):
                raise
            agents.meter.failed = error.line
    if agents.meter.failed:
        decisions = held(batch, agents.meter.failed)
    return Decided(
        decisions=decisions,
        reasoning=why,
        attempts=dict.fromkeys(decisions, calls),
        features=batch.features,
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
