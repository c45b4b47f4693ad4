"""Running generated code in another process, with a time and a memory limit.

This keeps a strategy's mistakes (an endless loop, 50 GB, ``exit()``) away from the host and from the
data. It is not yet a barrier against code that means harm: see the README's limits.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pandas as pd

from quantgraph._frames import FrozenFrame
from quantgraph.errors import CodeFailed, CodeMemoryExceeded, CodeTimeout
from quantgraph.sandbox.wire import Frames, pack, unpack

__all__ = ["CodeResult", "CodeRunner", "ForkRunner", "FreshRunner", "default_runner"]

_REPLY_LIMIT = 1 << 30
_GRACE = 1.0


@dataclass(frozen=True, kw_only=True)
class CodeResult:
    """What a run of cells gave.

    Attributes
    ----------
    stdout
        What the last cell printed, cut at the output limit.
    value
        ``repr`` of the last cell's last expression, empty if it was a statement or None.
    signals
        The frames handed to ``GLOBAL_DATA_STATE.update("signal", …)``: values 1, 0, -1, NaN.
    error
        What the code raised, or None.
    """

    stdout: str = ""
    value: str = ""
    signals: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    error: CodeFailed | None = None
    seconds: float = 0.0


@runtime_checkable
class CodeRunner(Protocol):
    """Runs cells over frames somewhere the host cannot be harmed from."""

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run ``cells`` in order in one fresh namespace and return the last one's output and all signals.

        The namespace has ``pd``, ``np``, ``GLOBAL_DATA_STATE`` (holding ``frames`` and nothing else) and
        its ``snapshot``. Errors of the code are in the result, they are not raised.
        """


class _ProcessRunner:
    """What both runners share: the request, and reading the reply with distrust."""

    def __init__(self, *, timeout: float = 30.0, memory_mb: int = 2048, output_limit: int = 20_000) -> None:
        self.timeout = timeout
        self.memory_mb = memory_mb
        self.output_limit = output_limit

    def _request(self, cells: Sequence[str], frames: Frames) -> list[bytes | memoryview]:
        header = {
            "cells": list(cells),
            "memory": self.memory_mb << 20,
            "seconds": self.timeout,
            "output_limit": self.output_limit,
        }
        return pack(header, frames)

    def _result(self, header: Mapping[str, Any], frames: Frames, started: float) -> CodeResult:
        signals: Mapping[str, FrozenFrame] = frames.get("signal", {})
        return CodeResult(
            stdout=str(header["stdout"]),
            value=str(header["value"]),
            signals={name: frame.frame for name, frame in signals.items()},
            error=self._error(header["error"]) if header["error"] else None,
            seconds=time.perf_counter() - started,
        )

    def _error(self, told: Mapping[str, Any]) -> CodeFailed:
        place = f"line {told['line']} ({told['text']}): " if told.get("line") else ""
        facts = {"type": told["type"], "cell_line": told.get("line")}
        if told["code"] == CodeMemoryExceeded.code:
            return CodeMemoryExceeded(
                f"{place}more than {self.memory_mb} MB of memory was asked for", **facts
            )
        return CodeFailed(f"{place}{told['type']}: {told['message']}", **facts)

    def _gone(self, started: float) -> CodeResult:
        seconds = time.perf_counter() - started
        error: CodeFailed
        if seconds >= self.timeout:
            error = CodeTimeout(
                f"the code ran for more than {self.timeout:g} s and was stopped; is there an endless loop?"
            )
        else:
            error = CodeFailed(
                "the code's process died without a word (a crash in a library, or it was killed)"
            )
        return CodeResult(error=error, seconds=seconds)


