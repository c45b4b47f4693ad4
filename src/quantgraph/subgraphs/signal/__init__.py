"""The signal subgraph: a sentence becomes an audited signal.

``create_signal_subgraph`` compiles it without a checkpointer: ``reflection`` reads the sentence and chooses
what is next, ``data_fetch`` and ``signal_generate`` make data and signal, ``validate`` checks them,
``clarify`` asks the person whenever a question is open. ``SignalSubgraphState`` is its state; routes are pure
functions of it; each node is a file in ``nodes/`` with its prompt. ``map_to_subgraph_state`` and
``map_to_main_state`` connect it to a host whose state has other names.

The *understanding* is what the sentence was taken to say: it is made once, checked by code and shown to the
person; every later step reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.subgraphs.signal._agents import market_source
    from quantgraph.subgraphs.signal._edited import edit
    from quantgraph.subgraphs.signal._meaning import HeldSignal, hold_against_words, left_out, words_in
    from quantgraph.subgraphs.signal._needs import needs_notes
    from quantgraph.subgraphs.signal._plan import plain_plan
    from quantgraph.subgraphs.signal._proof import EVALUATION_FIELDS, not_evaluated_text
    from quantgraph.subgraphs.signal._share import signal_frame
    from quantgraph.subgraphs.signal._source_facts import (
        check_commit,
        decided_moves,
        indices_with_levels,
        only_symbols,
    )
    from quantgraph.subgraphs.signal._updates import MAX_CLARIFICATIONS, initial_state
    from quantgraph.subgraphs.signal.graph import (
        build_signal_graph,
        create_signal_subgraph,
        map_to_main_state,
        map_to_subgraph_state,
    )
    from quantgraph.subgraphs.signal.nodes.clarify import CLARIFY_NODE_PROMPT, clarify_node
    from quantgraph.subgraphs.signal.nodes.data_fetch import DATA_FETCH_AGENT_PROMPT, data_fetch_node
    from quantgraph.subgraphs.signal.nodes.reflection import REFLECTION_NODE_PROMPT, reflection_node
    from quantgraph.subgraphs.signal.nodes.signal_generate import (
        SIGNAL_GENERATE_AGENT_PROMPT,
        signal_generate_node,
    )
    from quantgraph.subgraphs.signal.nodes.validation import VALIDATION_NODE_PROMPT, validation_node
    from quantgraph.subgraphs.signal.routes import (
        route_after_clarify,
        route_after_data_fetch,
        route_after_signal_gen,
        route_after_validation,
        route_from_reflection,
    )
    from quantgraph.subgraphs.signal.state import SignalSubgraphState
    from quantgraph.subgraphs.signal.understanding import traded_symbols, understanding_lines

__all__ = [
    "CLARIFY_NODE_PROMPT",
    "DATA_FETCH_AGENT_PROMPT",
    "EVALUATION_FIELDS",
    "MAX_CLARIFICATIONS",
    "REFLECTION_NODE_PROMPT",
    "SIGNAL_GENERATE_AGENT_PROMPT",
    "VALIDATION_NODE_PROMPT",
    "HeldSignal",
    "SignalSubgraphState",
    "build_signal_graph",
    "check_commit",
    "clarify_node",
    "create_signal_subgraph",
    "data_fetch_node",
    "decided_moves",
    "edit",
    "hold_against_words",
    "indices_with_levels",
    "initial_state",
    "left_out",
    "map_to_main_state",
    "map_to_subgraph_state",
    "market_source",
    "needs_notes",
    "not_evaluated_text",
    "only_symbols",
    "plain_plan",
    "reflection_node",
    "route_after_clarify",
    "route_after_data_fetch",
    "route_after_signal_gen",
    "route_after_validation",
    "route_from_reflection",
    "signal_frame",
    "signal_generate_node",
    "traded_symbols",
    "understanding_lines",
    "validation_node",
    "words_in",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
