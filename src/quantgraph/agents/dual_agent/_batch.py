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
from quantgraph.agents.dual_agent._features import positions_of
from quantgraph.agents.dual_agent._models import Agents
from quantgraph.agents.dual_agent._prompts import (
    decision_facts,
    fault_retry_text,
    rejection_retry_text,
    unreadable_retry_text,
)
from quantgraph.agents.dual_agent._validation import (
    CheckedDecision,
    check_cash,
    hold_those_that_do_not_fit,
    read_decisions,
)
from quantgraph.errors import ModelOutputInvalid, QuantGraphError
from quantgraph.llm import cached_attempt, drop_replies
from quantgraph.llm.messages import read_object, wrap

_REPLY_KEPT = 2_000
"""Characters of an unreadable reply that the model is shown again."""
_NO_ANSWER = "no attempt was left to decide this symbol"


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a batch is decided from.

    Attributes
    ----------
    portfolio
        ``total_assets``, ``available_cash`` and ``position_value``.
    rejected
        Orders that the market refused, see :func:`.rejection_retry_text`.
    """

    features: Sequence[Mapping[str, Any]]
    portfolio: Mapping[str, float]
    history: Mapping[str, str] = field(default_factory=dict)
    rule: str = ""
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
    ``decided`` the valid decisions so far; ``faults`` why a symbol has none; ``retry`` what the model is told
    of it; ``attempts`` the model calls made.
    """

    messages: list[list[str]]
    open: list[str]
    decided: dict[str, CheckedDecision]
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

    ``failed`` says why the models have been given up already: then no attempt is left.
    """
    facts = decision_facts(
        batch.features,
        batch.portfolio,
        batch.history,
        rule=batch.rule,
        min_cash_ratio=batch.min_cash_ratio,
        cost_rate=batch.cost_rate,
    )
    parts = [wrap("decision_facts", json.dumps(facts, ensure_ascii=False))]
    rejected = [order for order in batch.rejected if order["symbol"] in batch.positions]
    if rejected:
        parts.append(rejection_retry_text(rejected, batch.language))
    return Draft(
        messages=[["system", batch.prompt], ["human", "\n\n".join(parts)]],
        open=list(batch.positions),
        decided={},
        faults=dict.fromkeys(batch.positions, failed) if failed else {},
        retry="",
        attempts=batch.max_attempts if failed else 0,
    )


def needs_answer(draft: Draft, batch: Batch) -> bool:
    """Whether symbols are left to decide, and attempts to do it."""
    return bool(draft["open"]) and draft["attempts"] < batch.max_attempts


def with_retry(draft: Draft) -> Draft:
    """The draft with what the model is told of its last reply, if it has made one."""
    if not draft["retry"]:
        return draft
    return {**draft, "messages": [*draft["messages"], ["human", draft["retry"]]], "retry": ""}


def answered(draft: Draft, batch: Batch, agents: Agents) -> Draft:
    """Ask the model for the open symbols, and check its reply.

    The cache does not keep a reply that fails a check. An error that :attr:`.Agents.is_given_up` takes
    spends all attempts: what is decided stands, and the rest has the error as its fault.
    """
    meter = agents.meter
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
            meter.logic_errors += bool(checked["faults"])
            meter.cash_errors += len(checked["open"]) > len(checked["faults"])
        if checked["open"]:
            drop_replies(made)
    return {**checked, "messages": [*draft["messages"], ["ai", text]], "attempts": draft["attempts"] + 1}


def settled(draft: Draft, batch: Batch) -> dict[str, dict[str, Any]]:
    """Return a decision for every symbol, in the order of the features.

    A symbol without a valid one is held at its current value, and so is an increase that the cash does not
    cover: in the order of the features, those that fit stand.
    """
    kept = hold_those_that_do_not_fit(
        draft["decided"],
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
    """Take over what is valid of a reply; leave open what is to be decided again, and say why.

    A symbol that the reply leaves out keeps its last valid decision, if it has one.
    """
    positions = batch.positions
    ours = {name: positions[name] for name in draft["open"]}
    decisions, faults = read_decisions(value, ours, total_assets=batch.portfolio["total_assets"])
    refuted = [name for name, fault in faults.items() if fault.kind != "missing"]
    decided = {name: each for name, each in draft["decided"].items() if name not in refuted} | decisions
    short = check_cash(
        decided, positions, batch.portfolio, min_cash_ratio=batch.min_cash_ratio, cost_rate=batch.cost_rate
    )
    bought = [name for name, each in decided.items() if each["target_cash_amount"] > positions[name]]
    again = [name for name in positions if name in faults or (short and name in bought)]
    return {
        **draft,
        "decided": decided,
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


def _conversation(messages: Sequence[Sequence[str]]) -> list[AnyMessage]:
    kinds = {"system": SystemMessage, "human": HumanMessage, "ai": AIMessage}
    return [kinds[role](text) for role, text in messages]
