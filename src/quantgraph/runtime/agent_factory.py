"""The nodes' agents: built once per graph, invoked with a prompt and facts, and read for tool errors."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallRequest, ToolErrorMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel

from quantgraph.errors import ModelUnavailable, NoProgress, QuantGraphError
from quantgraph.llm.structured import ask_json
from quantgraph.llm.tags import Tag, wrap
from quantgraph.runtime.agent_middleware import CallLimitMiddleware, RecordedToolsMiddleware, stop_line
from quantgraph.runtime.endings import FATAL_ERRORS
from quantgraph.runtime.nested_graphs import NO_CHECKPOINTS, STEP_LIMIT
from quantgraph.tools import ViewContext

Agent = CompiledStateGraph[Any, Any, Any, Any]

T = TypeVar("T", bound=BaseModel)

CALLS_PER_NODE = 12
"""Model calls that an agent may make in one node."""


def create_node_agent(
    name: str, model: BaseChatModel, tools: Sequence[BaseTool], *, live_tools: Collection[str] = ()
) -> Agent:
    """Build the agent of a node or a decider: its calls are limited, its tools recorded.

    Its messages are not checkpointed. ``live_tools`` names tools that act on the decision itself, such as one
    that submits an order: they run again in a replay, and identical calls of them are no loop.
    """
    agent = create_agent(
        model,
        tools,
        name=name,
        context_schema=ViewContext,
        middleware=[
            CallLimitMiddleware(CALLS_PER_NODE, live_tools),
            ToolErrorMiddleware(on_error=_error_line),
            RecordedToolsMiddleware(live_tools),
        ],
        checkpointer=False,  # its messages live within one node
    )
    return cast(
        "Agent", agent.with_config({**NO_CHECKPOINTS, "max_concurrency": 1, "recursion_limit": STEP_LIMIT})
    )


def _error_line(error: Exception, request: ToolCallRequest) -> str | None:  # noqa: ARG001 - the middleware passes it
    if isinstance(error, FATAL_ERRORS):
        return None
    return error.line if isinstance(error, QuantGraphError) else None


def invoke_agent(
    agent: Agent,
    tools: ViewContext,
    prompt: str,
    tag: Tag | None = None,
    facts: Mapping[str, Any] | None = None,
    *,
    earlier: Sequence[AnyMessage] = (),
) -> list[AnyMessage]:
    """Run an agent on a prompt and return its messages; ``facts`` are sent before it as JSON inside ``tag``.

    ``earlier`` are the messages of earlier turns, which follow the prompt; see
    :func:`~quantgraph.runtime.agent_middleware.as_earlier_reply`.

    Raises
    ------
    ModelUnavailable, NotConfigured, PermissionDenied
        If the model's server refuses in a way that no retry solves.
    BudgetExceeded, RunDiverged, SandboxTooWeak, StorageUnavailable
        What ends the node, see :data:`~quantgraph.runtime.endings.FATAL_ERRORS`.
    """
    messages = [*_conversation(prompt, tag, facts), *earlier]
    replies: list[AnyMessage] = agent.invoke({"messages": messages}, context=tools)["messages"][
        len(messages) :
    ]
    _check_replied(replies)
    return replies


def invoke_agent_for(
    agent: Agent,
    tools: ViewContext,
    prompt: str,
    schema: type[T],
    *,
    tag: Tag,
    facts: Mapping[str, Any],
) -> T:
    """Like :func:`invoke_agent`, but return the reply as ``schema``.

    See :func:`~quantgraph.llm.structured.ask_json`.

    Raises
    ------
    ModelOutputInvalid
        If two replies in a row do not fit the schema.
    NoProgress
        If the agent reached a limit on its calls.
    """
    invoke: Any = partial(agent.invoke, context=tools)
    return ask_json(invoke, _conversation(prompt, tag, facts), schema, check=_check_finished)


def _conversation(prompt: str, tag: Tag | None, facts: Mapping[str, Any] | None) -> list[AnyMessage]:
    messages: list[AnyMessage] = [HumanMessage(prompt)]
    if tag:
        messages.insert(0, SystemMessage(wrap(tag, json.dumps(facts, ensure_ascii=False))))
    return messages


def _check_replied(replies: Sequence[AnyMessage]) -> None:
    if not replies:
        raise ModelUnavailable("the model returned no message; check the model's name and its server")


def _check_finished(replies: Sequence[AnyMessage]) -> None:
    """Check that there is a reply, and that no limit ended the agent."""
    _check_replied(replies)
    if line := stop_line(replies):
        raise NoProgress(line)


def tool_errors(messages: Sequence[AnyMessage]) -> list[str]:
    """Return the errors of an agent's run as ``code: message`` lines.

    The first line is why the agent was ended, if it was; then come the tools' errors in order, each once.
    """
    stopped = stop_line(messages)
    failed = (m for m in messages if isinstance(m, ToolMessage) and m.status == "error")
    lines = list(dict.fromkeys(_with_code(str(message.text)) for message in failed))
    return [stopped, *lines] if stopped else lines


def _with_code(text: str) -> str:
    """Make an error one line with a code; LangChain's own (bad arguments, unknown tool) have none."""
    line = " ".join(text.split())[:400]
    return line if re.match(r"[a-z_]+: ", line) else f"bad_tool_call: {line}"
