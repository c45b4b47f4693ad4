"""Graphs invoked inside a node: what they inherit from the host's config, and what is kept from them.

The keys of ``config["configurable"]`` are those of langgraph 1.2; a test detects if an upgrade changes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config
from langgraph.callbacks import GraphCallbackHandler, GraphInterruptEvent
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt, ParentCommand
from langgraph.types import interrupt

from quantgraph.errors import BadOption

__all__ = ["NO_CHECKPOINTS", "STEP_LIMIT", "detached_from_host", "has_checkpointer", "interrupt_host"]

STEP_LIMIT = 100_000
"""``recursion_limit`` of graphs whose loops have limits of their own: two hundred years of sessions."""

_CALL = "__pregel_call"
_CHECKPOINTER = "__pregel_checkpointer"
_DURABILITY = "__pregel_durability"
_SCRATCHPAD = "__pregel_scratchpad"

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


def interrupt_host(question: object, schema: dict[str, Any]) -> Any:
    """Interrupt the host: ``interrupt()`` for a step that is detached from its host."""
    host = _HOST.get()
    if host is None:
        return interrupt(question, response_schema=schema)
    token = var_child_runnable_config.set(host.config)
    try:
        return interrupt(question, response_schema=schema)
    except GraphInterrupt as pause:
        host.pause = pause
        raise
    finally:
        var_child_runnable_config.reset(token)


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
