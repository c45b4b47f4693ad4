"""Events of a run on LangGraph's ``custom`` stream. Their names and fields are stable.

Each event is a plain JSON object; ``event`` is its kind, ``path`` the node, from the outermost graph down. A
host that streams with ``subgraphs=True`` sees the events of graphs at any depth::

    for part in graph.stream(task, config, stream_mode="custom", subgraphs=True, version="v2"):
        print(part["data"]["event"], part["data"])

====================== ==================================================================
``quantgraph.node``     a node started, finished, or paused at a question
``quantgraph.model``    a model call ended, with a reply or an error
``quantgraph.session``  a session is in the ledger
``quantgraph.question`` the run waits for an answer
``quantgraph.said``     what was understood, before anything is fetched or traded
``quantgraph.proof``    a proof began that will take long
====================== ==================================================================

A node that runs again, after an answer or after its process was killed, emits its events again. ``served`` is
true if a model call was answered from the run's recording or a cache, and cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal

import pandas as pd
from langgraph.config import get_stream_writer
from langgraph.errors import GraphInterrupt
from langgraph.stream import ProtocolEvent, StreamChannel, StreamTransformer
from typing_extensions import TypedDict

from quantgraph.recording import Entry
from quantgraph.recording.scope import current_scope

Status = Literal["started", "finished", "paused"]


class NodeEvent(TypedDict):
    """A node's step."""

    event: Literal["quantgraph.node"]
    path: str
    status: Status
    line: str
    """What was done, as in ``execution_history``, or what comes next; may be empty."""
    ended_because: str | None
    """Why the graph ended, if this node ended it."""


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
    """Code of its error."""


class SessionEvent(TypedDict):
    """A traded session."""

    event: Literal["quantgraph.session"]
    path: str
    session: str
    """``YYYYMMDD``."""
    value: str
    """The account's value at the close, an exact amount as text."""
    number: int
    """Which session of the run's window it is, from 1."""
    sessions: int
    """How many sessions the window has."""


class QuestionEvent(TypedDict):
    """The run paused; ``clarification`` is the value of ``interrupt()``."""

    event: Literal["quantgraph.question"]
    path: str
    clarification: dict[str, Any]


class UnderstandingEvent(TypedDict):
    """What was understood, a line each, in the user's language."""

    event: Literal["quantgraph.said"]
    path: str
    lines: list[str]


class ProofEvent(TypedDict):
    """A proof that will take long."""

    event: Literal["quantgraph.proof"]
    path: str
    runs: int
    """How often the strategy will be run."""
    seconds: int
    """How long that takes at most, by the last run."""
    line: str
    """The same in the user's language."""


class OrdersEvent(TypedDict):
    """Sessions were traded order by order, because compiled code cannot trade them."""

    event: Literal["quantgraph.orders"]
    path: str
    why: str
    """In the user's language."""


Event = NodeEvent | ModelEvent | SessionEvent | QuestionEvent | UnderstandingEvent | ProofEvent | OrdersEvent


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """Progress of a run in a folder, to be shown.

    ``started``: a node began. ``node``: a node has finished, ``text`` is the last line of the history.
    ``session``: the loop goes on with a session, ``text`` is its date. ``traded``: a session is in the
    ledger, the ``number``-th of ``total``. ``tokens``: a model call ended, ``number`` are the tokens that the
    run has taken so far, as far as they are known. ``question`` and ``answer``: their text. ``said``: what
    was understood, a line each. ``proof``: how long a proof will take.
    """

    kind: Literal["started", "node", "session", "traded", "tokens", "question", "answer", "said", "proof"]
    name: str
    text: str = ""
    number: int = 0
    total: int = 0


def emit(event: Event) -> None:
    """Write an event to the running graph's ``custom`` stream; outside of a graph, do nothing."""
    try:
        write = get_stream_writer()
    except (KeyError, RuntimeError):  # in a runnable that is not a graph; outside of any
        return
    write(event)


def emit_started(path: str) -> None:
    """Emit that a node started."""
    emit(_node(path, "started"))


def emit_finished(path: str, update: Mapping[str, Any]) -> None:
    """Emit that a node finished."""
    emit(_node(path, "finished", update_line(update), update.get("ended_because")))


def update_line(update: Mapping[str, Any]) -> str:
    """Return a node's update as a line: the last thing done, or what comes next."""
    history, task = update.get("execution_history"), update.get("current_task")
    return history[-1] if history else f"-> {task}" if task else ""


def emit_paused(path: str, pause: GraphInterrupt) -> None:
    """Emit a node's questions, and that it paused."""
    for question in pause.args[0]:
        emit(QuestionEvent(event="quantgraph.question", path=path, clarification=question.value))
    emit(_node(path, "paused"))


def emit_model_call(entry: Entry, served: bool) -> None:
    """Emit a model call of an entry of the recording."""
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


def emit_reading(lines: Sequence[str]) -> None:
    """Emit what was understood."""
    scope = current_scope()
    emit(UnderstandingEvent(event="quantgraph.said", path=scope.path if scope else "", lines=list(lines)))


def emit_proof(runs: int, seconds: float, line: str) -> None:
    """Emit that a proof will take long."""
    scope = current_scope()
    path = scope.path if scope else ""
    emit(ProofEvent(event="quantgraph.proof", path=path, runs=runs, seconds=round(seconds), line=line))


def emit_orders(why: str) -> None:
    """Emit why sessions were traded order by order."""
    scope = current_scope()
    emit(OrdersEvent(event="quantgraph.orders", path=scope.path if scope else "", why=why))


def emit_session(session: pd.Timestamp, value: Decimal, *, window: pd.DatetimeIndex) -> None:
    """Emit a session of a window that is in the ledger."""
    scope = current_scope()
    emit(
        SessionEvent(
            event="quantgraph.session",
            path=scope.path if scope else "",
            session=f"{session:%Y%m%d}",
            value=str(value),
            number=int(window.searchsorted(session, side="right")),
            sessions=len(window),
        )
    )


def _node(path: str, status: Status, line: str = "", because: str | None = None) -> NodeEvent:
    return NodeEvent(event="quantgraph.node", path=path, status=status, line=line, ended_because=because)


class EventsTransformer(StreamTransformer):
    """A run's events at any depth, as ``run.extensions["quantgraph"]`` of a v3 event stream.

    The graphs of this package are compiled with it. A host that has one of them as a node passes it, as
    ``compile(transformers=[EventsTransformer])`` or ``stream_events(..., transformers=[EventsTransformer])``.
    LangGraph's ``CustomTransformer`` has only the events of the graph's own depth, and all writers'.
    """

    required_stream_modes: ClassVar[tuple[str, ...]] = ("custom",)

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._events: StreamChannel[Event] = StreamChannel()

    def init(self) -> dict[str, Any]:
        """Return the projection."""
        return {"quantgraph": self._events}

    def process(self, event: ProtocolEvent) -> bool:
        """Add an event of ours to the projection; every event stays in the stream."""
        data: Any = event["params"]["data"] if event["method"] == "custom" else None
        if isinstance(data, Mapping) and str(data.get("event")).startswith("quantgraph."):
            self._events.push(data)  # type: ignore[arg-type] # its name says which event it is
        return True
