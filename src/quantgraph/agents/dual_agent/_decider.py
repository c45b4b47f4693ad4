"""The dual agent as a decider of the daily loop: what the market refuses is decided again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from typing import Any, Final, get_args

from langchain_core.messages import AIMessage, AnyMessage

from quantgraph._util.texts import Language, Note, say
from quantgraph.agents.dual_agent._config import Agents, Meter, read_config
from quantgraph.agents.dual_agent._decide import (
    ROLES,
    Batch,
    Decided,
    decide_all,
    decide_batch,
    fallback_hold,
    filter_and_decide,
    portfolio_of,
    prompts_of,
)
from quantgraph.agents.dual_agent._features import build_features
from quantgraph.agents.dual_agent._keyless import KEYLESS
from quantgraph.agents.dual_agent._validation import _extract_decision_tags
from quantgraph.agents.loop._model_decider import Memos, ends_session, plan_text
from quantgraph.agents.memory._memory import EpisodicMemory, episodes_of, history_texts
from quantgraph.broker import DataNeeds, Decision, DecisionContext, ModelDecider, Order, Rejection, Session
from quantgraph.errors import BadOption
from quantgraph.market.money import CENT, to_decimal
from quantgraph.recording.scope import current_scope
from quantgraph.settings import Role
from quantgraph.state import GrowingViewId, RecordKind

_REASON = 200


@dataclass(frozen=True, kw_only=True)
class _Refused:
    """A refused order, and the cash that it wished to spend."""

    rejection: Rejection
    wished: float


def try_decisions(
    market: Session, batch: Batch, decided: Decided, agents: Agents, lots: Callable[[str], str]
) -> dict[str, dict[str, Any]]:
    """Submit the decisions, sells first; decide again what is refused, while attempts remain.

    What was accepted stands.
    """
    decisions, positions = dict(decided.decisions), batch.positions
    numbers = count(1)
    refused = _submit(market, decisions, positions, numbers)
    _count_refusals(agents.meter, decisions, refused)
    for turn in range(1, batch.max_attempts + 1):
        again = [name for name in refused if decided.attempts[name] + turn <= batch.max_attempts]
        renewed = _decided_again(market, batch, again, refused, turn, agents, lots)
        for name, each in refused.items():
            decisions[name] = renewed.get(name) or _held(
                decisions[name], positions[name], each, batch.timestamp
            )
        refused = _submit(market, renewed, positions, numbers)
        _count_refusals(agents.meter, renewed, refused)
    return decisions


def _count_refusals(
    meter: Meter, decisions: Mapping[str, Mapping[str, Any]], refused: Mapping[str, _Refused]
) -> None:
    """Count a reply whose orders the market refuses; one with a faulty decision is counted already."""
    if refused and all(each.get("hold_reason") != "fallback" for each in decisions.values()):
        of_cash = any(each.rejection.code == "insufficient_cash" for each in refused.values())
        meter.cash_errors += of_cash
        meter.logic_errors += not of_cash


def _submit(
    market: Session,
    decisions: Mapping[str, Mapping[str, Any]],
    positions: Mapping[str, float],
    numbers: Iterator[int],
) -> dict[str, _Refused]:
    """Submit the orders of decisions, sells first, and return what was refused."""
    moved = [name for name, each in decisions.items() if each["action"] != "hold"]
    refused: dict[str, _Refused] = {}
    for name in sorted(moved, key=lambda name: decisions[name]["target_cash_amount"] > positions[name]):
        target, reasons = decisions[name]["target_cash_amount"], decisions[name]["reasons"]
        order = Order(
            symbol=name,
            target_value=to_decimal(target, name="target_cash_amount").quantize(CENT),
            sequence=next(numbers),
            reason="; ".join(reasons)[:_REASON],
        )
        outcome = market.submit(order)
        if isinstance(outcome, Rejection):
            refused[name] = _Refused(rejection=outcome, wished=target - positions[name])
    return refused


def _decided_again(  # noqa: PLR0917 - one caller
    market: Session,
    batch: Batch,
    symbols: Sequence[str],
    refused: Mapping[str, _Refused],
    turn: int,
    agents: Agents,
    lots: Callable[[str], str],
) -> dict[str, dict[str, Any]]:
    """Return renewed decisions of refused symbols; empty without any, or if the models failed."""
    if not symbols or agents.meter.failed:
        return {}
    cash, total = float(market.account.cash), batch.portfolio["total_assets"]
    again = replace(
        batch,
        features=[item for item in batch.features if item["symbol"] in symbols],
        portfolio={"total_assets": total, "available_cash": cash, "position_value": max(0.0, total - cash)},
        rejected=[rejected_order(name, refused, turn, cash=cash, lots=lots) for name in symbols],
        max_attempts=1,
    )
    decisions, _ = decide_batch(again, agents)
    return {} if agents.meter.failed else decisions


def rejected_order(
    symbol: str, refused: Mapping[str, _Refused], turn: int, *, cash: float, lots: Callable[[str], str]
) -> dict[str, Any]:
    """Return what the market refused, for the prompt."""
    rejection = refused[symbol].rejection
    wished = {name: max(0.0, each.wished) for name, each in refused.items()}
    total, of_cash = sum(wished.values()), rejection.code == "insufficient_cash"
    short = max(0.0, total - cash)
    amounts = {
        "required_cash_this_order": round(wished[symbol], 2),
        "available_cash": round(cash, 2),
        "total_cash_required_all_orders": round(total, 2),
        "cash_shortfall": round(short, 2),
    }
    suggestion = rejection.message
    if rejection.code in ("lot_size", "bad_quantity"):
        suggestion = f"{suggestion}; {lots(symbol)}"
    return {
        "symbol": symbol,
        "qty": float(rejection.order.quantity or 0),
        "reason": rejection.code,
        "rejection_reason": rejection.code,
        "retry_count": turn,
        "context": {
            **{name: amount if of_cash else None for name, amount in amounts.items()},
            "retry_attempt": turn,
            "all_orders_count": len(refused),
            "portfolio_rebalance_needed": of_cash and short > 0,
            "suggestion": suggestion,
        },
    }


def _held(decision: Mapping[str, Any], value: float, refused: _Refused, timestamp: str) -> dict[str, Any]:
    """Hold in place of a refused decision, whose target and reasons are kept."""
    reason = f"the market refused the order: {refused.rejection.code}: {refused.rejection.message}"
    return {
        **fallback_hold(value, reason, timestamp, why="rejected"),
        "reasons": [reason, *decision["reasons"]],
        "note": f"{decision['action']} to {decision['target_cash_amount']:.2f} was refused",
    }


_LANGUAGES = get_args(Language)
_SESSIONS = 260
"""A year of 365 days, whose dividends are added up, has at most so many sessions."""
_REASONS_KEPT, _REASON_LENGTH = 3, 200
_SHARES, _NOTIONAL = 1000, Decimal(100_000)


class DualAgent(ModelDecider):
    """Two agents decide each session: a filter chooses whose fundamentals are read, the other sets targets.

    In each session the filter is asked once for every 50 symbols, then the decision, whose targets are tried
    on the market at the open, sells first; what it refuses is decided again while attempts remain. Only
    the last decisions are traded. Each hold says in the notes why: the ``model`` chose it, it is a
    ``fallback``, or the market ``rejected`` what was wished.

    Parameters
    ----------
    cfg
        See :class:`.DualAgentConfig`. What a run has of its own is the run's: its ledger's cash in place of
        ``portfolio.total_cash``, its settings' cache in place of ``cache`` and ``llm.cache``. Its budget is
        one for all models, so ``llm.budget`` is refused here.
    memory
        Decisions of other runs, shared by a name; default: this run's own, read from its ledger. A run writes
        what a session has filled when the next one is decided, so that of its last session is not shared.

    Raises
    ------
    BadOption
        If ``cfg`` is not valid, or holds what a run decides; if ``memory`` has no store.
    """

    name: Final = "dual_agent"
    uses_signal: Final = False
    reads_rule: Final = True
    aliases: Final[tuple[str, ...]] = ("dual_agent", "dual agent", "dual-agent", "双代理", "双智能体")
    roles: Final[tuple[Role, ...]] = ROLES
    keyless: Final = KEYLESS

    def __init__(self, cfg: Mapping[str, Any] | None = None, *, memory: EpisodicMemory | None = None) -> None:
        self._config = read_config(cfg)
        if "budget" in self._config.llm.model_fields_set:
            budget = self._config.llm.budget
            raise BadOption(
                "cfg llm.budget: a run has one budget for all its models; give it to the run as "
                f"budget='prompt_tokens={budget.max_prompt_tokens},"
                f"completion_tokens={budget.max_completion_tokens}' of the settings",
                parameter="cfg",
            )
        if memory is not None and not isinstance(memory, EpisodicMemory):
            raise BadOption(f"memory={memory!r:.60}; must be an EpisodicMemory", parameter="memory")
        if memory is not None and not memory.name:
            raise BadOption(
                "memory has no store, so a resumed run would not find it; give EpisodicMemory(STORE), such "
                "as LangGraph's SqliteStore, or none: a run remembers its own decisions",
                parameter="memory",
            )
        self._cfg = _plain(cfg)
        self._memory = memory
        self._memos = Memos()
        self._no_run = GrowingViewId()
        self._prompts = {language: prompts_of(self._config, language) for language in _LANGUAGES}

    @property
    def options(self) -> Mapping[str, Any]:
        """The configuration, and the name of a memory that is shared."""
        return {"cfg": self._cfg, **({"memory": self._memory.name} if self._memory else {})}

    def result_notes(self, notes: Sequence[Mapping[str, Any]]) -> Sequence[Note]:
        """Return how many holds the models did not choose, and how many replies were at fault."""
        reasons = [
            [each.get("hold_reason") for each in session["decisions"].values()]
            for session in notes
            if "decisions" in session
        ]
        fallback, refused = (sum(each.count(why) for each in reasons) for why in ("fallback", "rejected"))
        sessions = sum("fallback" in each for each in reasons)
        notes_on = []
        if fallback:
            notes_on.append(
                Note(
                    zh=f"{sessions} 个交易日有 {fallback} 个兜底的持有：模型的回复不可用，或预算已用完",
                    en=f"{fallback} decisions in {sessions} sessions are fallback holds: the models' replies "
                    "were not usable, or a budget was spent",
                )
            )
        if refused:
            notes_on.append(
                Note(
                    zh=f"{refused} 个持有代替了被市场拒绝的委托",
                    en=f"{refused} holds stand in for orders that the market or the cash refused",
                )
            )
        return notes_on

    @property
    def needs(self) -> DataNeeds:
        """A year of sessions, news, filings, dividends, and the daily valuation where a source has one."""
        shown = self._config.features
        wanted: dict[RecordKind, bool] = {"news": shown.news, "filing": shown.fundamentals, "action": True}
        records = tuple(kind for kind, is_read in wanted.items() if is_read)
        indicators = ("total_mv", "pe_ttm") if shown.fundamentals else ()
        return DataNeeds(sessions=_SESSIONS, indicators=indicators, records=records)

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts of both agents, in both languages."""
        return {
            f"{role}_{language}": text
            for language, texts in self._prompts.items()
            for role, text in zip(self.roles, texts, strict=True)
        }

    @property
    def model_settings(self) -> Mapping[str, Mapping[str, Any]]:
        """What ``cfg`` fixes for the models of the roles."""
        return {role: self._config.llm_config(role).model_settings for role in self.roles}

    def decide(self, context: DecisionContext) -> Decision:
        """Decide one session; raises what ends the run."""
        view, account = context.view, context.account
        symbols = list(view["ohlcv"]["open"].columns)
        features = _with_least_buys(build_features(view, account, symbols, self._config.features), context)
        batch = self._batch(context, features)
        meter = Meter()
        agents = self._agents(context, meter)
        filters = self._config.features.fundamentals
        decided = decide_all(batch, lambda part: filter_and_decide(part, agents, filters=filters))
        seen = replace(batch, features=decided.features)
        decisions = try_decisions(
            context.market, seen, decided, agents, lambda symbol: _lots(context, symbol)
        )
        return Decision(context.market.orders, notes=_notes(decisions, decided, meter), in_order=True)

    def _batch(self, context: DecisionContext, features: Sequence[Mapping[str, Any]]) -> Batch:
        """Return what is the same for all batches of the session."""
        moment = context.view.moment
        return Batch(
            features=features,
            portfolio=portfolio_of(features, float(context.account.cash)),
            history=self._recalled(context, [item["symbol"] for item in features]),
            rule=context.rule,
            plan=plan_text(context, self.executes),
            prompt=self._prompts[context.language][1],
            language=context.language,
            min_cash_ratio=self._config.portfolio.min_cash_ratio,
            cost_rate=_cost_rate(context),
            max_attempts=self._config.max_attempts,
            timestamp=moment.timestamp.isoformat(),
        )

    def _recalled(self, context: DecisionContext, symbols: Sequence[str]) -> dict[str, str]:
        """Return what the memory has of each symbol, as text.

        A shared memory gets what this run has traded since, before it is read.
        """
        scope, run = current_scope(), context.view.growing_view_id or self._no_run
        run_id = scope.recording.run_id if scope else ""
        episodes = episodes_of(
            context.history, context.view, name=self.name, run_id=run_id, memo=self._memos.of(run)
        )
        if self._memory is None:
            return history_texts(episodes, symbols)
        today = f"{context.session:%Y-%m-%d}"
        self._memory.add_all(
            each for each in episodes if each.date == episodes[-1].date or each.outcome_known == today
        )
        return self._memory.at(today).histories(symbols, run_id)

    def _agents(self, context: DecisionContext, meter: Meter) -> Agents:
        def ask(role: Role, messages: Sequence[AnyMessage]) -> AIMessage:
            reply: AIMessage = context.model(role).invoke(list(messages))
            return reply

        return Agents(
            filter_prompt=self._prompts[context.language][0],
            ask=meter.counting(ask),
            meter=meter,
            ends_asking=ends_session,
        )


