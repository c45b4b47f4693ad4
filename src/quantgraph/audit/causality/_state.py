"""State of one proof: strategy, panel, results so far, and the sessions after which the panel is cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cached_property, partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.audit.causality._comparison import Bools, Perturbations, Reads, ReferenceSignal, is_close
from quantgraph.audit.causality._counterexample import Minimizer
from quantgraph.audit.causality._futures import AlternativeFutures, FirstMoves
from quantgraph.audit.causality._trials import (
    CodeTrials,
    FunctionTrials,
    TrialOutcome,
    Trials,
    axes_of,
    close_of,
    in_threads,
    only_fields,
)
from quantgraph.errors import CodeFailed
from quantgraph.market import Moment, Phase
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import Dates, Floats

Rows = NDArray[np.int64]

_CHANCE_SESSIONS = 2
"""Ties may coincide by chance in so many sessions."""


class CountedTrials:
    """Trials that count how often the strategy was run."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self.evaluations = 0

    @property
    def isolated(self) -> bool:
        """See :class:`.Trials`."""
        return self._trials.isolated

    @property
    def cells(self) -> tuple[str, ...]:
        """Source of the strategy, empty if unknown."""
        return self._trials.cells if isinstance(self._trials, CodeTrials | FunctionTrials) else ()

    def prefixes(self, panel: Frames, moments: Sequence[Moment]) -> Generator[TrialOutcome]:
        """See :class:`.Trials`."""
        with closing(self._trials.prefixes(panel, moments)) as run:
            for outcome in run:
                self.evaluations += 1
                yield outcome

    def whole(self, panel: Frames) -> TrialOutcome:
        """See :class:`.Trials`."""
        self.evaluations += 1
        return self._trials.whole(panel)

    def one_by_one(self, panels: Iterable[Callable[[], Frames]]) -> Iterator[TrialOutcome]:
        """See :func:`.one_by_one`."""
        return (self.whole(make()) for make in panels)

    def side_by_side(self, panels: Iterable[Callable[[], Frames]]) -> Iterator[TrialOutcome]:
        """Run it on panels of which each may know what the others know, each in a process of its own."""
        tasks = (partial(self._whole_of, make) for make in panels)
        for outcome in in_threads(tasks, self._trials.threads):
            self.evaluations += 1
            yield outcome

    def _whole_of(self, make: Callable[[], Frames]) -> TrialOutcome:
        return self._trials.whole(make())


class ProofState:
    """State that all tests of one proof share."""

    def __init__(
        self,
        trials: Trials,
        panel: Frames,
        phase: Phase,
        seed: int,
        *,
        whole: TrialOutcome | None = None,
        reads: Reads = None,
    ) -> None:
        self.trials = CountedTrials(trials)
        self._all, self.phase, self.seed = panel, phase, seed
        self.panel = panel if reads is None else only_fields(panel, reads)
        self.axes = axes_of(panel)
        self.total = len(self.axes.sessions)
        self.whole = whole or self.trials.whole(self.panel)
        if self.whole.signal is None:
            raise CodeFailed(f"the strategy fails on the whole panel: {self.whole.error}")
        self.reference = ReferenceSignal(self.whole.signal, self.axes)
        self.perturbations = Perturbations(self.trials.one_by_one, self.panel, self.whole, seed)
        self.alternative_futures: Counter[str] = Counter()
        self.proved: set[int] = set()
        self.near_threshold: Bools = np.zeros(self.reference.values.shape, dtype=bool)
        self.flipped: Bools = np.zeros_like(self.near_threshold)
        self.unexplained: Bools = np.zeros_like(self.near_threshold)
        self.last_rows: Bools = np.zeros_like(self.near_threshold)
        self.future_error = ""

    @cached_property
    def futures(self) -> AlternativeFutures:
        """Alternative futures of the panel."""
        return AlternativeFutures(self._all, handed=self.panel)

    def moment(self, row: int) -> Moment:
        """The moment at which the signal of a row is decided."""
        return Moment(pd.Timestamp(self.axes.sessions[row]), self.phase)

    def rows_to(self, row: int) -> int:
        """How many rows of the signal are not later than a row of the panel."""
        return self.reference.rows_to(self.axes.sessions[row])

    @property
    def minimizer(self) -> Minimizer:
        """A minimizer of counterexamples on the panel."""
        return Minimizer(self.trials.whole, self.panel, self.reference, self.phase)

    def cuts(self, count: int) -> tuple[tuple[int, ...], int]:
        """Rows after which to cut the panel, and how many of them are random: see :func:`choose_cuts`."""
        close, sessions = close_of(self.panel).values, self.axes.sessions
        return choose_cuts(self._signal, close, sessions, count=count, seed=self.seed)

    def future_cuts(self, count: int) -> dict[int, FirstMoves]:
        """Rows after which to replace the future, and how its first sessions are drawn.

        In turn a row of a change, of a gap, before a change, and any.
        """
        rng, change = np.random.default_rng(self.seed + 1), signal_changes(self._signal)
        gap = _gaps(close_of(self.panel).values)
        places = _rows(change), _rows(gap), _rows(_row_before(change)), np.arange(self.total)
        moves: tuple[FirstMoves, ...] = "diverging", "diverging", "joint", "ordinary"
        kinds = [rng.permutation(rows[rows < self.total - 1]) for rows in places]
        chosen = _in_turn(kinds, min(count, self.total - 1))
        return {row: moves[kind] for row, kind in chosen.items()}

    @property
    def _signal(self) -> Floats:
        """The signal on the panel's axes."""
        values, symbols = self.reference.values, len(self.axes.symbols)
        if len(values) == self.total:
            return values[:, :symbols]
        return values[np.searchsorted(self.reference.sessions, self.axes.sessions)][:, :symbols]

    def share(self, cells: Bools) -> float:
        """Share of the opinions that cells (T, N) are, themselves included."""
        return _share(cells, self.reference.opinions | cells)

    @property
    def flipped_share(self) -> float:
        """Share of the opinions that rounding flips: of all, or of those in the last rows of prefixes.

        The last row of a prefix is not nearer to a threshold than the others, unless code makes it so.
        """
        if not self.flipped.any():
            return 0.0
        sessions = int((self.flipped & self.last_rows).any(axis=1).sum())
        opinions = self.last_rows & (self.reference.opinions | self.flipped)
        last = _share(self.flipped & self.last_rows, opinions)
        return max(self.share(self.flipped), last if sessions > _CHANCE_SESSIONS else 0.0)

    def fail_on_future(self, error: str) -> None:
        """Keep the first error of the strategy on a plausible alternative future."""
        self.future_error = self.future_error or error

    def excuse(self, cells: Bools, values: Floats) -> None:
        """Count cells (T, N) that differ from ``values`` by rounding only."""
        self.near_threshold |= cells
        self.flipped |= cells & ~is_close(self.reference.values, values)


