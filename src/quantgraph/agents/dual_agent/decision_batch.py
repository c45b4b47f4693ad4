"""One batch of symbols under decision: asked, checked, asked again, and settled.

The steps take and return a :class:`Draft`, which is plain JSON: the nodes of the subgraph keep it in their
state, and :func:`decide_batch` runs the same steps in a row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from quantgraph._util.texts import Language
from quantgraph.agents.dual_agent.agent_models import Ask, Meter
from quantgraph.agents.dual_agent.decision_cash import check_cash, hold_those_that_do_not_fit
from quantgraph.agents.dual_agent.decision_validation import CheckedDecision, read_decisions
from quantgraph.agents.dual_agent.features import positions_of
from quantgraph.agents.dual_agent.prompt_facts import decision_facts
from quantgraph.agents.dual_agent.retry_texts import (
    cash_retry_text,
    logic_retry_text,
    ratio_retry_text,
    rejection_retry_text,
    unreadable_retry_text,
)
from quantgraph.errors import ModelOutputInvalid
from quantgraph.llm.cache import cached_attempt, drop_replies
from quantgraph.llm.structured import read_object
from quantgraph.llm.tags import wrap

__all__ = [
    "Batch",
    "Draft",
    "answered",
    "decide_batch",
    "first_draft",
    "needs_answer",
    "settled",
    "with_retry",
]

_REPLY_KEPT = 2_000
"""Characters of an unreadable reply that the model is shown again."""
_NO_ANSWER = "no attempt was left to decide this symbol"


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a batch is decided from.

    Attributes
    ----------
    features
        One item for each symbol: ``{"symbol": ..., "features": {...}}``.
    portfolio
        ``total_assets``, ``available_cash`` and ``position_value``.
    history
        Earlier decisions by symbol, as text.
    rule
        The user's rule in words, which the decision follows; "" without one.
    rejected
        Orders that the market refused, see :func:`.rejection_retry_text`.
    prompt, language
        The system prompt, and the language of what is asked again.
    min_cash_ratio
        Least share of the total assets that stays cash.
    cost_rate
        Commission and other charges, as a share of what is traded.
    max_attempts
        Model calls for this batch, at least 0.
    timestamp
        When it is decided, ISO.
    """

    features: Sequence[Mapping[str, Any]]
    portfolio: Mapping[str, float]
    history: Mapping[str, str] = field(default_factory=dict)
    rule: str = ""
    rejected: Sequence[Mapping[str, Any]] = ()
    prompt: str
    language: Language = "en"
    min_cash_ratio: float = 0.0
    cost_rate: float = 0.0
    max_attempts: int = 3
    timestamp: str = ""

    @property
    def positions(self) -> dict[str, float]:
        """Value of each symbol's position, in the order of the features."""
        return positions_of(self.features)


class Draft(TypedDict):
    """A batch between two steps.

    ``messages`` are the ``[role, text]`` so far; ``open`` the symbols that the next reply decides;
    ``decided`` the decisions so far; ``faults`` what is wrong by symbol; ``retry`` what the model is told of
    it; ``attempts`` the model calls made.
    """

    messages: list[list[str]]
    open: list[str]
    decided: dict[str, CheckedDecision]
    faults: dict[str, str]
    retry: str
    attempts: int


def decide_batch(batch: Batch, ask: Ask, meter: Meter) -> tuple[dict[str, dict[str, Any]], int]:
    """Decide every symbol of a batch.

    Returns
    -------
    tuple
        A decision by symbol, and the model calls made.

    Raises
    ------
    QuantGraphError
        What ``ask`` raises; an unreadable reply is asked for again instead.
    """
    draft = first_draft(batch)
    while needs_answer(draft, batch):
        draft = answered(with_retry(draft), batch, ask, meter)
    return settled(draft, batch), draft["attempts"]


