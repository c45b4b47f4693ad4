"""The dual agent as a subgraph: filter, features, decide, validate, retry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from quantgraph._util.texts import Language
from quantgraph.agents._isolated import check_symbols, given_view
from quantgraph.agents.dual_agent._config import Agents, DualAgentConfig, Meter, is_model_failure, read_config
from quantgraph.agents.dual_agent._decide import (
    BATCH_SIZE,
    ROLES,
    Batch,
    Draft,
    answered,
    choose_fundamentals,
    decided_at,
    first_draft,
    marked,
    needs_answer,
    portfolio_of,
    prompts_of,
    renewed_part,
    settled,
    spent_attempts,
    with_retry,
)
from quantgraph.agents.dual_agent._features import (
    add_fundamentals,
    build_features,
    check_features_list,
    fill_features,
)
from quantgraph.agents.dual_agent._fundamentals import fundamental_data
from quantgraph.broker import Account
from quantgraph.errors import BadOption
from quantgraph.llm import Model, role_model
from quantgraph.runtime import Resources, merge_resources, open_resources, shown_offline
from quantgraph.sandbox.wire import host_account
from quantgraph.settings import Role
from quantgraph.state import DataState

CASH = 100_000
"""Cash of an account where none is given."""


class DualAgentInput(TypedDict, total=False):
    """What a host gives: one of the two first groups, not both.

    From a data state: ``data_ref`` (a commit), ``moment`` (the session whose open it is, ``YYYYMMDD``),
    ``symbols`` (default: all of the commit), ``account`` (cash and positions as
    :func:`~quantgraph.sandbox.wire.account_to_json` writes them; default: ``cash`` alone).
    """

    data_ref: str
    moment: str
    symbols: list[str]
    account: dict[str, Any]
    cash: float
    features_list: list[dict[str, Any]]
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
    ``need``, the symbols whose fundamentals are shown; ``draft``, the decision so far.
    """

    portfolio: dict[str, float]
    standing: dict[str, dict[str, Any]]
    need: list[str]
    reasoning: dict[str, str]
    features: list[dict[str, Any]]
    draft: Draft
    meta: dict[str, Any]


DualAgentGraph = StateGraph[DualAgentState, None, DualAgentInput, DualAgentState]
CompiledDualAgentGraph = CompiledStateGraph[DualAgentState, None, DualAgentInput, DualAgentState]


