"""Graphs invoked inside a node: what they inherit from the host's config, and what is kept from them.

The keys of ``config["configurable"]`` are those of langgraph 1.2; a test detects if an upgrade changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Annotated, Any, NoReturn, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config
from langgraph.callbacks import GraphCallbackHandler, GraphInterruptEvent
from langgraph.checkpoint.base import BaseCheckpointSaver, PendingWrite
from langgraph.checkpoint.serde.types import INTERRUPT, RESUME
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt, ParentCommand
from langgraph.types import interrupt
from pydantic import PlainValidator, WithJsonSchema

from quantgraph.errors import BadOption, UnknownQuestion

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

    Parameters
    ----------
    step
        The node, for the error message.

    Raises
    ------
    BadOption
        If anything but :func:`interrupt_host` would pause the host or a graph in here; if a command would
        send the host to another node; if the host would run, and save, a task.
    """
    config = var_child_runnable_config.get()
    if config is None:  # the node is called directly, outside of a graph
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

    Parameters
    ----------
    check
        Called with the answer before it is kept; raises ``UnknownQuestion`` if it is for another question.

    Raises
    ------
    UnknownQuestion
        From ``check``; or if the host was resumed with ``{interrupt_id: answer}`` and an id is not that of an
        open interrupt. The answer is kept nowhere, and the question stays open.
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