def _with_least_buys(features: Sequence[Mapping[str, Any]], context: DecisionContext) -> list[dict[str, Any]]:
    """The features with what the smallest purchase costs, where that is more than a share."""
    items = []
    for item in features:
        market_data = item["features"]["market_data"]
        least = float(context.rules.lots(item["symbol"], context.session.date()).first)
        if market_data["open"] is not None and least > 1:
            market_data = market_data | {"least_buy": least * market_data["open"]}
        items.append({**item, "features": {**item["features"], "market_data": market_data}})
    return items


def _plain(cfg: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the configuration as plain JSON, for the run's identity."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(cfg or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadOption(
            f"cfg of a run must be plain JSON ({error}); give a chat model to the run as model=",
            parameter="cfg",
        ) from error
    return plain


def _lots(context: DecisionContext, symbol: str) -> str:
    """Say how a symbol's shares are bought, for a model whose order was too small."""
    lots = context.rules.lots(symbol, context.session.date())
    price = context.view.numbers("ohlcv", "open", context.session).get(symbol)
    text = say(
        context.language,
        zh=f"至少买 {lots.first} 股，之后每 {lots.step} 股一级",
        en=f"a buy is at least {lots.first} shares, in steps of {lots.step}",
    )
    if not price or not math.isfinite(price):
        return text
    least = float(lots.first) * price
    return text + say(
        context.language,
        zh=f"；按开盘价 {price:.2f} 为 {least:.2f}，另加费用",
        en=f"; at the open of {price:.2f} that is {least:.2f}, and charges",
    )


