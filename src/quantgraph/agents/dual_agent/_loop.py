"""The decision of a batch of symbols as a loop of think, act and observe.

``think`` asks the filter, where it is on, then the decision for the symbols that are open. ``act`` checks
the reply: the form and the logic of each decision, the cash of all, and what the market at the open makes of
their orders. ``observe`` tells the model all that is refused in one message, while replies are left. The
state is plain JSON, so that the same steps run in a row, or as the nodes of the subgraph.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from pydantic import BaseModel
from typing_extensions import TypedDict

from quantgraph._util.texts import Language
from quantgraph.agents.dual_agent._config import Agents, DualAgentConfig
from quantgraph.agents.dual_agent._features import after_filter, least_buys_of, positions_of
from quantgraph.agents.dual_agent._prompts import (
    configured_prompt,
    decision_facts,
    fault_retry_text,
    filter_facts,
    rejection_retry_text,
    told,
    unreadable_retry_text,
)
from quantgraph.agents.dual_agent._validation import (
    CheckedDecision,
    asked_symbol,
    check_cash,
    cut_to,
    fit_to_cash,
    not_asked,
    read_decisions,
)
from quantgraph.agents.loop import ModelLoop
from quantgraph.broker import Order, Rejection, Session
from quantgraph.errors import BadOption, ModelOutputInvalid, QuantGraphError
from quantgraph.llm import cached_attempt, drop_replies
from quantgraph.llm.messages import ask_json, escape_tags, read_object, vendor_fields, wrap
from quantgraph.market.money import CENT, to_decimal
from quantgraph.settings import Role
from quantgraph.tools import ToolContext

ROLES: tuple[Role, ...] = ("filter", "decision")
"""Roles of the two agents."""

BATCH_SIZE = 50
"""Symbols that one call decides."""

DECISION_PROMPT = "decision_agent_v1.txt"
"""File of the decision's prompt where none is configured."""

_PROMPTS: dict[Role, dict[Language, str]] = {
    "filter": {"en": "fundamental_filter_agent_v1.txt", "zh": "fundamental_filter_agent_v1_zh.txt"},
    "decision": {"en": DECISION_PROMPT, "zh": "decision_agent_v1_zh.txt"},
}
_compact_json = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
_REPLY_KEPT = 2_000
"""Characters of an unreadable reply that the model is shown again."""
_ORDER_REASON, _FILTER_REASON = 200, 500
_NO_ANSWER = "no attempt was left to decide this symbol"
_FILTER_FAILED = "the filter gave no usable answer: fundamentals are shown"
_NOT_REJECTED = "its order was not rejected, so it is not decided again"

_NOT_KNOWN_AT_OPEN = frozenset({"volume_cap", "market_closed"})

Decisions = dict[str, dict[str, Any]]


def prompts_of(config: DualAgentConfig, language: Language) -> dict[Role, str]:
    """Return the system prompts of the filter and of the decision."""
    return {
        role: configured_prompt(config.agent(role).prompt or names[language])
        for role, names in _PROMPTS.items()
    }


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a batch is decided from; ``rejected`` are orders that the market refused before."""

    features: Sequence[Mapping[str, Any]]
    portfolio: Mapping[str, float]
    history: Mapping[str, str] = field(default_factory=dict)
    rule: str = ""
    plan: str = ""
    rejected: Sequence[Mapping[str, Any]] = ()
    prompts: Mapping[Role, str]
    language: Language = "en"
    min_cash_ratio: float
    cost_rate: float = 0.0
    max_attempts: int
    filters: bool = False
    timestamp: str = ""

    @property
    def positions(self) -> dict[str, float]:
        """Value of each symbol's position, in the order of the features."""
        return positions_of(self.features)

    @property
    def limits(self) -> dict[str, float]:
        """What of the total assets must stay, and what of a sale are charges."""
        return {"min_cash_ratio": self.min_cash_ratio, "cost_rate": self.cost_rate}

    def held(self, symbol: str, reason: str) -> dict[str, Any]:
        """A hold that the model did not choose; of a symbol whose order was rejected, for that reason."""
        is_rejected = any(order["symbol"] == symbol for order in self.rejected)
        why = "rejected" if is_rejected else "fallback"
        return fallback_hold(self.positions[symbol], reason, self.timestamp, why=why)


