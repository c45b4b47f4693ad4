"""A watch on a run: it looks for sentinels in everything that the run outputs."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Self

import pandas as pd
from canary_data import CanaryStore
from canary_sentinels import find_canaries
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tracers.context import register_configure_hook

from quantgraph.broker.ledger import Ledger
from quantgraph.state import DataState

_LISTENER: ContextVar[BaseCallbackHandler | None] = ContextVar("quantgraph_canaries", default=None)
register_configure_hook(_LISTENER, inheritable=True)

_SHOWN = 20


class CanaryFound(AssertionError):
    """A run output something that it could not know."""


class CanaryWatch:
    """Context manager that collects a run's output, and fails at its end if a sentinel is in it.

    It receives the prompts and replies of models, the arguments, results and errors of tools, the updates
    of nodes, log records of every level, and the error that ends the run, from any graph, agent or
    thread.

    Examples
    --------
    >>> with CanaryWatch() as watch:
    ...     watch.see("total", 12.5)
    >>> watch.transcript
    ('total: 12.5',)
    """

    def __init__(self, store: CanaryStore | None = None) -> None:
        self.found: list[str] = []
        self._transcript: list[str] = []
        self._store = store
        self._lock = threading.Lock()  # nodes and tools may run in parallel
        self._listener = _Listener(self)
        self._logs = _Logs(self)
        self._before: tuple[Token[BaseCallbackHandler | None], int] | None = None

    @property
    def transcript(self) -> tuple[str, ...]:
        """The output, see above; parallel output is in any order."""
        with self._lock:
            return tuple(self._transcript)

    def see(self, place: str, thing: object, *, transcript: bool = True) -> None:
        """Search some output of the run, and add it to the transcript."""
        found, text = find_canaries(thing), _text(thing) if transcript else ""
        with self._lock:
            self.found += [f"{place} {where}" for where in found]
            if transcript:
                self._transcript.append(f"{place}: {text}")

    def see_signals(self, store: DataState, ref: str) -> None:
        """Search the signals of a commit, as they were committed."""
        for name, frame in DataState.snapshot(store, ref)["signal"].items():
            self.see(f"signal {name}", frame)

    def see_ledger(self, ledger: Ledger, run_id: str) -> None:
        """Search every journal line of a run."""
        for line in ledger.journal(run_id):
            self.see(f"ledger {run_id} line {line['line']}", line)

    def __enter__(self) -> Self:
        root = logging.getLogger()
        self._before = _LISTENER.set(self._listener), root.level
        root.addHandler(self._logs)
        root.setLevel(logging.NOTSET)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._before is not None
        token, level = self._before
        _LISTENER.reset(token)
        logging.getLogger().removeHandler(self._logs)
        logging.getLogger().setLevel(level)
        if error is not None:
            self.see("the run ended with", error)
        found = list(dict.fromkeys([*self.found, *(self._store.leaks if self._store else ())]))
        if found:
            more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
            raise CanaryFound(
                "\n".join(["the run output what it could not know:", *found[:_SHOWN], *more])
            ) from error


def differences(one: CanaryWatch, other: CanaryWatch) -> list[str]:
    """Return what only one of two runs output, in any order; empty if the sentinels changed nothing."""
    first, second = Counter(one.transcript), Counter(other.transcript)
    return [
        *(f"only the first said {said}" for said in (first - second).elements()),
        *(f"only the second said {said}" for said in (second - first).elements()),
    ]


class _Listener(BaseCallbackHandler):
    """Receives the events of models, tools and nodes from LangChain."""

    run_inline = True
    raise_error = True

    def __init__(self, watch: CanaryWatch) -> None:
        self._watch = watch

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **_: Any
    ) -> None:
        self._watch.see("prompt", [message for turn in messages for message in turn])

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        for generation in (each for turn in response.generations for each in turn):
            said = generation.message if isinstance(generation, ChatGeneration) else generation.text
            self._watch.see("reply", said)

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        self._watch.see("error of a model", error)

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, **_: Any) -> None:
        self._watch.see("arguments of a tool", input_str, transcript=False)

    def on_tool_end(self, output: Any, **_: Any) -> None:
        self._watch.see("result of a tool", output)

    def on_tool_error(self, error: BaseException, **_: Any) -> None:
        self._watch.see("error of a tool", error)

    def on_chain_end(self, outputs: Any, **_: Any) -> None:
        self._watch.see("update of a node", outputs, transcript=False)

    def on_chain_error(self, error: BaseException, **_: Any) -> None:
        self._watch.see("error of a node", error, transcript=False)


class _Logs(logging.Handler):
    def __init__(self, watch: CanaryWatch) -> None:
        super().__init__()
        self._watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._watch.see(f"log of {record.name}", [record.getMessage(), error], transcript=False)


def _text(thing: object) -> str:
    if isinstance(thing, BaseMessage):
        calls = (
            [(call["name"], call["args"]) for call in thing.tool_calls]
            if isinstance(thing, AIMessage)
            else []
        )
        return f"{thing.type}: {thing.text}" + (f" {calls}" if calls else "")
    if isinstance(thing, pd.DataFrame):
        return str(thing.to_csv())
    if isinstance(thing, BaseException):
        return f"{type(thing).__name__}: {thing}"
    if isinstance(thing, list):
        return "\n".join(_text(each) for each in thing)
    return str(thing)
