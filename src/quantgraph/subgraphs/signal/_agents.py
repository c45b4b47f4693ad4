"""The agents of the signal nodes, and what a run's state lets nodes and agents see."""

from __future__ import annotations

from typing import Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from quantgraph.agents import SignalRule
from quantgraph.broker import Decider
from quantgraph.data import AsOfSource, MarketDataSource, commit_source
from quantgraph.llm import role_model
from quantgraph.market import Moment
from quantgraph.runtime import Agent, OpenResources, create_node_agent
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.tools import CodeSession, ToolContext, tushare_daily_bar, tushare_daily_basic
from quantgraph.tools.code import ask, decline, python_repl

AgentName = Literal["reflection", "data_fetch", "signal_generate", "validation"]

_TOOLS: dict[AgentName, list[BaseTool]] = {
    "reflection": [python_repl],
    "data_fetch": [tushare_daily_bar, tushare_daily_basic],
    "signal_generate": [python_repl, ask, decline],
    "validation": [python_repl],
}


def build_agent(name: AgentName, resources: OpenResources) -> Agent:
    """Build the agent of a node: its model and its tools."""
    model = role_model(name, model=resources.model, settings=resources.settings)
    return create_node_agent(name, model, _TOOLS[name])


def build_clarify_model(resources: OpenResources) -> BaseChatModel:
    """Build the model that words questions."""
    return role_model("clarify", model=resources.model, settings=resources.settings)


def as_of(state: SignalSubgraphState, resources: OpenResources) -> Moment:
    """Return the run's moment: nothing later is fetched, shown or used."""
    given = state.get("as_of")
    return Moment.at(given) if given else Moment(market_source(state, resources).sessions()[-1])


def market_source(state: SignalSubgraphState, resources: OpenResources) -> MarketDataSource:
    """Return the source, below the commit that the host gave."""
    ref = state.get("given_ref")
    return commit_source(resources.source, resources.store.snapshot(ref)) if ref else resources.source


def known_source(state: SignalSubgraphState, resources: OpenResources) -> AsOfSource:
    """Return the source as known at the run's moment, which is what nodes use."""
    return AsOfSource(market_source(state, resources), as_of(state, resources))


def current_ref(state: SignalSubgraphState, resources: OpenResources) -> str:
    """Return the run's commit; a run without one starts with the empty commit."""
    return state.get("data_ref") or resources.store.empty


def current_decider(resources: OpenResources) -> Decider:
    """Return who trades: it says which data are needed, and whether a signal is."""
    return resources.decider or SignalRule()


def tool_context(state: SignalSubgraphState, resources: OpenResources, ref: str) -> ToolContext:
    """Return the tools' context for one agent call on the commit ``ref``."""
    moment = as_of(state, resources)
    tree = resources.store.checkout(ref)
    code = CodeSession(runner=resources.runner, frames=tree.view(moment).frozen())
    return ToolContext(source=market_source(state, resources), tree=tree, as_of=moment, code=code)
