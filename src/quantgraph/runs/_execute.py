"""Executing a run: its graph is opened in its folder and streamed to its end, and the result is written.

In a notebook one line of the cell's output, which changes, shows how far it is.
"""

from __future__ import annotations

import copy
import signal
import sqlite3
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import wraps
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt, StateSnapshot

from quantgraph._util.database import storage_error
from quantgraph._util.files import stored_file
from quantgraph._util.texts import Language, Note, language_of
from quantgraph.broker.ledger import Ledger
from quantgraph.data import FrameSource
from quantgraph.errors import BadFile, BadOption, QuantGraphError, StorageUnavailable
from quantgraph.graph import create_trading_graph
from quantgraph.judgement import TRIES_FILE
from quantgraph.llm import AT_ONCE
from quantgraph.recording import Recorder, Recording
from quantgraph.recording.scope import Scope, in_scope, recorded_answer
from quantgraph.runs._outputs import (
    CHECKPOINTS_FILE,
    final_checksums,
    initial_result,
    open_question,
    run_outcome,
    save_outputs,
    write_result,
)
from quantgraph.runs._specification import RunSpec
from quantgraph.runs.folder._folder import Manifest
from quantgraph.runtime import (
    STEP_LIMIT,
    OpenResources,
    Resources,
    new_saver,
    open_resources,
    run_database_path,
)
from quantgraph.runtime.dialogue import OnClarify, RunEvent, check_not_async, update_line
from quantgraph.sandbox import ForkRunner
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph

MAX_INVALID_ANSWERS = 10
"""Invalid answers to one question after which the run stops."""

_NODES = ("reflection", "data_fetch", "signal_generate", "validate", "clarify", "report")
_SUBGRAPH = "signal/"
_LOCK_TIMEOUT = 60

T = TypeVar("T")
Saver = BaseCheckpointSaver[Any]


@dataclass(frozen=True, kw_only=True)
class OpenRun:
    """A compiled graph and what it works on."""

    graph: Any
    resources: OpenResources


def check_resources(resources: Resources) -> None:
    """Refuse what a run makes itself, in its folder."""
    for name in ("store", "recorder"):
        if getattr(resources, name) is not None:
            raise BadOption(f"resources.{name}: a run makes its own, in its folder", parameter=name)


@contextmanager
def opened_run(spec: RunSpec, run_id: str, folder: Path, resources: Resources) -> Iterator[OpenRun]:
    """Build the graph of a run in its folder, which must exist."""
    place = resources.ledger_place or run_database_path(folder.parent, folder.name)
    recorder = resources.recorder or Recorder(place)
    source, book = resources.source, spec.rules
    if isinstance(source, FrameSource) and spec.trade and book is not None:
        source = source.of_market(book.market)
    with ExitStack() as stack:
        stack.callback(recorder.close, run_id)
        own = replace(
            resources,
            source=source,
            recorder=recorder,
            checkpointer=stack.enter_context(_open_checkpointer(folder, resources.checkpointer)),
            store=resources.store or DataState(folder / "data"),
            ledger=stack.enter_context(Ledger(place)) if spec.trade else None,
            on_clarify=resources.on_clarify or cast("OnClarify", spec.on_clarify),
            questions="quantgraph",
            confirm=spec.confirm,
            split=spec.split,
            tries=resources.tries or folder.parent / TRIES_FILE,
        )
        resources = open_resources(own)
        if resources.makes_signal and isinstance(resources.runner, ForkRunner):
            resources.runner.start_early()
        graph: Any
        if spec.trade:
            graph = create_trading_graph(
                cash=spec.cash, rules=spec.rules, plan=spec.plan, approve=spec.approve, resources=resources
            )
        else:
            graph = create_signal_subgraph(resources=resources)
        yield OpenRun(graph=graph, resources=resources)


