"""Running generated code in another process: locked in, with a time and a memory limit."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import signal
import socket
import subprocess
import threading
import time
import weakref
from collections.abc import Sequence
from typing import IO, Any, Protocol, runtime_checkable

from quantgraph.sandbox._bwrap import bwrap_prefix
from quantgraph.sandbox.child import Channel, Child
from quantgraph.sandbox.lockdown import IsolationLevel
from quantgraph.sandbox.result import CodeResult, Limits, exit_error, read_handshake, read_result
from quantgraph.sandbox.server_process import (
    PYTHON,
    START_SECONDS,
    ForkRequest,
    ServerProcess,
    WorkFolder,
    check_level,
    code_environment,
)
from quantgraph.sandbox.shared_frames import SharedFramesCache
from quantgraph.sandbox.walk import CodeWalk, ProcessWalk
from quantgraph.sandbox.wire import Block, Frames, encode_frames, encode_message

__all__ = ["CodeResult", "CodeRunner", "ForkRunner", "FreshRunner", "can_fork", "default_runner"]

_GRACE = 1.5
_DAY = 86_400.0


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

    def __init__(
        self,
        *,
        timeout: float = 30.0,
        memory_mb: int = 2048,
        output_limit: int = 20_000,
        isolation: IsolationLevel = "full",
    ) -> None:
        self.timeout = timeout
        self.memory_mb = memory_mb
        self.output_limit = output_limit
        self.isolation = isolation

    def _limits(self) -> Limits:
        return Limits(timeout=self.timeout, memory_mb=self.memory_mb, output_limit=self.output_limit)


class FreshRunner(_ProcessRunner):
    """A new interpreter for each call: works everywhere, costs about a second.

    Parameters
    ----------
    timeout, memory_mb, output_limit
        Limits of a call: seconds, megabytes, characters.
    isolation
        The least that is accepted; where the system gives less, ``run`` raises SandboxTooWeak.
    """

    @functools.cached_property
    def _checked(self) -> bool:
        return self.run([], {}).error is None

    def check(self) -> None:
        """See once that a process can be sealed as well as asked for.

        Raises
        ------
        SandboxTooWeak
            If it cannot.
        """
        _ = self._checked

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run cells, see :class:`CodeRunner`."""
        started, limits = time.perf_counter(), self._limits()
        folder = WorkFolder()
        with (
            contextlib.closing(folder),
            subprocess.Popen(
                [*bwrap_prefix(), *PYTHON, "--once"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=code_environment(),
                cwd=folder.path,
                start_new_session=True,
            ) as process,
        ):
            assert process.stdin is not None  # noqa: S101 - both are pipes, see above
            assert process.stdout is not None  # noqa: S101
            request = encode_frames(cells_request(cells, limits, self.isolation), frames)
            writer = threading.Thread(target=_feed, args=(process.stdin, request))
            ending = threading.Timer(self.timeout + START_SECONDS / 3, _kill, [process])
            writer.start()
            ending.start()
            # Read by the piece: a reply without an end must not fill the host's memory.
            read = functools.partial(_exactly, process.stdout)
            level: IsolationLevel = "none"
            try:
                level = check_level(*read_handshake(read), self.isolation)
                return read_result(read, limits, started, level, frames=frames)
            except (EOFError, OSError):
                seconds = time.perf_counter() - started
                return CodeResult(
                    error=exit_error(_status(process), limits, seconds), seconds=seconds, isolation=level
                )
            finally:
                ending.cancel()
                _kill(process)
                writer.join()


def cells_request(cells: Sequence[str], limits: Limits, isolation: IsolationLevel) -> dict[str, Any]:
    """What is asked of a process that serves one call."""
    return {
        "cells": list(cells),
        "memory": limits.memory_mb << 20,
        "seconds": limits.timeout,
        "output_limit": limits.output_limit,
        "isolation": isolation,
    }


def _feed(stream: IO[bytes], request: list[Block]) -> None:
    with contextlib.suppress(BrokenPipeError), stream:
        for part in request:
            stream.write(part)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    part = stream.read(size)
    if len(part) != size:
        raise EOFError
    return part


def _status(process: subprocess.Popen[bytes]) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(timeout=1.0)
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        # PermissionError is what macOS says of a group that has ended.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


class ForkRunner(_ProcessRunner):
    """One warm process that forks for each call: some 10 ms a call (Linux, macOS).

    Calls may come from several threads; each has a child of its own. Frames that were sent before are
    not sent again.

    Parameters
    ----------
    timeout, memory_mb, output_limit
        Limits of a call, or of a walk's step: seconds, megabytes, characters.
    isolation
        The least that is accepted; where the system gives less, ``run`` and ``walk`` raise SandboxTooWeak.
    """

    def __init__(
        self,
        *,
        timeout: float = 30.0,
        memory_mb: int = 2048,
        output_limit: int = 20_000,
        isolation: IsolationLevel = "full",
    ) -> None:
        super().__init__(timeout=timeout, memory_mb=memory_mb, output_limit=output_limit, isolation=isolation)
        self._warm = ServerProcess(isolation)
        self._parcels = SharedFramesCache()
        # Once, for the runner's end and for the interpreter's, whichever is first.
        weakref.finalize(self, _close, self._warm, self._parcels)

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run cells, see :class:`CodeRunner`."""
        limits = self._limits()
        job = ForkRequest(deadline=limits.timeout, seconds=limits.timeout, memory=limits.memory_mb << 20)
        parcel = self._parcels.lend(frames)
        try:
            self._warm.start()
            # Before the child's own clock starts: one that is ended at its deadline is seen to be late.
            started = time.perf_counter()
            connection = self._warm.connect(job, parcel)
        finally:
            os.close(parcel)
        with contextlib.closing(Channel(connection, started + limits.timeout + _GRACE)) as channel:
            channel.send(encode_message({"cells": list(cells), "output_limit": limits.output_limit}))
            try:
                return read_result(channel.read, limits, started, self._warm.level, frames=frames)
            except (EOFError, OSError) as error:
                seconds = time.perf_counter() - started
                if isinstance(error, TimeoutError):
                    # The warm process ends a child at its deadline; one that does not is none any more.
                    self._warm.close(patient=False)
                return CodeResult(
                    error=exit_error(None, limits, seconds), seconds=seconds, isolation=self._warm.level
                )

    def walk(self, cells: Sequence[str], frames: Frames) -> CodeWalk:
        """Run cells at one moment after the other, see :func:`~quantgraph.sandbox.open_walk`."""
        # The walk's child grows with the data, which the limit of memory is not about. A power of two: code
        # that reads its own limits learns next to nothing of how much is still to come.
        total = sum(frame.nbytes for fields in frames.values() for frame in fields.values())
        return ProcessWalk(self.child(1 << (3 * total).bit_length()), cells, frames)

    def child(self, more: int = 0) -> Child:
        """A child that stays until it is closed, with ``more`` bytes of memory than the limit."""
        job = ForkRequest(deadline=math.inf, seconds=_DAY, memory=(self.memory_mb << 20) + more)

        def connect() -> Channel:
            return Channel(self._warm.connect(job), math.inf)

        return Child(connect, self._limits(), lambda: self._warm.level)

    def check(self) -> None:
        """Start the warm process if there is none yet.

        Raises
        ------
        SandboxTooWeak
            If it cannot be sealed as well as asked for.
        CodeFailed
            If it does not start.
        """
        self._warm.start()

    def close(self) -> None:
        """End the warm process and let go of the frames. The next call starts another one."""
        _close(self._warm, self._parcels)


def can_fork() -> bool:
    """Whether this system has what a :class:`ForkRunner` needs."""
    return hasattr(os, "fork") and hasattr(socket, "send_fds")


def _close(warm: ServerProcess, parcels: SharedFramesCache) -> None:
    warm.close()
    parcels.close()


@functools.cache
def default_runner(
    timeout: float = 30.0, memory_mb: int = 2048, isolation: IsolationLevel = "full"
) -> CodeRunner:
    """The process's runner with these limits: warm where the system can fork, else fresh."""
    kind = ForkRunner if can_fork() else FreshRunner
    return kind(timeout=timeout, memory_mb=memory_mb, isolation=isolation)