def _share(part: Bools, whole: Bools) -> float:
    return int(np.count_nonzero(part)) / (int(np.count_nonzero(whole)) or 1)


def choose_cuts(
    signal: Floats, close: Floats, sessions: Dates, *, count: int, seed: int
) -> tuple[tuple[int, ...], int]:
    """Choose ``count`` rows of frames (T, N) after which to cut, ascending; and say how many are random.

    The last row is never chosen: a panel cut after it is whole. Every other cut is drawn from all rows alike,
    so that no code can avoid them. The others are spread over the places where leaks show: changes of the
    signal and the sessions before them; gaps of a symbol (NaN between prices) and their last sessions; ends
    of months, quarters and years; first and last rows with a price.
    """
    total, rng = len(sessions), np.random.default_rng(seed)
    if count >= total:
        return tuple(range(total)), total
    random = (count + 1) // 2
    drawn = rng.choice(total - 1, random, replace=False).tolist()
    places = (*_revealing_rows(signal, close, sessions), np.arange(total))
    kinds = [_spread(rows[rows < total - 1], rng) for rows in places]
    return tuple(sorted(_in_turn(kinds, count, drawn))), random


def _in_turn(kinds: Sequence[Iterable[int]], count: int, first: Iterable[int] = ()) -> dict[int, int]:
    """``first``, then a row of each kind in turn, none twice, until there are ``count``, by kind number.

    The last kind must have enough rows. The number of ``first`` is -1.
    """
    taken, iterators = dict.fromkeys(first, -1), [iter(rows) for rows in kinds]
    while len(taken) < count:
        for number, rows in enumerate(iterators):
            fresh = next((int(row) for row in rows if int(row) not in taken), None)
            if fresh is not None and len(taken) < count:
                taken[fresh] = number
    return taken


def _revealing_rows(signal: Floats, close: Floats, sessions: Dates) -> Iterator[Rows]:
    change, gap = signal_changes(signal), _gaps(close)
    yield _rows(change)
    yield _rows(_row_before(change))
    yield _rows(gap & _row_before(gap))
    yield _rows(gap & ~_row_before(gap))
    days = pd.DatetimeIndex(sessions)
    for part in (days.month, days.quarter, days.year):
        number = part.to_numpy()
        yield np.flatnonzero(number[:-1] != number[1:])
    priced = ~np.isnan(close)
    yield np.unique(priced.argmax(axis=0)[priced.any(axis=0)])
    yield np.unique((len(close) - 1 - priced[::-1].argmax(axis=0))[priced.any(axis=0)])


def signal_changes(signal: Floats) -> Bools:
    """Where a signal (T, N) is an opinion that differs from the row before."""
    changes = (signal != 0) & ~np.isnan(signal)
    changes[1:] &= signal[1:] != signal[:-1]
    return np.asarray(changes)


def _gaps(close: Floats) -> Bools:
    """Where a price (T, N) is missing between two others."""
    priced = ~np.isnan(close)
    begun = np.logical_or.accumulate(priced, axis=0)
    continues = np.logical_or.accumulate(priced[::-1], axis=0)[::-1]
    return np.asarray(~priced & begun & continues)


def _row_before(marked: Bools) -> Bools:
    return np.vstack([marked[1:], np.zeros((1, marked.shape[1]), dtype=bool)])


def _rows(marked: Bools) -> Rows:
    return np.flatnonzero(marked.any(axis=1))


def _spread(rows: Rows, rng: np.random.Generator) -> list[int]:
    """All rows, shuffled so that the first ten come from each tenth of the range."""
    parts = [list(rng.permutation(part)) for part in np.array_split(rows, 10)]
    order = rng.permutation(10)
    longest = max(map(len, parts), default=0)
    return [
        int(parts[number][turn]) for turn in range(longest) for number in order if turn < len(parts[number])
    ]
