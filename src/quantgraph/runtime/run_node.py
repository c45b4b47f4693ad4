"""The wrapper of every node, :func:`run_node`: recording, events, typed endings, and loop detection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from langchain_core.messages import AnyMessage, convert_to_messages
from langgraph.errors import GraphInterrupt
from langgraph.runtime import get_runtime

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.run_id import run_id_of
from quantgraph._util.texts import say
from quantgraph.errors import (
    BudgetExceeded,
    CodeUnavailable,
    ModelOutputInvalid,
    ModelUnavailable,
    NoProgress,
)
from quantgraph.llm.cache import PendingReply, cached_attempt, drop_replies
from quantgraph.recording import Recorder, Recording, Scope, in_scope
from quantgraph.runtime.endings import DATA_ERRORS, count_ended_requests, end_reason, end_update, language
from quantgraph.runtime.events import emit_finished, emit_model_call, emit_paused, emit_started
from quantgraph.runtime.nested_graphs import detached_from_host
from quantgraph.runtime.state import Update
from quantgraph.sandbox.restarts import counted_restarts

SAME_STEP_LIMIT = 4
"""Times since the last answer that a node may leave the same state; the last of them ends the run.
A limit of 3 would end the run before the user is asked, which happens when an error comes the third time."""
TRAIL_LIMIT = 60
"""Steps that are remembered: loops of up to fifteen steps are detected."""

_COMPARED_FIELDS = (
    "data_ref",
    "request",
    "error_messages",
    "clarification",
    "data_ready",
    "indicators_ready",
    "signal_ready",
    "user_intent",
)
_ENDING_ERRORS = (
    *DATA_ERRORS,
    BudgetExceeded,
    CodeUnavailable,
    ModelOutputInvalid,
    ModelUnavailable,
    NoProgress,
)
"""Errors of a node that end the run normally, if early. Every other error is a mistake: in the host's set-up
(``CheckpointerRequired``, ``SandboxTooWeak``, ``LedgerConflict``, ``RunDiverged``) or in this library."""
_RESERVED_STEPS = 2
"""Steps kept for an ending with a reason and for the report."""
_UNVALIDATED = "unchecked"
"""Key in a recording's memory: replies whose result is still to be validated."""


def run_node(
    node: Callable[[Any], Update],
    name: str,
    recorder: Recorder,
    state: Mapping[str, Any],
    *,
    detect_loops: bool = False,
    check_state: Callable[[Any], None] | None = None,
    on_error: Callable[[str], None] | None = None,
) -> Update:
    """Run a node in its recording scope; an error that a run may end with becomes a typed ending.

    Graphs invoked by the node save nothing into the host's checkpoints, see :func:`detached_from_host`.

    Parameters
    ----------
    detect_loops
        Whether to end the run with ``no_progress`` if the node has left the same state too often. What was
        reached stays in the state.
    check_state
        Raises if the state is not that of the graph; called before anything else.
    on_error
        Called with the run's id if the node raises or pauses.
    """
    if check_state is not None:
        check_state(state)
    run_id = run_id_of(state.get("run_id"))
    state = {**state, "run_id": run_id}
    scope = Scope(
        recording=recorder.of(run_id),
        path=node_path(name),
        calls=dict(state.get("calls") or {}),
        request=count_ended_requests(state),
        on_model_call=emit_model_call,
    )
    emit_started(scope.path)
    with in_scope(scope), _closed_on_error(scope.recording), cached_attempt() as replies:
        try:
            with counted_restarts(), detached_from_host(name), _called_on_error(on_error, run_id):
                update = node(state) if _has_steps(state, name) else _no_steps_update(state)
            if detect_loops and _has_steps(state, name):
                update = with_loop_detection(update, name, state)
        except GraphInterrupt as pause:
            emit_paused(scope.path, pause)
            raise
        except _ENDING_ERRORS as error:
            update = end_update(state, end_reason(error), error)
        _settle_cached_replies(replies, update, scope.recording)
    if messages := update.get("messages"):
        update = {**update, "messages": _with_ids(run_id, state, messages)}
    emit_finished(scope.path, update)
    if update.get("ended_because"):
        scope.recording.close()
    return {**update, "run_id": run_id, "calls": scope.lasting_calls()}


def node_path(name: str) -> str:
    """Path of the running node, from the outermost graph down; ``name`` outside of a graph."""
    try:
        info = get_runtime().execution_info
    except RuntimeError:
        info = None
    namespace = info.checkpoint_ns if info else ""
    return "/".join(part.partition(":")[0] for part in namespace.split("|")) if namespace else name


def _has_steps(state: Mapping[str, Any], name: str) -> bool:
    return name == "report" or state.get("remaining_steps", _RESERVED_STEPS + 1) > _RESERVED_STEPS


def _no_steps_update(state: Mapping[str, Any]) -> Update:
    line = "no_steps_left: recursion_limit is used up; invoke the outermost graph with a higher one"
    return end_update(state, "cancelled", line)


def _settle_cached_replies(replies: list[PendingReply], update: Update, recording: Recording) -> None:
    """Offer the replies of a step that worked to other runs, or wait until its result is validated.

    A step did not work if it names an error, ends the run early, or has a question for the user.
    """
    replies[:0] = recording.memory.pop(_UNVALIDATED, [])
    asks = (update.get("clarification") or {}).get("question") == ""  # clarify is still to word it
    if update.get("error_messages") or asks or update.get("ended_because") not in (None, "done"):
        drop_replies(replies)
    elif update.get("current_task") == "validate":
        recording.memory[_UNVALIDATED] = replies.copy()
        replies.clear()


@contextmanager
def _called_on_error(on_error: Callable[[str], None] | None, run_id: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if on_error is not None:
            on_error(run_id)
        raise


@contextmanager
def _closed_on_error(recording: Recording) -> Iterator[None]:
    """Close the recording's database if the node raises or pauses; the next use opens it again."""
    try:
        yield
    except BaseException:
        recording.close()
        raise


def _with_ids(run_id: str, state: Mapping[str, Any], messages: Sequence[Any]) -> list[AnyMessage]:
    """Give messages ids that a resumed or replayed run repeats."""
    converted = convert_to_messages(messages)
    first = len(state.get("messages", ()))
    for position, message in enumerate(converted, start=first):
        message.id = message.id or content_hash(f"{run_id}|{position}")
    return cast("list[AnyMessage]", converted)


def with_loop_detection(update: Update, name: str, state: Mapping[str, Any]) -> Update:
    """Add a node's step to the trail; if it has left the same state too often, end the run.

    What was reached stays in the state.
    """
    after = {**state, **update}
    step = f"{name}:{_state_hash(after)}"
    trail = [*(after.get("trail") or []), step][-TRAIL_LIMIT:]
    update = {**update, "trail": trail}
    if update.get("ended_because") or trail.count(step) < SAME_STEP_LIMIT:
        return update
    why = say(
        language(after),
        zh=f"{name} {SAME_STEP_LIMIT} 次得到同样的结果",
        en=f"{name} gave the same result {SAME_STEP_LIMIT} times",
    )
    ending = end_update(after, "no_progress", f"no_progress: {why}")
    return {**update, **ending, "messages": [*update.get("messages", []), *ending["messages"]]}


def _state_hash(state: Mapping[str, Any]) -> str:
    compared = {key: state.get(key) for key in _COMPARED_FIELDS}
    code_hash = (state.get("strategy") or {}).get("code_hash")
    return content_hash(canonical_json(compared | {"strategy": code_hash}))
