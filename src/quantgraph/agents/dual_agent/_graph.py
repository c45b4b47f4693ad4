"""The dual agent as a subgraph: filter, decide, validate, retry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from quantgraph._util.texts import Language, NewsUntil
from quantgraph.agents.dual_agent._config import (
    Agents,
    Ask,
    DualAgentConfig,
    LLMClient,
    Meter,
    is_model_failure,
    read_config,
)
from quantgraph.agents.dual_agent._decide import (
    BATCH_SIZE,
    ROLES,
    Batch,
    Draft,
    answered,
    decided_at,
    filtered,
    first_draft,
    needs_answer,
    portfolio_of,
    prompts_of,
    renewed_part,
    settled,
    spent_attempts,
    with_market_as_reason,
    with_retry,
)
from quantgraph.agents.dual_agent._features import build_features, check_features_list, fill_features
from quantgraph.agents.loop._host_state import check_symbols, host_account, view_of
from quantgraph.broker import Account
from quantgraph.errors import BadOption
from quantgraph.llm import Model, role_model
from quantgraph.runtime import Resources, compile_graph, merge_resources, open_resources
from quantgraph.state import GLOBAL_DATA_STATE, DataState

CASH = 100_000
"""Cash of an account by default."""


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
    decisions: dict[str, dict[str, Any]]


class DualAgentState(DualAgentInput, total=False):
    """State of the subgraph.

    Results: ``decisions`` by symbol, as of :func:`.decide_batch_dual_agent`; ``reasoning``, the filter's, by
    symbol; ``features``, as the decision saw them; ``meta``, what the model calls took.

    Between the steps: ``portfolio``, before the decision; ``standing``, the decisions that are not renewed;
    ``draft``, the decision so far.
    """

    portfolio: dict[str, float]
    standing: dict[str, dict[str, Any]]
    reasoning: dict[str, str]
    features: list[dict[str, Any]]
    draft: Draft
    meta: dict[str, Any]


DualAgentGraph = StateGraph[DualAgentState, None, DualAgentInput, DualAgentState]
CompiledDualAgentGraph = CompiledStateGraph[DualAgentState, None, DualAgentInput, DualAgentState]


def create_dual_agent_subgraph(
    *, cfg: Mapping[str, Any] | None = None, model: Model | None = None, resources: Resources | None = None
) -> CompiledDualAgentGraph:
    """Compiled dual agent: begin → filter → decide → validate, and retry before another decide.

    It decides up to 50 symbols and works without a key: the keyless planner answers by a rule. Each
    invocation begins anew, also on a thread that has an earlier one. Models that fail end in holds, and
    ``meta`` says why in ``failed``.

    Parameters
    ----------
    cfg
        See :class:`.DualAgentConfig`.
    model, resources
        See :class:`~quantgraph.runtime.Resources`: the models, and the store of ``data_ref``.

    Raises
    ------
    BadOption
        If an argument is not valid.
    """
    opened = open_resources(merge_resources(resources, model=model))
    config = read_config(cfg)
    models = {
        role: role_model(
            role,
            model=opened.model or config.llm_config(role).model,
            settings=opened.settings.with_model(role, config.llm_config(role).model_settings),
        )
        for role in ROLES
    }
    prompts = {language: prompts_of(config, language) for language in get_args(Language)}
    return compiled(
        Steps(
            config=config,
            store=opened.store,
            news_until=opened.settings.news_until,
            ask=LLMClient(models).ask,
            prompts=prompts,
        )
    )


def compiled(steps: Steps, *, checkpointer: Literal[False] | None = None) -> CompiledDualAgentGraph:
    """The steps as a graph; ``checkpointer`` None takes that of a host."""
    graph: DualAgentGraph = StateGraph(DualAgentState, input_schema=DualAgentInput)
    for name in ("begin", "filter", "decide", "validate", "retry"):
        graph.add_node(name, getattr(steps, name))
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "filter")
    for name, after in (("filter", "decide"), ("decide", "retry")):
        graph.add_conditional_edges(name, getattr(steps, f"route_after_{name}"), [after, "validate"])
    graph.add_edge("retry", "decide")
    graph.add_edge("validate", END)
    return compile_graph(graph, "dual_agent", checkpointer=checkpointer)


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The nodes, and what they share; ``prompts`` are the filter's and the decision's by language."""

    config: DualAgentConfig
    ask: Ask
    prompts: Mapping[Language, tuple[str, str]]
    store: DataState | None = None
    news_until: NewsUntil = "previous_day"
    filters: bool = True

    def begin(self, state: DualAgentInput) -> DualAgentState:
        """Check the input, and begin anew: the thread may have an earlier decision."""
        account = host_account(state, cash=CASH)
        features = self.first_features(state, account)
        if len(features) > BATCH_SIZE:
            raise BadOption(
                f"{len(features)} symbols; the subgraph decides at most {BATCH_SIZE}: name fewer, or use "
                "decide_batch_dual_agent",
                parameter="symbols" if state.get("data_ref") else "features_list",
            )
        portfolio = portfolio_of(features, float(account.cash), state.get("total_assets"))
        whole = self.batch({**state, "features": features, "portfolio": portfolio})  # type: ignore[typeddict-item]  # mypy wants all keys of a total=False dict
        asked, standing = renewed_part(whole, state.get("decisions") or {})
        return {
            "features": [dict(item) for item in asked.features],
            "portfolio": dict(asked.portfolio),
            "standing": standing,
            "reasoning": {},
            "decisions": {},
            "meta": asdict(Meter()),
        }

    def filter(self, state: DualAgentState) -> DualAgentState:
        """Choose the symbols whose fundamentals are read, and begin the decision."""
        agents, batch, why = self.agents(state), self.batch(state), dict[str, str]()
        if self.filters and self.config.features.fundamentals:
            batch, why = filtered(batch, agents)
        return {
            "features": [dict(item) for item in batch.features],
            "reasoning": why,
            "draft": first_draft(batch, failed=agents.meter.failed),
            "meta": asdict(agents.meter),
        }

    def decide(self, state: DualAgentState) -> DualAgentState:
        """Ask for the symbols that are open, and check the reply."""
        agents = self.agents(state)
        return {"draft": answered(state["draft"], self.batch(state), agents), "meta": asdict(agents.meter)}

    def validate(self, state: DualAgentState) -> DualAgentState:
        """Settle what stands; what has no valid decision is held."""
        batch = self.batch(state)
        decisions = state["standing"] | with_market_as_reason(settled(state["draft"], batch), batch.rejected)
        return {"decisions": decisions, "rejected_orders": []}

    def retry(self, state: DualAgentState) -> DualAgentState:
        """Tell the model what is wrong with its reply."""
        return {"draft": with_retry(state["draft"])}

    def route_after_filter(self, state: DualAgentState) -> Literal["decide", "validate"]:
        """After the filter: decide, unless the models failed or no attempt is left."""
        return "decide" if needs_answer(state["draft"], self.batch(state)) else "validate"

    def route_after_decide(self, state: DualAgentState) -> Literal["validate", "retry"]:
        """After decide: retry while symbols are open and attempts are left."""
        return "retry" if needs_answer(state["draft"], self.batch(state)) else "validate"

    def agents(self, state: DualAgentState) -> Agents:
        """Return how the models are asked, counting on from the state's counts."""
        meter, prompts = Meter(**state["meta"]), self.prompts[state.get("language", "en")]
        return Agents(
            filter_prompt=prompts[0], ask=meter.counting(self.ask), meter=meter, ends_asking=is_model_failure
        )

    def batch(self, state: DualAgentState) -> Batch:
        """Return what the decision is made from."""
        features, language = state["features"], state.get("language", "en")
        rejected = state.get("rejected_orders") or []
        return Batch(
            features=features,
            portfolio=state["portfolio"],
            history=state.get("history") or {},
            rule=state.get("rule", ""),
            rejected=rejected,
            prompt=self.prompts[language][1],
            language=language,
            min_cash_ratio=self.config.portfolio.min_cash_ratio,
            max_attempts=max(0, self.config.max_attempts - spent_attempts(rejected)),
            timestamp=decided_at(features),
        )

    def first_features(self, state: DualAgentInput, account: Account) -> list[dict[str, Any]]:
        """Return the features of the data state, or those of the input."""
        inputs = [name for name in ("data_ref", "features_list") if state.get(name)]
        if len(inputs) != 1:
            what = "both data_ref and" if inputs else "neither data_ref nor"
            raise BadOption(
                f"the state has {what} features_list; give one of them", parameter="features_list"
            )
        if inputs == ["features_list"]:
            return fill_features(check_features_list(state["features_list"]), None, self.config.features)
        view = view_of(state, self.store or GLOBAL_DATA_STATE, self.news_until)
        symbols = state.get("symbols") or [*view["ohlcv"].frozen("open").symbols]
        check_symbols(view, symbols)
        return build_features(view, account, symbols, self.config.features)
