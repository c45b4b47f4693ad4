"""What every node runs in: its place in the run's recording, ids that repeat, and typed endings."""

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
from quantgraph.errors import BudgetExceeded, ModelOutputInvalid, ModelUnavailable, NoProgress
from quantgraph.llm.cache import PendingReply, cached_attempt, drop_replies
from quantgraph.recording import Recorder, Recording, Scope, in_scope
from quantgraph.runtime.agent_factory import DATA_ERRORS
from quantgraph.runtime.endings import count_ended_requests, end_reason, end_update, language
from quantgraph.runtime.events import emit_finished, emit_model_call, emit_paused, emit_started
from quantgraph.runtime.nested_graphs import detached_from_host
from quantgraph.runtime.state import Update

__all__ = ["SAME_STEP_LIMIT", "TRAIL_LIMIT", "node_path", "run_node", "with_loop_detection"]

SAME_STEP_LIMIT = 4
"""The step that leaves behind what the same node left behind three times since the last answer ends the run.
Not before: the third time that an error comes the user is asked about it, and the steps on the way to it have
been made as often then."""
TRAIL_LIMIT = 60
"""Steps that are remembered: a circle of up to fifteen steps is seen."""

_MATTERS = (
    "data_ref",
    "request",
    "error_messages",
    "clarification",
    "data_ready",
    "indicators_ready",
    "signal_ready",
    "user_intent",
)


def with_loop_detection(node: Callable[[Any], Update], name: str, state: Mapping[str, Any]) -> Update:
    """Run a node; if it left the same behind too often, the run ends with ``no_progress``.

    What was reached stays in the state.
    """
    update = node(state)
    after = {**state, **update}
    step = f"{name}:{_fingerprint(after)}"
    trail = [*(after.get("trail") or []), step][-TRAIL_LIMIT:]
    update = {**update, "trail": trail}
    if update.get("ended_because") or trail.count(step) < SAME_STEP_LIMIT:
        return update
    why = say(
        language(after),
        zh=f"{name} {SAME_STEP_LIMIT} 次得到同样的结果",
        en=f"{name} came to the same {SAME_STEP_LIMIT} times",
    )
    closing = end_update(after, "no_progress", f"no_progress: {why}")
    return {**update, **closing, "messages": [*update.get("messages", []), *closing["messages"]]}


def _fingerprint(state: Mapping[str, Any]) -> str:
    """Name of what matters in a state, by content."""
    matters = {key: state.get(key) for key in _MATTERS}
    return content_hash(
        canonical_json(matters | {"strategy": (state.get("strategy") or {}).get("code_hash")})
    )


_ENDINGS = (*DATA_ERRORS, BudgetExceeded, ModelOutputInvalid, ModelUnavailable, NoProgress)
"""What a node raises where the run has come to a normal, if early, end. Everything else is a mistake: in the
host's set-up (``CheckpointerRequired``, ``SandboxTooWeak``, ``LedgerConflict``, ``RunDiverged``), or ours."""
_STEPS_KEPT = 2
"""Steps that are left for an end with a reason and a report of what was done."""
_UNCHECKED = "unchecked"
"""Where in a recording's memory the replies are of which validation is still to judge what was made."""


def run_node(
    node: Callable[[Any], Update], name: str, recorder: Recorder, state: Mapping[str, Any]
) -> Update:
    """Run a node in its scope; what it cannot work without is an end with a reason, wherever it shows.

    Nothing that is invoked in it saves into the host's checkpoints, see :func:`detached_from_host`.
    """
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
    with in_scope(scope), _rested_by_errors(scope.recording), cached_attempt() as replies:
        try:
            with detached_from_host(name):
                update = node(state) if _has_steps(state, name) else _out_of_steps(state)
        except GraphInterrupt as pause:
            emit_paused(scope.path, pause)
            raise
        except _ENDINGS as error:
            update = end_update(state, end_reason(error), error)
        _judge(replies, update, scope.recording)
    if messages := update.get("messages"):
        update = {**update, "messages": _named(run_id, state, messages)}
    emit_finished(scope.path, update)
    if update.get("ended_because"):
        scope.recording.close()
    return {**update, "run_id": run_id, "calls": dict(scope.calls)}


def _has_steps(state: Mapping[str, Any], name: str) -> bool:
    return name == "report" or state.get("remaining_steps", _STEPS_KEPT + 1) > _STEPS_KEPT


def _out_of_steps(state: Mapping[str, Any]) -> Update:
    told = "no_steps_left: recursion_limit is used up; invoke the outermost graph with a higher one"
    return end_update(state, "cancelled", told)


def _judge(replies: list[PendingReply], update: Update, recording: Recording) -> None:
    """Keep for other runs what a step asked that has worked, or leave it open until its work was checked.

    It has not worked if it names an error, ends the run early, or has to put a question to the user.
    """
    replies[:0] = recording.memory.pop(_UNCHECKED, [])
    asks = (update.get("clarification") or {}).get("question") == ""  # not yet worded: by who asks it
    if update.get("error_messages") or asks or update.get("ended_because") not in (None, "done"):
        drop_replies(replies)
    elif update.get("current_task") == "validate":
        recording.memory[_UNCHECKED] = replies.copy()
        replies.clear()


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
        message.id = message.id or content_hash(f"{run_id}|{place}")
    return cast("list[AnyMessage]", made)
