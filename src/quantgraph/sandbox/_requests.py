"""The requests that a code process serves: cells in one namespace, cells at many moments."""

from __future__ import annotations

import ast
import contextlib
import io
import mmap
import random
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import CodeType
from typing import Any

import numpy as np
import pandas as pd

import quantgraph.state
from quantgraph._util.parsing import parse_code
from quantgraph.errors import CodeFailed, CodeMemoryExceeded, CodeRefused
from quantgraph.sandbox._lockdown import install_clock, set_clock_at_end
from quantgraph.sandbox._pandas_guards import (
    INVERT_NAME,
    add_invert_checks,
    invert,
    refuse_object_operators,
    refuse_other_imports,
)
from quantgraph.sandbox.wire._shared_frames import FramesReader, with_token
from quantgraph.sandbox.wire._wire import Block, Frames, Read, encode_signals, read_header
from quantgraph.state import Commit, DataState
from quantgraph.state.frames import MADE, FrozenFrame, freeze

_VALUE_LIMIT = 4_000


@dataclass(frozen=True, kw_only=True)
class CellOutcome:
    """Output, value and error of cells, as in :class:`~quantgraph.sandbox.CodeResult`; the error is JSON."""

    stdout: str = ""
    value: str = ""
    error: dict[str, Any] | None = None
    raised: BaseException | None = field(default=None, repr=False)


class Cell:
    """A cell, compiled once: its statements, and its last expression if it ends with one."""

    def __init__(self, source: str, number: int) -> None:
        self.name = f"<cell {number}>"
        self._lines = source.splitlines()
        self._code: tuple[CodeType, CodeType | None] | None = None
        self._compile_error: BaseException | None = None
        try:
            self._code = _compile(source, self.name)
        except BaseException as error:  # noqa: BLE001 - raised again when the cell runs
            self._compile_error = error

    def run(self, namespace: dict[str, Any], output: io.TextIOBase) -> CellOutcome:
        """Run the cell; exceptions, exits included, are in the outcome."""
        try:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                value = self._execute(namespace)
                return CellOutcome(value="" if value is None else repr(value)[:_VALUE_LIMIT])
        except BaseException as error:  # noqa: BLE001
            return CellOutcome(error=self._describe(error), raised=error)

    def _execute(self, namespace: dict[str, Any]) -> object:
        if self._code is None:
            raise self._compile_error or RuntimeError
        statements, last = self._code
        namespace[INVERT_NAME] = invert
        exec(statements, namespace)  # noqa: S102 - running code is the purpose
        return eval(last, namespace) if last else None  # noqa: S307

    def _describe(self, error: BaseException) -> dict[str, Any]:
        frames = traceback.walk_tb(error.__traceback__)
        lines = [line for frame, line in frames if frame.f_code.co_filename == self.name]
        line = lines[-1] if lines else getattr(error, "lineno", None)
        text = self._lines[line - 1].strip() if line and 0 < line <= len(self._lines) else ""
        return {
            "code": _error_code(error),
            "type": type(error).__name__,
            "message": _error_message(error),
            "line": line,
            "text": text[:200],
        }


def _compile(source: str, name: str) -> tuple[CodeType, CodeType | None]:
    tree = parse_code(source, name)
    add_invert_checks(tree)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = compile(ast.Expression(last.value), name, "eval") if isinstance(last, ast.Expr) else None
    return compile(tree, name, "exec", dont_inherit=True), value  # a dataclass cannot read types as text


def _error_message(error: BaseException) -> str:
    try:
        return str(error)[:1_000]
    except BaseException as another:  # noqa: BLE001 - str() of the code's own exception class may do anything
        return f"(its message raised {type(another).__name__})"