def first_draft(batch: Batch) -> Draft:
    """The draft before the first call: the system prompt, and the facts of the batch."""
    facts = decision_facts(
        batch.features,
        batch.portfolio,
        batch.history,
        rule=batch.rule,
        min_cash_ratio=batch.min_cash_ratio,
        cost_rate=batch.cost_rate,
    )
    parts = [wrap("decision_facts", json.dumps(facts, ensure_ascii=False))]
    if batch.rejected:
        parts.append(rejection_retry_text(batch.rejected, batch.language))
    return Draft(
        messages=[["system", batch.prompt], ["human", "\n\n".join(parts)]],
        open=list(batch.positions),
        decided={},
        faults={},
        retry="",
        attempts=0,
    )


def needs_answer(draft: Draft, batch: Batch) -> bool:
    """Whether symbols are left to decide, and attempts to do it."""
    return bool(draft["open"]) and draft["attempts"] < batch.max_attempts


def with_retry(draft: Draft) -> Draft:
    """The draft with what the model is told of its last reply, if it has made one."""
    if not draft["retry"]:
        return draft
    return {**draft, "messages": [*draft["messages"], ["human", draft["retry"]]], "retry": ""}


def answered(draft: Draft, batch: Batch, ask: Ask, meter: Meter) -> Draft:
    """Ask the model for the open symbols, and check its reply.

    The cache does not keep a reply that fails a check.
    """
    with cached_attempt() as made:
        try:
            reply = ask("decision", _conversation(draft["messages"]))
            value = read_object(reply)
        except ModelOutputInvalid as error:
            meter.parse_errors += 1
            text, checked = str(error.data.get("reply", ""))[:_REPLY_KEPT], _unreadable(draft, batch, error)
        else:
            text, checked = str(reply.text), _checked(draft, batch, value)
        if checked["open"]:
            drop_replies(made)
    messages = [*draft["messages"], ["ai", text]]
    return {**checked, "messages": messages, "attempts": draft["attempts"] + 1}


def settled(draft: Draft, batch: Batch) -> dict[str, dict[str, Any]]:
    """Return a decision for every symbol, in the order of the features.

    A symbol without a valid one is held at its current value, and so is an increase that the cash does not
    cover: in the order of the features, those that fit stand.
    """
    decided = {name: each for name, each in draft["decided"].items() if name not in draft["faults"]}
    kept = hold_those_that_do_not_fit(
        decided,
        batch.positions,
        batch.portfolio,
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
    """Take over what is valid of a reply; leave open what is to be decided again, and say why."""
    positions = batch.positions
    ours = {name: positions[name] for name in draft["open"]}
    decisions, faults = read_decisions(value, ours, total_assets=batch.portfolio["total_assets"])
    now: Draft = {**draft, "decided": draft["decided"] | decisions, "open": [], "faults": {}, "retry": ""}
    if faults:
        told = {name: fault.message for name, fault in faults.items()}
        return {
            **now,
            "open": list(faults),
            "faults": told,
            "retry": logic_retry_text(faults, positions, batch.language),
        }
    short = check_cash(
        now["decided"],
        positions,
        batch.portfolio,
        min_cash_ratio=batch.min_cash_ratio,
        cost_rate=batch.cost_rate,
    )
    if short is None:
        return now
    bought = [name for name, each in now["decided"].items() if each["target_cash_amount"] > positions[name]]
    text = cash_retry_text if short.kind == "cash" else ratio_retry_text
    return {**now, "open": bought, "retry": text(short, bought, batch.language)}


def _unreadable(draft: Draft, batch: Batch, error: ModelOutputInvalid) -> Draft:
    told = dict.fromkeys(draft["open"], error.message)
    return {**draft, "faults": told, "retry": unreadable_retry_text(error.message, batch.language)}


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


def _conversation(messages: Sequence[Sequence[str]]) -> list[AnyMessage]:
    kinds = {"system": SystemMessage, "human": HumanMessage, "ai": AIMessage}
    return [kinds[role](text) for role, text in messages]
