"""What the nodes work with: source, store, code runner and one agent a role, built once per graph."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallRequest, ToolErrorMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel

from quantgraph.data import MarketDataSource, open_source
from quantgraph.data.as_of import AsOfSource
from quantgraph.errors import (
    BadFile,
    BadOption,
    BudgetExceeded,
    ModelUnavailable,
    NoData,
    NoProgress,
    NotConfigured,
    PermissionDenied,
    QuantGraphError,
    RateLimited,
    RunDiverged,
    SandboxTooWeak,
    SourceUnavailable,
    StorageUnavailable,
    UnknownCommit,
    UnknownSymbol,
)
from quantgraph.llm import Role, role_model
from quantgraph.llm.ladder import ask_json
from quantgraph.llm.tags import Tag, wrap
from quantgraph.market.moment import Moment
from quantgraph.recording import Budget, Recorder
from quantgraph.recording.source import recorded_source
from quantgraph.sandbox import CodeRunner
from quantgraph.settings import Settings, load_settings
from quantgraph.state import GLOBAL_DATA_STATE, DataState
from quantgraph.subgraphs.signal._langgraph import SAVES_NOTHING, STEP_LIMIT
from quantgraph.subgraphs.signal.answers import Answerer
from quantgraph.subgraphs.signal.request import Decision
from quantgraph.subgraphs.signal.review import Review
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.tools import (
    CodeSession,
    LoopGuard,
    RecordedTools,
    ToolContext,
    code_runner,
    python_repl,
    stopped_by,
    tushare_daily_bar,
    tushare_daily_basic,
)

__all__ = [
    "DATA_ERRORS",
    "MODEL_ERRORS",
    "STOPS",
    "Agent",
    "OnClarify",
    "SignalKit",
    "ask",
    "ask_for",
    "build_kit",
    "default_kit",
    "tool_errors",
]

Agent = CompiledStateGraph[Any, Any, Any, Any]
Model = str | BaseChatModel | Mapping[Role, str | BaseChatModel]
OnClarify = Literal["ask", "default", "fail"] | Answerer

T = TypeVar("T", bound=BaseModel)

CALLS_PER_NODE = 12
MODEL_ERRORS = (ModelUnavailable, NotConfigured, PermissionDenied)
"""What an agent call raises when no retry helps."""
STOPS = (BudgetExceeded, RunDiverged, SandboxTooWeak, StorageUnavailable)
"""What is no failed attempt of a node: trying again mends nothing, and a model has nothing to do with it."""
DATA_ERRORS = (
    BadFile,
    NoData,
    NotConfigured,
    PermissionDenied,
    RateLimited,
    SourceUnavailable,
    UnknownCommit,
    UnknownSymbol,
)
"""What a source or the store raises when the data cannot be had."""


@dataclass(frozen=True, kw_only=True)
class SignalKit:
    """Handles of one graph.

    Attributes
    ----------
    on_clarify
        ``ask`` interrupts for an answer (needs a checkpointer), ``default`` takes the documented default,
        ``fail`` ends the run with ``needs_answer``. A function is called with the question and returns the
        answer. What a function answered and what was taken by default is written into ``assumptions``.
    recorder
        Where runs are recorded.
    audit_cuts, audit_cells, audit_seed
        At how many sessions a strategy is proved causal, up to which size at all of them, and what draws
        them, see :func:`~quantgraph.audit.check_causality`.
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
        """The run's moment: nothing later is fetched, shown or used."""
        given = state.get("as_of")
        return Moment.at(given) if given else Moment(self.source.sessions()[-1])

    def known(self, state: SignalSubgraphState) -> AsOfSource:
        """The source as known at the run's moment: the one that nodes ask."""
        return AsOfSource(self.source, self.as_of(state))

    def data_ref(self, state: SignalSubgraphState) -> str:
        """The run's commit; a run that was given none begins with an empty one."""
        return state.get("data_ref") or self.store.empty

    def context(self, state: SignalSubgraphState, ref: str) -> ToolContext:
        """Handles for one agent call on the commit ``ref``."""
        as_of = self.as_of(state)
        tree = self.store.checkout(ref)
        code = CodeSession(runner=self.runner, frames=tree.view(as_of).frozen())
        return ToolContext(source=self.source, tree=tree, as_of=as_of, code=code)


