"""What every node runs in: its place in the run's recording, ids that repeat, and typed endings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from langchain_core.messages import AnyMessage, convert_to_messages
from langgraph.errors import GraphInterrupt
from langgraph.runtime import get_runtime

from quantgraph._run_id import new_run_id
from quantgraph.errors import BudgetExceeded, ModelOutputInvalid, ModelUnavailable, NoProgress
from quantgraph.recording import Recorder, Recording, Scope, digest, in_scope
from quantgraph.subgraphs.signal.events import tell_finished, tell_model, tell_paused, tell_started
from quantgraph.subgraphs.signal.kit import DATA_ERRORS
from quantgraph.subgraphs.signal.progress import ended, requests_ended, why_ended
from quantgraph.subgraphs.signal.state import SignalSubgraphState

__all__ = ["guarded", "node_path"]

Update = dict[str, Any]

_ENDINGS = (*DATA_ERRORS, BudgetExceeded, ModelOutputInvalid, ModelUnavailable, NoProgress)
"""What a node raises where the run has come to a normal, if early, end. Everything else is a mistake: in the
host's set-up (``CheckpointerRequired``, ``SandboxTooWeak``, ``LedgerConflict``, ``RunDiverged``), or ours."""


def guarded(
    node: Callable[[Any], Update], name: str, recorder: Recorder, state: SignalSubgraphState
) -> Update:
    """Run a node in its scope; what it cannot work without is an end with a reason, wherever it shows."""
    run_id = state.get("run_id") or new_run_id()
    state = cast("SignalSubgraphState", {**state, "run_id": run_id})
    scope = Scope(
        recording=recorder.of(run_id),
        path=node_path(name),
        calls=dict(state.get("calls") or {}),
        request=requests_ended(state),
        heard=tell_model,
    )
    tell_started(scope.path)
    with in_scope(scope), _rested_by_errors(scope.recording):
        try:
            update = node(state)
        except GraphInterrupt as pause:
            tell_paused(scope.path, pause)
            raise
        except _ENDINGS as error:
            update = ended(state, why_ended(error), error)
    if messages := update.get("messages"):
        update = {**update, "messages": _named(run_id, state, messages)}
    tell_finished(scope.path, update)
    if update.get("ended_because"):
        scope.recording.close()
    return {**update, "run_id": run_id, "calls": scope.calls}


@contextmanager
def _rested_by_errors(recording: Recording) -> Iterator[None]:
    """A run that stops here, at a question too, leaves no database open; who goes on opens it again."""
    try:
        yield
    except BaseException:
        recording.close()
        raise


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
