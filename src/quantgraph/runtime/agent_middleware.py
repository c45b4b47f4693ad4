"""An agent that goes round in circles is told so, and then ended."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware, ToolCallRequest, hook_config
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.types import Command

from quantgraph._util.canonical_json import canonical_json
from quantgraph.recording import recorded
from quantgraph.tools.tool_context import ToolContext

__all__ = ["CallLimitMiddleware", "RecordedToolsMiddleware", "stop_line"]


class RecordedToolsMiddleware(AgentMiddleware[Any, Any, Any]):
    """Serve the calls of an agent's tools from the record of its run.

    What a call did beside its answer comes back with it: the commit that the working tree stood on after it,
    the cells that ``python_repl`` kept and the names of the signals they handed over. No vendor is asked and
    no code runs.

    Notes
    -----
    It stands inside of what turns errors into messages: an error that may be gone is made again, not served,
    when the run is resumed.
    An agent's calls must come one after the other (``max_concurrency=1``): each stands on the one before.
    """

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage:
        """Serve or make the call."""
        context, call = cast("ToolContext", request.runtime.context), request.tool_call
        made = False

        def ask() -> dict[str, Any]:
            nonlocal made
            message = cast("ToolMessage", handler(request))
            made = True
            return {
                "content": message.content,
                "artifact": message.artifact,
                "status": message.status,
                "ref": context.tree.ref,
                "cells": context.code.cells,
                "names": context.code.names,
            }

        told = recorded("tool", {"tool": call["name"], "args": call["args"]}, ask)
        if not made:
            context.tree.move_to(told["ref"])
            context.code.restore(told["cells"], told["names"])
        return ToolMessage(
            told["content"],
            artifact=told["artifact"],
            status=told["status"],
            name=call["name"],
            tool_call_id=call["id"],
        )


REPEATS_RUN = 2
"""How often the same call with the same arguments is made; after that it is answered with an error."""
REPEATS_TOLD = 2
"""How often it is answered with an error; the next one ends the agent."""
TOOLS_PER_CALL = 4
"""Tool calls that a node may make for each model call that it may make; a reply can ask for any number."""
TOLD_PER_MADE = 2
"""So many times as many may be asked for as are made, before the agent is ended."""
_NAMED_AT_MOST = 80
_STOPPED = "quantgraph_stopped"
"""Key in the metadata of the message that ends an agent."""


class CallLimitMiddleware(AgentMiddleware[Any, Any, Any]):
    """Bound an agent's model calls, its tool calls, and among them the repeated identical ones.

    Parameters
    ----------
    calls
        Model calls after which the agent ends.
    """

    def __init__(self, calls: int) -> None:
        super().__init__()
        self._calls = calls

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        """End the agent if it may not go on."""
        messages: Sequence[AnyMessage] = state["messages"]
        return _stop(self._end(messages))

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        """End the agent if it asks for so many calls that refusing them one by one would take minutes."""
        asked = len(_calls_before(state["messages"], None))
        return _stop(self._too_many if asked > TOLD_PER_MADE * self._most else None)

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Make the call, unless it was made before and before that, or too many others were."""
        call = request.tool_call
        line = self._refusal(call, _calls_before(request.state["messages"], call["id"]))
        if line is None:
            return handler(request)
        return ToolMessage(line, name=call["name"], tool_call_id=call["id"], status="error")

    @property
    def _most(self) -> int:
        return TOOLS_PER_CALL * self._calls

    @property
    def _too_many(self) -> str:
        return f"call_limit: {self._most} tool calls in one node are the most"

    def _refusal(self, call: Any, before: Sequence[Any]) -> str | None:
        if len(before) >= self._most:  # of thousands, few are looked at
            return self._too_many
        if [_named(each) for each in before].count(_named(call)) < REPEATS_RUN:
            return None
        tool = call["name"][:_NAMED_AT_MOST]
        return (
            f"repeated_call: {tool} has been called {REPEATS_RUN} times with these arguments and "
            "has answered; change the arguments, or go on without it"
        )

    def _end(self, messages: Sequence[AnyMessage]) -> str | None:
        before = _calls_before(messages, None)
        ((worst, times),) = Counter(map(_named, before)).most_common(1) or [("", 0)]
        if times > REPEATS_RUN + REPEATS_TOLD:
            tool = json.loads(worst)[0][:_NAMED_AT_MOST]
            return f"repeated_call: {tool} was called {times} times with the same arguments"
        asked = sum(isinstance(message, AIMessage) for message in messages)
        return (
            f"call_limit: {asked} model calls in one node were not enough" if asked >= self._calls else None
        )


def _stop(line: str | None) -> dict[str, Any] | None:
    if line is None:
        return None
    return {"jump_to": "end", "messages": [AIMessage(line, response_metadata={_STOPPED: True})]}


def stop_line(messages: Sequence[AnyMessage]) -> str | None:
    """Why an agent was ended before it was through, a ``code: reason`` line; None if it was not."""
    last = messages[-1]
    return str(last.text) if last.response_metadata.get(_STOPPED) else None


def _calls_before(messages: Sequence[AnyMessage], call_id: str | None) -> list[Any]:
    """The tool calls of a conversation, up to the one of that id in its last message."""
    spoken = [message for message in messages if isinstance(message, AIMessage)]
    earlier: list[Any] = [call for message in spoken[:-1] for call in message.tool_calls]
    last = spoken[-1].tool_calls if spoken else []
    return earlier + list(takewhile(lambda call: call["id"] != call_id, last))


def _named(call: Any) -> str:
    return canonical_json([call["name"], call["args"]])
