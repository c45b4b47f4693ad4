"""From a sentence to an audited signal, as a graph that other graphs import."""

from quantgraph.subgraphs.signal.data_request import restrict_to_request, traded_symbols
from quantgraph.subgraphs.signal.graph import (
    CompiledSignalGraph,
    build_signal_graph,
    create_signal_subgraph,
    map_to_main_state,
    map_to_subgraph_state,
)
from quantgraph.subgraphs.signal.nodes import (
    CLARIFY_NODE_PROMPT,
    DATA_FETCH_AGENT_PROMPT,
    REFLECTION_NODE_PROMPT,
    SIGNAL_GENERATE_AGENT_PROMPT,
    VALIDATION_NODE_PROMPT,
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
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.state_updates import MAX_CLARIFICATIONS
from quantgraph.subgraphs.signal.understanding import Understanding, understanding_lines
from quantgraph.subgraphs.signal.warm_up import EVALUATION_FIELDS, not_evaluated_text

__all__ = [
    "CLARIFY_NODE_PROMPT",
    "DATA_FETCH_AGENT_PROMPT",
    "EVALUATION_FIELDS",
    "MAX_CLARIFICATIONS",
    "REFLECTION_NODE_PROMPT",
    "SIGNAL_GENERATE_AGENT_PROMPT",
    "VALIDATION_NODE_PROMPT",
    "CompiledSignalGraph",
    "SignalSubgraphState",
    "Understanding",
    "build_signal_graph",
    "clarify_node",
    "create_signal_subgraph",
    "data_fetch_node",
    "map_to_main_state",
    "map_to_subgraph_state",
    "not_evaluated_text",
    "reflection_node",
    "restrict_to_request",
    "route_after_clarify",
    "route_after_data_fetch",
    "route_after_signal_gen",
    "route_after_validation",
    "route_from_reflection",
    "signal_generate_node",
    "traded_symbols",
    "understanding_lines",
    "validation_node",
]
