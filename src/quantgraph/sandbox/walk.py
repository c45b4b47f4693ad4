"""A walk: the same cells at one moment after the other, each time over no more than was known."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from quantgraph.errors import BadOption, CodeFailed
from quantgraph.market.moment import Moment
from quantgraph.sandbox.child import Child
from quantgraph.sandbox.result import CodeResult, read_result
from quantgraph.sandbox.view_sync import FramesSender
from quantgraph.sandbox.wire import Block, Frames, Read, encode_message
from quantgraph.state.cut import cut_panels

if TYPE_CHECKING:
    from quantgraph.sandbox.runner import CodeRunner

__all__ = ["CodeWalk", "ProcessWalk", "open_walk"]


class CodeWalk(ABC):
    """Runs the same cells at ascending moments; a context manager."""

    _last: Moment | None = None

    def at(self, moment: Moment) -> CodeResult:
        """Run the cells in a fresh namespace on what was known at ``moment``.

        Cells that fail give their error, and the walk goes on.

        Raises
        ------
        BadOption
            If ``moment`` is before the one asked for last.
        """
        if self._last is not None and moment < self._last:
            raise BadOption(f"a walk at {self._last} cannot go back to {moment}; moments have to ascend")
        self._last = moment
        return self._step(moment)

    @abstractmethod
    def _step(self, moment: Moment) -> CodeResult: ...

    def over(self, frames: Frames) -> None:
        """Begin again over other frames, in the process that has seen those before."""
        self._last = None
        self._begin(frames)

    @abstractmethod
    def _begin(self, frames: Frames) -> None: ...

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
    """Walk through ``frames`` with a runner.

    Parameters
    ----------
    frames
        Whole frames. Only the host holds them: a process is sent the rows that became known since the
        moment before, and its memory holds nothing later.

    Notes
    -----
    A runner that has ``run`` and no ``walk`` is given the cells anew at each moment, over frames that were
    cut for it.
    """
    walk: Callable[[Sequence[str], Frames], CodeWalk] | None = getattr(runner, "walk", None)
    return walk(cells, frames) if walk else _CutWalk(runner, cells, frames)


class _CutWalk(CodeWalk):
    def __init__(self, runner: CodeRunner, cells: Sequence[str], frames: Frames) -> None:
        self._runner, self._cells, self._frames = runner, tuple(cells), frames

    def _step(self, moment: Moment) -> CodeResult:
        return self._runner.run(self._cells, cut_panels(self._frames, moment))

    def _begin(self, frames: Frames) -> None:
        self._frames = frames

    def close(self) -> None:
        """Nothing is held from one moment to the next."""


class ProcessWalk(CodeWalk):
    """A walk in one child. If a step ends it, the next one begins with another."""

    def __init__(self, child: Child, cells: Sequence[str], frames: Frames) -> None:
        self._child, self._frames, self._sent = child, frames, FramesSender()
        self._opening = {"walk": list(cells), "output_limit": child.limits.output_limit}

    def _step(self, moment: Moment) -> CodeResult:
        opening: list[Block] = []
        if not self._child.lives:
            self._sent.restart()
            opening = encode_message(self._opening)
        known = cut_panels(self._frames, moment, copy=False)
        step = encode_message(*self._sent.next(known))
        begun = time.perf_counter()
        try:
            result = self._child.ask([*opening, *step], partial(self._read, known))
        except CodeFailed as error:
            seconds = time.perf_counter() - begun
            return CodeResult(error=error, seconds=seconds, isolation=self._child.level)
        # Without a line number it was not the code that told: the child has ended, or its reply was none.
        if result.error is not None and "type" not in result.error.data:
            self.close()
        return result

    def _begin(self, frames: Frames) -> None:
        self._frames = frames
        self._sent.restart()

    def _read(self, frames: Frames, read: Read, started: float) -> CodeResult:
        return read_result(read, self._child.limits, started, self._child.level, frames=frames)

    def close(self) -> None:
        """End the child."""
        self._child.close()