def _cost_rate(context: DecisionContext) -> float:
    """Return the charges of a sale as a share of it; those of a purchase come out of its target.

    The market's own check is exact; this one need not know each order's smallest fee.
    """
    symbol = str(context.view["ohlcv"]["open"].columns[0])
    charges = context.rules.charges(symbol, "sell", _SHARES, _NOTIONAL, context.session.date())
    return float(charges.total / _NOTIONAL)


def _notes(decisions: Mapping[str, Mapping[str, Any]], decided: Decided, meter: Meter) -> dict[str, Any]:
    """Return what the ledger keeps of the decisions: the same in every replay, so without times."""
    kept = ("action", "target_cash_amount", "confidence", "hold_reason", "note")
    notes = {}
    for item in decided.features:
        each = decisions[item["symbol"]]
        notes[item["symbol"]] = {name: each[name] for name in kept if name in each} | {
            "reasons": [reason[:_REASON_LENGTH] for reason in each["reasons"][:_REASONS_KEPT]],
            "tags": _extract_decision_tags(dict(each), item["features"]),
        }
    counts = meter.counts()
    meta = {name: counts[name] for name in counts if name not in ("cache_hits", "latency_ms_sum")}
    errors = {
        "replies": meter.calls,
        "schema": meter.parse_errors,
        "logic": meter.logic_errors,
        "cash": meter.cash_errors,
    }
    return {"decisions": notes, "filter": dict(decided.reasoning), "meta": meta, "reply_errors": errors}
