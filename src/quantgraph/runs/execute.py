"""Executing a run: its graph is streamed to its end, questions are answered, the result is written."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command, StateSnapshot

from quantgraph.data import MarketDataSource
from quantgraph.errors import QuantGraphError, StorageUnavailable
from quantgraph.llm.cancellation import AT_ONCE
from quantgraph.recording import Recording, Scope, in_scope, recorded_answer
from quantgraph.recording.recorded_source import recorded_source
from quantgraph.runs.manifest import Manifest
from quantgraph.runs.resources import OpenRun
from quantgraph.runs.run_result import (
    final_checksums,
    initial_result,
    run_outcome,
    save_outputs,
    write_result,
)
from quantgraph.runtime.events import update_line
from quantgraph.runtime.nested_graphs import STEP_LIMIT
from quantgraph.runtime.questions import check_not_async

__all__ = ["Answer", "Driver", "RunEvent", "execute_run", "thread_state"]

Answer = Callable[[Mapping[str, Any]], str | None]
"""Given a question, its answer; None leaves it unanswered."""

MAX_INVALID_ANSWERS = 10
"""Invalid answers to one question after which the run stops."""

_NODES = ("reflection", "data_fetch", "signal_generate", "validate", "clarify", "report")


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """Progress of a run, to be shown.

    ``node``: a node has finished, ``text`` is the last line of the history. ``session``: a session was
    traded, ``text`` is its date. ``question`` and ``answer``: their text.
    """

    kind: Literal["node", "session", "question", "answer"]
    name: str
    text: str = ""


@dataclass(kw_only=True)
class Driver:
    """Streams a graph, reports its events and answers its questions.

    Attributes
    ----------
    answer
        Called with each question; None leaves it unanswered.
    watch
        Called with each event.
    control
        A drain that is requested here ends the stream with ``GraphDrained`` at the next step, or before a
        model is called (again); with :data:`~quantgraph.llm.cancellation.AT_ONCE` as its reason, also during
        a model call.
    seconds
        Time spent by node so far.
    """

    answer: Answer | None = None
    watch: Callable[[RunEvent], None] | None = None
    control: RunControl | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def drive(self, graph: Any, task: Mapping[str, Any] | None, thread: str) -> Mapping[str, Any] | None:
        """Stream the graph on a thread, from its input or (None) from its checkpoint, to its end.

        Returns
        -------
        Mapping or None
            The question at which the graph waits, unanswered or after :data:`MAX_INVALID_ANSWERS`; None at
            the graph's end.
        """
        self.control = self.control or RunControl()
        with _interrupt_stops_all_threads(self.control):
            return self._drive(graph, task, thread)

    def _drive(self, graph: Any, step: Any, thread: str) -> Mapping[str, Any] | None:
        invalid = 0
        while True:
            question = self._stream(graph, step, thread)
            if question is None:
                return None
            invalid = invalid + 1 if "error" in question else 0
            if invalid >= MAX_INVALID_ANSWERS:
                return question
            self._report(RunEvent(kind="question", name="clarify", text=question["question"]))
            answer = check_not_async(self.answer(question), "answer") if self.answer else None
            if answer is None:
                return question
            self._report(RunEvent(kind="answer", name="clarify", text=answer))
            step = Command(resume=answer)

    def _report(self, event: RunEvent) -> None:
        if self.watch:
            self.watch(event)

    def _stream(self, graph: Any, step: Any, thread: str) -> Mapping[str, Any] | None:
        mark, question = time.perf_counter(), None
        stream = graph.stream(
            step,
            _thread_config(thread),
            stream_mode="updates",
            subgraphs=True,
            durability="sync",
            control=self.control,
        )
        for namespace, update in stream:
            if namespace and namespace[-1].partition(":")[0] in _NODES:
                continue  # a step of an agent inside a node
            for name, change in update.items():
                now = time.perf_counter()
                self.seconds[name] = round(self.seconds.get(name, 0.0) + now - mark, 3)
                mark = now
                if name == "__interrupt__":
                    question = change[0].value
                elif name == "daily_loop" and change.get("session"):
                    self._report(RunEvent(kind="session", name=name, text=change["session"]))
                elif name in _NODES:
                    line = update_line(change or {}).removeprefix(f"{name}: ")
                    self._report(RunEvent(kind="node", name=name, text=line))
        return question


@contextmanager
def _interrupt_stops_all_threads(control: RunControl) -> Iterator[None]:
    """Ctrl-C interrupts only the main thread, which waits for the nodes' threads: drain those, too."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
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


