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
from quantgraph.agents.dual_agent.agent_models import Meter
from quantgraph.agents.dual_agent.decision_batch import (
    Batch,
    Draft,
    answered,
    first_draft,
    needs_answer,
    settled,
    with_retry,
)
from quantgraph.agents.dual_agent.decision_steps import (
    ROLES,
    decided_at,
    marked,
    portfolio_of,
    prompts_of,
    spent_attempts,
)
from quantgraph.agents.dual_agent.dual_config import DualAgentConfig, read_config
from quantgraph.agents.dual_agent.features import (
    add_fundamentals,
    build_features,
    check_features_list,
    fill_features,
)
from quantgraph.agents.dual_agent.fundamental_filter import choose_fundamentals
from quantgraph.agents.dual_agent.fundamentals import fundamental_data
from quantgraph.broker.account import Account
from quantgraph.errors import BadOption
from quantgraph.llm import role_model
from quantgraph.llm.models import Model
from quantgraph.market.moment import Moment, session_of
from quantgraph.runtime.resources import Resources, merge_resources, open_resources
from quantgraph.sandbox.trading_json import account_from_json
from quantgraph.settings import Role
from quantgraph.state import DataState, View

__all__ = ["DualAgentState", "create_dual_agent_subgraph"]

_CASH = 100_000


class DualAgentState(TypedDict, total=False):
    """State of the subgraph. A host gives one of the two first groups.

    From a data state: ``data_ref`` (a commit), ``moment`` (the session whose open it is, ``YYYYMMDD``),
    ``symbols`` (default: all of the commit), ``account`` (cash and positions as
    :func:`~quantgraph.sandbox.trading_json.account_to_json` writes them; default: ``cash`` alone).
    From features: ``features_list`` (as of :func:`.build_features`) and ``cash``.

    Optional: ``history`` (earlier decisions by symbol, as text), ``rule`` (the user's, in words),
    ``language``, ``rejected_orders``.

    Results: ``decisions`` by symbol, as of :func:`.decide_batch_dual_agent`; ``reasoning``, the filter's, by
    symbol; ``features``, as the decision saw them; ``meta``, what the model calls took. ``draft`` is the
    decision between two steps.
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
    need: list[str]
    reasoning: dict[str, str]
    features: list[dict[str, Any]]
    draft: Draft
    decisions: dict[str, dict[str, Any]]
    meta: dict[str, Any]


DualAgentGraph = StateGraph[DualAgentState, None, DualAgentState, DualAgentState]
CompiledDualAgentGraph = CompiledStateGraph[DualAgentState, None, DualAgentState, DualAgentState]


def create_dual_agent_subgraph(
    *,
    cfg: Mapping[str, Any] | None = None,
    model: Model | None = None,
    resources: Resources | None = None,
) -> CompiledDualAgentGraph:
    """Compiled dual agent: filter → features → decide → validate, and retry before another decide.

    It decides up to 50 symbols in one call and works without a key: the keyless planner answers by a rule.

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
            settings=opened.settings.model_copy(update=config.llm_config(role).model_settings),
        )
        for role in ROLES
    }
    nodes = _Nodes(config=config, store=opened.store, models=models)
    graph: DualAgentGraph = StateGraph(DualAgentState)
    for name in ("filter", "features", "decide", "validate", "retry"):
        graph.add_node(name, getattr(nodes, name))
    graph.add_edge(START, "filter")
    graph.add_edge("filter", "features")
    graph.add_edge("features", "decide")
    graph.add_conditional_edges("decide", nodes.route_after_decide, ["validate", "retry"])
    graph.add_edge("retry", "decide")
    graph.add_edge("validate", END)
    return graph.compile(name="dual_agent")


