"""Factories of the graphs for a LangGraph server, named in ``langgraph.json``.

A server has a checkpointer of its own, so the graphs have none. It calls the factory for every request: a
graph is made once for each context of an assistant, and once more to read threads. Data,
recordings and ledgers are under ``settings.runs_dir``: a question can be answered after the server was
restarted.
"""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from langgraph.graph.state import CompiledStateGraph

from quantgraph.errors import BadOption
from quantgraph.graph._context import (
    SignalContext,
    SignalReply,
    SignalRequest,
    TradingContext,
    TradingReply,
    TradingRequest,
    context_schema,
    read_context,
    signal_resources,
    trading_options,
)
from quantgraph.graph._graph import CompiledTradingGraph, build_trading_graph, compile_trading_graph
from quantgraph.graph._trading import make_trading
from quantgraph.runtime import Resources, compile_graph, open_resources
from quantgraph.runtime.dialogue import OnClarify
from quantgraph.settings import Settings, load_settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import build_signal_graph

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph_sdk.runtime import ServerRuntime

_LOCK = threading.Lock()
Graph = TypeVar("Graph")
_MOST_CONTEXTS = 32
"""Contexts whose graphs are kept; others' are made again."""


async def signal_graph(
    config: RunnableConfig, runtime: ServerRuntime[SignalContext]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the signal subgraph of an assistant, made without blocking the event loop.

    A run without a thread, as the server's MCP endpoint makes them, cannot wait: it ends with
    ``needs_answer`` and the question.

    Raises
    ------
    BadOption
        If the context has a key that is not known, or a value that is not a name of this server.
    """
    return await asyncio.to_thread(_alone, _signal, _context_text(runtime), _has_thread(config))


async def trading_graph(
    config: RunnableConfig, runtime: ServerRuntime[TradingContext]
) -> CompiledTradingGraph:
    """Return the trading graph of an assistant, made as :func:`signal_graph` is.

    Raises
    ------
    BadOption
        As :func:`signal_graph`; also if the cash or the plan is not within bounds.
    """
    return await asyncio.to_thread(_alone, _trading, _context_text(runtime), _has_thread(config))


def _context_text(runtime: ServerRuntime[Any]) -> str | None:
    """The context of an execution as JSON; None if the server only reads a thread or the graph's form."""
    execution = runtime.execution_runtime
    try:
        return None if execution is None else json.dumps(execution.context or {}, sort_keys=True, default=str)
    except RecursionError:
        raise BadOption("context: nested too deeply", parameter="context") from None


def _alone(make: Callable[[str | None, bool], Graph], context: str | None, has_thread: bool) -> Graph:
    """Make a graph, not at the same time as another thread, which may be making the same one."""
    with _LOCK:
        return make(context, has_thread)


def _has_thread(config: RunnableConfig) -> bool:
    return config.get("configurable", {}).get("__pregel_checkpointer") is not None


@functools.cache
def _store() -> tuple[Settings, DataState]:
    settings = load_settings()
    return settings, DataState(settings.runs_dir / "data")


def _shared(on_clarify: OnClarify) -> tuple[Settings, Resources]:
    """The settings, and what all contexts share."""
    settings, store = _store()
    return settings, Resources(settings=settings, store=store, on_clarify=on_clarify)


@functools.lru_cache(maxsize=_MOST_CONTEXTS)
def _signal(context: str | None, has_thread: bool) -> CompiledStateGraph[Any, Any, Any, Any]:
    settings, shared = _shared("ask" if has_thread else "fail")
    made = read_context(SignalContext, json.loads(context or "{}"), settings)
    resources = signal_resources(made, settings, shared)
    schemas = _schemas(SignalContext, SignalRequest, SignalReply)
    opened = open_resources(resources, in_run_folders=True)
    return compile_graph(build_signal_graph(opened, schemas=schemas), "signal")


@functools.lru_cache(maxsize=_MOST_CONTEXTS)
def _trading(context: str | None, has_thread: bool) -> CompiledTradingGraph:
    settings, shared = _shared("ask" if has_thread else "fail")
    made = read_context(TradingContext, json.loads(context or "{}"), settings)
    trading = make_trading(**trading_options(made, settings, shared))
    schemas = _schemas(TradingContext, TradingRequest, TradingReply)
    return compile_trading_graph(build_trading_graph(trading, schemas=schemas, whole=True))


def _schemas(context: type[SignalContext], request: type, reply: type) -> dict[str, type]:
    offered = context_schema(context, _store()[0])
    return {"context_schema": offered, "input_schema": request, "output_schema": reply}
