"""For hosts that call the subgraph inside a node of their own instead of adding it as a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.state_updates import fresh_state

__all__ = ["map_to_main_state", "map_to_subgraph_state"]

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
    state = {**fresh_state(main_state.get("max_retries", 3)), **fixed, "messages": main_state["messages"]}
    return cast("SignalSubgraphState", state)


def map_to_main_state(subgraph_state: SignalSubgraphState) -> dict[str, Any]:
    """The subgraph's result as an update of the host: its messages, and where signal and strategy are."""
    result: dict[str, Any] = {"messages": subgraph_state["messages"]}
    return result | {key: subgraph_state[key] for key in _RESULT if key in subgraph_state}  # type: ignore[literal-required]
