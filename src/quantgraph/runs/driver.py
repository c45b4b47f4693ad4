"""Driving a graph: it is streamed to its end, what happens is told, what it asks is answered."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import RunControl
from langgraph.types import Command, StateSnapshot

from quantgraph.llm.cancellation import AT_ONCE
from quantgraph.runtime.nested_graphs import STEP_LIMIT
from quantgraph.runtime.questions import check_not_async
from quantgraph.runtime.events import update_line

__all__ = ["AT_ONCE", "Answer", "Driver", "RunEvent", "state_of", "thread_config"]

Answer = Callable[[Mapping[str, Any]], str | None]
"""Given a question, its answer; None if nobody can say."""

WRONG_ANSWERS = 10
"""Answers to one question that are none; a function that gives no other does not hold a run for ever."""

_NODES = ("reflection", "data_fetch", "signal_generate", "validate", "clarify", "report")


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """Something to show while a run goes on.

    ``node``: a node has finished, ``text`` is the last line of the history. ``session``: a session was
    traded, ``text`` is its date. ``question`` and ``answer``: what was asked and answered.
    """

    kind: Literal["node", "session", "question", "answer"]
    name: str
    text: str = ""


@dataclass(kw_only=True)
class Driver:
    """Who streams a graph.

    Attributes
    ----------
    answer
        Called with each question; None answers none.
    watch
        Called with what happens while it happens, if it is given.
    control
        A drain that is requested here ends the stream with ``GraphDrained`` at the next step, or before a
        model is asked (again); with :data:`AT_ONCE` as its reason, while a model is asked, too.
    took
        Seconds by node so far.
    """

    answer: Answer | None = None
    watch: Callable[[RunEvent], None] | None = None
    control: RunControl | None = None
    took: dict[str, float] = field(default_factory=dict)

    def drive(self, graph: Any, task: Mapping[str, Any] | None, thread: str) -> Mapping[str, Any] | None:
        """Stream the graph on a thread, from its input or (None) from where it stands, to its end.

        Returns
        -------
        Mapping or None
            The question that nobody answered, or not in :data:`WRONG_ANSWERS` tries, and at which the graph
            waits; None at its end.
        """
        self.control = self.control or RunControl()
        with _heard_by_all(self.control):
            return self._drive(graph, task, thread)

    def _drive(self, graph: Any, step: Any, thread: str) -> Mapping[str, Any] | None:
        wrong = 0
        while True:
            asked = self._stream(graph, step, thread)
            if asked is None:
                return None
            wrong = wrong + 1 if "error" in asked else 0
            if wrong >= WRONG_ANSWERS:
                return asked
            self._tell(RunEvent(kind="question", name="clarify", text=asked["question"]))
            said = check_not_async(self.answer(asked), "answer") if self.answer else None
            if said is None:
                return asked
            self._tell(RunEvent(kind="answer", name="clarify", text=said))
            step = Command(resume=said)

    def _tell(self, event: RunEvent) -> None:
        if self.watch:
            self.watch(event)

    def _stream(self, graph: Any, step: Any, thread: str) -> Mapping[str, Any] | None:
        mark, asked = time.perf_counter(), None
        stream = graph.stream(
            step,
            thread_config(thread),
            stream_mode="updates",
            subgraphs=True,
            durability="sync",
            control=self.control,
        )
        for place, update in stream:
            if place and place[-1].partition(":")[0] in _NODES:
                continue  # of an agent at work inside a node
            for name, change in update.items():
                now = time.perf_counter()
                self.took[name] = round(self.took.get(name, 0.0) + now - mark, 3)
                mark = now
                if name == "__interrupt__":
                    asked = change[0].value
                elif name == "daily_loop" and change.get("session"):
                    self._tell(RunEvent(kind="session", name=name, text=change["session"]))
                elif name in _NODES:
                    line = update_line(change or {}).removeprefix(f"{name}: ")
                    self._tell(RunEvent(kind="node", name=name, text=line))
        return asked


@contextmanager
def _heard_by_all(control: RunControl) -> Iterator[None]:
    """Ctrl-C interrupts the main thread, which waits for those of the nodes: they are told, too."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def interrupted(*_: object) -> None:
        control.request_drain(AT_ONCE)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def thread_config(thread: str) -> RunnableConfig:
    """The configuration of a thread."""
    return {"configurable": {"thread_id": thread}, "recursion_limit": STEP_LIMIT}


def state_of(graph: Any, thread: str) -> dict[str, Any]:
    """What a thread's state holds, with that of a subgraph that was stopped on its way."""
    snapshot = graph.get_state(thread_config(thread), subgraphs=True)
    state = dict(snapshot.values)
    for task in snapshot.tasks:
        if isinstance(task.state, StateSnapshot):
            state |= task.state.values
    return state
