"""The nodes' agents: built once a graph, limited and recorded, invoked with a prompt and facts."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from itertools import takewhile
from typing import Any, Literal, TypeVar, cast
from weakref import WeakKeyDictionary

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ToolCallRequest, ToolErrorMiddleware, hook_config
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph, StateGraph
from langgraph.types import Command
from pydantic import BaseModel

from quantgraph._util.canonical_json import canonical_json
from quantgraph.errors import ModelUnavailable, NoProgress, QuantGraphError
from quantgraph.llm.messages import wrap
from quantgraph.recording import Recorder
from quantgraph.recording.scope import call_once
from quantgraph.runtime._own_graph import OwnGraph
from quantgraph.runtime._run_node import NO_CHECKPOINTS, STEP_LIMIT, run_node
from quantgraph.runtime.dialogue._events import EventsTransformer
from quantgraph.runtime.endings._endings import FATAL_ERRORS
from quantgraph.runtime.graph_state import Update
from quantgraph.tools import ToolContext

MAX_IDENTICAL_CALLS = 2
"""Times that a call with the same arguments is made; later ones are answered with an error."""
MAX_IDENTICAL_REFUSALS = 2
"""Times that it is answered with an error; the next one ends the agent."""
TOOL_CALLS_PER_MODEL_CALL = 4
"""Tool calls allowed in a node for each model call allowed; one reply can request any number."""
REQUESTED_PER_ALLOWED = 2
"""The agent ends when it has requested more than this many times the allowed tool calls."""
_TOOL_NAME_CHARACTERS = 80
_STOP_KEY = "quantgraph_stopped"
"""Key in the metadata of the message that ends an agent."""
_EARLIER_KEY = "quantgraph_earlier"
"""Key in the metadata of a reply of an earlier turn, which counts in no limit."""


class CallLimitMiddleware(AgentMiddleware[Any, Any, Any]):
    """Limit an agent's model calls, its tool calls, and its identical tool calls."""

    def __init__(self, model_calls: int, live_tools: Collection[str] = ()) -> None:
        super().__init__()
        self._model_calls = model_calls
        self._live_tools = frozenset(live_tools)
        self._tool_calls = TOOL_CALLS_PER_MODEL_CALL * model_calls
        self._too_many = f"call_limit: at most {self._tool_calls} tool calls are allowed in one node"

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        """End the agent if a limit is reached."""
        messages: Sequence[AnyMessage] = state["messages"]
        made_before = _calls_before(messages, None)
        counts = Counter(_call_text(call) for call in made_before if call["name"] not in self._live_tools)
        ((call, times),) = counts.most_common(1) or [("", 0)]
        if times > MAX_IDENTICAL_CALLS + MAX_IDENTICAL_REFUSALS:
            tool = json.loads(call)[0][:_TOOL_NAME_CHARACTERS]
            return _stop(f"repeated_call: {tool} was called {times} times with the same arguments")
        made = len(_new_replies(messages))
        if made >= self._model_calls:
            return _stop(f"call_limit: {made} model calls in one node were not enough")
        return None

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        """End the agent if it requests so many calls that refusing each would take minutes."""
        requested = len(_calls_before(state["messages"], None))
        return _stop(self._too_many) if requested > REQUESTED_PER_ALLOWED * self._tool_calls else None

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Make the call, or answer it with an error if a limit is reached."""
        call = request.tool_call
        line = self._refusal(call, _calls_before(request.state["messages"], call["id"]))
        if line is None:
            return handler(request)
        return ToolMessage(line, name=call["name"], tool_call_id=call["id"], status="error")

    def _refusal(self, call: Any, before: Sequence[Any]) -> str | None:
        if len(before) >= self._tool_calls:  # checked first: there may be thousands of calls
            return self._too_many
        if call["name"] in self._live_tools:
            return None
        if [_call_text(each) for each in before].count(_call_text(call)) < MAX_IDENTICAL_CALLS:
            return None
        tool = call["name"][:_TOOL_NAME_CHARACTERS]
        return (
            f"repeated_call: {tool} has been called {MAX_IDENTICAL_CALLS} times with these arguments and "
            "has answered; change the arguments, or go on without it"
        )


def _stop(line: str) -> dict[str, Any]:
    return {"jump_to": "end", "messages": [AIMessage(line, response_metadata={_STOP_KEY: True})]}


def stop_line(messages: Sequence[AnyMessage]) -> str | None:
    """Why :class:`CallLimitMiddleware` ended an agent, as ``code: reason``; None if it did not."""
    last = messages[-1]
    return str(last.text) if last.response_metadata.get(_STOP_KEY) else None


def as_earlier_reply(message: AIMessage) -> AIMessage:
    """Return a reply of an earlier turn, with which an agent's conversation begins."""
    return message.model_copy(update={"response_metadata": {_EARLIER_KEY: True}})


def _new_replies(messages: Sequence[AnyMessage]) -> list[AIMessage]:
    replies = (message for message in messages if isinstance(message, AIMessage))
    return [reply for reply in replies if not reply.response_metadata.get(_EARLIER_KEY)]


def _calls_before(messages: Sequence[AnyMessage], call_id: str | None) -> list[Any]:
    """Return a conversation's tool calls, up to the call ``call_id`` of its last reply (None: all)."""
    replies = _new_replies(messages)
    earlier: list[Any] = [call for reply in replies[:-1] for call in reply.tool_calls]
    last = replies[-1].tool_calls if replies else []
    return earlier + list(takewhile(lambda call: call["id"] != call_id, last))


def _call_text(call: Any) -> str:
    return canonical_json([call["name"], call["args"]])


