"""The tests of a proof: the first run, prefixes at some sessions, and alternative futures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.audit.causality._comparison import (
    Bools,
    Cells,
    Perturbations,
    ReferenceSignal,
    first_row,
    is_close,
    signal_changes,
)
from quantgraph.audit.causality._counterexample import Counterexample, Minimizer
from quantgraph.audit.causality._first_run import FUTURE_CUTS, MISSING_FUTURES, FirstRun
from quantgraph.audit.causality._futures import (
    FIRST_MOVES,
    AlternativeFutures,
    FirstMoves,
    FutureKind,
    FutureSpec,
)
from quantgraph.audit.causality._trials import (
    TrialOutcome,
    Trials,
    axes_of,
    close_of,
    one_by_one,
    only_fields,
)
from quantgraph.audit.causality._verdict import MAX_FLIPPED_SHARE
from quantgraph.errors import CodeFailed
from quantgraph.market import Moment, Phase
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import Dates, Floats

Rows = NDArray[np.int64]

_EARLIER_CUTS = 48
_CHANCE_SESSIONS = 2
"""Ties may coincide by chance in so many sessions."""


class ProofState:
    """State that all tests of one proof share."""

    def __init__(self, trials: Trials, panel: Frames, phase: Phase, seed: int, first: FirstRun) -> None:
        self.trials, self.first, self.run_each = trials, first, one_by_one(trials)
        self._all, self.phase, self.seed = panel, phase, seed
        self.panel = only_fields(panel, first.reads)
        self.axes = axes_of(panel)
        self.total = len(self.axes.sessions)
        self.whole = self.trials.whole(self.panel)
        if self.whole.signal is None:
            raise CodeFailed(first.error or f"the strategy fails on the whole panel: {self.whole.error}")
        self.reference = ReferenceSignal(self.whole.signal, self.axes)
        self.perturbations = Perturbations(self.run_each, self.panel, self.whole, seed)
        self.alternative_futures: Counter[str] = Counter()
        self.proved: set[int] = set()
        self.near_threshold: Bools = np.zeros(self.reference.values.shape, dtype=bool)
        self.flipped: Bools = np.zeros_like(self.near_threshold)
        self.unexplained: Bools = np.zeros_like(self.near_threshold)
        self.last_rows: Bools = np.zeros_like(self.near_threshold)
        self.future_error = ""

    def is_reproducible(self) -> bool:
        """Whether the strategy gives the same signal on the whole panel in another process."""
        again = self.trials.whole(self.panel)
        rows = len(self.reference.sessions)
        return again.signal is not None and not self.reference.differing(again, rows).any()

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

    def cuts(self, count: int) -> tuple[int, ...]:
        """Rows after which to cut the panel, beside those that were walked: see :func:`_revealing_cuts`."""
        close, sessions, seed = close_of(self.panel).values, self.axes.sessions, self.seed
        return _revealing_cuts(self._signal, close, sessions, count=count, but=self.first.rows, seed=seed)

    def future_cuts(self, count: int) -> dict[int, FirstMoves]:
        """Rows after which to replace the future, and how its first sessions are drawn.

        In turn a row of a change, of a gap, before a change, and any.
        """
        rng, change = np.random.default_rng(self.seed + 1), signal_changes(self._signal)
        gap = _gaps(close_of(self.panel).values)
        places = _rows_of(change), _rows_of(gap), _rows_of(_row_before(change)), np.arange(self.total)
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


def _revealing_cuts(
    signal: Floats, close: Floats, sessions: Dates, *, count: int, but: Sequence[int], seed: int
) -> tuple[int, ...]:
    """Choose ``count`` rows of frames (T, N) after which to cut, ``but`` those; ascending.

    They are spread over the places where leaks show: changes of the signal and the sessions before them; gaps
    of a symbol (NaN between prices) and their last sessions; ends of months, quarters and years; first and
    last rows with a price.
    """
    last, rng = len(sessions) - 1, np.random.default_rng(seed)
    kinds = [_spread(rows[rows < last], rng) for rows in (*_places(signal, close, sessions), np.arange(last))]
    found = _in_turn(kinds, min(len(but) + count, max(last, len(but))), but)
    return tuple(sorted(found.keys() - {*but}))


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


def _places(signal: Floats, close: Floats, sessions: Dates) -> Iterator[Rows]:
    change, gap = signal_changes(signal), _gaps(close)
    yield _rows_of(change)
    yield _rows_of(_row_before(change))
    yield _rows_of(gap & _row_before(gap))
    yield _rows_of(gap & ~_row_before(gap))
    days = pd.DatetimeIndex(sessions)
    for part in (days.month, days.quarter, days.year):
        number = part.to_numpy()
        yield np.flatnonzero(number[:-1] != number[1:])
    priced = ~np.isnan(close)
    yield np.unique(priced.argmax(axis=0)[priced.any(axis=0)])
    yield np.unique((len(close) - 1 - priced[::-1].argmax(axis=0))[priced.any(axis=0)])


def _gaps(close: Floats) -> Bools:
    """Where a price (T, N) is missing between two others."""
    priced = ~np.isnan(close)
    begun = np.logical_or.accumulate(priced, axis=0)
    continues = np.logical_or.accumulate(priced[::-1], axis=0)[::-1]
    return np.asarray(~priced & begun & continues)


def _row_before(marked: Bools) -> Bools:
    return np.vstack([marked[1:], np.zeros((1, marked.shape[1]), dtype=bool)])


def _rows_of(marked: Bools) -> Rows:
    return np.flatnonzero(marked.any(axis=1))


def _spread(rows: Rows, rng: np.random.Generator) -> list[int]:
    """All rows, shuffled so that the first ten come from each tenth of the range."""
    parts = [list(rng.permutation(part)) for part in np.array_split(rows, 10)]
    order = rng.permutation(10)
    longest = max(map(len, parts), default=0)
    return [
        int(parts[number][turn]) for turn in range(longest) for number in order if turn < len(parts[number])
    ]


def walked_proof(state: ProofState) -> Counterexample | None:
    """Compare what was computed in each session with the signal of the whole panel.

    A difference beyond rounding refutes the strategy.
    """
    hit = _walked_difference(state)
    return None if hit is None else state.minimizer.truncation(*hit)


def _walked_difference(state: ProofState) -> tuple[Bools, int] | None:
    """The cells in which the first walked row differs from the whole panel's, and the row.

    No opinion equals 0: neither trades.
    """
    first, reference = state.first, state.reference
    walked = reference.aligned(TrialOutcome(signal=first.signal))
    nowhere = np.zeros(len(reference.symbols), dtype=bool)

    def difference(row: int) -> _Difference:
        place = state.rows_to(row) - 1
        state.last_rows[place] = True
        columns = np.flatnonzero(reference.row_differs(walked[place], nowhere, place))
        return _Difference(cells=(np.full(len(columns), place), columns), values=walked[place][columns])

    return _first_beyond(state, ((row, difference(row)) for row in first.rows), walked=first.is_whole)


@dataclass(frozen=True, kw_only=True)
class _Difference:
    """Cells (n,) in which the signal of the prefix to a row differs from the whole panel's.

    ``values`` (n,) are those with what is known at the row, NaN for none.
    """

    cells: Cells
    values: Floats

    def dense(self, state: ProofState) -> tuple[Bools, Floats]:
        """The cells and their values on the axes of the reference (T, N)."""
        shape = state.reference.values.shape
        differing, values = np.zeros(shape, dtype=bool), np.full(shape, np.nan)
        differing[self.cells], values[self.cells] = True, self.values
        return differing, values


def _first_beyond(
    state: ProofState, differences: Iterable[tuple[int, _Difference]], *, walked: bool
) -> tuple[Bools, int] | None:
    """What no rounding excuses in the first row that differs so, and that row.

    The rows before it are proved; in a sampled proof no more once the strategy has failed on an alternative
    future.
    """
    for row, difference in differences:
        if len(difference.values):
            beyond = _beyond_rounding(state, *difference.dense(state), row, walked=walked)
            if beyond.any():
                return beyond, row
        if walked or not state.future_error:
            state.proved.add(row)
    return None


def sampled_proof(state: ProofState, cuts: int) -> Counterexample | None:
    """Test the first run, prefixes at changes of the signal, and alternative futures, until a test fails."""
    futures = min(FUTURE_CUTS, cuts)
    return _truncation_test(state, cuts) or _alternative_futures_test(state, futures)


def _truncation_test(state: ProofState, cuts: int) -> Counterexample | None:
    """Compare prefixes of the panel with the whole of it, and narrow down the first difference."""
    hit = _walked_difference(state) or _difference_at(state, state.cuts(cuts - len(state.first.rows)))
    if hit is None:
        return None
    # An earlier session may show it too; sessions with an opinion are tried first.
    earliest = state.reference.sessions[first_row(hit[0])]
    before = min(int(np.searchsorted(state.axes.sessions, earliest)), hit[1])
    has_opinion = np.asarray(state.reference.opinions.any(axis=1))
    unproved = [row for row in range(before) if row not in state.proved]
    likely = [row for row in unproved if has_opinion[state.rows_to(row) - 1]] or unproved
    earlier = _difference_at(state, likely[:: 1 + len(likely) // _EARLIER_CUTS])
    return state.minimizer.truncation(*(earlier or hit))


def _difference_at(state: ProofState, rows: Sequence[int]) -> tuple[Bools, int] | None:
    """The cells that the first revealing cut changes, of cuts after ascending rows that are run now."""
    moments = [state.moment(row) for row in rows]
    outcomes = list(state.trials.prefixes(state.panel, moments))

    def difference(row: int, outcome: TrialOutcome) -> _Difference:
        known = state.rows_to(row)
        state.last_rows[known - 1] = True
        # A failure concerns its own session only; the rows before were computed at theirs.
        first = known - 1 if outcome.signal is None else 0
        cells = np.nonzero(state.reference.differing(outcome, known, first))
        return _Difference(cells=cells, values=state.reference.values_at(outcome, cells))

    differences = ((row, difference(row, outcome)) for row, outcome in zip(rows, outcomes, strict=True))
    return _first_beyond(state, differences, walked=False)


def _beyond_rounding(state: ProofState, differing: Bools, values: Floats, row: int, *, walked: bool) -> Bools:
    """The ``differing`` cells (T, N) that rounding does not excuse; the others are counted.

    A longer panel is summed in another order, so a tie may fall otherwise in it; or the future decides it.
    Alternative futures of the same length tell the two apart: a cell that they change is not excused. Cells
    that no perturbation flips are excused if an empty future leaves them unchanged and they are few. Cells
    without any value, as when the strategy fails, are never excused.
    """
    if np.isnan(values[differing]).all():  # it failed, or has no row
        return differing
    odd = differing & ~state.perturbations.explain(differing, state.reference, values)
    beyond = np.zeros_like(differing)
    if odd.any() or not walked:
        beyond = np.asarray((odd if walked else differing) & _future_changes(state, row))
    many = state.share(state.unexplained | odd) > MAX_FLIPPED_SHARE
    if odd.any() and (many or np.isnan(values[odd]).any() or not _depends_on_length(state, odd, row)):
        beyond |= odd
    if not beyond.any():
        state.unexplained |= odd
        state.excuse(differing, values)
    return beyond


def _depends_on_length(state: ProofState, cells: Bools, row: int) -> bool:
    """Whether cells (T, N) keep their value when the later sessions are there, but empty.

    Code that looks ahead gives the value then that it gives without them.
    """
    before = state.alternative_futures["missing"]
    (changed,) = _changes(state, [replace(_future(state, "missing", row), redated=True)])
    return state.alternative_futures["missing"] > before and not (changed & cells).any()


def _future_changes(state: ProofState, row: int) -> Bools:
    """Cells (T, N) up to a row that an alternative future of the same length changes."""
    changed = np.zeros(state.reference.values.shape, dtype=bool)
    moves: tuple[FirstMoves, ...] = "diverging", FIRST_MOVES[1 + row % 2]
    for more in _changes(state, [spec for each in moves for spec in _opposite_futures(state, row, each)]):
        changed |= more
    return changed


def _alternative_futures_test(state: ProofState, cuts: int) -> Counterexample | None:
    """Replace the sessions after ``cuts`` rows; each future runs in a process of its own."""
    specs: list[FutureSpec] = []
    for number, (row, first_moves) in enumerate(state.future_cuts(cuts).items()):
        specs += _opposite_futures(state, row, first_moves)
        if number < MISSING_FUTURES:
            specs.append(_future(state, "missing", row))
    for spec, differing in zip(specs, _changes(state, specs), strict=True):
        if differing.any():  # no rounding: the panels have the same length
            return state.minimizer.alternative_future(differing, spec, state.futures.panel)
    return None


def _future(state: ProofState, kind: FutureKind, row: int) -> FutureSpec:
    return FutureSpec(kind=kind, cut=row, phase=state.phase, seed=state.seed + row)


def _opposite_futures(state: ProofState, row: int, first_moves: FirstMoves) -> list[FutureSpec]:
    """A future and its opposite; joint and ordinary ones fall on other days too."""
    redated = first_moves != "diverging"
    future = replace(_future(state, "resampled", row), first_moves=first_moves, redated=redated)
    return [future, replace(future, opposite=True)]


def _changes(state: ProofState, specs: Sequence[FutureSpec]) -> Iterator[Bools]:
    """Cells (T, N) up to the cut that each alternative future changes.

    A failure on a plausible future is kept in the state, because nothing was tested there.
    """
    outcomes = state.run_each(partial(state.futures.panel, spec) for spec in specs)
    return (_change(state, spec, outcome) for spec, outcome in zip(specs, outcomes, strict=True))


def _change(state: ProofState, spec: FutureSpec, outcome: TrialOutcome) -> Bools:
    if outcome.signal is None:
        if spec.kind != "missing":
            state.fail_on_future(outcome.error)
        return np.zeros(state.reference.values.shape, dtype=bool)
    state.alternative_futures[spec.kind] += 1
    return state.reference.changed(outcome, state.rows_to(spec.cut))
