"""One call of a tool by an agent: its parameters checked, its result as JSON, failures as typed errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from inspect import signature
from typing import Any, Final

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool
from langchain_core.tools.structured import StructuredTool
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from quantgraph._util.values import first_of
from quantgraph.errors import BadOption, QuantGraphError, SourceUnavailable, ToolFailed, ToolTimeout
from quantgraph.llm import ModelFacts, interruptible_sleep, run_in_thread
from quantgraph.recording.scope import call_once
from quantgraph.tools._catalog import tools_of
from quantgraph.tools._context import ToolContext
from quantgraph.tools._results import shortened, to_plain

tools_catalog: Final = tools_of("execution")
"""The tools of an agent that decides step by step, by name."""

RELAYED: Final = "relayed"
"""In the metadata of a tool: it answers as the catalogue's tool of its name, through a server."""

_OF_DECIDERS = {**tools_catalog, **tools_of("trader")}
_RECORDED = {"python_repl", "place_order"}

MOST_CHARACTERS = 20_000
"""Length of a result as JSON text; what is longer is cut, with a note."""

_MOST_FAULTS = 8
_TRIES = 3
_FIRST_WAIT = 0.1
_GROWTH = 4.0
_PASSING = frozenset({"rate_limited", "source_unavailable"})
_UNREACHABLE = {"ConnectionError", "TransportError", "TimeoutError", "TimeoutException", "Timeout"}
"""Names of the classes of errors that may pass: the builtin ones, httpx's and requests'."""


def call_tool(tool: BaseTool, params: Mapping[str, Any], context: ToolContext, *, timeout: float) -> Any:
    """Call a tool, and return its result as JSON of at most 20,000 characters.

    The call is recorded: in a resumed or replayed run its result, or its error, is served. A tool of the
    catalog that only reads the context is not: it runs again, without a time limit. An error that may
    pass is tried again, three times in all.

    Parameters
    ----------
    tool
        Any LangChain tool; one that has only a coroutine too. A parameter ``runtime: ToolRuntime`` is passed
        the context.
    params
        What the model passed.
    context
        What the tool may read.
    timeout
        Seconds for all tries together.

    Raises
    ------
    BadOption
        If a parameter is missing, unknown or of another type; the message has the valid ones.
    ToolTimeout
        If the tool does not answer in time. Its thread goes on, and what it returns is dropped.
    SourceUnavailable
        If it cannot reach something, three times.
    ToolFailed
        If it raises anything else that is not a ``QuantGraphError``.
    """
    checked = _check_params(tool, params)
    if function := live_function(tool, context):
        own_arguments = {"runtime": _runtime(context)} if _takes_runtime(function) else {}
        with _typed_errors(tool):
            return shortened(function(**checked, **own_arguments), MOST_CHARACTERS)

    def make() -> dict[str, Any]:
        own = context.copy()
        result = _try_call(tool, dict(params), own, timeout)
        answer = {"result": result, "cells": own.cells, "names": own.names}
        return answer | ({"dropped_news": own.dropped_news} if own.dropped_news else {})

    answer = call_once("tool", {"tool": tool.name, "args": to_plain(params)}, make)
    context.restore(answer["cells"], answer["names"])
    context.dropped_news.extend(answer.get("dropped_news", ()))
    return answer["result"]


def live_function(tool: BaseTool, context: ToolContext) -> Callable[..., Any] | None:
    """Return the function of a tool that only uses its context; None for any other tool.

    It answers the same in a replay, so it is not recorded.
    """
    is_relayed = bool((tool.metadata or {}).get(RELAYED))
    is_ours = _OF_DECIDERS.get(tool.name) is tool and tool.name not in _RECORDED
    if not isinstance(tool, StructuredTool) or not (is_relayed or is_ours):
        return None
    return None if tool.name == "get_information" and context.news is not None else tool.func


@cache
def _catalog_schema(name: str) -> Any:
    return _OF_DECIDERS[name].tool_call_schema  # takes milliseconds


@cache
def _takes_runtime(function: Callable[..., Any]) -> bool:
    return "runtime" in signature(function).parameters


