"""Runners: generated code in sealed processes, once or at ascending moments, begun anew if one is lost.

A prefix run: the same cells at ascending moments, each time over what was known by then.
"""

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
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from quantgraph._util.packages import is_package
from quantgraph.errors import BadOption, CodeFailed, CodeUnavailable, SandboxTooWeak
from quantgraph.market import Moment
from quantgraph.sandbox._archive import open_archive
from quantgraph.sandbox._lockdown import IsolationLevel
from quantgraph.sandbox._result import Call, CodeResult, Limits, read_handshake
from quantgraph.sandbox._server import (
    PYTHON,
    START_SECONDS,
    Channel,
    Child,
    ForkRequest,
    ServerProcess,
    check_level,
    code_environment,
    no_room,
)
from quantgraph.sandbox.wire._shared_frames import SharedFrames, SharedFramesCache
from quantgraph.sandbox.wire._wire import Block, Frames, Read, encode_frames, encode_message, exact_reader
from quantgraph.state.frames import cut_panels

if TYPE_CHECKING:
    from quantgraph.settings import Settings


MOST_RESTARTS = 3
"""Restarts in one node, or in one call outside of a node."""

T = TypeVar("T")

_restarts: ContextVar[list[CodeUnavailable] | None] = ContextVar("quantgraph_restarts", default=None)


@contextmanager
def counted_restarts() -> Iterator[None]:
    """Count the restarts of all calls inside together."""
    token = _restarts.set([])
    try:
        yield
    finally:
        _restarts.reset(token)


def with_restarts(work: Callable[[], T]) -> T:
    """Do work with a code process, and do it again if the machine ends the process.

    Raises
    ------
    CodeUnavailable
        If that happens more than :data:`MOST_RESTARTS` times.
    """
    counted = _restarts.get()
    ended = [] if counted is None else counted
    while True:
        try:
            return work()
        except CodeUnavailable as error:
            if not error.data["killed"] or len(ended) >= MOST_RESTARTS:
                raise
            ended.append(error)


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

    def _limits(self) -> Limits:
        return Limits(timeout=self.timeout, memory_mb=self.memory_mb, output_limit=self.output_limit)


class FreshRunner(_ProcessRunner):
    """A new interpreter for each call: works everywhere, takes about a second. Limits are of a call."""

    @functools.cached_property
    def _checked(self) -> bool:
        return self.run([], {}).error is None

    def check(self) -> None:
        """Start one process at the first call."""
        _ = self._checked

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run cells, see :class:`CodeRunner`."""
        call, archive = Call(limits=self._limits()), open_archive(self.packages)
        with subprocess.Popen(
            [*PYTHON, "--once", *map(str, archive), *self.packages],
            pass_fds=archive,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=code_environment(),
            cwd=os.sep,
            start_new_session=True,
        ) as process:
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
                return call.failed(call.end_error(_exit_status(process)))
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
        Limits of a call, or of a step of a prefix run: seconds, megabytes, characters.
    isolation
        The weakest level to accept; where the system offers less, a call raises SandboxTooWeak.
    packages
        Installed packages that code may read and import, with what they require; BadOption for another name.
    start_seconds
        How long the start of the fork server is waited for, then CodeUnavailable is raised.

    A call returns when its child has been reaped: what follows it never runs beside it. A child that the
    machine ends is started again, see :mod:`quantgraph.sandbox._runner`.
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
        self._server.start()
        with no_room():
            shared, layout = self._shared_frames.open(frames)
        started = time.perf_counter()  # before the fork: the fork server counts the child's time from there
        try:
            channel = Channel(self._server, request, shared)
        finally:
            os.close(shared)
        with contextlib.closing(channel):
            call = Call(limits=limits, isolation=self._server.level, is_last=channel.is_last, started=started)
            channel.deadline = time.perf_counter() + limits.timeout + _GRACE
            header = {"cells": list(cells), "output_limit": limits.output_limit}
            channel.send(encode_message(header | layout))
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

    def prefix_run(self, cells: Sequence[str], frames: Frames, *, last_row: bool = False) -> ProcessPrefixRun:
        """Run cells at ascending moments, see :func:`~quantgraph.sandbox.open_prefix_run`."""
        limits, memory = self._limits(), SharedFrames(frames, grows=True)
        opening = {"prefixes": list(cells), "output_limit": limits.output_limit, "last_row": last_row}
        request = ForkRequest(deadline=math.inf, seconds=_DAY, memory=limits.memory_mb << 20)
        message = encode_message(opening | memory.layout)
        return ProcessPrefixRun(Child(self._server, request, limits, message, memory), frames, memory)

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


class PrefixRun(ABC):
    """Runs the same cells at ascending moments; a context manager."""

    _last: Moment | None = None

    def at(self, moment: Moment) -> CodeResult:
        """Run the cells in a fresh namespace on what was known at ``moment``.

        If the cells fail, the error is in the result, and the next step can run.
        """
        return self._step(self._in_order(moment))

    def through(self, moments: Iterable[Moment]) -> Iterator[CodeResult]:
        """Run the cells at one moment after the other, as :meth:`at` does.

        What the host has to do goes on beside the code, which has no row before its turn.
        """
        return map(self.at, moments)

    def _in_order(self, moment: Moment) -> Moment:
        if self._last is not None and moment < self._last:
            raise BadOption(f"moment={moment} is before the last one, {self._last}", parameter="moment")
        self._last = moment
        return moment

    @abstractmethod
    def _step(self, moment: Moment) -> CodeResult: ...

    @abstractmethod
    def close(self) -> None:
        """End the run."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_prefix_run(
    runner: CodeRunner, cells: Sequence[str], frames: Frames, *, last_row: bool = False
) -> PrefixRun:
    """Begin to run cells at ascending moments of ``frames``.

    Parameters
    ----------
    frames
        Whole frames, which stay in the host: a process is given the rows that became known since the moment
        before, and its memory holds nothing later.
    last_row
        Of each signal only the last row comes back.

    Notes
    -----
    A runner without a method ``prefix_run`` runs the cells anew at each moment, over frames cut at it.
    """
    prefix_run: Callable[..., PrefixRun] | None = getattr(runner, "prefix_run", None)
    if prefix_run is None:
        return _SeparateRuns(runner, cells, frames, last_row)
    return prefix_run(cells, frames, last_row=last_row)