def _thread_config(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}, "recursion_limit": STEP_LIMIT}


def thread_state(graph: Any, thread: str) -> dict[str, Any]:
    """State of a thread, with that of a subgraph in which it stopped."""
    snapshot = graph.get_state(_thread_config(thread), subgraphs=True)
    state = dict(snapshot.values)
    for task in snapshot.tasks:
        if isinstance(task.state, StateSnapshot):
            state |= task.state.values
    return state


def execute_run(  # noqa: PLR0917 - one call, in order
    manifest: Manifest,
    folder: Path,
    opened: OpenRun,
    driver: Driver,
    source: MarketDataSource,
    task: Mapping[str, Any] | None,
    thread: str,
) -> dict[str, Any]:
    """Drive the graph of a run and write its result; recorded answers are used again.

    Parameters
    ----------
    task, thread
        See :meth:`Driver.drive`.

    Returns
    -------
    dict
        The content of ``result.json``.

    Raises
    ------
    Exception
        An error that does not end the run normally: a storage that fails (``StorageUnavailable``), a defect
        in the caller's code or ours. ``result.json`` says ``failed`` then, and the run can be resumed after
        the repair. The ``data`` of a ``QuantGraphError`` has ``run_id`` and ``run_dir``.
    """
    ask = driver.answer

    def recording() -> Recording:  # a run that pauses closes its recording and continues with another
        return opened.recorder.of(manifest.run_id)

    driver.answer = lambda question: (
        recorded_answer(recording(), question["id"]) or (ask(question) if ask else None)
    )
    result = initial_result(manifest, folder)
    with _failure_in_result(folder, dict(result)):
        write_result(folder, result)
        stopped: dict[str, Any] = {}
        try:
            question = driver.drive(opened.graph, task, thread)
            if question is not None:
                error = f"needs_answer: {question['reason']}"
                stopped = {"ended_because": "needs_answer", "error": error, "asked": dict(question)}
        except (KeyboardInterrupt, EOFError, GraphDrained):
            remedy = f"'quantgraph resume {folder}' goes on with it"
            error = f"cancelled: the run was stopped before its end; {remedy}"
            stopped = {"ended_because": "cancelled", "error": error}
        state = thread_state(opened.graph, thread)
        with in_scope(Scope(recording=recording(), path="outcome")):  # the data that the nodes saw, not newer
            result |= run_outcome(state, recorded_source(source))
        result |= save_outputs(folder, manifest.spec.question, state, opened.store)
        result |= {"usage": recording().usage(), "cached": recording().cached()}
        result |= {"seconds": driver.seconds} | stopped | {"state": "ended"}
        # A late reply may still be recorded; the record of a replay belongs to another run.
        unsettled = result["ended_because"] == "cancelled" or recording().replays
        write_result(folder, result, {} if unsettled else final_checksums(folder, recording()))
    return result


@contextmanager
def _failure_in_result(folder: Path, initial: Mapping[str, Any]) -> Iterator[None]:
    """Write an exception into ``result.json``; if that fails, the file still says ``running``."""
    try:
        yield
    except Exception as error:
        line = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if isinstance(error, QuantGraphError):
            line = error.line
            error.data |= {"run_id": initial["run_id"], "run_dir": initial["run_dir"]}
        with suppress(StorageUnavailable):
            write_result(folder, {**initial, "state": "failed", "error": line})
        raise
