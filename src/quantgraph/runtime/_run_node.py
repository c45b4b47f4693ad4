"""The wrapper of every node: recording, events, typed endings, loop detection, nested graphs.

The keys of ``config["configurable"]`` are langgraph 1.2's; a test detects if an upgrade changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Annotated, Any, NoReturn, cast

from langchain_core.messages import AnyMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config
from langgraph.callbacks import GraphCallbackHandler, GraphInterruptEvent
from langgraph.checkpoint.base import BaseCheckpointSaver, PendingWrite
from langgraph.checkpoint.serde.types import INTERRUPT, RESUME
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt, ParentCommand
from langgraph.runtime import get_runtime
from langgraph.types import interrupt
from pydantic import PlainValidator, WithJsonSchema

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.files import run_id_of
from quantgraph._util.texts import say
from quantgraph.errors import (
    BadOption,
    BudgetExceeded,
    CodeUnavailable,
    ModelOutputInvalid,
    ModelUnavailable,
    NoProgress,
    UnknownQuestion,
)
from quantgraph.llm import PendingReply, cached_attempt, drop_replies
from quantgraph.recording import Recorder, Recording
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.runtime._result import with_result
from quantgraph.runtime.dialogue._events import emit_finished, emit_model_call, emit_paused, emit_started
from quantgraph.runtime.endings._endings import (
    DATA_ERRORS,
    count_ended_requests,
    end_reason,
    end_update,
    keep_last_request,
    language,
)
from quantgraph.runtime.graph_state import (
    Update,
    changed,
    dialogue_of,
    progress_of,
    request_of,
    strategy_of,
    written,
)
from quantgraph.sandbox import counted_restarts

STEP_LIMIT = 100_000
"""``recursion_limit`` of graphs whose loops have limits of their own: two hundred years of sessions."""

_CALL = "__pregel_call"
_CHECKPOINTER = "__pregel_checkpointer"
_DURABILITY = "__pregel_durability"
_RESUME_MAP = "__pregel_resume_map"
_SCRATCHPAD = "__pregel_scratchpad"
_PLAIN_RESUME = "00000000-0000-0000-0000-000000000000"
"""The task under which LangGraph keeps the value of ``Command(resume=value)`` in a checkpoint."""
_TAKEN_BY = "quantgraph_taken_by"
"""Key of a resume value that was taken: which ``interrupt()`` it answered."""

NO_CHECKPOINTS: RunnableConfig = {"configurable": {_DURABILITY: "exit"}}
"""Config of a graph without checkpoints inside a node. It would inherit a host's ``durability="sync"`` and
wait for checkpoints that are never written; the argument ``durability=`` would only warn."""

_PARAMETERS = {"decision": "decider", "propose": "decider", "clarify": "on_clarify", "approve": "on_clarify"}
"""The parameter whose code a step calls; other steps call the source or a model."""


class _RefusePauses(GraphCallbackHandler):
    """Raise if a graph with a thread of its own would return its interrupt as a result.

    A decider that took it for an answer would leave a day without orders in the ledger.
    """

    raise_error = True

    def __init__(self, step: str) -> None:
        self._step = step

    def on_interrupt(self, event: GraphInterruptEvent) -> NoReturn:  # noqa: ARG002 - LangGraph's signature
        raise _not_allowed("interrupt() would pause a graph in", self._step)


@dataclass(kw_only=True)
class _Host:
    """The node's own config, and the interrupt that was raised with it."""

    config: RunnableConfig
    pause: GraphInterrupt | None = None


_HOST: ContextVar[_Host | None] = ContextVar("host", default=None)


@contextmanager
def detached_from_host(step: str) -> Iterator[None]:
    """Keep the host's checkpointer from every graph invoked in this context, at any depth.

    A decider, a data source, ``on_clarify`` and a model may be graphs. With the host's checkpointer such a
    graph would continue from its middle when the run is resumed, without what its tools had in memory. In
    this context it starts from the beginning, and its models' replies are served from the recording. It still
    streams to the host and calls the host's callbacks.
    """
    config = var_child_runnable_config.get()
    if config is None:  # the node runs outside of a graph
        yield
        return
    host = _Host(config=config)
    config_token, host_token = var_child_runnable_config.set(_detached(config, step)), _HOST.set(host)
    try:
        yield
    except GraphInterrupt as pause:
        if pause is host.pause:
            raise
        raise _not_allowed("interrupt() would pause", step) from pause
    except ParentCommand as jump:
        raise _not_allowed("Command(graph=Command.PARENT) would leave", step) from jump
    finally:
        _HOST.reset(host_token)
        var_child_runnable_config.reset(config_token)


