"""The signal subgraph, from a sentence to an audited signal, and the mapping of a host's state to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from quantgraph.data import SourceLike
from quantgraph.llm import Model
from quantgraph.runtime import Resources, as_node, compile_graph, merge_resources, open_resources
from quantgraph.runtime.dialogue import OnClarify, QuestionForm
from quantgraph.runtime.graph_state import changed, check_messages
from quantgraph.settings import Settings
from quantgraph.subgraphs.signal._agents import build_agent, build_clarify_model
from quantgraph.subgraphs.signal._edited import unless_edited
from quantgraph.subgraphs.signal._prompts import check_prompts
from quantgraph.subgraphs.signal._share import Share, schemas_of
from quantgraph.subgraphs.signal._updates import initial_state
from quantgraph.subgraphs.signal.nodes.clarify import clarify_node
from quantgraph.subgraphs.signal.nodes.data_fetch import data_fetch_node
from quantgraph.subgraphs.signal.nodes.reflection import reflection_node
from quantgraph.subgraphs.signal.nodes.signal_generate import signal_generate_node
from quantgraph.subgraphs.signal.nodes.validation import validation_node
from quantgraph.subgraphs.signal.routes import (
    route_after_clarify,
    route_after_data_fetch,
    route_after_signal_gen,
    route_after_validation,
    route_from_reflection,
)
from quantgraph.subgraphs.signal.state import SignalSubgraphState, check_fields

_RESULT_FIELDS = ("messages", "data_ref", "ended_because", "error_messages", "quantgraph")

SignalGraph = StateGraph[SignalSubgraphState, None, SignalSubgraphState, SignalSubgraphState]
# Messages come in each form that LangChain reads, which a type of the state would refuse.
CompiledSignalGraph = CompiledStateGraph[SignalSubgraphState, None, Any, SignalSubgraphState]


def create_signal_subgraph(
    *,
    model: Model | None = None,
    source: SourceLike | None = None,
    on_clarify: OnClarify | None = None,
    questions: QuestionForm | None = None,
    prompts: Mapping[str, str | Callable[[str], str]] | None = None,
    share: Share = "document",
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    settings: Settings | None = None,
    resources: Resources | None = None,
) -> CompiledSignalGraph:
    """Compiled signal subgraph; works without arguments, and without a key or a network.

    Parameters
    ----------
    model, source, on_clarify, questions, prompts, settings
        See :class:`~quantgraph.runtime.Resources`.
    share
        What a host gives and gets: all fields, or, with ``"result"``, ``messages`` and ``quantgraph`` alone.
    checkpointer
        Only to run the subgraph on its own. As a node of another graph it uses the host's.
    resources
        The same and further objects, such as the store and the recorder, in one.

    Raises
    ------
    BadOption
        If an argument is invalid, or passed twice.

    Examples
    --------
    >>> graph = create_signal_subgraph(on_clarify="default")
    >>> sentence = "合成30成分股，5日均线上穿20日均线买入，下穿卖出，2024年"
    >>> state = graph.invoke({"messages": [("user", sentence)]})
    >>> state["ended_because"], state["quantgraph"]["strategy"]["name"]
    ('done', 'cross_up_sma_5_sma_20')
    """
    made = merge_resources(
        resources,
        model=model,
        source=source,
        on_clarify=on_clarify,
        questions=questions,
        prompts=prompts,
        checkpointer=checkpointer,
        settings=settings,
    )
    graph = build_signal_graph(made, schemas=schemas_of(share))
    return compile_graph(graph, "signal", checkpointer=made.checkpointer)


def build_signal_graph(
    resources: Resources | None = None,
    *,
    check_symbols: Callable[[Sequence[str]], None] | None = None,
    schemas: Mapping[str, type] | None = None,
) -> SignalGraph:
    """Return the uncompiled graph, for hosts that add nodes or compile it differently.

    ``check_symbols``: see :func:`~quantgraph.subgraphs.signal.reflection_node`. ``schemas`` are LangGraph's
    ``input_schema``, ``output_schema`` and ``context_schema``.
    """
    opened = open_resources(resources)
    check_prompts(opened)

    def check_host(state: Mapping[str, Any]) -> None:
        check_fields(state)
        if check_symbols is None:  # else the graph of which this is a node has checked its own host
            check_messages(state)

    def bound(node: Callable[..., dict[str, Any]], name: str, **options: Any) -> Any:
        made = partial(node, resources=opened, **options)
        made = made if name == "reflection" else partial(unless_edited, made)
        check = check_host if name == "reflection" else None
        return as_node(made, name, opened.recorder, detect_loops=True, check_state=check)

    reads = build_agent("reflection", opened)
    reflection = bound(reflection_node, "reflection", agent=reads, check_symbols=check_symbols)
    fetches = {"agent": build_agent("data_fetch", opened)} if opened.settings.fetch == "agent" else {}
    data_fetch = bound(data_fetch_node, "data_fetch", **fetches)
    validate = bound(validation_node, "validate", agent=build_agent("validation", opened))
    clarify = bound(clarify_node, "clarify", model=build_clarify_model(opened))
    graph: SignalGraph = StateGraph(SignalSubgraphState, **(schemas or {}))
    graph.add_node("reflection", reflection, input_schema=SignalSubgraphState)
    graph.add_node("data_fetch", data_fetch, input_schema=SignalSubgraphState)
    code = ["signal_generate"] if opened.makes_signal else []  # else the graph has no node that writes code
    for name in code:
        generate = bound(signal_generate_node, name, agent=build_agent("signal_generate", opened))
        graph.add_node(name, generate, input_schema=SignalSubgraphState)
    graph.add_node("validate", validate, input_schema=SignalSubgraphState)
    graph.add_node("clarify", clarify, input_schema=SignalSubgraphState)
    graph.add_edge(START, "reflection")
    graph.add_conditional_edges(
        "reflection", route_from_reflection, ["clarify", "data_fetch", *code, "validate", END]
    )
    graph.add_conditional_edges(
        "data_fetch", route_after_data_fetch, ["reflection", "data_fetch", "validate", "clarify", END]
    )
    for name in code:
        graph.add_conditional_edges(
            name, route_after_signal_gen, ["reflection", name, "validate", "clarify", END]
        )
    graph.add_conditional_edges("validate", route_after_validation, ["reflection", *code, "clarify", END])
    graph.add_conditional_edges("clarify", route_after_clarify, ["clarify", "reflection", END])
    return graph


def map_to_subgraph_state(main_state: Mapping[str, Any]) -> SignalSubgraphState:
    """Return the subgraph's input for a host that invokes it inside a node of its own.

    It has the host's ``messages``, and of ``data_ref``, ``given``, ``as_of`` and ``max_retries`` what is set.
    With ``messages`` or ``quantgraph`` from :func:`map_to_main_state` a later message may change the request
    before; an empty ``given`` or ``as_of`` frees what it had fixed.

    Raises
    ------
    BadOption
        If the host's state has no messages.

    Notes
    -----
    A question interrupts the host's node too. After the answer LangGraph runs that node again from its start,
    and the subgraph continues at the question: none of its own nodes runs twice. The code before the call
    must be harmless to repeat. Do not put the call into ``try: … except Exception``, which swallows the
    interrupt, and give it no ``thread_id``, which would separate it from the host's checkpointer (passing on
    the node's ``config`` is fine)::

        def signal(state):
            return map_to_main_state(subgraph.invoke(map_to_subgraph_state(state)))
    """
    check_messages(main_state)
    none: dict[str, Any] = {"given": {}, "as_of": None}  # what the host no longer fixes
    fixed = {key: main_state[key] or none[key] for key in none if key in main_state}
    fixed |= {key: main_state[key] for key in ("data_ref",) if main_state.get(key)}
    retries = main_state.get("max_retries", 3)
    start = {"max_retries": retries} if main_state.get("quantgraph") else initial_state(retries)
    changes = {**start, **fixed, "messages": main_state["messages"]}
    return cast("SignalSubgraphState", changed({"quantgraph": main_state.get("quantgraph")}, changes))


def map_to_main_state(subgraph_state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the subgraph's result as an update of the host.

    It has ``messages``, ``data_ref``, ``ended_because``, ``error_messages`` and ``quantgraph``.
    """
    found = {**((subgraph_state.get("quantgraph") or {}).get("result") or {}), **subgraph_state}
    return {key: found[key] for key in _RESULT_FIELDS if key in found}
