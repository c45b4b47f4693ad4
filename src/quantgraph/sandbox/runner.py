"""Running generated code in another process, with a time and a memory limit.

This keeps a strategy's mistakes (an endless loop, 50 GB, ``exit()``) away from the host and from the
data. It is not yet a barrier against code that means harm: see the README's limits.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from typing import IO, Protocol, runtime_checkable

from quantgraph.sandbox.result import CodeResult, Limits, read_result
from quantgraph.sandbox.warm import PYTHON, START_SECONDS, WarmProcess, code_environment
from quantgraph.sandbox.wire import Frames, pack

__all__ = ["CodeResult", "CodeRunner", "ForkRunner", "FreshRunner", "default_runner"]

_GRACE = 1.0


@runtime_checkable
class CodeRunner(Protocol):
    """Runs cells over frames somewhere the host cannot be harmed from."""

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run ``cells`` in order in one fresh namespace and return the last one's output and all signals.

        The namespace has ``pd``, ``np``, ``GLOBAL_DATA_STATE`` (holding ``frames`` and nothing else) and
        its ``snapshot``. Errors of the code are in the result, they are not raised.
        """


class _ProcessRunner:
    """What both runners share: their limits, and the request."""

    def __init__(self, *, timeout: float = 30.0, memory_mb: int = 2048, output_limit: int = 20_000) -> None:
        self.timeout = timeout
        self.memory_mb = memory_mb
        self.output_limit = output_limit

    def _limits(self) -> Limits:
        return Limits(timeout=self.timeout, memory_mb=self.memory_mb, output_limit=self.output_limit)

    def _request(self, cells: Sequence[str], frames: Frames) -> list[bytes | memoryview]:
        header = {
            "cells": list(cells),
            "memory": self.memory_mb << 20,
            "seconds": self.timeout,
            "output_limit": self.output_limit,
        }
        return pack(header, frames)


class FreshRunner(_ProcessRunner):
    """A new interpreter for each call: works everywhere, costs about a second."""

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run cells, see :class:`CodeRunner`."""
        started = time.perf_counter()
        with (
            tempfile.TemporaryDirectory(prefix="quantgraph-code-", ignore_cleanup_errors=True) as folder,
            subprocess.Popen(
                [*PYTHON, "--once"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=code_environment(),
                cwd=folder,
                start_new_session=True,
            ) as process,
        ):
            assert process.stdin is not None  # noqa: S101 - both are pipes, see above
            assert process.stdout is not None  # noqa: S101
            request = self._request(cells, frames)
            writer = threading.Thread(target=_feed, args=(process.stdin, request))
            ending = threading.Timer(self.timeout + START_SECONDS / 3, _kill, [process])
            writer.start()
            ending.start()
            try:
                # Read by the piece: a reply without an end must not fill the host's memory.
                return read_result(functools.partial(_exactly, process.stdout), self._limits(), started)
            finally:
                ending.cancel()
                _kill(process)
                writer.join()


def _feed(stream: IO[bytes], request: list[bytes | memoryview]) -> None:
    with contextlib.suppress(BrokenPipeError), stream:
        for part in request:
            stream.write(part)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    part = stream.read(size)
    if len(part) != size:
        raise EOFError
    return part


def _kill(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        # PermissionError is what macOS says of a group that has ended.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


class ForkRunner(_ProcessRunner):
    """One warm process that forks for each call: some 20 ms a call (Linux, macOS).

    Calls may come from several threads; each has a child of its own.
    """

    def __init__(self, *, timeout: float = 30.0, memory_mb: int = 2048, output_limit: int = 20_000) -> None:
        super().__init__(timeout=timeout, memory_mb=memory_mb, output_limit=output_limit)
        self._warm = WarmProcess()
        # Once, for the runner's end and for the interpreter's, whichever is first.
        weakref.finalize(self, self._warm.close)

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run cells, see :class:`CodeRunner`."""
        limits = self._limits()
        with self._warm.connect(limits.timeout) as connection:
            started = time.perf_counter()
            deadline = started + limits.timeout + _GRACE

            def read(size: int) -> bytearray:
                part = bytearray()
                while len(part) < size:
                    connection.settimeout(max(deadline - time.perf_counter(), 0.001))
                    piece = connection.recv(min(size - len(part), 1 << 20))
                    if not piece:
                        raise EOFError
                    part += piece
                return part

            connection.settimeout(limits.timeout)
            # Whoever does not listen to the end may still have said why.
            with contextlib.suppress(OSError):
                for part in self._request(cells, frames):
                    connection.sendall(part)
            return read_result(read, limits, started)

    def close(self) -> None:
        """End the warm process. The next call starts another one."""
        self._warm.close()


@functools.cache
def default_runner(timeout: float = 30.0, memory_mb: int = 2048) -> CodeRunner:
    """The process's runner with these limits: warm where the system can fork, else fresh."""
    kind = ForkRunner if hasattr(os, "fork") and hasattr(socket, "send_fds") else FreshRunner
    return kind(timeout=timeout, memory_mb=memory_mb)
