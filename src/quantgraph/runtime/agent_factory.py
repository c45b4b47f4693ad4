"""Agents as nodes use them: built once, asked with a prompt and facts, and read for what went wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallRequest, ToolErrorMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel

from quantgraph.errors import (
    BadFile,
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
from quantgraph.llm.structured import ask_json
from quantgraph.llm.tags import Tag, wrap
from quantgraph.runtime.agent_middleware import CallLimitMiddleware, RecordedToolsMiddleware, stop_line
from quantgraph.runtime.nested_graphs import NO_CHECKPOINTS, STEP_LIMIT
from quantgraph.tools import ToolContext

__all__ = [
    "DATA_ERRORS",
    "FATAL_ERRORS",
    "MODEL_ERRORS",
    "Agent",
    "create_node_agent",
    "invoke_agent",
    "invoke_agent_for",
    "tool_errors",
]


Agent = CompiledStateGraph[Any, Any, Any, Any]


T = TypeVar("T", bound=BaseModel)


CALLS_PER_NODE = 12


MODEL_ERRORS = (ModelUnavailable, NotConfigured, PermissionDenied)
"""What an agent call raises when no retry helps."""


FATAL_ERRORS = (BudgetExceeded, RunDiverged, SandboxTooWeak, StorageUnavailable)
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


def create_node_agent(name: str, model: BaseChatModel, tools: Sequence[BaseTool]) -> Agent:
    """Build the agent of a node: bounded, its tools recorded, its messages in no checkpoint."""
    agent = create_agent(
        model,
        tools,
        name=name,
        context_schema=ToolContext,
        middleware=[
            CallLimitMiddleware(CALLS_PER_NODE),
            ToolErrorMiddleware(on_error=_tell),
            RecordedToolsMiddleware(),
        ],
        # Its messages live within one node: nothing of them belongs into the host's checkpoints.
        checkpointer=False,
    )
    return cast(
        "Agent", agent.with_config({**NO_CHECKPOINTS, "max_concurrency": 1, "recursion_limit": STEP_LIMIT})
    )


def _tell(error: Exception, request: ToolCallRequest) -> str | None:  # noqa: ARG001 - the middleware passes it
    if isinstance(error, FATAL_ERRORS):
        return None
    return error.line if isinstance(error, QuantGraphError) else None


def invoke_agent(
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
        What ends the node, see :data:`FATAL_ERRORS`.
    """
    return _talk(agent, tools, _question(prompt, tag, facts))


def invoke_agent_for(
    agent: Agent,
    tools: ToolContext,
    prompt: str,
    schema: type[T],
    *,
    tag: Tag,
    facts: Mapping[str, Any],
) -> T:
    """Like :func:`invoke_agent`, but for an answer that is a JSON object.

    See :func:`~quantgraph.llm.structured.ask_json`.

    Raises
    ------
    ModelOutputInvalid
        If it could not be read twice.
    NoProgress
        If the agent was ended before it was through.
    """

    def talk(messages: list[AnyMessage]) -> list[AnyMessage]:
        replies = _talk(agent, tools, messages)
        if line := stop_line(replies):
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
    stopped = stop_line(messages)
    failed = (m for m in messages if isinstance(m, ToolMessage) and m.status == "error")
    lines = list(dict.fromkeys(_line(str(message.text)) for message in failed))
    return [stopped, *lines] if stopped else lines


def _line(text: str) -> str:
    """Ours have their code; what LangChain says of wrong arguments and unknown tools is given one."""
    line = " ".join(text.split())[:400]
    return line if re.match(r"[a-z_]+: ", line) else f"bad_tool_call: {line}"
