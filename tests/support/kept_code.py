"""Results of generated code are kept: what a test has run, the next test on the same frames is served.

A strategy that is proved runs some thirty times, in processes of their own; most tests that go through a graph prove
the same one. A key has as many results as one test has asked for: code that is run twice in a test ran twice, so that
code which is not reproducible is found out as ever. ``WHOLE=1`` keeps nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from dataclasses import replace
from unittest.mock import patch

from quantgraph._util.canonical_json import content_hash
from quantgraph.market import Moment
from quantgraph.sandbox import CodeResult, ForkRunner
from quantgraph.sandbox._runner import PrefixRun
from quantgraph.sandbox.wire import Frames

_run, _prefix_run = ForkRunner.run, ForkRunner.prefix_run


class KeptCode:
    """The results of this process's tests, by code, frames, limits, and how often the test has asked."""

    def __init__(self) -> None:
        self._results: dict[Hashable, CodeResult] = {}
        self._asked: Counter[Hashable] = Counter()
        self._room = 200 << 20
        self._lock = threading.Lock()  # runs in threads ask at the same time

    def begin_test(self) -> None:
        """Serve again from the first result on."""
        with self._lock:
            self._asked.clear()

    def number(self, key: Hashable) -> int:
        """How often the test has asked for this before."""
        with self._lock:
            self._asked[key] += 1
            return self._asked[key]

    def result(self, key: Hashable, make: Callable[[], CodeResult]) -> CodeResult:
        """The kept result, or a new one; a copy that the test may change."""
        kept = self._results.get(key) or make()
        self._keep(key, kept)
        signals = {name: frame.copy(deep=False) for name, frame in kept.signals.items()}
        return replace(kept, signals=signals, error=copy(kept.error))

    def _keep(self, key: Hashable, result: CodeResult) -> None:
        size = sum(frame.size * frame.to_numpy().itemsize for frame in result.signals.values())
        with self._lock:
            if key not in self._results and size <= self._room:
                self._results[key] = result
                self._room -= size

    def serve(self) -> patch.multiple:
        """The runners of this process ask here first, until the patch is stopped."""

        def run(runner: ForkRunner, cells: Sequence[str], frames: Frames) -> CodeResult:
            key = (_limits(runner), tuple(cells), _content(frames))
            return self.result((*key, self.number(key)), lambda: _run(runner, cells, frames))

        def prefix_run(runner: ForkRunner, cells: Sequence[str], frames: Frames, **rows: bool) -> PrefixRun:
            return _KeptWalk(self, runner, cells, frames, rows)

        return patch.multiple(ForkRunner, run=run, prefix_run=prefix_run)


class _KeptWalk(PrefixRun):
    """A walk whose process is started at the first step that is not kept, and then led there step by step."""

    def __init__(
        self, kept: KeptCode, runner: ForkRunner, cells: Sequence[str], frames: Frames, rows: dict[str, bool]
    ) -> None:
        opening = (_limits(runner), tuple(cells), _content(frames), tuple(rows.items()))
        self._kept, self._key = kept, content_hash(repr((opening, kept.number(("prefixes", *opening)))))
        self._open = lambda: _prefix_run(runner, cells, frames, **rows)
        self._process: PrefixRun | None = None
        self._ahead: list[Moment] = []

    def _step(self, moment: Moment) -> CodeResult:
        self._key = content_hash(self._key, repr(moment))
        self._ahead.append(moment)
        return self._kept.result(self._key, self._lead)

    def _lead(self) -> CodeResult:
        """Take the process, which sees every step once, through the steps that it has not seen."""
        self._process = self._process or self._open()
        for step in self._ahead:
            result = self._process.at(step)
        self._ahead.clear()
        return result

    def close(self) -> None:
        if self._process is not None:
            self._process.close()


def _limits(runner: ForkRunner) -> Hashable:
    return runner.timeout, runner.memory_mb, runner.output_limit, runner.isolation, runner.packages


def _content(frames: Frames) -> Hashable:
    return tuple(
        (panel, name, frame.digest) for panel, fields in frames.items() for name, frame in fields.items()
    )