class _Progress:
    """Follows the stream of a run's graph: reports its events, answers its questions, times its nodes."""

    def __init__(self, run_id: str, resources: OpenResources) -> None:
        self._run_id, self._resources = run_id, resources
        self.report = resources.watch or (lambda _event: None)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.order_by_order = ""
        """Why compiled code has not traded all sessions."""
        self.stopped: dict[str, Any] = {}
        """Why the run ended before its graph did."""
        self.result: dict[str, Any] = {}
        self._tokens = sum(map(_known_tokens, self.recording.usage()))
        self._begun: dict[str, float] = {}
        self._invalid = 0

    @property
    def recording(self) -> Recording:
        """The open one: a run that pauses closes its recording and continues with another."""
        return self._resources.recorder.of(self._run_id)

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Take the time of a node of the run's graph or signal subgraph, with the nodes inside of it."""
        name = str(event["path"]).removeprefix(_SUBGRAPH)
        if event["event"] == "quantgraph.said":
            self.report(RunEvent(kind="said", name=name, text="\n".join(event["lines"])))
        if event["event"] == "quantgraph.orders":
            self.order_by_order = event["why"]
        if event["event"] == "quantgraph.proof":
            self.report(RunEvent(kind="proof", name=name, text=event["line"]))
        if event["event"] == "quantgraph.session":
            number, total = event["number"], event["sessions"]
            self.report(RunEvent(kind="traded", name=name, text=event["session"], number=number, total=total))
        if event["event"] == "quantgraph.model" and not event["served"]:
            self._tokens += _known_tokens(event)
            self.report(RunEvent(kind="tokens", name=name, number=self._tokens))
        if event["event"] != "quantgraph.node" or "/" in name:
            return
        if event["status"] == "started":
            self._begun[name] = time.perf_counter()
            self.report(RunEvent(kind="started", name=name))
        else:
            self.seconds[name] = round(self.seconds[name] + time.perf_counter() - self._begun.pop(name), 3)

    def on_update(self, namespace: tuple[str, ...], update: Mapping[str, Any]) -> Interrupt | None:
        """Report a step; return the interrupt at which the graph waits, if it does."""
        if namespace and namespace[-1].partition(":")[0] in _NODES:
            return None  # a step of an agent inside a node
        pause = None
        for name, change in update.items():
            if name == "__interrupt__":
                pause = change[0]
            elif name == "daily_loop" and change.get("session"):
                self.report(RunEvent(kind="session", name=name, text=change["session"]))
            elif name in _NODES:
                line = update_line(change or {}).removeprefix(f"{name}: ")
                self.report(RunEvent(kind="node", name=name, text=line))
        return pause

    def answer(self, question: Mapping[str, Any]) -> str | None:
        """The recorded answer, or the resources'; None if the run stops at the question."""
        self._invalid = self._invalid + 1 if "error" in question else 0
        if self._invalid < MAX_INVALID_ANSWERS:
            self.report(RunEvent(kind="question", name="clarify", text=question["question"]))
            known, ask = recorded_answer(self.recording, question["id"]), self._resources.answer
            answer = known if known or ask is None else check_not_async(ask(question), "answer")
            if answer is not None:
                self.report(RunEvent(kind="answer", name="clarify", text=answer))
                return answer
        error = f"needs_answer: {question['reason']}"
        self.stopped = {"ended_because": "needs_answer", "error": error, "asked": dict(question)}
        self.stopped["open_question"] = open_question(question)
        return None


def _known_tokens(call: Mapping[str, Any]) -> int:
    return (call["prompt_tokens"] or 0) + (call["completion_tokens"] or 0)


def execute_run(
    manifest: Manifest, folder: Path, opened: OpenRun, *, task: Mapping[str, Any] | None, thread: str
) -> dict[str, Any]:
    """Stream the graph of a run, from its input or (None) from its checkpoint, and write its result.

    Recorded answers are used again. The run stops at an unanswered question, and after
    :data:`MAX_INVALID_ANSWERS`.
    """
    control, step = opened.resources.control or RunControl(), cast("Any", task)
    with _writing_result(manifest, folder, opened, thread) as progress, _interrupt_stops_all_threads(control):
        while True:
            pause: Interrupt | None = None
            for namespace, mode, part in opened.graph.stream(
                step,
                _thread_config(thread),
                stream_mode=["updates", "custom"],
                subgraphs=True,
                durability="sync",
                control=control,
            ):
                if mode == "custom":
                    progress.on_event(part)
                else:
                    pause = progress.on_update(namespace, part) or pause
            answer = None if pause is None else progress.answer(pause.value)
            if pause is None or answer is None:
                break
            step = Command(resume={pause.id: answer})
    return progress.result


@contextmanager
def _writing_result(manifest: Manifest, folder: Path, opened: OpenRun, thread: str) -> Iterator[_Progress]:
    """Write the result when the block ends, also if the run is stopped in it."""
    progress = _Progress(manifest.run_id, opened.resources)
    result = initial_result(manifest, folder)
    with _failure_in_result(folder, dict(result)):
        write_result(folder, result)
        try:
            yield progress
        except (KeyboardInterrupt, EOFError, GraphDrained):
            remedy = f"'quantgraph resume {folder}' goes on with it"
            error = f"cancelled: the run was stopped before its end; {remedy}"
            progress.stopped = {"ended_because": "cancelled", "error": error}
        state = thread_state(opened.graph, thread)
        with in_scope(Scope(recording=progress.recording, path="outcome")):  # data that nodes saw, not newer
            result |= run_outcome(state, opened.resources.source)
        result |= save_outputs(folder, manifest.spec.question, state, opened.resources.store)
        result |= {"usage": progress.recording.usage(), "cached": progress.recording.cached()}
        result |= {"seconds": dict(progress.seconds), "order_by_order": progress.order_by_order}
        result |= progress.stopped | {"state": "ended"}
        # A late reply may still be recorded; the record of a replay belongs to another run.
        unsettled = result["ended_because"] == "cancelled" or progress.recording.replays
        write_result(folder, result, {} if unsettled else final_checksums(folder, progress.recording))
    progress.result = result


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
    """State of a thread, with the subgraph's in which it stopped."""
    snapshot = graph.get_state(_thread_config(thread), subgraphs=True)
    state = dict(snapshot.values)
    for task in snapshot.tasks:
        if isinstance(task.state, StateSnapshot):
            state |= task.state.values
    return state


