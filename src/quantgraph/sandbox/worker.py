"""The process in which generated code runs.

Started by :mod:`quantgraph.sandbox.runner` as ``python -P -s -m quantgraph.sandbox.worker``. With a
socket it stays warm and forks once for each call; with ``--once`` it serves one call on stdin and
stdout. It has an empty environment and an empty working folder, and gets nothing but the request.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import random
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import quantgraph.state
from quantgraph._frames import FrozenFrame
from quantgraph.market.moment import Moment
from quantgraph.sandbox.wire import pack, unpack

_REQUEST_LIMIT = 8 << 30
_TIMEOUT_TEXT = 20
_VALUE_LIMIT = 4_000


class _Capped(io.TextIOBase):
    """Text kept up to a limit; what comes after is counted and dropped."""

    def __init__(self, limit: int) -> None:
        self._parts: list[str] = []
        self._room = limit
        self._dropped = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: self._room]
        if kept:
            self._parts.append(kept)
            self._room -= len(kept)
        self._dropped += len(text) - len(kept)
        return len(text)

    def text(self) -> str:
        tail = f"\n… {self._dropped} more characters were dropped" if self._dropped else ""
        return "".join(self._parts) + tail


def execute(
    header: Mapping[str, Any], frames: Mapping[str, Mapping[str, FrozenFrame]]
) -> list[bytes | memoryview]:
    """Run the cells of a request one after the other and return the packed reply."""
    store = quantgraph.state.DataState()
    store.adopt(frames)
    # Whatever way the code imports it, it is this one.
    quantgraph.state.GLOBAL_DATA_STATE = store
    namespace: dict[str, Any] = {
        "__name__": "__strategy__",
        "pd": pd,
        "np": np,
        "GLOBAL_DATA_STATE": store,
        "snapshot": store.snapshot(),
    }
    output, value, error = _Capped(header["output_limit"]), "", None
    for number, cell in enumerate(header["cells"], start=1):
        output = _Capped(header["output_limit"])
        value, error = _run_cell(cell, number, namespace, output)
        if error:
            break
    given = {name: frame.digest for name, frame in frames.get("signal", {}).items()}
    signals = store.view(_END).frozen()["signal"]
    fresh = {name: frame for name, frame in signals.items() if given.get(name) != frame.digest}
    return _reply({"signal": fresh}, stdout=output.text(), value=value[:_VALUE_LIMIT], error=error)


def _reply(
    frames: Mapping[str, Mapping[str, FrozenFrame]],
    *,
    stdout: str = "",
    value: str = "",
    error: dict[str, Any] | None = None,
) -> list[bytes | memoryview]:
    return pack({"stdout": stdout, "value": value, "error": error}, frames)


_END = Moment.at("2262-01-01")


def _run_cell(
    cell: str, number: int, namespace: dict[str, Any], output: _Capped
) -> tuple[str, dict[str, Any] | None]:
    name = f"<cell {number}>"
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            tree = ast.parse(cell, name)
            last = tree.body[-1] if tree.body else None
            if isinstance(last, ast.Expr):
                tree.body.pop()
            exec(compile(tree, name, "exec"), namespace)  # noqa: S102 - running code is what this process is for
            if not isinstance(last, ast.Expr):
                return "", None
            expression = ast.Expression(last.value)
            result = eval(compile(expression, name, "eval"), namespace)  # noqa: S307
            return ("" if result is None else repr(result)), None
    except BaseException as error:  # noqa: BLE001 - whatever the code raises, exits included, is its result
        return "", _describe(error, name, cell)


def _describe(error: BaseException, name: str, cell: str) -> dict[str, Any]:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    line = lines[-1] if lines else getattr(error, "lineno", None)
    source = cell.splitlines()
    text = source[line - 1].strip() if line and 0 < line <= len(source) else ""
    kind = "code_memory" if isinstance(error, MemoryError) else "code_failed"
    return {
        "code": kind,
        "type": type(error).__name__,
        "message": str(error)[:1_000],
        "line": line,
        "text": text[:200],
    }


def _limit(memory: int, seconds: float) -> None:
    if sys.platform == "win32":
        return
    import resource

    wanted = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0, "RLIMIT_NOFILE": 64, "RLIMIT_CPU": int(seconds) + 2}
    statm = Path("/proc/self/statm")
    if statm.exists():
        pages = int(statm.read_text(encoding="ascii").split()[0])
        wanted["RLIMIT_AS"] = pages * resource.getpagesize() + memory
    for key, value in wanted.items():
        number = getattr(resource, key)
        hard = resource.getrlimit(number)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)  # noqa: PLW2901
        resource.setrlimit(number, (value, value))


def _serve(read: Callable[[int], bytes | bytearray], write: Callable[[bytes | memoryview], Any]) -> None:
    header, frames = unpack(read, limit=_REQUEST_LIMIT)
    # Every call draws its own randomness, so that an unseeded strategy is seen to be one.
    random.seed()
    np.random.seed()  # noqa: NPY002 - the global generator is the one that generated code uses
    _limit(header["memory"], header["seconds"])
    for part in execute(header, frames):
        write(part)


def _fork(connection: socket.socket, control: socket.socket) -> int | None:
    """Serve a connection in a child; None if there can be none, which the connection is told."""
    try:
        child = os.fork()
    except OSError as error:
        told = {"code": "code_failed", "type": type(error).__name__, "line": None, "text": ""}
        told["message"] = f"no process could be made for the code: {error}"
        with connection, contextlib.suppress(OSError):
            for part in _reply({}, error=told):
                connection.sendall(part)
        return None
    if child:
        connection.close()
        return child
    try:
        os.setsid()
        control.close()
        signal.set_wakeup_fd(-1)
        with connection, connection.makefile("rb") as stream:
            _serve(lambda size: _exactly(stream, size), connection.sendall)
    finally:
        os._exit(0)


def _exactly(stream: Any, size: int) -> bytes:
    data: bytes = stream.read(size)
    if len(data) != size:
        raise EOFError("the request ended early")
    return data


def _serve_forks(control: socket.socket) -> None:
    """Fork a child for each connection handed over, and end it at its deadline."""
    deadlines: dict[int, float] = {}
    while True:
        now = time.monotonic()
        for child, deadline in list(deadlines.items()):
            if os.waitpid(child, os.WNOHANG)[0]:
                del deadlines[child]
            elif now >= deadline:
                _end(child)
        wait = 0.2 if deadlines else None
        if not select.select([control], [], [], wait)[0]:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, _TIMEOUT_TEXT, 1)
        if not message:
            break  # the host has closed its end, or is no more
        if not descriptors:
            continue  # lost for want of a free number: its other end sees the connection close
        born = _fork(socket.socket(fileno=descriptors[0]), control)
        if born:
            deadlines[born] = time.monotonic() + float(message)
    for child in deadlines:
        _end(child)
    # The host removes this folder, with all that is in it; one that was killed could not.
    with contextlib.suppress(OSError):
        Path.cwd().rmdir()


def _end(child: int) -> None:
    for kill in (os.killpg, os.kill):  # it may not lead a group of its own yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    """Serve forks on the inherited socket whose number is given, or one call with ``--once``."""
    import talib  # noqa: F401 - imported once, so that every fork has it

    if arguments == ["--once"]:
        reply = os.dup(1)
        os.dup2(2, 1)
        with os.fdopen(reply, "wb") as out:
            _serve(lambda size: _exactly(sys.stdin.buffer, size), out.write)
        return
    with socket.socket(fileno=int(arguments[0])) as control, contextlib.suppress(ConnectionError):
        control.sendall(b"ready")
        _serve_forks(control)


if __name__ == "__main__":
    main(sys.argv[1:])