def _check_params(tool: BaseTool, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return valid parameters, or raise all that is wrong with them."""
    schema: Any = _catalog_schema(tool.name) if _OF_DECIDERS.get(tool.name) is tool else tool.tool_call_schema
    valid = list(schema.get("properties", {}) if isinstance(schema, dict) else schema.model_fields)
    known = {name: value for name, value in params.items() if name in valid}
    unknown = (str(name)[:60] for name in params if name not in known)
    faults = {name: f"has no parameter {name!r}" for name in unknown}
    if isinstance(schema, dict):
        missing = (name for name in schema.get("required", ()) if name not in params)
        faults |= {name: f"lacks its parameter {name!r}" for name in missing}
    else:
        try:
            read = schema.model_validate(known)
            known = {name: getattr(read, name) for name in read.model_fields_set}
        except ValidationError as error:
            faults |= dict(_fault(each, tool.name) for each in error.errors(include_url=False))
    if faults:
        listed = f"valid are {', '.join(valid)}" if valid else "it has none"
        line = f"{tool.name} {first_of(faults.values(), _MOST_FAULTS)}; {listed}"
        raise BadOption(line, parameter=next(iter(faults)))
    return known


def _fault(error: ErrorDetails, tool: str) -> tuple[str, str]:
    name = ".".join(str(part) for part in error["loc"]) or tool
    if error["type"] == "missing":
        return name, f"lacks its parameter {name!r}"
    return name, f"has {name}={error['input']!r:.60}: {' '.join(error['msg'].split())}"


def _try_call(tool: BaseTool, params: Mapping[str, Any], context: ToolContext, timeout: float) -> Any:
    """Call a tool until it answers, fails for good, or the time is over."""
    end = time.monotonic() + timeout

    def check() -> None:
        if time.monotonic() >= end:
            raise ToolTimeout(f"{tool.name} did not answer within {timeout:g} s", tool=tool.name)

    wait = _FIRST_WAIT
    for left in range(_TRIES - 1, -1, -1):
        try:
            return run_in_thread(lambda: _result(tool, params, context), check)
        except QuantGraphError as error:
            if not left or error.code not in _PASSING:
                raise
        interruptible_sleep(wait, check)
        wait *= _GROWTH
    raise AssertionError


def _result(tool: BaseTool, params: Mapping[str, Any], context: ToolContext) -> Any:
    with _typed_errors(tool):
        returned = _invoker(tool)(_with_runtime(tool, params, context))
        if isinstance(returned, Command):
            raise ToolFailed(
                f"{tool.name} returns a Command, which only a graph can carry out", tool=tool.name
            )
        return shortened(to_plain(returned), MOST_CHARACTERS)


def _invoker(tool: BaseTool) -> Callable[[dict[str, Any]], Any]:
    if isinstance(tool, StructuredTool) and tool.func is None:
        return lambda checked: asyncio.run(tool.ainvoke(checked))
    return tool.invoke


def _with_runtime(tool: BaseTool, params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Add the context where the tool has a parameter for it."""
    fields = getattr(tool.get_input_schema(), "model_fields", {})
    return {**params, "runtime": _runtime(context)} if "runtime" in fields else dict(params)


def _runtime(context: ToolContext) -> ToolRuntime[Any, Any]:
    return ToolRuntime(
        state={}, context=context, config={}, stream_writer=_write_nowhere, tool_call_id=None, store=None
    )


def _write_nowhere(written: Any) -> None:
    """Take what a tool streams: its caller shows the result."""


@contextmanager
def _typed_errors(tool: BaseTool) -> Iterator[None]:
    """Raise what a tool raised as one typed line."""
    try:
        yield
    except (QuantGraphError, GraphBubbleUp):
        raise
    except (Exception, SystemExit) as error:
        # A message may hold the key of the service that the tool asks.
        message = ModelFacts(name=tool.name).clean(str(error))
        line = f"{tool.name}: {type(error).__name__}" + (f": {message}" if message else "")
        is_passing = _UNREACHABLE & {kind.__name__ for kind in type(error).__mro__}
        raise (SourceUnavailable if is_passing else ToolFailed)(line, tool=tool.name) from error
