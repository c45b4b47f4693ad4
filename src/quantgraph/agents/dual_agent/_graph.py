"""The dual agent as a subgraph: the nodes of its loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

from langgraph.graph.state import CompiledStateGraph

from quantgraph._util.texts import Language
from quantgraph.agents.dual_agent._config import (
    Agents,
    DualAgentConfig,
    LLMClient,
    Meter,
    is_model_failure,
    read_config,
)
from quantgraph.agents.dual_agent._features import (
    FeatureItem,
    build_features,
    check_features_list,
    check_listed,
    fill_features,
)
from quantgraph.agents.dual_agent._loop import (
    BATCH_SIZE,
    ROLES,
    DualAgentInput,
    DualAgentState,
    DualLoop,
    batch_of,
    portfolio_of,
    prompts_of,
    renewed_part,
)
from quantgraph.agents.loop._facts import facts_at_open
from quantgraph.agents.loop._host_state import check_symbols, host_account
from quantgraph.agents.loop._model_decider import loop_graph, scratch_context
from quantgraph.data.symbols import rules_of
from quantgraph.errors import BadOption
from quantgraph.llm import Model, role_model
from quantgraph.market import Rulebook
from quantgraph.runtime import OpenResources, Resources, merge_resources, open_resources
from quantgraph.settings import Role
from quantgraph.state import View
from quantgraph.tools import ToolContext

CASH = 100_000
"""Cash of an account by default."""

CompiledDualAgentGraph = CompiledStateGraph[DualAgentState, None, DualAgentInput, DualAgentState]


def create_dual_agent_subgraph(
    *,
    cfg: Mapping[str, Any] | None = None,
    rules: Rulebook | None = None,
    model: Model | None = None,
    resources: Resources | None = None,
) -> CompiledDualAgentGraph:
    """Compiled dual agent: begin, then think, act and observe.

    It decides up to 50 symbols and works without a key: the keyless planner answers by a rule. Decisions on a
    data state are tried on the market at that open, on a scratch account. Each invocation begins anew, also
    on a thread that has an earlier one. Models that fail end in holds, and ``meta`` says why in ``failed``.

    Parameters
    ----------
    cfg
        See :class:`.DualAgentConfig`.
    rules
        The market's rules. Default: those of the market whose codes the data have.
    model, resources
        See :class:`~quantgraph.runtime.Resources`: the models, and the store of ``data_ref``.

    Raises
    ------
    BadOption
        If an argument is not valid.
    """
    opened = open_resources(merge_resources(resources, model=model))
    config = read_config(cfg)
    client = LLMClient(
        {
            role: role_model(
                role,
                model=opened.model or config.llm_config(role).model,
                settings=opened.settings.with_model(role, config.llm_config(role).model_settings),
            )
            for role in ROLES
        }
    )
    prompts = {language: prompts_of(config, language) for language in get_args(Language)}
    host = _Host(config=config, client=client, prompts=prompts, opened=opened, rules=rules)
    schemas = (DualAgentState, DualAgentInput)
    return loop_graph(DualLoop, host.loop_of, _fresh, name="dual_agent", schemas=schemas)


@dataclass(frozen=True, kw_only=True)
class _Host:
    """What the loops of a graph share; ``prompts`` are by language."""

    config: DualAgentConfig
    client: LLMClient
    prompts: Mapping[Language, Mapping[Role, str]]
    opened: OpenResources
    rules: Rulebook | None

    def loop_of(self, state: DualAgentState) -> DualLoop:
        """The loop of a state; before its first step the state has what the host gave alone."""
        config, context, begun = self.config, self._context(state), state.get("portfolio")
        features, portfolio = (state["features"], begun) if begun else self._first(state, context)
        language = state.get("language", "en")
        batch = batch_of(
            config,
            features,
            portfolio=portfolio,
            history=state.get("history") or {},
            rule=state.get("rule", ""),
            rejected=state.get("rejected_orders"),
            prompts=self.prompts[language],
            language=language,
        )
        meter = Meter(**(state.get("meta") or {}))
        agents = Agents(client=self.client.ask, ends_asking=is_model_failure, meter=meter)
        if begun:
            return DualLoop(context=context, batch=batch, agents=agents, standing=state["standing"])
        batch, standing = renewed_part(batch, state.get("decisions") or {})
        first = {"features": list(batch.features), "portfolio": dict(batch.portfolio), "standing": standing}
        return DualLoop(context=context, batch=batch, agents=agents, standing=standing, first=first)

    def _context(self, state: DualAgentState) -> ToolContext | None:
        """The market of a data state, on a scratch account; None for features that the host gives."""
        inputs = [name for name in ("data_ref", "features_list") if state.get(name)]
        if len(inputs) != 1:
            what = "both data_ref and" if inputs else "neither data_ref nor"
            raise BadOption(
                f"the state has {what} features_list; give one of them", parameter="features_list"
            )
        if inputs == ["features_list"]:
            return None

        def rules(view: View) -> Rulebook:
            return self.rules or rules_of(self.opened.source, view["ohlcv"].frozen("open").symbols)

        return scratch_context(state, self.opened, rules, cash=CASH, trades=True)

    def _first(
        self, state: DualAgentState, context: ToolContext | None
    ) -> tuple[list[FeatureItem], dict[str, float]]:
        """Return the features of the data state, or those of the input, and the portfolio."""
        options = self.config.features
        if context is None:
            account = host_account(state, cash=CASH)
            features = fill_features(check_features_list(state["features_list"]), None, options)
        else:
            account, view = context.account, context.view
            symbols = state.get("symbols") or [*view["ohlcv"].frozen("open").symbols]
            check_listed(symbols, "symbols")
            check_symbols(view, symbols)
            facts = facts_at_open(context, symbols, news=options.most_news, news_days=options.news_days)
            features = build_features(context, facts, options)
        if len(features) > BATCH_SIZE:
            raise BadOption(
                f"{len(features)} symbols; the subgraph decides at most {BATCH_SIZE}: name fewer, or use "
                "decide_batch_dual_agent",
                parameter="features_list" if context is None else "symbols",
            )
        return features, portfolio_of(features, float(account.cash), state.get("total_assets"))


def _fresh() -> dict[str, Any]:
    return {
        "reasoning": {},
        "decisions": {},
        "conversation": [],
        "reply": None,
        "ended": False,
        "meta": asdict(Meter()),
    }
