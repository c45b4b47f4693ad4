"""Running cells of Python source one after the other in one namespace."""

from __future__ import annotations

import ast
import contextlib
import io
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np
import pandas as pd

from quantgraph._util.parsed_code import parse_code
from quantgraph.errors import CodeFailed, CodeMemoryExceeded, CodeRefused
from quantgraph.sandbox.object_operators import INVERT_NAME, add_invert_checks, invert
from quantgraph.state import DataState
from quantgraph.state.frames import FrozenFrame

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
        return self.attempt(lambda: self.execute(namespace), output)

    def execute(self, namespace: dict[str, Any]) -> object:
        """Run the cell and return the value of its last expression, None without one."""
        if self._code is None:
            raise self._compile_error or RuntimeError
        statements, last = self._code
        namespace[INVERT_NAME] = invert
        exec(statements, namespace)  # noqa: S102 - running code is the purpose
        return eval(last, namespace) if last else None  # noqa: S307

    def attempt(self, work: Callable[[], object], output: io.TextIOBase) -> CellOutcome:
        """Call a function that runs code of the cell; exceptions, exits included, are in the outcome."""
        try:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                value = work()
                return CellOutcome(value="" if value is None else repr(value)[:_VALUE_LIMIT])
        except BaseException as error:  # noqa: BLE001
            return CellOutcome(error=self._describe(error), raised=error)

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
    return compile(tree, name, "exec"), value


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


def new_signals(store: DataState, frames: Mapping[str, Mapping[str, FrozenFrame]]) -> dict[str, FrozenFrame]:
    """Return the signals in ``store`` that are not in ``frames``, or differ from those."""
    old_signals = frames.get("signal", {})
    signals = store.snapshot()["signal"]
    found: dict[str, FrozenFrame] = {}
    for name in signals:
        frame, old = signals[name], old_signals.get(name)
        values = frame.to_numpy()
        if old is None or not (np.shares_memory(values, old.values) or frame.equals(old.frame)):
            found[name] = FrozenFrame(frame.index.to_numpy(), tuple(frame.columns), values)
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
