"""The dual agent as a decider of the daily loop."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, get_args

from quantgraph._util.texts import Language, Note
from quantgraph.agents.dual_agent._config import Agents, Meter, read_config
from quantgraph.agents.dual_agent._features import build_features
from quantgraph.agents.dual_agent._keyless import KEYLESS
from quantgraph.agents.dual_agent._loop import (
    ROLES,
    DualAgentState,
    batch_of,
    decide_all,
    portfolio_of,
    prompts_of,
)
from quantgraph.agents.dual_agent._prompts import retry_texts
from quantgraph.agents.dual_agent._validation import _extract_decision_tags
from quantgraph.agents.loop._facts import facts_at_open
from quantgraph.agents.loop._model_decider import Memos, ends_session, plan_text
from quantgraph.agents.memory._memory import EpisodicMemory, episodes_of, history_texts
from quantgraph.broker import DataNeeds, Decision, DecisionContext, ModelDecider
from quantgraph.errors import BadOption
from quantgraph.recording.scope import current_scope
from quantgraph.settings import Role
from quantgraph.state import GrowingViewId, RecordKind
from quantgraph.tools import ToolContext

_SHOWN_EPISODES = 3
_LANGUAGES = get_args(Language)
_SESSIONS = 260
"""A year of 365 days, whose dividends are added up, has at most so many sessions."""
_REASONS_KEPT, _REASON_LENGTH = 3, 200
_SHARES, _NOTIONAL = 1000, Decimal(100_000)


class DualAgent(ModelDecider):
    """Two agents decide each session: a filter chooses whose fundamentals are read, the other sets targets.

    In each session the decision is asked once for every 50 symbols, before it the filter if
    ``features.filter`` is on. Its targets are tried on the market at the open, sells first; one message says
    what is refused, by form, logic, cash or the market, and it is decided again while replies are left. Only
    the last decisions are traded. Each hold says in the notes why: the ``model`` chose it, it is a
    ``fallback``, or the market or the cash ``rejected`` what was wished.

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
            [each.get("hold_reason") for each in session.get("decisions", {}).values()] for session in notes
        ]
        fallback, refused = (sum(each.count(why) for each in reasons) for why in ("fallback", "rejected"))
        sessions = sum("fallback" in each for each in reasons)
        by_fallback = Note(
            zh=f"{sessions} 个交易日有 {fallback} 个兜底的持有：模型的回复不可用，或预算已用完",
            en=f"{fallback} decisions in {sessions} sessions are fallback holds: the models' replies were "
            "not usable, or a budget was spent",
        )
        by_market = Note(
            zh=f"{refused} 个持有代替了被市场拒绝的委托",
            en=f"{refused} holds stand in for orders that the market or the cash refused",
        )
        return [note for note, count in ((by_fallback, fallback), (by_market, refused)) if count]

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
        """The prompts of both agents, in both languages, and what is told of a reply."""
        return {"retry": retry_texts()} | {
            f"{role}_{language}": text
            for language, texts in self._prompts.items()
            for role, text in texts.items()
        }

    @property
    def model_settings(self) -> Mapping[str, Mapping[str, Any]]:
        """What ``cfg`` fixes for the models of the roles."""
        return {role: self._config.llm_config(role).model_settings for role in self.roles}

    def decide(self, context: DecisionContext) -> Decision:
        """Decide one session; raises what ends the run."""
        view, config = context.view, self._config
        shown = config.features
        facts = facts_at_open(context, news=shown.most_news, news_days=shown.news_days)
        features = build_features(context, facts, shown)
        portfolio, account = portfolio_of(features, float(context.account.cash)), facts.account
        if account.own_return is not None:
            portfolio["own_return"] = account.own_return
        if account.equal_parts is not None:
            portfolio["equal_parts_return"] = account.equal_parts
        batch = batch_of(
            config,
            features,
            portfolio=portfolio,
            history=self._recalled(context, list(facts.symbols)),
            rule=context.rule,
            plan=plan_text(context, self.executes),
            prompts=self._prompts[context.language],
            language=context.language,
            cost_rate=_cost_rate(context),
            timestamp=view.moment.timestamp.isoformat(),
        )
        agents = Agents(
            client=lambda role, messages: context.model(role).invoke(list(messages)), ends_asking=ends_session
        )
        tools = ToolContext(view, context.account, context.rules, session=context.market)
        decided = decide_all(batch, agents, tools)
        return Decision(context.market.orders, notes=_notes(decided, agents.meter), in_order=True)

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
            return history_texts(episodes, symbols, _SHOWN_EPISODES)
        today = f"{context.session:%Y-%m-%d}"
        self._memory.add_all(
            each for each in episodes if each.date == episodes[-1].date or each.outcome_known == today
        )
        return self._memory.at(today).histories(symbols, run_id, _SHOWN_EPISODES)


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


def _cost_rate(context: DecisionContext) -> float:
    """Return the charges of a sale as a share of it; those of a purchase come out of its target.

    The market's own check is exact; this one need not know each order's smallest fee.
    """
    symbol = str(context.view["ohlcv"]["open"].columns[0])
    charges = context.rules.charges(symbol, "sell", _SHARES, _NOTIONAL, context.session.date())
    return float(charges.total / _NOTIONAL)


def _notes(decided: DualAgentState, meter: Meter) -> dict[str, Any]:
    """Return what the ledger keeps of the decisions: the same in every replay, so without times."""
    kept = ("action", "target_cash_amount", "wished_cash_amount", "confidence", "hold_reason", "note")
    notes = {}
    for item in decided["features"]:
        each = decided["decisions"][item["symbol"]]
        notes[item["symbol"]] = {name: each[name] for name in kept if name in each} | {
            "reasons": [reason[:_REASON_LENGTH] for reason in each["reasons"][:_REASONS_KEPT]],
            "tags": _extract_decision_tags(each, item["features"]),
        }
    counts = meter.counts()
    return {
        "decisions": notes,
        "filter": decided["reasoning"],
        "meta": {name: counts[name] for name in counts if name not in ("cache_hits", "latency_ms_sum")},
        "reply_errors": {
            "replies": meter.calls,
            "schema": meter.parse_errors,
            "logic": meter.logic_errors,
            "cash": meter.cash_errors,
        },
    }
