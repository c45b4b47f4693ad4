"""The resources of the signal nodes: source, store, code runner and agents, built once per graph."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path

from langchain_core.language_models import BaseChatModel

from quantgraph.data import MarketDataSource, open_source
from quantgraph.data.as_of import AsOfSource
from quantgraph.errors import BadOption
from quantgraph.llm import role_model
from quantgraph.llm.models import Model
from quantgraph.market.moment import Moment
from quantgraph.recording import Budget, Recorder
from quantgraph.recording.recorded_source import recorded_source
from quantgraph.runtime.agent_factory import Agent, create_node_agent
from quantgraph.runtime.questions import OnClarify
from quantgraph.sandbox import CodeRunner
from quantgraph.settings import Settings, load_settings
from quantgraph.state import GLOBAL_DATA_STATE, DataState
from quantgraph.subgraphs.signal.reply_schemas import ReflectionReply, ReviewReply
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.tools import (
    CodeSession,
    ToolContext,
    code_runner,
    python_repl,
    tushare_daily_bar,
    tushare_daily_basic,
)

__all__ = [
    "SignalResources",
    "build_signal_resources",
    "default_signal_resources",
]


@dataclass(frozen=True, kw_only=True)
class SignalResources:
    """Resources of one graph.

    Attributes
    ----------
    on_clarify
        Who answers questions, see :func:`~quantgraph.subgraphs.signal.create_signal_subgraph`.
    recorder
        Records the runs.
    audit_cuts, audit_cells, audit_seed
        Options of the causality proof, see :func:`~quantgraph.audit.check_causality`.
    """

    source: MarketDataSource
    store: DataState
    runner: CodeRunner
    reflection: Agent
    data_fetch: Agent
    signal_generate: Agent
    validation: Agent
    clarify: BaseChatModel
    on_clarify: OnClarify = "ask"
    recorder: Recorder = field(default_factory=Recorder)
    audit_cuts: int = 40
    audit_cells: int = 6_000_000
    audit_seed: int | None = None

    def as_of(self, state: SignalSubgraphState) -> Moment:
        """Return the run's moment: nothing later is fetched, shown or used."""
        given = state.get("as_of")
        return Moment.at(given) if given else Moment(self.source.sessions()[-1])

    def known(self, state: SignalSubgraphState) -> AsOfSource:
        """Return the source as known at the run's moment, which is what nodes use."""
        return AsOfSource(self.source, self.as_of(state))

    def data_ref(self, state: SignalSubgraphState) -> str:
        """Return the run's commit; a run without one starts with the empty commit."""
        return state.get("data_ref") or self.store.empty

    def context(self, state: SignalSubgraphState, ref: str) -> ToolContext:
        """Return the tools' context for one agent call on the commit ``ref``."""
        as_of = self.as_of(state)
        tree = self.store.checkout(ref)
        code = CodeSession(runner=self.runner, frames=tree.view(as_of).frozen())
        return ToolContext(source=self.source, tree=tree, as_of=as_of, code=code)


def build_signal_resources(
    *,
    model: Model | None = None,
    source: str | Path | MarketDataSource | None = None,
    store: DataState | None = None,
    runner: CodeRunner | None = None,
    on_clarify: OnClarify = "ask",
    recorder: Recorder | None = None,
    settings: Settings | None = None,
) -> SignalResources:
    """Build the resources; options as in :func:`~quantgraph.subgraphs.signal.create_signal_subgraph`.

    Raises
    ------
    BadOption
        If ``on_clarify`` is invalid.
    """
    if on_clarify not in ("ask", "default", "fail") and not callable(on_clarify):
        raise BadOption(f"on_clarify must be ask, default, fail or a function, not {on_clarify!r}")
    settings = settings or load_settings()
    recorder = recorder or Recorder()
    recorder.limit(Budget.parse(settings.budget), Budget.parse(settings.session_budget))
    heavy = functools.partial(role_model, model=model, settings=settings)
    light = functools.partial(heavy, light=True)
    return SignalResources(
        source=recorded_source(open_source(source, settings=settings)),
        store=store or GLOBAL_DATA_STATE,
        runner=runner or code_runner(settings),
        reflection=create_node_agent(
            "reflection", heavy("reflection", answer=ReflectionReply), [python_repl]
        ),
        data_fetch=create_node_agent(
            "data_fetch", light("data_fetch"), [tushare_daily_bar, tushare_daily_basic]
        ),
        signal_generate=create_node_agent("signal_generate", heavy("signal_generate"), [python_repl]),
        validation=create_node_agent("validation", light("validation", answer=ReviewReply), [python_repl]),
        clarify=heavy("clarify"),
        on_clarify=on_clarify,
        recorder=recorder,
        audit_cuts=settings.audit_cuts,
        audit_cells=settings.audit_cells,
        audit_seed=settings.audit_seed,
    )


@functools.cache
def default_signal_resources() -> SignalResources:
    """The resources of a node that is called by hand."""
    return build_signal_resources()
