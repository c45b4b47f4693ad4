"""The five nodes of the signal subgraph, one file each, with its prompt."""

from quantgraph.subgraphs.signal.nodes.clarify import CLARIFY_NODE_PROMPT, clarify_node
from quantgraph.subgraphs.signal.nodes.data_fetch import DATA_FETCH_AGENT_PROMPT, data_fetch_node
from quantgraph.subgraphs.signal.nodes.reflection import REFLECTION_NODE_PROMPT, reflection_node
from quantgraph.subgraphs.signal.nodes.signal_generate import (
    SIGNAL_GENERATE_AGENT_PROMPT,
    signal_generate_node,
)
from quantgraph.subgraphs.signal.nodes.validation import VALIDATION_NODE_PROMPT, validation_node

__all__ = [
    "CLARIFY_NODE_PROMPT",
    "DATA_FETCH_AGENT_PROMPT",
    "REFLECTION_NODE_PROMPT",
    "SIGNAL_GENERATE_AGENT_PROMPT",
    "VALIDATION_NODE_PROMPT",
    "clarify_node",
    "data_fetch_node",
    "reflection_node",
    "signal_generate_node",
    "validation_node",
]
