"""What a run tells while it goes on: LangGraph's ``custom`` stream, under names that stay as they are.

Each event is a plain JSON object; ``event`` says which, ``path`` names the node from the outermost graph
down. A host that streams with ``subgraphs=True`` sees them, whatever depth the graph is nested at::

    for part in graph.stream(task, config, stream_mode="custom", subgraphs=True, version="v2"):
        print(part["data"]["event"], part["data"])

====================== ==================================================================
``quantgraph.node``     a node has started, has finished, or has paused at a question
``quantgraph.model``    a model call has ended, well or not
``quantgraph.session``  a session is in the ledger
``quantgraph.question`` the run waits for an answer
====================== ==================================================================

A node that is executed again, after an answer or after its process was killed, tells again; ``served`` is
true of a model call that was answered from the run's record or a cache, and cost nothing this time.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

import pandas as pd
from langgraph.config import get_stream_writer
from langgraph.errors import GraphInterrupt
from typing_extensions import TypedDict

from quantgraph.recording import Entry, current_scope

__all__ = [
    "Event",
    "ModelEvent",
    "NodeEvent",
    "QuestionEvent",
    "SessionEvent",
    "emit_finished",
    "emit_model_call",
    "emit_paused",
    "emit_session",
    "emit_started",
    "update_line",
]

Status = Literal["started", "finished", "paused"]


class NodeEvent(TypedDict):
    """A node's step."""

    event: Literal["quantgraph.node"]
    path: str
    status: Status
    line: str
    """What was done, as in ``execution_history``, or what comes next; empty where there is nothing to say."""
    ended_because: str | None
    """Why the graph ended, if it did with this node."""


class ModelEvent(TypedDict):
    """A model call. Unknown tokens and costs are None."""

    event: Literal["quantgraph.model"]
    path: str
    role: str | None
    model: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cost: str | None
    """An exact amount, as text."""
    served: bool
    error: str | None
    """Code of the error that it ended with."""


class SessionEvent(TypedDict):
    """A session that was traded."""

    event: Literal["quantgraph.session"]
    path: str
    session: str
    """``YYYYMMDD``."""
    value: str
    """The account's value at its end, an exact amount as text."""


class QuestionEvent(TypedDict):
    """The run has paused; ``clarification`` is what ``interrupt()`` hands to the host."""

    event: Literal["quantgraph.question"]
    path: str
    clarification: dict[str, Any]


Event = NodeEvent | ModelEvent | SessionEvent | QuestionEvent


def emit(event: Event) -> None:
    """Put an event into the running graph's ``custom`` stream; outside of a graph nobody listens."""
    try:
        write = get_stream_writer()
    except (KeyError, RuntimeError):  # in a runnable that is no graph, and outside of all
        return
    write(event)


def emit_started(path: str) -> None:
    """Tell that a node begins."""
    emit(_node(path, "started"))


def emit_finished(path: str, update: Mapping[str, Any]) -> None:
    """Tell that a node is through."""
    emit(_node(path, "finished", update_line(update), update.get("ended_because")))


def update_line(update: Mapping[str, Any]) -> str:
    """What a node's update says in a line: the last thing done, or what comes next."""
    history, task = update.get("execution_history"), update.get("current_task")
    return history[-1] if history else f"-> {task}" if task else ""


def emit_paused(path: str, pause: GraphInterrupt) -> None:
    """Tell what a node asks, and that it waits."""
    for question in pause.args[0]:
        emit(QuestionEvent(event="quantgraph.question", path=path, clarification=question.value))
    emit(_node(path, "paused"))


def emit_model_call(entry: Entry, served: bool) -> None:
    """Tell of a model call by its line in the recording."""
    facts, error = entry.facts, entry.error
    emit(
        ModelEvent(
            event="quantgraph.model",
            path=entry.key.path,
            role=facts.get("role"),
            model=facts.get("model"),
            prompt_tokens=facts.get("prompt_tokens"),
            completion_tokens=facts.get("completion_tokens"),
            cost=facts.get("cost"),
            served=served,
            error=None if error is None else error["code"],
        )
    )


def emit_session(session: pd.Timestamp, value: Decimal) -> None:
    """Tell of a session when it is in the ledger."""
    scope = current_scope()
    emit(
        SessionEvent(
            event="quantgraph.session",
            path=scope.path if scope else "",
            session=f"{session:%Y%m%d}",
            value=str(value),
        )
    )


def _node(path: str, status: Status, line: str = "", because: str | None = None) -> NodeEvent:
    return NodeEvent(event="quantgraph.node", path=path, status=status, line=line, ended_because=because)
