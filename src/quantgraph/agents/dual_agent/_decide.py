"""A whole decision: the filter chooses symbols for fundamentals, then all are decided in batches.

The steps of a batch take and return a :class:`Draft`, which is plain JSON: the nodes of the subgraph keep it
in their state, and :func:`decide_batch` runs the same steps in a row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from pydantic import BaseModel

from quantgraph._util.texts import Language
from quantgraph.agents.dual_agent._config import Agents, DualAgentConfig
from quantgraph.agents.dual_agent._features import after_filter, least_buys_of, positions_of
from quantgraph.agents.dual_agent._prompts import (
    configured_prompt,
    decision_facts,
    fault_retry_text,
    filter_facts,
    rejection_retry_text,
    unreadable_retry_text,
)
from quantgraph.agents.dual_agent._validation import CheckedDecision, check_cash, fit_to_cash, read_decisions
from quantgraph.errors import BadOption, ModelOutputInvalid, QuantGraphError
from quantgraph.llm import cached_attempt, drop_replies
from quantgraph.llm.messages import ask_json, read_object, vendor_fields, wrap
from quantgraph.settings import Role

_compact_json = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
_REPLY_KEPT = 2_000
"""Characters of an unreadable reply that the model is shown again."""
_NO_ANSWER = "no attempt was left to decide this symbol"


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a batch is decided from; ``rejected`` are orders that the market refused."""

    features: Sequence[Mapping[str, Any]]
    portfolio: Mapping[str, float]
    history: Mapping[str, str] = field(default_factory=dict)
    rule: str = ""
    plan: str = ""
    rejected: Sequence[Mapping[str, Any]] = ()
    prompt: str
    language: Language = "en"
    min_cash_ratio: float
    cost_rate: float = 0.0
    max_attempts: int
    timestamp: str = ""

    @property
    def positions(self) -> dict[str, float]:
        """Value of each symbol's position, in the order of the features."""
        return positions_of(self.features)


class Draft(TypedDict):
    """A batch between two steps.

    ``messages`` are the ``[role, text]`` so far; ``open`` the symbols that the next reply decides;
    ``decided`` the valid decisions so far, in their order; ``places`` where in its reply each one stood;
    ``faults`` why a symbol has none; ``retry`` what the next message says of it; ``attempts`` the model calls
    made.
    """

    messages: list[list[Any]]
    open: list[str]
    decided: dict[str, CheckedDecision]
    places: dict[str, int]
    faults: dict[str, str]
    retry: str
    attempts: int


def decide_batch(batch: Batch, agents: Agents) -> tuple[dict[str, dict[str, Any]], int]:
    """Decide every symbol of a batch."""
    draft = first_draft(batch, failed=agents.meter.failed)
    while needs_answer(draft, batch):
        draft = answered(with_retry(draft), batch, agents)
    return settled(draft, batch), draft["attempts"]


def first_draft(batch: Batch, *, failed: str = "") -> Draft:
    """The draft before the first call: the system prompt, and the facts of the batch.

    ``failed`` says why the models failed before: then no attempt is left.
    """
    facts = decision_facts(
        batch.features,
        batch.portfolio,
        batch.history,
        rule=batch.rule,
        plan=batch.plan,
        min_cash_ratio=batch.min_cash_ratio,
        cost_rate=batch.cost_rate,
    )
    parts = [wrap("decision_facts", _compact_json(facts))]
    rejected = [order for order in batch.rejected if order["symbol"] in batch.positions]
    if rejected:
        parts.append(rejection_retry_text(rejected, batch.language))
    return Draft(
        messages=[["system", batch.prompt], ["human", "\n\n".join(parts)]],
        open=list(batch.positions),
        decided={},
        places={},
        faults=dict.fromkeys(batch.positions, failed) if failed else {},
        retry="",
        attempts=batch.max_attempts if failed else 0,
    )


def needs_answer(draft: Draft, batch: Batch) -> bool:
    """Whether symbols are left to decide, and attempts to do it."""
    return bool(draft["open"]) and draft["attempts"] < batch.max_attempts