def create_dual_agent_subgraph(
    *, cfg: Mapping[str, Any] | None = None, model: Model | None = None, resources: Resources | None = None
) -> CompiledDualAgentGraph:
    """Compiled dual agent: begin → filter → features → decide → validate, and retry before another decide.

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
    given = merge_resources(resources, model=model)
    opened, config = open_resources(given), read_config(cfg)
    models = {
        role: role_model(
            role,
            model=opened.model or config.llm_config(role).model,
            settings=opened.settings.with_model(role, config.llm_config(role).model_settings),
        )
        for role in ROLES
    }
    nodes = _Nodes(config=config, store=opened.store, models=models)
    graph: DualAgentGraph = StateGraph(DualAgentState, input_schema=DualAgentInput)
    for name in ("begin", "filter", "features", "decide", "validate", "retry"):
        graph.add_node(name, getattr(nodes, name))
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "filter")
    graph.add_edge("filter", "features")
    graph.add_conditional_edges("features", nodes.route_after_features, ["decide", "validate"])
    graph.add_conditional_edges("decide", nodes.route_after_decide, ["validate", "retry"])
    graph.add_edge("retry", "decide")
    graph.add_edge("validate", END)
    return shown_offline(graph.compile(name="dual_agent"))


@dataclass(frozen=True, kw_only=True)
class _Nodes:
    """The nodes, and what they share."""

    config: DualAgentConfig
    store: DataState
    models: Mapping[Role, BaseChatModel]

    def begin(self, state: DualAgentInput) -> DualAgentState:
        """Check what is given, and begin anew: the thread may have an earlier decision."""
        account = host_account(state, cash=CASH)
        features = self.first_features(state, account)
        if len(features) > BATCH_SIZE:
            raise BadOption(
                f"{len(features)} symbols; the subgraph decides at most {BATCH_SIZE}: name fewer, or use "
                "decide_batch_dual_agent",
                parameter="symbols" if state.get("data_ref") else "features_list",
            )
        portfolio = portfolio_of(features, float(account.cash))
        whole = self.batch({**state, "features": features, "portfolio": portfolio})  # type: ignore[typeddict-item]  # mypy wants all keys of a total=False dict
        asked, standing = renewed_part(whole, state.get("decisions") or {})
        return {
            "features": [dict(item) for item in asked.features],
            "portfolio": dict(asked.portfolio),
            "standing": standing,
            "need": [],
            "reasoning": {},
            "decisions": {},
            "meta": asdict(Meter()),
        }

    def filter(self, state: DualAgentState) -> DualAgentState:
        """Choose the symbols whose fundamentals are read."""
        agents = self.agents(state)
        chosen = choose_fundamentals(self.batch(state), agents)
        need, why = list(chosen.need), dict(chosen.reasoning)
        return {"need": need, "reasoning": why, "meta": asdict(agents.meter)}

    def features(self, state: DualAgentState) -> DualAgentState:
        """Add the fundamentals of those symbols, and begin the decision."""
        found: Mapping[str, Any] = {}
        if state.get("data_ref"):
            found = fundamental_data(given_view(state, self.store), state["need"])
        complete = add_fundamentals(state["features"], state["need"], state["reasoning"], found)
        batch = self.batch({**state, "features": complete})
        return {"features": complete, "draft": first_draft(batch, failed=state["meta"]["failed"])}

    def decide(self, state: DualAgentState) -> DualAgentState:
        """Ask for the symbols that are open, and check the reply."""
        agents = self.agents(state)
        return {"draft": answered(state["draft"], self.batch(state), agents), "meta": asdict(agents.meter)}

    def validate(self, state: DualAgentState) -> DualAgentState:
        """Settle what stands; what has no valid decision is held."""
        batch = self.batch(state)
        decisions = state["standing"] | marked(settled(state["draft"], batch), batch.rejected)
        return {"decisions": decisions, "rejected_orders": []}

    def retry(self, state: DualAgentState) -> DualAgentState:
        """Tell the model what is wrong with its reply."""
        return {"draft": with_retry(state["draft"])}

    def route_after_features(self, state: DualAgentState) -> Literal["decide", "validate"]:
        """After features: decide, unless the models were given up or no attempt is left."""
        return "decide" if needs_answer(state["draft"], self.batch(state)) else "validate"

    def route_after_decide(self, state: DualAgentState) -> Literal["validate", "retry"]:
        """After decide: retry while symbols are open and attempts are left."""
        return "retry" if needs_answer(state["draft"], self.batch(state)) else "validate"

    def agents(self, state: DualAgentState) -> Agents:
        """Return how the models are asked, counting on from the state's counts."""
        meter = Meter(**state["meta"])
        return Agents(
            filter_prompt=prompts_of(self.config, state.get("language", "en"))[0],
            ask=meter.counting(self.ask),
            meter=meter,
            is_given_up=is_model_failure,
        )

    def ask(self, role: Role, messages: Sequence[AnyMessage]) -> AIMessage:
        """Ask a role's model."""
        reply: AIMessage = self.models[role].invoke(list(messages))
        return reply

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
            prompt=prompts_of(self.config, language)[1],
            language=language,
            min_cash_ratio=self.config.portfolio.min_cash_ratio,
            max_attempts=max(0, self.config.max_attempts - spent_attempts(rejected)),
            timestamp=decided_at(features),
        )

    def first_features(self, state: DualAgentInput, account: Account) -> list[dict[str, Any]]:
        """Return the features of the data state, or those that are given."""
        given = [name for name in ("data_ref", "features_list") if state.get(name)]
        if len(given) != 1:
            what = "both data_ref and" if given else "neither data_ref nor"
            raise BadOption(
                f"the state has {what} features_list; give one of them", parameter="features_list"
            )
        if given == ["features_list"]:
            return fill_features(check_features_list(state["features_list"]), None)
        view = given_view(state, self.store)
        symbols = state.get("symbols") or [*view["ohlcv"].frozen("open").symbols]
        check_symbols(view, symbols)
        return build_features(view, account, symbols)