class Draft(TypedDict):
    """A decision between two steps.

    ``open`` are the symbols that the next reply decides; ``decided`` the valid decisions so far, in their
    order; ``places`` where in its reply each one stood; ``faults`` why a symbol has none; ``told`` what the
    next message says; ``attempts`` the replies so far.
    """

    open: list[str]
    decided: dict[str, CheckedDecision]
    places: dict[str, int]
    faults: dict[str, str]
    told: str
    attempts: int


class DualAgentInput(TypedDict, total=False):
    """What a host gives: one of the two first groups, not both.

    From a data state: ``data_ref`` (a commit), ``moment`` (the session whose open it is, ``YYYYMMDD``),
    ``symbols`` (default: all of the commit), ``account`` (cash and positions as
    :func:`~quantgraph.agents.account_to_json` writes them; default: ``cash`` alone). With
    ``features_list``, ``cash``, and ``total_assets`` if there are positions beside those of the features.
    """

    data_ref: str
    moment: str
    symbols: list[str]
    account: dict[str, Any]
    cash: float
    features_list: list[dict[str, Any]]
    total_assets: float
    history: dict[str, str]
    rule: str
    language: Language
    rejected_orders: list[dict[str, Any]]
    decisions: Decisions


class DualAgentState(DualAgentInput, total=False):
    """State of the subgraph.

    Results: ``decisions`` by symbol, as of :func:`.decide_batch_dual_agent`; ``reasoning``, the filter's, by
    symbol; ``features``, as the decision saw them; ``meta``, what the model calls took.

    Between the steps: ``portfolio``, before the decision; ``standing``, the decisions that are not renewed;
    ``conversation``, the ``[role, text]`` so far; ``reply``, the last one; ``draft``, the decision so far;
    ``ended``, whether it is over.
    """

    portfolio: dict[str, float]
    standing: Decisions
    reasoning: dict[str, str]
    features: list[dict[str, Any]]
    conversation: list[list[Any]]
    reply: dict[str, Any] | None
    draft: Draft
    ended: bool
    meta: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class DualLoop(ModelLoop[DualAgentState]):
    """A decision of a batch; ``context`` has the market on which it is tried, None where there is none.

    ``standing`` are decisions of other symbols, which are not renewed; ``first`` is what a state has before
    the first step.
    """

    context: ToolContext | None = None  # type: ignore[assignment]  # a host's features have no market
    batch: Batch
    agents: Agents
    standing: Decisions = field(default_factory=dict)
    first: Mapping[str, Any] = field(default_factory=dict)
    end_key: ClassVar[str] = "ended"
    action_key: ClassVar[str] = "reply"

    def kept(self) -> Mapping[str, Any]:
        """What a state has before the first step, and what the calls took."""
        return {**self.first, "meta": asdict(self.agents.meter)}

    def think(self, state: DualAgentState) -> DualAgentState:
        """Ask the filter, if that is due, or the decision; the cache keeps no reply that fails a check.

        An error that :attr:`.Agents.ends_asking` takes ends the decision: what is decided stands, and the
        rest has the error as its fault.
        """
        if not state.get("conversation"):
            return self._begun()
        agents, draft = self.agents, state["draft"]
        with cached_attempt() as made:
            try:
                answer = agents.ask("decision", _messages(state["conversation"]))
                value = read_object(answer)
            except ModelOutputInvalid as error:
                said: list[Any] = ["ai", str(error.data.get("reply", ""))[:_REPLY_KEPT]]
                reply: dict[str, Any] = {"said": said, "fault": error.message}
            except QuantGraphError as error:
                agents.give_up(error)
                told = draft["faults"]
                more = {
                    name: f"{told[name]}; {error.line}" if name in told else error.line
                    for name in draft["open"]
                }
                return self._settled({**draft, "faults": told | more})
            else:
                more = vendor_fields(answer)
                said = ["ai", str(answer.text), *([more] if more else [])]
                reply = {"said": said, "value": json.dumps(value)}  # a checkpoint takes no number of any size
            if self._checked(draft, reply)[0]["open"]:
                drop_replies(made)
        return {"reply": reply}

    def act(self, state: DualAgentState) -> DualAgentState:
        """Check the reply, and try on the market what is valid."""
        draft, kinds = self._checked(state["draft"], state["reply"] or {})
        meter = self.agents.meter
        meter.parse_errors += "schema" in kinds
        meter.logic_errors += "logic" in kinds
        meter.cash_errors += "cash" in kinds
        return {"draft": draft}

    def observe(self, state: DualAgentState) -> DualAgentState:
        """Tell the model what is refused, or settle what stands."""
        draft, said = state["draft"], (state["reply"] or {})["said"]
        if not draft["open"] or draft["attempts"] >= self.batch.max_attempts:
            return self._settled(draft)
        left = told("left", self.batch.language, self.batch.max_attempts - draft["attempts"])
        asked = ["human", f"{left}\n{draft['told']}"]
        return {"reply": None, "conversation": [*state["conversation"], said, asked]}

    def _begun(self) -> DualAgentState:
        """Choose whose fundamentals are shown, and begin the conversation."""
        batch, meter, why = self.batch, self.agents.meter, dict[str, str]()
        if batch.filters and not meter.failed:
            need, why = choose_fundamentals(batch, self.agents)
            batch = replace(batch, features=after_filter(batch.features, need, why))
        symbols, failed = list(batch.positions), meter.failed
        faults = dict.fromkeys(symbols, failed) if failed else {}
        draft = Draft(open=symbols, decided={}, places={}, faults=faults, told="", attempts=0)
        items = [dict(item) for item in batch.features]
        asked = _first_messages(batch)
        begun = DualAgentState(features=items, reasoning=why, conversation=asked, draft=draft)
        return {**begun, **self._settled(draft)} if failed or not batch.max_attempts else begun

    def _checked(self, draft: Draft, reply: Mapping[str, Any]) -> tuple[Draft, set[str]]:
        """Take over what is valid of a reply, leave open what is to be decided again, and say why.

        A symbol that the reply leaves out keeps its last valid decision, if it has one. A decision has the
        place of its symbol among the decisions of the latest reply that has it; of two in one place, which
        are of two replies, the one with more confidence comes first, then the earlier one. The kinds of
        errors come with it: ``schema``, ``logic``, ``cash``.
        """
        batch, positions, attempts = self.batch, self.batch.positions, draft["attempts"] + 1
        if "fault" in reply:
            faulty = draft["faults"] | dict.fromkeys(draft["open"], reply["fault"])
            text = unreadable_retry_text(reply["fault"], batch.language)
            return {**draft, "faults": faulty, "told": text, "attempts": attempts}, {"schema"}
        asked, total = {name: positions[name] for name in draft["open"]}, batch.portfolio["total_assets"]
        decisions, faults = read_decisions(json.loads(reply["value"]), asked, total_assets=total)
        places = draft["places"] | {name: place for place, name in enumerate(decisions)}
        merged = {name: each for name, each in draft["decided"].items() if name not in decisions} | decisions
        ranked = sorted(merged, key=lambda name: (places[name], -merged[name]["confidence"]))
        refuted = {name for name, fault in faults.items() if fault.kind != "missing"}
        decided = {name: merged[name] for name in ranked if name not in refuted}
        _, refused, pending = self._tried(decided)
        of_cash = {name for name, each in refused.items() if each.code == "insufficient_cash"}
        valid = {name: each for name, each in decided.items() if name not in refused.keys() - of_cash}
        short = check_cash(valid, positions, batch.portfolio, **batch.limits)
        bought = {name for name, each in valid.items() if each["target_cash_amount"] > positions[name]}
        if short:
            refused = {name: each for name, each in refused.items() if name not in of_cash}
        again = [
            name for name in positions if name in faults or name in refused or (short and name in bought)
        ]
        words = {name: self._words(each) for name, each in refused.items()}
        text = fault_retry_text(
            faults, short, again, positions, batch.language, refused=words, pending=pending
        )
        if others := not_asked(json.loads(reply["value"]), asked):
            text = f"{told('ignored', batch.language, escape_tags(', '.join(others)))}\n{text}"
        lines = {name: fault.message for name, fault in faults.items()}
        after = Draft(open=again, decided=decided, places=places, faults=lines, told=text, attempts=attempts)
        kinds = {"cash"} if short or of_cash else set[str]()
        return after, kinds | ({"logic"} if faults or refused.keys() - of_cash else set())

    def _tried(
        self, decided: Mapping[str, CheckedDecision], *, cuts: bool = False
    ) -> tuple[dict[str, CheckedDecision], dict[str, Rejection], list[str]]:
        """Try decisions on a copy of the market, sells first, then buys in their order.

        Returns the decisions, those that the market refuses, and the symbols whose outcome the open does not
        tell. ``cuts`` cuts a purchase to the cash that is left, where that buys the least.
        """
        if self.context is None:
            return dict(decided), {}, []
        context, positions, tried = self.context, self.batch.positions, dict(decided)
        market, refused, pending = context.session.copy(pending=False), dict[str, Rejection](), list[str]()
        reserve = self.batch.min_cash_ratio * self.batch.portfolio["total_assets"]
        for name in _sells_first(decided, positions):
            outcome = _submit(market, name, decided[name])
            if isinstance(outcome, Rejection) and outcome.code == "insufficient_cash" and cuts:
                left = max(0.0, math.floor(100 * (float(market.account.cash) - reserve)) / 100)
                smaller = cut_to(left, decided[name], positions[name])
                again = _submit(market, name, smaller)
                if not isinstance(again, Rejection):
                    outcome, tried[name] = again, smaller
            is_open = isinstance(outcome, Rejection) and outcome.code in _NOT_KNOWN_AT_OPEN
            if is_open or (context.rules.volume_share is not None and not isinstance(outcome, Rejection)):
                pending.append(name)
            elif isinstance(outcome, Rejection):
                refused[name] = outcome
        return tried, refused, pending

    def _settled(self, draft: Draft) -> DualAgentState:
        """End the decision; its orders are submitted to the market.

        A symbol without a valid decision is held at its current value, and so is one that the market refuses;
        the increases are cut to the cash, in the model's own order.
        """
        batch, positions = self.batch, self.batch.positions
        least_buys, decided = least_buys_of(batch.features), draft["decided"]
        fitted = fit_to_cash(decided, positions, batch.portfolio, least_buys=least_buys, **batch.limits)
        fitted, refused, _ = self._tried(fitted, cuts=True)
        settled = Decisions()
        for name, value in positions.items():
            if name in refused:
                settled[name] = _refused(fitted[name], value, refused[name], batch.timestamp)
            elif name in fitted:
                settled[name] = _result(fitted[name], value, batch.timestamp)
            else:
                settled[name] = batch.held(name, draft["faults"].get(name) or _NO_ANSWER)
        if self.context is not None:
            stand = {name: fitted[name] for name in positions if name in fitted and name not in refused}
            for name in _sells_first(stand, positions):
                _submit(self.context.session, name, stand[name])
        return {"decisions": self.standing | settled, "rejected_orders": [], "reply": None, "ended": True}

    def _words(self, rejection: Rejection) -> str:
        """What the market says, and how the symbol's shares are bought if the order was too small."""
        text, context = f"{rejection.code}: {rejection.message}", self.context
        if context is None or rejection.code not in ("lot_size", "bad_quantity"):
            return text
        lots = context.rules.lots(rejection.order.symbol, context.moment.session.date())
        least = least_buys_of(self.batch.features).get(rejection.order.symbol, math.nan)
        target = self.batch.positions[rejection.order.symbol] + least
        return f"{text}; {told('lots', self.batch.language, lots.first, lots.step, least, target)}"


