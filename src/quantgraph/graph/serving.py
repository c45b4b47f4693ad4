"""Factories of the graphs for a LangGraph server, named in ``langgraph.json``.

A server has a checkpointer of its own, so the graphs have none; and it calls the factory for every request,
so each graph is made once. Data, recordings and ledgers are under ``settings.runs_dir``: a question can be
answered after the server was restarted.
"""

from __future__ import annotations

import asyncio
import functools

from quantgraph.graph._graph import CompiledTradingGraph, create_trading_graph
from quantgraph.runtime import Resources, open_resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import CompiledSignalGraph, create_signal_subgraph


async def signal_graph() -> CompiledSignalGraph:
    """Return the signal subgraph for this process's settings, made without blocking the event loop."""
    return await asyncio.to_thread(_signal)


async def trading_graph() -> CompiledTradingGraph:
    """Return the trading graph for this process's settings, made without blocking the event loop."""
    return await asyncio.to_thread(_trading)


@functools.cache
def _resources() -> Resources:
    settings = load_settings()
    resources = Resources(settings=settings, store=DataState(settings.runs_dir / "data"))
    return open_resources(resources, in_run_folders=True)


@functools.cache
def _signal() -> CompiledSignalGraph:
    return create_signal_subgraph(resources=_resources())


@functools.cache
def _trading() -> CompiledTradingGraph:
    return create_trading_graph(resources=_resources())