def _error_code(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return CodeMemoryExceeded.code
    cause: BaseException | None = error
    for _ in range(10):  # a library may have wrapped the refusal
        if isinstance(cause, PermissionError | socket.gaierror):
            return CodeRefused.code
        cause = cause and (cause.__cause__ or cause.__context__)
    return CodeFailed.code


def run_cells(cells: Sequence[Cell], namespace: dict[str, Any], output_limit: int) -> CellOutcome:
    """Run cells until one fails, and return the outcome of the last one that ran."""
    output, outcome = CappedOutput(output_limit), CellOutcome()
    for cell in cells:
        output = CappedOutput(output_limit)
        outcome = cell.run(namespace, output)
        if outcome.error:
            break
    return CellOutcome(stdout=output.text(), value=outcome.value, error=outcome.error, raised=outcome.raised)


def cell_namespace(store: DataState) -> dict[str, Any]:
    """Return the names that cells find in scope."""
    return {
        "__name__": "__strategy__",
        "pd": pd,
        "np": np,
        "GLOBAL_DATA_STATE": store,
        "snapshot": store.snapshot(),
    }


def new_signals(
    store: DataState, frames: Mapping[str, Mapping[str, FrozenFrame]]
) -> dict[str, dict[str, FrozenFrame]]:
    """Return by panel the signals, weights and scores that are not in ``frames``, or differ from those."""
    found: dict[str, dict[str, FrozenFrame]] = {panel: {} for panel in MADE}
    for panel in MADE:
        made, before = store.snapshot()[panel], frames.get(panel, {})
        for name in made:
            new, old = made.frozen(name), before.get(name)
            if old is None or not (np.shares_memory(new.values, old.values) or new.frame.equals(old.frame)):
                found[panel][name] = new
    for name in found["weights"]:  # its signal is made of it
        del found["signal"][name]
    return found


class CappedOutput(io.TextIOBase):
    """A text stream that keeps what is written up to a limit, and counts the rest."""

    def __init__(self, limit: int) -> None:
        self._parts: list[str] = []
        self._room = limit
        self._dropped = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Keep as much of the text as there is room for, and return its length."""
        kept = text[: self._room]
        if kept:
            self._parts.append(kept)
            self._room -= len(kept)
        self._dropped += len(text) - len(kept)
        return len(text)

    def text(self) -> str:
        """Return the kept text, and the number of dropped characters."""
        tail = f"\n… {self._dropped} more characters were dropped" if self._dropped else ""
        return "".join(self._parts) + tail


REQUEST_LIMIT = 8 << 30

Write = Callable[[Block], Any]


def serve_cells(header: dict[str, Any], frames: Frames, write: Write) -> None:
    """Run the cells of a request and write the reply."""
    with refuse_object_operators():
        cells, store = _compile_cells(header["cells"]), quantgraph.state.DataState()
        outcome, signals = _run(cells, frames, header["output_limit"], store)
    _reply(write, outcome, signals)


def serve_prefixes(header: dict[str, Any], memory: mmap.mmap, read: Read, write: Write) -> None:
    """Run the cells of a request once for each step that the host sends, until it hangs up."""
    cells, reader = _compile_cells(header["prefixes"]), FramesReader(memory, header)
    with refuse_object_operators():
        while True:
            try:
                step, _ = read_header(read, limit=REQUEST_LIMIT)
            except EOFError:
                return
            frames = reader.read(step["rows"])
            outcome, signals = _run(cells, frames, header["output_limit"], _StepState())
            if header["last_row"]:
                signals = {
                    panel: {name: _last_row(frame) for name, frame in made.items()}
                    for panel, made in signals.items()
                }
            _reply(write, outcome, signals)


def _last_row(signal: FrozenFrame) -> FrozenFrame:
    return FrozenFrame(signal.sessions[-1:], signal.symbols, signal.values[-1:])


def _compile_cells(sources: list[str]) -> list[Cell]:
    return [Cell(source, number) for number, source in enumerate(sources, start=1)]


class _StepState(DataState):
    """The store of one step: what is committed to it has a made-up name, and is not hashed."""

    _numbers = count()

    def _name(self, _: Commit) -> str:
        return f"step-{next(self._numbers)}"

    def _frozen(self, panel: str, frames: object) -> dict[str, FrozenFrame]:
        fresh = super()._frozen(panel, frames)
        return {name: with_token(frame, f"made-{next(self._numbers)}") for name, frame in fresh.items()}


def _run(
    cells: list[Cell], frames: Frames, output_limit: int, store: DataState
) -> tuple[CellOutcome, dict[str, dict[str, FrozenFrame]]]:
    # Every run draws different random numbers, so that an unseeded strategy is found to differ.
    random.seed()
    np.random.seed(random.getrandbits(32))  # noqa: NPY002 - the generator that generated code uses
    set_clock_at_end(frames)
    store.adopt(frames)
    # Code that imports the data state gets this one.
    quantgraph.state.GLOBAL_DATA_STATE = store
    with refuse_other_imports():
        outcome = run_cells(cells, cell_namespace(store), output_limit)
    return outcome, new_signals(store, frames)


def _reply(write: Write, outcome: CellOutcome, signals: Frames) -> None:
    header = {"stdout": outcome.stdout, "value": outcome.value, "error": outcome.error}
    for part in encode_signals(header, signals):
        write(part)


def preload() -> None:
    """Run a typical strategy once, so that every fork has what libraries import and build on first use."""
    import talib  # noqa: F401 - imported once for all forks

    install_clock()

    index = pd.date_range("2024-01-01", periods=30)
    close = freeze("ohlcv", "close", pd.DataFrame(np.ones((30, 2)), index=index, columns=["a", "b"]))
    cell = (
        "close = snapshot['ohlcv']['close']\n"
        "mean, rank = close.rolling(5).mean(), close.rank(axis=1, pct=True)\n"
        "signal = ((mean > close.shift(1)) & (rank > 0.5)).astype(float).where(mean.notna())\n"
        "GLOBAL_DATA_STATE.update('signal', {'s': signal})\n"
        "print(signal)\n"
        "signal.loc['2024-01-05':].iloc[-1]"
    )
    serve_cells({"cells": [cell], "output_limit": 1_000}, {"ohlcv": {"close": close}}, len)