def _sells_first(decisions: Mapping[str, CheckedDecision], positions: Mapping[str, float]) -> list[str]:
    moved = [name for name, each in decisions.items() if each["action"] != "hold"]
    return sorted(moved, key=lambda name: decisions[name]["target_cash_amount"] > positions[name])


def _submit(market: Session, symbol: str, decision: CheckedDecision) -> object:
    order = Order(
        symbol=symbol,
        target_value=to_decimal(decision["target_cash_amount"], name="target_cash_amount").quantize(CENT),
        sequence=len(market.outcomes) + 1,
        reason="; ".join(decision["reasons"])[:_ORDER_REASON],
    )
    return market.submit(order)


def _refused(decision: CheckedDecision, value: float, rejection: Rejection, timestamp: str) -> dict[str, Any]:
    """Hold in place of a refused decision, whose target and reasons are kept."""
    reason = f"the market refused the order: {rejection.code}: {rejection.message}"
    return {
        **fallback_hold(value, reason, timestamp, why="rejected"),
        "reasons": [reason, *decision["reasons"]],
        "note": f"{decision['action']} to {decision['target_cash_amount']:.2f} was refused",
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


def _result(decision: CheckedDecision, value: float, timestamp: str) -> dict[str, Any]:
    chosen = {"hold_reason": "model"} if decision["action"] == "hold" else {}
    change = decision["target_cash_amount"] - value
    return {**chosen, **decision, "cash_change": change, "timestamp": timestamp}


def _first_messages(batch: Batch) -> list[list[Any]]:
    """The system prompt, and the facts of the batch."""
    facts = decision_facts(
        batch.features, batch.portfolio, batch.history, rule=batch.rule, plan=batch.plan, **batch.limits
    )
    parts = [wrap("decision_facts", _compact_json(facts))]
    rejected = [order for order in batch.rejected if order["symbol"] in batch.positions]
    if rejected:
        parts.append(rejection_retry_text(rejected, batch.language))
    return [["system", batch.prompts["decision"]], ["human", "\n\n".join(parts)]]


def _messages(conversation: Sequence[Sequence[Any]]) -> list[AnyMessage]:
    kinds = {"system": SystemMessage, "human": HumanMessage, "ai": AIMessage}
    return [
        kinds[role](text, additional_kwargs=more[0] if more else {}) for role, text, *more in conversation
    ]


class _Chosen(BaseModel):
    stocks_need_fundamental: list[str]
    reasoning: dict[str, str] = {}


def choose_fundamentals(batch: Batch, agents: Agents) -> tuple[list[str], dict[str, str]]:
    """Ask the filter about the symbols of a batch; returns those that it chose, and its reasons.

    An unreadable reply is asked for once more; then, or if the models fail, all symbols need
    fundamentals.
    """
    symbols, meter = list(batch.positions), agents.meter
    facts = filter_facts(batch.features, batch.portfolio, batch.history, rule=batch.rule)
    question = _messages(
        [["system", batch.prompts["filter"]], ["human", wrap("filter_facts", _compact_json(facts))]]
    )

    def agent(state: dict[str, list[AnyMessage]]) -> dict[str, list[AnyMessage]]:
        return {"messages": [*state["messages"], agents.ask("filter", state["messages"])]}

    before = meter.calls
    try:
        reply = ask_json(agent, question, _Chosen)
    except ModelOutputInvalid:
        meter.parse_errors += meter.calls - before
        return symbols, dict.fromkeys(symbols, _FILTER_FAILED)
    except QuantGraphError as error:
        agents.give_up(error)
        return symbols, dict.fromkeys(symbols, error.line)
    meter.parse_errors += meter.calls - before - 1
    chosen = {asked_symbol(name, symbols) for name in reply.stocks_need_fundamental}
    why = {asked_symbol(name, symbols): text[:_FILTER_REASON] for name, text in reply.reasoning.items()}
    need = [symbol for symbol in symbols if symbol in chosen]
    return need, {symbol: why[symbol] for symbol in need if symbol in why}


def batch_of(
    config: DualAgentConfig,
    features: Sequence[Mapping[str, Any]],
    *,
    rejected: Sequence[Mapping[str, Any]] | None = None,
    timestamp: str = "",
    **given: Any,
) -> Batch:
    """A batch with what the configuration says of it, and the replies that refused orders have left."""
    refusals = max((int(order.get("retry_count") or 0) for order in rejected or ()), default=0)
    return Batch(
        features=features,
        rejected=tuple(rejected or ()),
        min_cash_ratio=config.portfolio.min_cash_ratio,
        max_attempts=max(0, config.max_attempts - refusals),
        filters=config.features.asks_filter(features),
        timestamp=timestamp or _decided_at(features),
        **given,
    )


def decide_all(batch: Batch, agents: Agents, context: ToolContext | None = None) -> DualAgentState:
    """Decide all symbols, in batches of :data:`BATCH_SIZE`, each with its part of the cash that is there."""
    done, portfolio = DualAgentState(decisions={}, reasoning={}, features=[]), batch.portfolio
    for first in range(0, len(batch.features), BATCH_SIZE):
        features = batch.features[first : first + BATCH_SIZE]
        part = len(features) / (len(batch.features) - first)
        shown = part_of(portfolio, part, batch.min_cash_ratio)
        now = replace(batch, features=features, portfolio=shown)
        made = DualLoop(context=context, batch=now, agents=agents).run({})
        portfolio = portfolio_after(portfolio, now.positions, made["decisions"])
        done["decisions"] |= made["decisions"]
        done["reasoning"] |= made["reasoning"]
        done["features"] += made["features"]
    return done


def portfolio_of(
    features: Sequence[Mapping[str, Any]], cash: float, total: float | None = None
) -> dict[str, float]:
    """Return the portfolio of cash and the positions, which are those of the features by default."""
    held = sum(positions_of(features).values()) if total is None else total - cash
    return {"total_assets": cash + held, "available_cash": cash, "position_value": held}


def part_of(portfolio: Mapping[str, float], part: float, min_cash_ratio: float) -> dict[str, float]:
    """The portfolio with a part of the cash above what must stay; what is not spent is there for the next.

    >>> part_of({"total_assets": 1000.0, "available_cash": 500.0, "position_value": 500.0}, 0.25, 0.1)
    {'total_assets': 1000.0, 'available_cash': 200.0, 'position_value': 500.0}
    """
    reserve = min_cash_ratio * portfolio["total_assets"]
    free = max(0.0, portfolio["available_cash"] - reserve)
    return {**portfolio, "available_cash": portfolio["available_cash"] - free * (1 - part)}


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


def renewed_part(batch: Batch, earlier: Mapping[str, Mapping[str, Any]]) -> tuple[Batch, Decisions]:
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
    known = {
        name: dict(each)
        for name, each in earlier.items()
        if isinstance(each, Mapping) and isinstance(each.get("target_cash_amount"), int | float)
    }
    standing = {
        name: known.get(name) or fallback_hold(value, _NOT_REJECTED, batch.timestamp, why="stands")
        for name, value in positions.items()
        if name not in rejected
    }
    features = [item for item in batch.features if item["symbol"] in rejected]
    portfolio = portfolio_after(batch.portfolio, positions, standing)
    return replace(batch, features=features, portfolio=portfolio), standing


def day_of(features: Sequence[Mapping[str, Any]]) -> str:
    """Return the date of the features' session; "" if they have none."""
    return max((str(item["features"]["market_data"].get("date") or "")[:10] for item in features), default="")


def _decided_at(features: Sequence[Mapping[str, Any]]) -> str:
    """Return the open of the features' session, ISO; the time of the clock if they have no date."""
    date = day_of(features)
    return f"{date}T09:00:00" if date else datetime.now(UTC).isoformat()