class _SeparateRuns(PrefixRun):
    """Independent runs, over frames cut at each moment."""

    def __init__(self, runner: CodeRunner, cells: Sequence[str], frames: Frames, last_row: bool) -> None:
        self._runner, self._cells, self._frames = runner, tuple(cells), frames
        self._rows = slice(-1 if last_row else 0, None)

    def _step(self, moment: Moment) -> CodeResult:
        result = self._runner.run(self._cells, cut_panels(self._frames, moment))

        signals, weights, scores = (
            {name: frame.iloc[self._rows] for name, frame in made.items()}
            for made in (result.signals, result.weights, result.scores)
        )
        return replace(result, signals=signals, weights=weights, scores=scores)

    def close(self) -> None:
        """Do nothing: no process is kept between moments."""


class ProcessPrefixRun(PrefixRun):
    """Steps in one child; after a step that ends the child, the next one starts another."""

    def __init__(self, child: Child, frames: Frames, memory: SharedFrames) -> None:
        self._child, self._frames, self._memory = child, frames, memory
        self._known: Frames = {}
        self._message: list[Block] = []

    def through(self, moments: Iterable[Moment]) -> Iterator[CodeResult]:
        """See :class:`PrefixRun`: what the caller makes of a result, it makes while the code is at work."""
        is_sent = False
        for moment in map(self._in_order, moments):
            known = self._known_at(moment)
            results = [self._receive()] if is_sent else []
            self._send(known)  # the result before has arrived: only now is a later row written
            is_sent = True
            yield from results
        if is_sent:
            yield self._receive()

    def _step(self, moment: Moment) -> CodeResult:
        self._send(self._known_at(moment))
        return self._receive()

    def _known_at(self, moment: Moment) -> Frames:
        return cut_panels(self._frames, moment, copy=False)

    def _send(self, known: Frames) -> None:
        self._known = known
        self._memory.write(known)
        self._message = encode_message({"rows": self._memory.rows})
        with_restarts(lambda: self._child.send(self._message))

    def _receive(self) -> CodeResult:
        def attempt() -> CodeResult:
            if not self._child.is_alive:  # the machine has ended it
                self._child.send(self._message)
            return self._read()

        return with_restarts(attempt)

    def _read(self) -> CodeResult:
        started = time.perf_counter()
        try:
            result = self._child.receive(lambda call, read: call.read_result(read, self._known))
        except CodeFailed as error:
            seconds = time.perf_counter() - started
            return CodeResult(error=error, seconds=seconds, isolation=self._child.level)
        # An error without a type is not the code's: the child has ended, or its reply was unreadable.
        if result.error is not None and "type" not in result.error.data:
            self._child.close()
        return result

    def close(self) -> None:
        """End the child, wait until it has been reaped, and give the memory back."""
        try:
            self._child.close()
        finally:
            self._memory.close()
