"""What an agent's tools answered: recorded in the run, and served instead of asking them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware, ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from quantgraph.recording import recorded
from quantgraph.tools.tool_context import ToolContext

__all__ = ["RecordedTools"]


class RecordedTools(AgentMiddleware[Any, Any, Any]):
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
