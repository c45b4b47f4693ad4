"""Runners: generated code in another process, sealed, with a time and a memory limit."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import signal
import socket
import subprocess
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol, runtime_checkable

from quantgraph._util.installed_packages import is_package
from quantgraph._util.machine import usable_processors
from quantgraph.errors import BadOption, CodeUnavailable, SandboxTooWeak
from quantgraph.sandbox.child import Channel, Child
from quantgraph.sandbox.lockdown import IsolationLevel
from quantgraph.sandbox.process_setup import PYTHON, WorkFolder, bwrap_prefix, code_environment
from quantgraph.sandbox.restarts import with_restarts
from quantgraph.sandbox.result import Call, CodeResult, Limits, read_handshake
from quantgraph.sandbox.server_process import START_SECONDS, ForkRequest, ServerProcess, check_level, no_room
from quantgraph.sandbox.shared_frames import SharedFramesCache
from quantgraph.sandbox.walk import CodeWalk, ProcessWalk
from quantgraph.sandbox.wire import Block, Frames, Read, encode_frames, encode_message, exact_reader

if TYPE_CHECKING:  # a code process has this module, and must not have what the settings load
    from quantgraph.settings import Settings

__all__ = [
    "CodeResult",
    "CodeRunner",
    "ForkRunner",
    "FreshRunner",
    "can_fork",
    "default_runner",
    "runner_of",
]

_GRACE = 1.5
_DAY = 86_400.0


@runtime_checkable
class CodeRunner(Protocol):
    """Runs cells over frames in a place where they cannot harm the host."""

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run ``cells`` in order in one fresh namespace; return the last one's output, and all signals.

        The namespace has ``pd``, ``np``, ``GLOBAL_DATA_STATE`` (holding ``frames`` and nothing else) and
        its ``snapshot``. Errors of the code are in the result; they are not raised.
        """


@dataclass(kw_only=True, eq=False)
class _ProcessRunner:
    """The limits of a runner that starts processes."""

    timeout: float = 30.0
    memory_mb: int = 2048
    output_limit: int = 20_000
    isolation: IsolationLevel = "full"
    packages: Sequence[str] = ()
    start_seconds: float = START_SECONDS

    def __post_init__(self) -> None:
        for name in self.packages:
            if not is_package(name):
                raise BadOption(f"packages: {name!r} is not an installed package", parameter="packages")
        self.packages = tuple(sorted({*self.packages}))

    @property
    def workers(self) -> int:
        """How many calls may usefully go on at the same time."""
        return usable_processors()

    def _limits(self) -> Limits:
        return Limits(timeout=self.timeout, memory_mb=self.memory_mb, output_limit=self.output_limit)


