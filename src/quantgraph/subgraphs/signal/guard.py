"""What every node runs in: its place in the run's recording, ids that repeat, and typed endings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage, convert_to_messages
from langgraph.runtime import get_runtime

from quantgraph._run_id import new_run_id
from quantgraph.errors import BudgetExceeded
from quantgraph.recording import Recorder, Scope, digest, in_scope
from quantgraph.subgraphs.signal.kit import DATA_ERRORS
from quantgraph.subgraphs.signal.progress import ended
from quantgraph.subgraphs.signal.state import EndedBecause, SignalSubgraphState

__all__ = ["guarded", "node_path"]

Update = dict[str, Any]

_BUDGETS: dict[str, EndedBecause] = {
    "calls": "budget_calls",
    "prompt_tokens": "budget_tokens",
    "completion_tokens": "budget_tokens",
    "money": "budget_money",
    "seconds": "timeout",
}


def guarded(
    node: Callable[[Any], Update], name: str, recorder: Recorder, state: SignalSubgraphState
) -> Update:
    """Run a node in its scope; what it cannot work without is an end with a reason, wherever it shows."""
    run_id = state.get("run_id") or new_run_id()
    state = cast("SignalSubgraphState", {**state, "run_id": run_id})
    scope = Scope(recording=recorder.of(run_id), path=node_path(name), calls=dict(state.get("calls") or {}))
    with in_scope(scope):
        try:
            update = node(state)
        except DATA_ERRORS as error:
            update = ended(state, "data_unavailable", error)
        except BudgetExceeded as error:
            update = ended(state, _BUDGETS[error.data["limit"]], error)
    if messages := update.get("messages"):
        update = {**update, "messages": _named(run_id, state, messages)}
    return {**update, "run_id": run_id, "calls": scope.calls}


def node_path(name: str) -> str:
    """The running node's, from the outermost graph down; outside of a graph its name."""
    try:
        info = get_runtime().execution_info
    except RuntimeError:
        info = None
    place = info.checkpoint_ns if info else ""
    return "/".join(part.partition(":")[0] for part in place.split("|")) if place else name


def _named(run_id: str, state: Mapping[str, Any], messages: Sequence[Any]) -> list[AnyMessage]:
    """Messages with ids that are the same in a run that is resumed or replayed."""
    made = convert_to_messages(messages)
    first = len(state.get("messages", ()))
    for place, message in enumerate(made, start=first):
        message.id = message.id or digest(f"{run_id}|{place}")
    return cast("list[AnyMessage]", made)