def interrupt_host(question: Mapping[str, Any], schema: dict[str, Any], check: Callable[[Any], Any]) -> Any:
    """Interrupt the host: ``interrupt()`` for a step that is detached from its host.

    A subgraph asks all its questions in one step of its host, and the host's checkpoint keeps the value of
    ``Command(resume=value)`` until that step ends: a process that continues there would answer the next
    question with it. So a value that was taken is kept with the interrupt that it answered, and no other
    takes it.
    """
    host = _HOST.get()
    if host is None:
        return interrupt(question, response_schema=schema)
    configurable = host.config["configurable"]
    _check_resume_map(configurable, question)
    scratchpad = configurable[_SCRATCHPAD]
    place, kept = f"{configurable['checkpoint_ns']}#{len(scratchpad.resume)}", scratchpad.get_null_resume()
    if _taken_by(kept) not in {None, place}:
        scratchpad = replace(scratchpad, get_null_resume=_no_answer)
    known = len(scratchpad.resume)
    token = var_child_runnable_config.set(
        {**host.config, "configurable": {**configurable, _SCRATCHPAD: scratchpad}}
    )

    def checked(value: Any) -> Any:
        return check(value["value"] if _taken_by(value) else value)

    answers = Annotated[Any, PlainValidator(checked), WithJsonSchema(schema)]
    try:
        answer = interrupt(question, response_schema=cast("type", answers))
    except GraphInterrupt as pause:
        host.pause = pause
        _replace_plain_resume(configurable, None)
        raise
    except UnknownQuestion:
        _replace_plain_resume(configurable, None)
        raise
    finally:
        var_child_runnable_config.reset(token)
    if len(scratchpad.resume) > known:
        _replace_plain_resume(configurable, {_TAKEN_BY: place, "value": answer})
    return answer


def _taken_by(value: object) -> str | None:
    """Return the place of the interrupt that took a resume value; None if it is new."""
    return value.get(_TAKEN_BY) if isinstance(value, Mapping) else None


def _pending_writes(
    configurable: Mapping[str, Any], namespace: str
) -> tuple[RunnableConfig, list[PendingWrite]]:
    """Return the checkpoint from which a graph around this step goes on, and what is kept with it."""
    names = {"thread_id": configurable.get("thread_id"), "checkpoint_ns": namespace}
    config: RunnableConfig = {
        "configurable": {**names, "checkpoint_id": configurable["checkpoint_map"][namespace]}
    }
    saver: BaseCheckpointSaver[Any] | None = configurable.get(_CHECKPOINTER)
    found = None
    with suppress(NotImplementedError):  # a saver that has asynchronous methods alone is left as it is
        found = saver.get_tuple(config) if saver else None
    return config, (found.pending_writes or []) if found else []


def _replace_plain_resume(configurable: Mapping[str, Any], value: object) -> None:
    """Replace the plain resume value in the checkpoints of the graphs around this step; None removes it."""
    for namespace in configurable.get("checkpoint_map", {}):
        config, writes = _pending_writes(configurable, namespace)
        if any(task == _PLAIN_RESUME and channel == RESUME for task, channel, _ in writes):
            configurable[_CHECKPOINTER].put_writes(config, [(RESUME, value)], _PLAIN_RESUME)


def _check_resume_map(configurable: Mapping[str, Any], question: Mapping[str, Any]) -> None:
    """Check that a question that was open when the host was resumed was resumed by ids of open interrupts."""
    answers: Mapping[str, Any] = configurable.get(_RESUME_MAP) or {}
    if not answers:
        return
    _, writes = _pending_writes(configurable, "")
    open_: dict[str, Any] = {
        pause.id: pause.value for _, channel, pauses in writes if channel == INTERRUPT for pause in pauses
    }
    unknown = sorted(answers.keys() - open_.keys())
    was_open = question["id"] in [value.get("id") for value in open_.values() if isinstance(value, Mapping)]
    if was_open and unknown:
        raise UnknownQuestion(
            f"no interrupt {unknown[0]} is open; open are {', '.join(open_)}", question=unknown[0]
        )


def has_checkpointer() -> bool:
    """Whether the running graph has a checkpointer, its own or its host's; True outside of a graph.

    A ``thread_id`` does not prove it: LangGraph accepts one without a checkpointer.
    """
    host = _HOST.get()
    try:
        config = host.config if host else get_config()
    except RuntimeError:
        return True
    return config["configurable"].get(_CHECKPOINTER) is not None


def _detached(config: RunnableConfig, step: str) -> RunnableConfig:
    def call(*_: object, **__: object) -> NoReturn:
        raise _not_allowed("a @task outside of an @entrypoint would be saved by", step)

    configurable = config.get("configurable", {})
    overrides: dict[str, Any] = {_CHECKPOINTER: None, _CALL: call, **NO_CHECKPOINTS["configurable"]}
    if _SCRATCHPAD in configurable:
        # The answer that the host was resumed with belongs to the host's question.
        overrides[_SCRATCHPAD] = replace(configurable[_SCRATCHPAD], resume=[], get_null_resume=_no_answer)
    callbacks = merge_configs({"callbacks": config.get("callbacks")}, {"callbacks": [_RefusePauses(step)]})
    return {**config, "callbacks": callbacks["callbacks"], "configurable": {**configurable, **overrides}}


def _no_answer(consume: bool = False) -> None:  # noqa: ARG001 - LangGraph's signature
    return None


def _not_allowed(what: str, step: str) -> BadOption:
    return BadOption(
        f"{what} the run in step {step!r}; a decider, a data source and on_clarify must not do that: use "
        "approve=True to ask about orders before they are sent",
        parameter=_PARAMETERS.get(step, "source"),
    )