class FreshRunner(_ProcessRunner):
    """A new interpreter for each call: works everywhere, costs about a second."""

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run cells, see :class:`CodeRunner`."""
        started = time.perf_counter()
        with (
            tempfile.TemporaryDirectory(prefix="quantgraph-code-") as folder,
            subprocess.Popen(
                [*_PYTHON, "--once"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                cwd=folder,
            ) as process,
        ):
            try:
                request = b"".join(self._request(cells, frames))
                reply, _ = process.communicate(request, timeout=self.timeout + _START)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                return self._gone(started)
        source = memoryview(reply)

        def read(size: int) -> bytes:
            nonlocal source
            part, source = bytes(source[:size]), source[size:]
            if len(part) != size:
                raise EOFError
            return part

        try:
            header, signals = unpack(read, limit=_REPLY_LIMIT)
        except (EOFError, ValueError, KeyError, TypeError):
            return self._gone(started)
        return self._result(header, signals, started)


_START = 10.0
_PYTHON = (sys.executable, "-P", "-s", "-W", "ignore", "-m", "quantgraph.sandbox.worker")


def _environment() -> dict[str, str]:
    # A fixed hash seed: the order of sets must not make a strategy differ from one process to the next.
    wanted = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
    if sys.platform == "win32":
        wanted["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    return wanted


class ForkRunner(_ProcessRunner):
    """One warm process that forks for each call: some 20 ms a call (Linux, macOS).

    Calls may come from several threads; each has a child of its own. The lock protects the handing
    over of a connection to the warm process, and its start.
    """

    def __init__(self, *, timeout: float = 30.0, memory_mb: int = 2048, output_limit: int = 20_000) -> None:
        super().__init__(timeout=timeout, memory_mb=memory_mb, output_limit=output_limit)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run cells, see :class:`CodeRunner`."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._hand_over(theirs)
            started = time.perf_counter()
            deadline = started + self.timeout + _GRACE

            def read(size: int) -> bytearray:
                part = bytearray()
                while len(part) < size:
                    ours.settimeout(max(deadline - time.perf_counter(), 0.001))
                    piece = ours.recv(min(size - len(part), 1 << 20))
                    if not piece:
                        raise EOFError
                    part += piece
                return part

            try:
                ours.settimeout(self.timeout)
                for part in self._request(cells, frames):
                    ours.sendall(part)
                header, signals = unpack(read, limit=_REPLY_LIMIT)
            except (OSError, EOFError, ValueError, KeyError, TypeError):
                return self._gone(started)
            return self._result(header, signals, started)

    def _hand_over(self, connection: socket.socket) -> None:
        message = f"{self.timeout:020.6f}"[:20].encode()
        with self._lock:
            for attempt in range(2):
                control = self._started()
                try:
                    socket.send_fds(control, [message], [connection.fileno()])
                except (BrokenPipeError, ConnectionResetError):
                    self._stop()
                    if attempt:
                        raise
                else:
                    return

    def _started(self) -> socket.socket:
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        self._stop()
        ours, theirs = socket.socketpair()
        self._folder = tempfile.TemporaryDirectory(prefix="quantgraph-code-")
        with theirs:
            self._process = subprocess.Popen(
                [*_PYTHON, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                cwd=self._folder.name,
            )
        self._control = ours
        ours.settimeout(_START * 3)
        if ours.recv(16) != b"ready":
            self._stop()
            raise CodeFailed(f"the code process did not start; try: {' '.join(_PYTHON)} --once")
        ours.settimeout(None)
        atexit.register(self.close)
        return ours

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5)
            self._process.kill()
            self._process.wait()
        if self._folder is not None:
            self._folder.cleanup()
        self._control = self._process = self._folder = None

    def close(self) -> None:
        """End the warm process. The next call starts another one."""
        with self._lock:
            self._stop()
        atexit.unregister(self.close)


@functools.cache
def default_runner(timeout: float = 30.0, memory_mb: int = 2048) -> CodeRunner:
    """The process's runner with these limits: warm where the system can fork, else fresh."""
    kind = ForkRunner if hasattr(os, "fork") and hasattr(socket, "send_fds") else FreshRunner
    return kind(timeout=timeout, memory_mb=memory_mb)