def build_kit(
    *,
    model: Model | None = None,
    source: str | Path | MarketDataSource | None = None,
    store: DataState | None = None,
    runner: CodeRunner | None = None,
    on_clarify: OnClarify = "ask",
    recorder: Recorder | None = None,
    settings: Settings | None = None,
) -> SignalKit:
    """Build everything once; options as in :func:`~quantgraph.subgraphs.signal.create_signal_subgraph`."""
    if on_clarify not in ("ask", "default", "fail") and not callable(on_clarify):
        raise BadOption(f"on_clarify={on_clarify!r}; valid are ask, default, fail, or a function")
    settings = settings or load_settings()
    recorder = recorder or Recorder()
    recorder.limit(Budget.parse(settings.budget), Budget.parse(settings.session_budget))
    heavy = functools.partial(role_model, model=model, settings=settings)
    light = functools.partial(heavy, light=True)
    return SignalKit(
        source=recorded_source(open_source(source, settings=settings)),
        store=store or GLOBAL_DATA_STATE,
        runner=runner or code_runner(settings),
        reflection=_agent("reflection", heavy("reflection", answer=Decision), [python_repl]),
        data_fetch=_agent("data_fetch", light("data_fetch"), [tushare_daily_bar, tushare_daily_basic]),
        signal_generate=_agent("signal_generate", heavy("signal_generate"), [python_repl]),
        validation=_agent("validation", light("validation", answer=Review), [python_repl]),
        clarify=heavy("clarify"),
        on_clarify=on_clarify,
        recorder=recorder,
        audit_cuts=settings.audit_cuts,
        audit_cells=settings.audit_cells,
        audit_seed=settings.audit_seed,
    )


@functools.cache
def default_kit() -> SignalKit:
    """The kit of a node that is called by hand."""
    return build_kit()


def _agent(name: str, model: BaseChatModel, tools: Sequence[BaseTool]) -> Agent:
    agent = create_agent(
        model,
        tools,
        name=name,
        context_schema=ToolContext,
        middleware=[
            LoopGuard(CALLS_PER_NODE),
            ToolErrorMiddleware(on_error=_tell),
            RecordedTools(),
        ],
        # Its messages live within one node: nothing of them belongs into the host's checkpoints.
        checkpointer=False,
    )
    return cast(
        "Agent", agent.with_config({**SAVES_NOTHING, "max_concurrency": 1, "recursion_limit": STEP_LIMIT})
    )


def _tell(error: Exception, request: ToolCallRequest) -> str | None:  # noqa: ARG001 - the middleware passes it
    if isinstance(error, STOPS):
        return None
    return error.line if isinstance(error, QuantGraphError) else None


def ask(
    agent: Agent,
    tools: ToolContext,
    prompt: str,
    tag: Tag | None = None,
    facts: Mapping[str, Any] | None = None,
) -> list[AnyMessage]:
    """Run an agent on a prompt; ``facts`` are given to it as JSON between ``tag``. Returns its messages.

    Raises
    ------
    ModelUnavailable, NotConfigured, PermissionDenied
        What the model's server answers when retrying does not help.
    BudgetExceeded, RunDiverged, SandboxTooWeak, StorageUnavailable
        What ends the node, see :data:`STOPS`.
    """
    return _talk(agent, tools, _question(prompt, tag, facts))


def ask_for(
    agent: Agent,
    tools: ToolContext,
    prompt: str,
    schema: type[T],
    *,
    tag: Tag,
    facts: Mapping[str, Any],
) -> T:
    """As :func:`ask`, for an answer that is a JSON object; see :func:`~quantgraph.llm.ladder.ask_json`.

    Raises
    ------
    ModelOutputInvalid
        If it could not be read twice.
    NoProgress
        If the agent was ended before it was through.
    """

    def talk(messages: list[AnyMessage]) -> list[AnyMessage]:
        replies = _talk(agent, tools, messages)
        if line := stopped_by(replies):
            raise NoProgress(line)
        return replies

    return ask_json(talk, _question(prompt, tag, facts), schema)


def _question(prompt: str, tag: Tag | None, facts: Mapping[str, Any] | None) -> list[AnyMessage]:
    asked: list[AnyMessage] = [HumanMessage(prompt)]
    if tag:
        asked.insert(0, SystemMessage(wrap(tag, json.dumps(facts, ensure_ascii=False))))
    return asked


def _talk(agent: Agent, tools: ToolContext, messages: list[AnyMessage]) -> list[AnyMessage]:
    """Go on with a conversation; returns what is new."""
    result = agent.invoke({"messages": messages}, context=tools)
    replies: list[AnyMessage] = result["messages"][len(messages) :]
    if not replies:
        raise ModelUnavailable("the model returned no message; check the model's name and its server")
    return replies


def tool_errors(messages: Sequence[AnyMessage]) -> list[str]:
    """What went wrong in an agent's run, a ``code: message`` line each.

    Why it was ended if it was; then what the tools refused, in order, each once.
    """
    stopped = stopped_by(messages)
    failed = (m for m in messages if isinstance(m, ToolMessage) and m.status == "error")
    lines = list(dict.fromkeys(_line(str(message.text)) for message in failed))
    return [stopped, *lines] if stopped else lines


def _line(text: str) -> str:
    """Ours have their code; what LangChain says of wrong arguments and unknown tools is given one."""
    line = " ".join(text.split())[:400]
    return line if re.match(r"[a-z_]+: ", line) else f"bad_tool_call: {line}"
