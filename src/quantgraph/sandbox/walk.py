"""A walk: the same cells at ascending moments, each time over what was known by then."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from quantgraph.errors import BadOption, CodeFailed
from quantgraph.market.moment import Moment
from quantgraph.sandbox.child import Child
from quantgraph.sandbox.restarts import with_restarts
from quantgraph.sandbox.result import CodeResult
from quantgraph.sandbox.view_sync import FramesSender
from quantgraph.sandbox.wire import Block, Frames, encode_message
from quantgraph.state.cut import cut_panels

if TYPE_CHECKING:
    from quantgraph.sandbox.runner import CodeRunner


class CodeWalk(ABC):
    """Runs the same cells at ascending moments; a context manager."""

    _last: Moment | None = None

    def at(self, moment: Moment) -> CodeResult:
        """Run the cells in a fresh namespace on what was known at ``moment``.

        If the cells fail, the error is in the result, and the walk can go on.

        Raises
        ------
        BadOption
            If ``moment`` is before the last one.
        """
        return self._step(self._in_order(moment))

    def through(self, moments: Iterable[Moment]) -> Iterator[CodeResult]:
        """Run the cells at one moment after the other, as :meth:`at` does.

        What the host has to do goes on beside the code, which has no row before its turn.
        """
        return map(self.at, moments)

    def _in_order(self, moment: Moment) -> Moment:
        if self._last is not None and moment < self._last:
            raise BadOption(
                f"moment={moment} is before the walk's last one, {self._last}", parameter="moment"
            )
        self._last = moment
        return moment

    @abstractmethod
    def _step(self, moment: Moment) -> CodeResult: ...

    @abstractmethod
    def close(self) -> None:
        """End the walk."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_walk(runner: CodeRunner, cells: Sequence[str], frames: Frames) -> CodeWalk:
    """Begin a walk through ``frames`` with a runner.

    Parameters
    ----------
    frames
        Whole frames, which stay in the host: a process is sent the rows that became known since the moment
        before, and its memory holds nothing later.

    Notes
    -----
    A runner without a method ``walk`` runs the cells anew at each moment, over frames cut at it.
    """
    walk: Callable[[Sequence[str], Frames], CodeWalk] | None = getattr(runner, "walk", None)
    return walk(cells, frames) if walk else _RunWalk(runner, cells, frames)


class _RunWalk(CodeWalk):
    """A walk of independent runs."""

    def __init__(self, runner: CodeRunner, cells: Sequence[str], frames: Frames) -> None:
        self._runner, self._cells, self._frames = runner, tuple(cells), frames

    def _step(self, moment: Moment) -> CodeResult:
        return self._runner.run(self._cells, cut_panels(self._frames, moment))

    def close(self) -> None:
        """Do nothing: no process is kept between moments."""


@dataclass(frozen=True, kw_only=True)
class _Step:
    """What is known at a moment, and the message that brings it to the child."""

    moment: Moment
    known: Frames
    message: list[Block]


class ProcessWalk(CodeWalk):
    """A walk in one child; after a step that ends the child, the next one starts another."""

    def __init__(self, child: Child, cells: Sequence[str], frames: Frames) -> None:
        self._child, self._frames, self._sender = child, frames, FramesSender()
        self._opening = {"walk": list(cells), "output_limit": child.limits.output_limit}

    def through(self, moments: Iterable[Moment]) -> Iterator[CodeResult]:
        """See :class:`CodeWalk`: rows are cut and encoded, and results read, while the code is at work."""
        step: _Step | None = None
        for moment in map(self._in_order, moments):
            following, result, sender = self._prepare(moment), None, self._sender
            if step is not None:
                result = self._receive(step)
                if not self._child.is_alive or self._sender is not sender:  # another one has other rows
                    following = self._prepare(moment)
            self._send(following)
            step = following
            if result is not None:
                yield result
        if step is not None:
            yield self._receive(step)

    def _step(self, moment: Moment) -> CodeResult:
        step = self._prepare(moment)
        self._send(step)
        return self._receive(step)

    def _send(self, step: _Step) -> None:
        with_restarts(lambda: self._child.send(step.message))

    def _prepare(self, moment: Moment) -> _Step:
        opening: list[Block] = []
        if not self._child.is_alive:
            self._sender = FramesSender()
            opening = encode_message(self._opening)
        known = cut_panels(self._frames, moment, copy=False)
        message = [*opening, *encode_message(*self._sender.send(known))]
        return _Step(moment=moment, known=known, message=message)

    def _receive(self, step: _Step) -> CodeResult:
        def attempt() -> CodeResult:
            if not self._child.is_alive:  # the machine has ended it
                self._child.send(self._prepare(step.moment).message)
            return self._read(step)

        return with_restarts(attempt)

    def _read(self, step: _Step) -> CodeResult:
        started = time.perf_counter()
        try:
            result = self._child.receive(lambda call, read: call.read_result(read, step.known))
        except CodeFailed as error:
            seconds = time.perf_counter() - started
            return CodeResult(error=error, seconds=seconds, isolation=self._child.level)
        # An error without a type is not the code's: the child has ended, or its reply was unreadable.
        if result.error is not None and "type" not in result.error.data:
            self.close()
        return result

    def close(self) -> None:
        """End the child, and wait until it has been reaped."""
        self._child.close()
