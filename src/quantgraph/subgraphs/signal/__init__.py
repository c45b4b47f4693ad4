"""From a sentence to an audited signal, as a graph that other graphs import."""

from quantgraph.subgraphs.signal.graph import (
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
from quantgraph.subgraphs.signal.signal_resources import SignalResources, build_signal_resources
from quantgraph.subgraphs.signal.state import SignalSubgraphState

__all__ = [
    "CLARIFY_NODE_PROMPT",
    "DATA_FETCH_AGENT_PROMPT",
    "REFLECTION_NODE_PROMPT",
    "SIGNAL_GENERATE_AGENT_PROMPT",
    "VALIDATION_NODE_PROMPT",
    "SignalResources",
    "SignalSubgraphState",
    "build_signal_graph",
    "build_signal_resources",
    "clarify_node",
    "create_signal_subgraph",
    "data_fetch_node",
    "map_to_main_state",
    "map_to_subgraph_state",
    "reflection_node",
    "route_after_clarify",
    "route_after_data_fetch",
    "route_after_signal_gen",
    "route_after_validation",
    "route_from_reflection",
    "signal_generate_node",
    "validation_node",
]
