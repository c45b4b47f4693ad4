"""The signal subgraph: from a sentence to an audited signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from quantgraph.data import MarketDataSource
from quantgraph.llm.models import Model
from quantgraph.recording import Recorder
from quantgraph.runtime.questions import OnClarify
from quantgraph.runtime.run_node import run_node, with_loop_detection
from quantgraph.sandbox import CodeRunner
from quantgraph.settings import Settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal.nodes import (
    clarify_node,
    data_fetch_node,
    reflection_node,
    signal_generate_node,
    validation_node,
)
from quantgraph.subgraphs.signal.routes import (
    route_after_clarify,
    route_after_data_fetch,
    route_after_signal_gen,
    route_after_validation,
    route_from_reflection,
)
from quantgraph.subgraphs.signal.signal_resources import SignalResources, build_signal_resources
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.state_updates import initial_state

__all__ = ["build_signal_graph", "create_signal_subgraph", "map_to_main_state", "map_to_subgraph_state"]

_RESULT = ("data_ref", "strategy", "request", "ended_because", "assumptions", "error_messages")


def map_to_subgraph_state(main_state: Mapping[str, Any]) -> SignalSubgraphState:
    """A host's state as the subgraph's input: its messages, and the data it works on if it says so.

    What the host fixed (``data_ref``, ``given``, ``as_of``, ``max_retries``) goes along; the rest begins
    empty.

    Notes
    -----
    A question interrupts the host's node too. When the answer comes LangGraph runs that node again from its
    top, and the subgraph goes on at the question: none of its own nodes runs twice, if it is invoked as
    below. So what stands before the call should be harmless to repeat. Do not put the call into
    ``try: … except Exception``, which swallows the interrupt; and give it no ``thread_id`` of its own, which
    would cut it off from the host's checkpointer (passing on the node's ``config`` is fine)::

        def signal(state):
            return map_to_main_state(subgraph.invoke(map_to_subgraph_state(state)))
    """
    fixed = {key: main_state[key] for key in ("data_ref", "given", "as_of") if main_state.get(key)}
    state = {**initial_state(main_state.get("max_retries", 3)), **fixed, "messages": main_state["messages"]}
    return cast("SignalSubgraphState", state)


def map_to_main_state(subgraph_state: SignalSubgraphState) -> dict[str, Any]:
    """The subgraph's result as an update of the host: its messages, and where signal and strategy are."""
    result: dict[str, Any] = {"messages": subgraph_state["messages"]}
    return result | {key: subgraph_state[key] for key in _RESULT if key in subgraph_state}  # type: ignore[literal-required]


SignalGraph = StateGraph[SignalSubgraphState, None, SignalSubgraphState, SignalSubgraphState]
CompiledSignalGraph = CompiledStateGraph[SignalSubgraphState, None, SignalSubgraphState, SignalSubgraphState]


def create_signal_subgraph(
    *,
    model: Model | None = None,
    source: str | Path | MarketDataSource | None = None,
    store: DataState | None = None,
    runner: CodeRunner | None = None,
    on_clarify: OnClarify = "ask",
    recorder: Recorder | None = None,
    settings: Settings | None = None,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
) -> CompiledSignalGraph:
    """Compiled signal subgraph; works without arguments, and without a key or a network.

    Parameters
    ----------
    model
        A chat model, a model's name, or a mapping of role to either. Default: what the settings say; with
        no key set, the keyless planner.
    source
        ``sample`` (synthetic, the default), ``tushare``, a file or folder, or a source of your own.
    store
        Where data and signals are published. Default: ``GLOBAL_DATA_STATE``.
    runner
        Where generated code runs. Default: a child process with a time and a memory limit.
    on_clarify
        ``ask`` interrupts the graph with a question (the host needs a checkpointer), ``default`` takes the
        documented default, ``fail`` ends with ``needs_answer``. A function is called with the
        :class:`Clarification` and returns the answer, and is asked up to three times for one that can be
        used. What was taken by default or answered by a function is written into ``assumptions``.
    recorder
        Where model calls, tool results and answers are recorded. Default: nowhere.
    checkpointer
        Only for running the subgraph on its own. As a node of another graph leave it out: the host's is used.

    Examples
    --------
    >>> graph = create_signal_subgraph(on_clarify="default")
    >>> sentence = "合成30成分股，5日均线上穿20日均线买入，下穿卖出，2024年"
    >>> state = graph.invoke({"messages": [("user", sentence)]})
    >>> state["ended_because"], state["strategy"]["name"]
    ('done', 'sma_cross_5_20')
    """
    resources = build_signal_resources(
        model=model,
        source=source,
        store=store,
        runner=runner,
        on_clarify=on_clarify,
        recorder=recorder,
        settings=settings,
    )
    return build_signal_graph(resources).compile(checkpointer=checkpointer, name="signal")


def build_signal_graph(resources: SignalResources | None = None) -> SignalGraph:
    """The uncompiled graph, for hosts that add nodes, or compile it their own way."""
    resources = resources or build_signal_resources()

    def bound(node: Callable[..., dict[str, Any]], name: str) -> Any:
        return partial(
            run_node,
            partial(with_loop_detection, partial(node, resources=resources), name),
            name,
            resources.recorder,
        )

    graph: SignalGraph = StateGraph(SignalSubgraphState)
    graph.add_node("reflection", bound(reflection_node, "reflection"), input_schema=SignalSubgraphState)
    graph.add_node("data_fetch", bound(data_fetch_node, "data_fetch"), input_schema=SignalSubgraphState)
    graph.add_node(
        "signal_generate", bound(signal_generate_node, "signal_generate"), input_schema=SignalSubgraphState
    )
    graph.add_node("validate", bound(validation_node, "validate"), input_schema=SignalSubgraphState)
    graph.add_node("clarify", bound(clarify_node, "clarify"), input_schema=SignalSubgraphState)
    graph.add_edge(START, "reflection")
    graph.add_conditional_edges(
        "reflection", route_from_reflection, ["clarify", "data_fetch", "signal_generate", "validate", END]
    )
    graph.add_conditional_edges(
        "data_fetch", route_after_data_fetch, ["reflection", "validate", "clarify", END]
    )
    graph.add_conditional_edges("signal_generate", route_after_signal_gen, ["reflection", "validate", END])
    graph.add_conditional_edges("validate", route_after_validation, ["reflection", "clarify", END])
    graph.add_conditional_edges("clarify", route_after_clarify, ["clarify", "reflection", END])
    return graph
