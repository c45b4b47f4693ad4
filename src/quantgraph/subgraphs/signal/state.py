"""State of the signal subgraph. It holds no frames: ``data_ref`` names their commit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Required

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict, get_type_hints

from quantgraph.errors import BadOption
from quantgraph.runtime.graph_state import EndedBecause, Groups, replace_groups


class SignalSubgraphState(TypedDict, total=False):
    """Plain JSON, which any checkpointer accepts. Only ``messages`` is required to start."""

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    current_task: str
    """The next task: ``reflection``, ``data_fetch``, ``signal_gen``, ``validate``, ``clarify`` or ``end``."""
    data_ready: bool
    """Whether the bars that this request needs are in the commit ``data_ref``."""
    indicators_ready: bool
    """Whether the daily indicators that this request needs are there."""
    signal_ready: bool
    """Whether the signal of this strategy on these data is there."""
    user_intent: dict[str, Any]
    """``type``, ``params`` (ts_code, start_date, end_date, strategy_desc, required_indicators) and
    ``needs_clarification``."""
    clarification_needed: str | None
    """Why the user is to be asked, or None."""
    clarification_count: int
    """Questions answered so far for this request."""
    execution_history: list[str]
    """What was done, and which errors were solved."""
    error_messages: list[str]
    """The open errors of the current attempt, one ``code: message`` line each."""
    max_retries: int
    """Failed attempts after which the user is asked."""
    retry_count: int
    """Failed attempts since the start or the last answer."""

    data_ref: str
    """The commit that the run works on."""
    ended_because: EndedBecause | None
    """Why the graph ended."""
    run_id: str
    """Id of the run in its ledger and recording; made if the caller gives none."""
    quantgraph: Annotated[Groups, replace_groups]
    """All else: ``request``, ``strategy``, ``dialogue``, ``progress`` and ``result``, see
    :mod:`quantgraph.runtime.graph_state`. A host that has this key keeps the request without its messages."""


def check_fields(state: Mapping[str, Any]) -> None:
    """Refuse a host's field with the name of a subgraph's field and another meaning (``BadOption``)."""
    for name, adapter in _adapters().items():
        value = state.get(name)
        if value is None:
            continue
        try:
            adapter.validate_python(value)
        except ValidationError:
            raise BadOption(
                f"the state's {name}={value!r:.60} is not the signal subgraph's, which has such a field too: "
                "rename it, or call the subgraph inside a node with map_to_subgraph_state(state)",
                parameter=name,
            ) from None


@cache
def _adapters() -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(SignalSubgraphState)
    return {name: TypeAdapter(hints[name]) for name in hints if name not in ("messages", "quantgraph")}