SAME_STEP_LIMIT = 4
"""Times since the last answer that a node may leave the same state; the last of them ends the run.
A limit of 3 would end the run before the user is asked, which happens when an error comes the third time."""
TRAIL_LIMIT = 60
"""Steps that are remembered: loops of up to fifteen steps are detected."""

_COMPARED_FIELDS = (
    "data_ref",
    "error_messages",
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
        Raises if the state is not the graph's; runs before anything else.
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
        calls=dict(progress_of(state)["calls"]),
        request=count_ended_requests(state),
        on_model_call=emit_model_call,
    )
    emit_started(scope.path)
    with in_scope(scope), _closed_on_error(scope.recording), cached_attempt() as replies:
        try:
            with counted_restarts(), detached_from_host(name), _reporting_error(on_error, run_id):
                update = node(state) if _has_steps(name) else _no_steps_update(state)
            if detect_loops and _has_steps(name):
                update = with_loop_detection(update, name, state)
        except GraphInterrupt as pause:
            emit_paused(scope.path, pause)
            raise
        except _ENDING_ERRORS as error:
            update = written(state, end_update(state, end_reason(error), error))
        _settle_cached_replies(replies, update, scope.recording)
    if messages := update.get("messages"):
        update = {**update, "messages": _with_ids(run_id, state, messages)}
        keep_last_request(update["messages"], changed(state, update))
    emit_finished(scope.path, update)
    if update.get("ended_because"):
        scope.recording.close()
        update = with_result(state, update, run_id)
    return written(state, {**update, "run_id": run_id, "calls": scope.lasting_calls()})


def node_path(name: str) -> str:
    """Path of the running node, from the outermost graph down; ``name`` outside of a graph."""
    try:
        info = get_runtime().execution_info
    except RuntimeError:
        info = None
    namespace = info.checkpoint_ns if info else ""
    return "/".join(part.partition(":")[0] for part in namespace.split("|")) if namespace else name


def steps_left() -> int | None:
    """Return the steps left to this call of the graph, by its ``recursion_limit`` or its host's."""
    try:
        scratchpad = get_config()["configurable"].get(_SCRATCHPAD)
    except RuntimeError:  # outside of a graph
        return None
    return None if scratchpad is None else scratchpad.stop - scratchpad.step


def _has_steps(name: str) -> bool:
    left = steps_left()
    return name == "report" or left is None or left > _RESERVED_STEPS


def _no_steps_update(state: Mapping[str, Any]) -> Update:
    line = "no_steps_left: recursion_limit is used up; invoke the outermost graph with a higher one"
    return written(state, end_update(state, "cancelled", line))


def _settle_cached_replies(replies: list[PendingReply], update: Update, recording: Recording) -> None:
    """Offer the replies of a step that worked to other runs, or hold them back until its result is validated.

    A step did not work if it names an error, ends the run early, or has a question for the user.
    """
    replies[:0] = recording.memory.pop(_UNVALIDATED, [])
    asks = (task := dialogue_of(update)["clarification"]) and not task["question"]  # still to be worded
    if update.get("error_messages") or asks or update.get("ended_because") not in (None, "done"):
        drop_replies(replies)
    elif update.get("current_task") == "validate":
        recording.memory[_UNVALIDATED] = replies.copy()
        replies.clear()


@contextmanager
def _reporting_error(on_error: Callable[[str], None] | None, run_id: str) -> Iterator[None]:
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
    """Give messages ids that a resumed or replayed run repeats, and ours a name for agents beside us."""
    converted = convert_to_messages(messages)
    for position, message in enumerate(converted, start=len(state.get("messages", ()))):
        message.id = message.id or content_hash(f"{run_id}|{position}")
        message.name = message.name or ("quantgraph" if message.type == "ai" else None)
    return cast("list[AnyMessage]", converted)


def with_loop_detection(update: Update, name: str, state: Mapping[str, Any]) -> Update:
    """Add a node's step to the trail; if it has left the same state too often, end the run.

    What was reached stays in the state.
    """
    after = changed(state, update)
    step = f"{name}:{_state_hash(after)}"
    trail = [*progress_of(after)["trail"], step][-TRAIL_LIMIT:]
    update = written(state, {**update, "trail": trail})
    if update.get("ended_because") or trail.count(step) < SAME_STEP_LIMIT:
        return update
    why = say(
        language(after),
        zh=f"{name} {SAME_STEP_LIMIT} 次得到同样的结果",
        en=f"{name} gave the same result {SAME_STEP_LIMIT} times",
    )
    ending = end_update(after, "no_progress", f"no_progress: {why}")
    messages = [*update.get("messages", []), *ending["messages"]]
    return written(state, {**update, **ending, "messages": messages})


def _state_hash(state: Mapping[str, Any]) -> str:
    compared = {key: state.get(key) for key in _COMPARED_FIELDS} | {
        "request": request_of(state)["checked"],
        "clarification": dialogue_of(state)["clarification"],
        "strategy": strategy_of(state).get("code_hash"),
    }
    return content_hash(canonical_json(compared))