def with_retry(draft: Draft) -> Draft:
    """The draft with the message about its last reply, if it has made one."""
    if not draft["retry"]:
        return draft
    return {**draft, "messages": [*draft["messages"], ["human", draft["retry"]]], "retry": ""}


def answered(draft: Draft, batch: Batch, agents: Agents) -> Draft:
    """Ask the model for the open symbols, and check its reply.

    The cache does not keep a reply that fails a check. An error that :attr:`.Agents.ends_asking` takes
    spends all attempts: what is decided stands, and the rest has the error as its fault.
    """
    meter, more = agents.meter, dict[str, Any]()
    with cached_attempt() as made:
        try:
            reply = agents.ask("decision", _conversation(draft["messages"]))
            value = read_object(reply)
        except ModelOutputInvalid as error:
            meter.parse_errors += 1
            text, checked = str(error.data.get("reply", ""))[:_REPLY_KEPT], _unreadable(draft, batch, error)
        except QuantGraphError as error:
            agents.give_up(error)
            return {**draft, "faults": _with_fault(draft, error.line), "attempts": batch.max_attempts}
        else:
            text, checked = str(reply.text), _checked(draft, batch, value)
            more = vendor_fields(reply)
            meter.logic_errors += bool(checked["faults"])
            meter.cash_errors += len(checked["open"]) > len(checked["faults"])
        if checked["open"]:
            drop_replies(made)
    return {
        **checked,
        "messages": [*draft["messages"], ["ai", text, *([more] if more else [])]],
        "attempts": draft["attempts"] + 1,
    }


def settled(draft: Draft, batch: Batch) -> dict[str, dict[str, Any]]:
    """Return a decision for every symbol, in the order of the features.

    A symbol without a valid one is held at its current value, and the increases are cut to the cash, in the
    model's own order.
    """
    kept = fit_to_cash(
        draft["decided"],
        batch.positions,
        batch.portfolio,
        least_buys=least_buys_of(batch.features),
        min_cash_ratio=batch.min_cash_ratio,
        cost_rate=batch.cost_rate,
    )
    return {
        name: _result(kept[name], value, batch.timestamp)
        if name in kept
        else fallback_hold(value, draft["faults"].get(name) or _NO_ANSWER, batch.timestamp)
        for name, value in batch.positions.items()
    }


def fallback_hold(value: float, reason: str, timestamp: str, *, why: str = "fallback") -> dict[str, Any]:
    """A hold at the current value that the model did not choose; ``why`` is its ``hold_reason``."""
    return {
        "action": "hold",
        "target_cash_amount": value,
        "cash_change": 0.0,
        "reasons": [reason],
        "confidence": 0.5,
        "timestamp": timestamp,
        "hold_reason": why,
        "analysis_excerpt": "",
        "tech_score": 0.5,
        "sent_score": 0.0,
        "event_risk": "normal",
    }


def _checked(draft: Draft, batch: Batch, value: Any) -> Draft:
    """Take over what is valid of a reply; leave open what is to be decided again, and say why.

    A symbol that the reply leaves out keeps its last valid decision, if it has one. A decision has the place
    of its symbol among the decisions of the latest reply that has it; of two in one place, which are of two
    replies, the one with more confidence comes first, then the earlier one.
    """
    positions = batch.positions
    ours = {name: positions[name] for name in draft["open"]}
    decisions, faults = read_decisions(value, ours, total_assets=batch.portfolio["total_assets"])
    refuted = [name for name, fault in faults.items() if fault.kind != "missing"]
    places = draft["places"] | {name: place for place, name in enumerate(decisions)}
    merged = {name: each for name, each in draft["decided"].items() if name not in decisions} | decisions
    ranked = sorted(merged, key=lambda name: (places[name], -merged[name]["confidence"]))
    decided = {name: merged[name] for name in ranked if name not in refuted}
    short = check_cash(
        decided, positions, batch.portfolio, min_cash_ratio=batch.min_cash_ratio, cost_rate=batch.cost_rate
    )
    bought = [name for name, each in decided.items() if each["target_cash_amount"] > positions[name]]
    again = [name for name in positions if name in faults or (short and name in bought)]
    return {
        **draft,
        "decided": decided,
        "places": places,
        "open": again,
        "faults": {name: fault.message for name, fault in faults.items()},
        "retry": fault_retry_text(faults, short, again, positions, batch.language) if again else "",
    }