class RecordedToolsMiddleware(AgentMiddleware[Any, Any, Any]):
    """Serve an agent's tool calls from the recording of its run, or make and record them.

    The side effects of a call are served with its answer: the commit of the working tree after it, the cells
    that ``python_repl`` kept, and the names of their signals. No vendor is asked and no code runs.

    It is inside of the middleware that turns errors into messages: an error that may pass is raised again
    when the run is resumed, not served.
    An agent's calls must run one after the other (``max_concurrency=1``): each depends on the one before.
    """

    def __init__(self, live_tools: Collection[str] = ()) -> None:
        super().__init__()
        self._live_tools = frozenset(live_tools)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Serve or make the call."""
        if request.tool_call["name"] in self._live_tools:
            return handler(request)
        context, call, made = cast("ToolContext", request.runtime.context), request.tool_call, False

        def make() -> dict[str, Any]:
            nonlocal made
            message = cast("ToolMessage", handler(request))
            made = True
            return {
                "content": message.content,
                "artifact": message.artifact,
                "status": message.status,
                "ref": context.ref,
                "cells": context.cells,
                "names": context.names,
            }

        result = call_once("tool", {"tool": call["name"], "args": call["args"]}, make)
        if not made:
            if context.ref is not None:
                context.tree.move_to(result["ref"])
            context.restore(result["cells"], result["names"])
        return ToolMessage(
            result["content"],
            artifact=result["artifact"],
            status=result["status"],
            name=call["name"],
            tool_call_id=call["id"],
        )


Agent = CompiledStateGraph[Any, Any, Any, Any]

T = TypeVar("T", bound=BaseModel)

CALLS_PER_NODE = 12
"""Model calls that an agent may make in one node."""


def create_node_agent(
    name: str, model: BaseChatModel, tools: Sequence[BaseTool], *, live_tools: Collection[str] = ()
) -> Agent:
    """Build the agent of a node or a decider: its calls are limited, its tools recorded.

    Its messages are not checkpointed. ``live_tools`` names tools that act on the decision itself, such as one
    that submits an order: they run again in a replay, and identical calls of them are not a loop.
    """
    agent = create_agent(
        model,
        tools,
        name=name,
        context_schema=ToolContext,
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
    tools: ToolContext,
    prompt: str,
    tag: str | None = None,
    facts: Mapping[str, Any] | None = None,
    *,
    earlier: Sequence[AnyMessage] = (),
) -> list[AnyMessage]:
    """Run an agent on a prompt and return its messages; ``facts`` are sent before it as JSON inside ``tag``.

    ``earlier`` are the messages of earlier turns, which follow the prompt; see
    :func:`~quantgraph.runtime.as_earlier_reply`.

    Raises
    ------
    ModelUnavailable, NotConfigured, PermissionDenied
        If the model's server refuses in a way that no retry solves.
    BudgetExceeded, RunDiverged, SandboxTooWeak, StorageUnavailable
        What ends the node, see :data:`~quantgraph.runtime.endings.FATAL_ERRORS`.
    """
    messages = [*agent_question(prompt, tag, facts), *earlier]
    replies: list[AnyMessage] = agent.invoke({"messages": messages}, context=tools)["messages"][
        len(messages) :
    ]
    _check_replied(replies)
    return replies


def agent_question(
    prompt: str, tag: str | None = None, facts: Mapping[str, Any] | None = None
) -> list[AnyMessage]:
    """Return the messages of a prompt, before it ``facts`` as JSON inside ``tag``."""
    messages: list[AnyMessage] = [HumanMessage(prompt)]
    if tag:
        messages.insert(0, SystemMessage(wrap(tag, json.dumps(facts, ensure_ascii=False))))
    return messages


def _check_replied(replies: Sequence[AnyMessage]) -> None:
    if not replies:
        raise ModelUnavailable("the model returned no message; check the model's name and its server")


def check_finished(replies: Sequence[AnyMessage]) -> None:
    """Check that there is a reply, and that no limit ended the agent; raise ``NoProgress`` if one did."""
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
    return line if re.match(r"[a-z_]+: ", line) else f"bad_tool_call: {line}"  # "unknown_symbol: AAPL"


_THREADS: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor] = WeakKeyDictionary()
"""By event loop the threads of steps that ask. In the loop's own they would wait for an asynchronous
checkpointer, which needs one of these threads to answer."""


class _AskingNode(Runnable[Any, Update]):
    """A node that reads the host's checkpointer: on a thread of ours where an event loop runs the graph."""

    def __init__(self, step: Callable[[Any], Update], name: str) -> None:
        self._step, self.name = step, name

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002, ARG002
        return self._step(input)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002, ARG002
        loop = asyncio.get_running_loop()
        threads = _THREADS.setdefault(loop, ThreadPoolExecutor(thread_name_prefix="quantgraph"))
        return await loop.run_in_executor(threads, copy_context().run, self._step, input)


def as_node(node: Callable[[Any], Update], name: str, recorder: Recorder, **options: Any) -> Any:
    """Return what a graph runs as a node: :func:`run_node` with these arguments."""
    step = partial(run_node, node, name, recorder, **options)
    return _AskingNode(step, name) if name in ("clarify", "approve") else step


def compile_graph(
    graph: StateGraph[Any, Any, Any, Any],
    name: str,
    *,
    checkpointer: BaseCheckpointSaver[Any] | Literal[False] | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Compile a graph, with the events of its runs in v3 streams, as an :class:`OwnGraph`.

    LangGraph's own display sends the graph to a server, and is a traceback without one. Copies with another
    configuration are such, too.
    """
    compiled = graph.compile(checkpointer=checkpointer, name=name, transformers=[EventsTransformer])
    compiled.__class__ = OwnGraph
    return compiled