@dataclass(frozen=True, kw_only=True)
class _Nodes:
    """The nodes, and what they share."""

    config: DualAgentConfig
    store: DataState
    models: Mapping[Role, BaseChatModel]

    def filter(self, state: DualAgentState) -> dict[str, Any]:
        """Choose the symbols whose fundamentals are read."""
        batch, meter = self.batch(state), _meter(state)
        chosen = choose_fundamentals(
            batch.features,
            batch.portfolio,
            batch.history,
            prompt=prompts_of(self.config, batch.language)[0],
            rule=batch.rule,
            ask=meter.counting(self.ask),
            meter=meter,
        )
        need, why = list(chosen.need), dict(chosen.reasoning)
        return {"features": list(batch.features), "need": need, "reasoning": why, "meta": asdict(meter)}

    def features(self, state: DualAgentState) -> dict[str, Any]:
        """Add the fundamentals of those symbols, and begin the decision."""
        found: Mapping[str, Any] = {}
        if "data_ref" in state:
            found = fundamental_data(self.view(state), state["need"])
        complete = add_fundamentals(state["features"], state["need"], state["reasoning"], found)
        return {"features": complete, "draft": first_draft(self.batch({**state, "features": complete}))}

    def decide(self, state: DualAgentState) -> dict[str, Any]:
        """Ask for the symbols that are open, and check the reply."""
        meter = _meter(state)
        draft = answered(state["draft"], self.batch(state), meter.counting(self.ask), meter)
        return {"draft": draft, "meta": asdict(meter)}

    def validate(self, state: DualAgentState) -> dict[str, Any]:
        """Settle what stands; what has no valid decision is held."""
        batch = self.batch(state)
        decisions = marked(settled(state["draft"], batch), batch.rejected)
        return {"decisions": decisions}

    def retry(self, state: DualAgentState) -> dict[str, Any]:
        """Tell the model what is wrong with its reply."""
        return {"draft": with_retry(state["draft"])}

    def route_after_decide(self, state: DualAgentState) -> Literal["validate", "retry"]:
        """After decide: retry while symbols are open and attempts are left."""
        return "retry" if needs_answer(state["draft"], self.batch(state)) else "validate"

    def ask(self, role: Role, messages: Sequence[AnyMessage]) -> AIMessage:
        """Ask a role's model."""
        reply: AIMessage = self.models[role].invoke(list(messages))
        return reply

    def view(self, state: DualAgentState) -> View:
        """Return the data as known at the moment's open."""
        if "moment" not in state:
            raise BadOption("data_ref needs a moment: the session, YYYYMMDD, that opens", parameter="moment")
        return self.store.view(Moment(session_of(state["moment"]), "open"), state["data_ref"])

    def batch(self, state: DualAgentState) -> Batch:
        """Return what the decision is made from."""
        account = _account(state)
        features = state.get("features") or self.first_features(state, account)
        language, rejected = state.get("language", "en"), state.get("rejected_orders", [])
        return Batch(
            features=features,
            portfolio=portfolio_of(features, float(account.cash)),
            history=state.get("history", {}),
            rule=state.get("rule", ""),
            rejected=rejected,
            prompt=prompts_of(self.config, language)[1],
            language=language,
            min_cash_ratio=self.config.portfolio.min_cash_ratio,
            max_attempts=max(0, self.config.max_attempts - spent_attempts(rejected)),
            timestamp=decided_at(features),
        )

    def first_features(self, state: DualAgentState, account: Account) -> list[dict[str, Any]]:
        """Return the features of the data state, or those that are given."""
        if "data_ref" in state:
            view = self.view(state)
            return build_features(view, account, state.get("symbols") or [*view["ohlcv"]["open"].columns])
        if "features_list" not in state:
            raise BadOption(
                "the state has neither data_ref nor features_list; give one of them",
                parameter="features_list",
            )
        return fill_features(check_features_list(state["features_list"]), None)


def _account(state: DualAgentState) -> Account:
    if "account" in state:
        return account_from_json(state["account"])
    return Account.opening(state.get("cash", _CASH))


def _meter(state: DualAgentState) -> Meter:
    return Meter(**state.get("meta", {}))