def thread_question(graph: Any, thread: str) -> Mapping[str, Any] | None:
    """The question at which a thread waits, in a subgraph if it waits there; None if at none."""
    pauses = _pauses(graph.get_state(_thread_config(thread), subgraphs=True))
    return pauses[0].value if pauses else None


def _pauses(snapshot: StateSnapshot) -> list[Interrupt]:
    """The open interrupts; a graph still shows a subgraph's that have been answered."""
    pauses: list[Interrupt] = []
    for task in snapshot.tasks:
        pauses += _pauses(task.state) if isinstance(task.state, StateSnapshot) else task.interrupts
    return pauses


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


@contextmanager
def _open_checkpointer(folder: Path, saver: Saver | None) -> Iterator[Saver]:
    """The caller's saver, or one in the folder that is closed afterwards."""
    if saver is not None:
        yield _with_storage_errors(saver, f"the {type(saver).__name__} of the run")
        return
    path = folder / CHECKPOINTS_FILE
    stored_file(folder, CHECKPOINTS_FILE)
    with _storage_errors(path):
        connection = sqlite3.connect(path, check_same_thread=False, timeout=_LOCK_TIMEOUT)
    with closing(connection):
        own = new_saver(connection)
        with _storage_errors(path):
            # A power cut may take the last checkpoints: the record and the ledger replace them.
            connection.execute("PRAGMA synchronous=NORMAL").close()
            cast("Any", own).setup()
        yield _with_storage_errors(own, path)


def _with_storage_errors(saver: Saver, place: object) -> Saver:
    """A copy of the saver that raises our errors; LangGraph still sees the parameters of its methods."""

    def wrapped(method: Callable[..., T]) -> Callable[..., T]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> T:
            with _storage_errors(place):
                return method(*args, **kwargs)

        return call

    kind, result = type(saver), copy.copy(saver)
    methods = {name: wrapped(getattr(kind, name)) for name in ("get_tuple", "put", "put_writes")}
    result.__class__ = type(kind.__name__, (kind,), methods)
    return result


@contextmanager
def _storage_errors(place: object) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if unavailable := storage_error(error, place):
            raise unavailable from error
        if not isinstance(error, sqlite3.DatabaseError) or isinstance(error, sqlite3.ProgrammingError):
            raise  # a defect, such as a closed connection
        raise BadFile(
            f"{place} cannot be read: {error}; without the file the run goes on from its record",
            file=str(place),
        ) from error


_STEPS = {
    "reflection": Note(zh="理解句子", en="reading the sentence"),
    "data_fetch": Note(zh="取数据", en="fetching data"),
    "signal_generate": Note(zh="写信号代码", en="writing the signal's code"),
    "validate": Note(zh="检查数据与未来函数", en="checking data and look-ahead"),
    "clarify": Note(zh="提问", en="asking"),
    "daily_loop": Note(zh="逐日交易", en="trading day by day"),
    "decision": Note(zh="逐日交易", en="trading day by day"),
    "approval": Note(zh="等待批准", en="waiting for approval"),
    "report": Note(zh="计算指标", en="computing the numbers"),
}
"""What a node does, in words."""
_SESSIONS = 20
"""Between two changes of the line: each is a message to the browser."""


def step_words(node: str, language: Language) -> str:
    """What a node does, for people; the name of a node that is not ours."""
    return _STEPS[node].text(language) if node in _STEPS else node


def notebook_watch(question: str) -> Callable[[RunEvent], None] | None:
    """What shows the events of a run in a notebook's cell; None outside of a notebook."""
    shell = sys.modules.get("IPython")
    if shell is None or getattr(shell.get_ipython(), "kernel", None) is None:
        return None
    language, output = language_of(question), _Line()

    def watch(event: RunEvent) -> None:
        if event.kind == "started":
            output.show(f"{step_words(event.name, language)} …")
        elif event.kind == "traded" and (event.number % _SESSIONS == 0 or event.number == event.total):
            output.show(f"{step_words('decision', language)}: {event.number:,} / {event.total:,}")

    return watch


class _Line:
    """A line of a cell's output, which the next one replaces."""

    def __init__(self) -> None:
        self._output: Any = None

    def show(self, line: str) -> None:
        shown: Any = import_module("IPython.display")
        made = shown.HTML(escape(line))
        if self._output is None:
            self._output = shown.display(made, display_id=True)
        else:
            self._output.update(made)
