"""What LangGraph hands from a node down to the graphs that are invoked in it, and what of that we keep back.

The keys of ``config["configurable"]`` are those of langgraph 1.2; a test looks at them, so that an upgrade
tells.
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
"""``recursion_limit`` of graphs whose loops end for reasons of their own: two hundred years of sessions."""

_CALL = "__pregel_call"
_CHECKPOINTER = "__pregel_checkpointer"
_DURABILITY = "__pregel_durability"
_SCRATCHPAD = "__pregel_scratchpad"

NO_CHECKPOINTS: RunnableConfig = {"configurable": {_DURABILITY: "exit"}}
"""For a graph without checkpoints inside a node: a host's ``durability="sync"`` is inherited by name, and
would wait for checkpoints that are never written. The argument ``durability=`` would warn of that."""


_ASKED = {"decision": "decider", "propose": "decider", "clarify": "on_clarify", "approve": "on_clarify"}
"""Whose code is called in a step; in the others it is the source's, or a model's."""


class _RefusePauses(GraphCallbackHandler):
    """Raises where a graph with a thread of its own would hand its interrupt out as a result.

    A decider that took that for an answer would leave a day without orders in the ledger.
    """

    raise_error = True

    def __init__(self, step: str) -> None:
        self._step = step

    def on_interrupt(self, event: GraphInterruptEvent) -> NoReturn:  # noqa: ARG002 - LangGraph's signature
        raise _not_allowed("interrupt() pauses a graph in", self._step)


@dataclass(kw_only=True)
class _Host:
    """The node's own config, and the pause that was asked for with it."""

    config: RunnableConfig
    pause: GraphInterrupt | None = None


_HOST: ContextVar[_Host | None] = ContextVar("host", default=None)


@contextmanager
def detached_from_host(step: str) -> Iterator[None]:
    """Keep the host's checkpointer from every graph that is invoked in here, at any depth.

    A decider, a data source, ``on_clarify`` and a model may be graphs. One that saved into the host's
    checkpoints would go on from its middle when the run is resumed, without what its tools had gathered in
    memory. In here a graph begins anew each time, and what its models said is served from the recording. It
    still streams to the host, and calls the host's callbacks.

    Parameters
    ----------
    step
        The node, for the error message.

    Raises
    ------
    BadOption
        If the host, or a graph in here, would be paused by anything but :func:`interrupt_host`; if the host
        would be sent to another node, or execute a task, which it would save.
    """
    config = var_child_runnable_config.get()
    if config is None:  # the node is called by hand
        yield
        return
    host = _Host(config=config)
    config_token, host_token = var_child_runnable_config.set(_detached(config, step)), _HOST.set(host)
    try:
        yield
    except GraphInterrupt as pause:
        if pause is host.pause:
            raise
        raise _not_allowed("interrupt() pauses", step) from pause
    except ParentCommand as jump:
        raise _not_allowed("Command(graph=Command.PARENT) leaves", step) from jump
    finally:
        _HOST.reset(host_token)
        var_child_runnable_config.reset(config_token)


def interrupt_host(question: object, schema: dict[str, Any]) -> Any:
    """Ask whoever reads the host's interrupts; ``interrupt()`` for a step that is detached from its host."""
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

    A ``thread_id`` is no sign of one: LangGraph takes it without a checkpointer, and forgets.
    """
    host = _HOST.get()
    try:
        config = host.config if host else get_config()
    except RuntimeError:
        return True
    return config["configurable"].get(_CHECKPOINTER) is not None


def _detached(config: RunnableConfig, step: str) -> RunnableConfig:
    def call(*_: object, **__: object) -> NoReturn:
        raise _not_allowed("a @task that is not called from an @entrypoint is saved by", step)

    configurable = config.get("configurable", {})
    kept_back: dict[str, Any] = {_CHECKPOINTER: None, _CALL: call, **NO_CHECKPOINTS["configurable"]}
    if _SCRATCHPAD in configurable:
        # An answer that the host was resumed with is for the host's question.
        kept_back[_SCRATCHPAD] = replace(configurable[_SCRATCHPAD], resume=[], get_null_resume=_no_answer)
    heard = merge_configs({"callbacks": config.get("callbacks")}, {"callbacks": [_RefusePauses(step)]})
    return {**config, "callbacks": heard["callbacks"], "configurable": {**configurable, **kept_back}}


def _no_answer(consume: bool = False) -> None:  # noqa: ARG001 - LangGraph's signature
    return None


def _not_allowed(what: str, step: str) -> BadOption:
    return BadOption(
        f"{what} the run in step {step!r}; a decider, a data source and on_clarify must not do that: "
        "approve=True is the way to ask about orders before they are sent",
        parameter=_ASKED.get(step, "source"),
    )