def _unreadable(draft: Draft, batch: Batch, error: ModelOutputInvalid) -> Draft:
    faults = draft["faults"] | dict.fromkeys(draft["open"], error.message)
    return {**draft, "faults": faults, "retry": unreadable_retry_text(error.message, batch.language)}


def _with_fault(draft: Draft, line: str) -> dict[str, str]:
    """Return the faults, with a line more for each open symbol."""
    faults = draft["faults"]
    more = {name: f"{faults[name]}; {line}" if name in faults else line for name in draft["open"]}
    return faults | more


def _result(decision: CheckedDecision, value: float, timestamp: str) -> dict[str, Any]:
    target = decision["target_cash_amount"]
    return {
        "action": decision["action"],
        "target_cash_amount": target,
        "cash_change": target - value,
        "reasons": decision["reasons"],
        "confidence": decision["confidence"],
        "timestamp": timestamp,
        **({"hold_reason": decision.get("hold_reason", "model")} if decision["action"] == "hold" else {}),
        **({"note": decision["note"]} if "note" in decision else {}),
    }


def _conversation(messages: Sequence[Sequence[Any]]) -> list[AnyMessage]:
    kinds = {"system": SystemMessage, "human": HumanMessage, "ai": AIMessage}
    return [kinds[role](text, additional_kwargs=more[0] if more else {}) for role, text, *more in messages]


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

    An unreadable reply is asked for once more; then, or if the models fail, all symbols need
    fundamentals.
    """
    symbols, meter = list(batch.positions), agents.meter
    facts = filter_facts(batch.features, batch.portfolio, batch.history, rule=batch.rule)
    question: list[AnyMessage] = [
        SystemMessage(agents.filter_prompt),
        HumanMessage(wrap("filter_facts", _compact_json(facts))),
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


def filtered(batch: Batch, agents: Agents) -> tuple[Batch, dict[str, str]]:
    """The batch with the fundamentals that the filter chooses alone, and its reasons."""
    chosen = choose_fundamentals(batch, agents)
    why = dict(chosen.reasoning)
    return replace(batch, features=after_filter(batch.features, chosen.need, why)), why


def _all(symbols: list[str], why: str) -> Filtered:
    return Filtered(need=tuple(symbols), reasoning=dict.fromkeys(symbols, why))


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
    reasoning: Mapping[str, str] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    features: Sequence[Mapping[str, Any]] = ()


def prompts_of(config: DualAgentConfig, language: Language) -> tuple[str, str]:
    """Return the system prompts of the filter and of the decision."""
    first, second = (
        configured_prompt(config.agent(role).prompt or names[language]) for role, names in _PROMPTS.items()
    )
    return first, second


def decide_all(batch: Batch, decide_one: Callable[[Batch], Decided]) -> Decided:
    """Decide all symbols, in batches of :data:`BATCH_SIZE`, one after another in their order."""
    parts, portfolio = [], batch.portfolio
    for items in batches(batch.features):
        now = replace(batch, features=items, portfolio=portfolio)
        parts.append(decide_one(now))
        portfolio = portfolio_after(portfolio, now.positions, parts[-1].decisions)
    return Decided(
        decisions={name: each for part in parts for name, each in part.decisions.items()},
        reasoning={name: why for part in parts for name, why in part.reasoning.items()},
        attempts={name: made for part in parts for name, made in part.attempts.items()},
        features=[item for part in parts for item in part.features],
    )


def filter_and_decide(batch: Batch, agents: Agents, *, filters: bool) -> Decided:
    """Filter and decide one batch; what is left after the models failed is held."""
    why = dict[str, str]()
    if filters and not agents.meter.failed:
        batch, why = filtered(batch, agents)
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


def portfolio_of(
    features: Sequence[Mapping[str, Any]], cash: float, total: float | None = None
) -> dict[str, float]:
    """Return the portfolio of cash and the positions, which are those of the features by default."""
    held = sum(positions_of(features).values()) if total is None else total - cash
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


def with_market_as_reason(
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