class FreshRunner(_ProcessRunner):
    """A new interpreter for each call: works everywhere, takes about a second.

    Parameters
    ----------
    timeout, memory_mb, output_limit
        Limits of a call: seconds, megabytes, characters.
    isolation
        The weakest level to accept; ``run`` raises SandboxTooWeak where the system offers less.
    packages
        Installed packages that code may read and import, with what they require; BadOption for another name.
    """

    @functools.cached_property
    def _checked(self) -> bool:
        return self.run([], {}).error is None

    def check(self) -> None:
        """Start one process, the first time it is called.

        Raises
        ------
        SandboxTooWeak
            If this system does not reach the required isolation level.
        """
        _ = self._checked

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run cells, see :class:`CodeRunner`."""
        call, folder = Call(limits=self._limits()), WorkFolder()
        with (
            contextlib.closing(folder),
            subprocess.Popen(
                [*bwrap_prefix(), *PYTHON, "--once", *self.packages],
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
            request = encode_frames(cells_request(cells, call.limits, self.isolation), frames)
            writer = threading.Thread(target=_write, args=(process.stdin, request))
            writer.start()
            # Read in pieces: an endless reply must not fill the host's memory.
            read = exact_reader(process.stdout)
            try:
                call = Call(limits=call.limits, isolation=self._level(process, read))
                with _killed_after(self.timeout + _GRACE, process):
                    return call.read_result(read, frames)
            except CodeUnavailable:
                raise
            except (EOFError, OSError):
                return call.failed(call.ended(_exit_status(process)))
            finally:
                _kill(process)
                writer.join()
                while process.stdout.read(1 << 20):  # its end says that the last process that had it is gone
                    pass

    def _level(self, process: subprocess.Popen[bytes], read: Read) -> IsolationLevel:
        """Wait until the process has started, and return its isolation level."""
        try:
            with _killed_after(self.start_seconds, process):
                return check_level(*read_handshake(read), self.isolation)
        except EOFError as error:
            raise CodeUnavailable("the code process did not start", killed=False) from error


@contextlib.contextmanager
def _killed_after(seconds: float, process: subprocess.Popen[bytes]) -> Iterator[None]:
    killer = threading.Timer(seconds, _kill, [process])
    killer.start()
    try:
        yield
    finally:
        killer.cancel()


def cells_request(cells: Sequence[str], limits: Limits, isolation: IsolationLevel) -> dict[str, Any]:
    """Return the header of a request to a ``--once`` process."""
    return {
        "cells": list(cells),
        "memory": limits.memory_mb << 20,
        "seconds": limits.timeout,
        "output_limit": limits.output_limit,
        "isolation": isolation,
    }


def _write(stream: IO[bytes], request: list[Block]) -> None:
    with contextlib.suppress(BrokenPipeError), stream:
        for part in request:
            stream.write(part)


def _exit_status(process: subprocess.Popen[bytes]) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(timeout=1.0)
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        # macOS raises PermissionError for a group that has ended.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


@dataclass(kw_only=True, eq=False)
class ForkRunner(_ProcessRunner):
    """A fork server that makes a child for each call: some 10 ms a call (Linux, macOS).

    Threads may call at the same time; each call has a child of its own. Frames that were sent before are not
    sent again.

    Parameters
    ----------
    timeout, memory_mb, output_limit
        Limits of a call, or of a walk's step: seconds, megabytes, characters.
    isolation
        The weakest level to accept; ``run`` and ``walk`` raise SandboxTooWeak where the system offers less.
    packages
        Installed packages that code may read and import, with what they require; BadOption for another name.
    start_seconds
        How long the start of the fork server is waited for, then CodeUnavailable is raised.

    A call returns when its child has been reaped: what follows it never runs beside it. A child that the
    machine ends is started again, see :mod:`quantgraph.sandbox.restarts`.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._server = ServerProcess(self.isolation, packages=self.packages, start_seconds=self.start_seconds)
        self._shared_frames = SharedFramesCache()
        # Called once: when the runner is garbage, or when the interpreter exits.
        weakref.finalize(self, _close, self._server, self._shared_frames)

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run cells, see :class:`CodeRunner`."""
        return with_restarts(lambda: self._run(cells, frames))

    def _run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        limits = self._limits()
        request = ForkRequest(deadline=limits.timeout, seconds=limits.timeout, memory=limits.memory_mb << 20)
        with no_room():
            shared = self._shared_frames.open(frames)
        try:
            channel = Channel(self._server, request, shared)
        finally:
            os.close(shared)
        with contextlib.closing(channel):
            call = Call(limits=limits, isolation=self._server.level, is_last=channel.is_last)
            channel.deadline = call.started + limits.timeout + _GRACE
            channel.send(encode_message({"cells": list(cells), "output_limit": limits.output_limit}))
            try:
                return call.read_result(channel.read, frames)
            except CodeUnavailable:
                raise
            except (EOFError, OSError) as error:
                if isinstance(error, TimeoutError):
                    # The fork server kills a child at its deadline; if it does not, it hangs.
                    self._server.close(patient=False)
                failure = channel.error(call)
                if isinstance(failure, CodeUnavailable):
                    raise failure from error
                return call.failed(failure)

    def walk(self, cells: Sequence[str], frames: Frames) -> CodeWalk:
        """Run cells at ascending moments, see :func:`~quantgraph.sandbox.open_walk`."""
        # The child's memory grows with the data, beyond the limit of the code. The sum is a power of two, so
        # that code that reads its own limits learns next to nothing of how much data is still to come.
        total = sum(frame.nbytes for fields in frames.values() for frame in fields.values())
        return ProcessWalk(self.child(extra_memory=1 << (3 * total).bit_length()), cells, frames)

    def child(self, extra_memory: int = 0) -> Child:
        """Return a child that stays until it is closed; ``extra_memory`` bytes are added to its limit."""
        memory = (self.memory_mb << 20) + extra_memory
        return Child(
            self._server, ForkRequest(deadline=math.inf, seconds=_DAY, memory=memory), self._limits()
        )

    def check(self) -> None:
        """Start the fork server unless it runs.

        Raises
        ------
        SandboxTooWeak
            If this system does not reach the required isolation level.
        CodeUnavailable
            If it does not start.
        """
        self._server.start()

    def start_early(self) -> None:
        """Begin to start the fork server beside what the caller does; what fails, the first call raises."""

        def start() -> None:
            with contextlib.suppress(CodeUnavailable, SandboxTooWeak, OSError):
                self._server.start()

        threading.Thread(target=start, name="quantgraph-sandbox", daemon=True).start()

    def close(self) -> None:
        """End the fork server and drop shared frames. The next call starts another one."""
        _close(self._server, self._shared_frames)


def can_fork() -> bool:
    """Return whether this system has what a :class:`ForkRunner` needs."""
    return hasattr(os, "fork") and hasattr(socket, "send_fds")


def _close(server: ServerProcess, shared_frames: SharedFramesCache) -> None:
    server.close()
    shared_frames.close()


@functools.cache
def default_runner(
    timeout: float = 30.0,
    memory_mb: int = 2048,
    isolation: IsolationLevel = "full",
    packages: tuple[str, ...] = (),
    start_seconds: float = START_SECONDS,
) -> CodeRunner:
    """Return this process's runner with these limits: a fork server where possible, else a FreshRunner."""
    kind = ForkRunner if can_fork() else FreshRunner
    return kind(
        timeout=timeout,
        memory_mb=memory_mb,
        isolation=isolation,
        packages=packages,
        start_seconds=start_seconds,
    )


def runner_of(settings: Settings) -> CodeRunner:
    """Return this process's runner with the limits of the settings."""
    return default_runner(
        settings.code_timeout,
        settings.code_memory_mb,
        settings.code_isolation,
        tuple(settings.sandbox_packages),
        settings.node_seconds,
    )
