"""The tests of a proof: every session, prefixes at some sessions, alternative futures, and memory."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter

import numpy as np

from quantgraph.audit.causality._comparison import Bools, Cells, ReferenceSignal, first_row, is_close
from quantgraph.audit.causality._counterexample import Counterexample, Minimizer
from quantgraph.audit.causality._futures import FIRST_MOVES, FirstMoves, FutureKind, FutureSpec
from quantgraph.audit.causality._state import ProofState
from quantgraph.audit.causality._trials import FunctionTrials, TrialOutcome, axes_of, prefix, to_frame
from quantgraph.audit.causality._verdict import MAX_FLIPPED_SHARE
from quantgraph.errors import CodeMemoryExceeded, CodeTimeout
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import Floats, FrozenFrame

_EARLIER_CUTS = 48
_FUTURE_CUTS = 8
_MISSING_FUTURES = 2
_PACE_STEPS = frozenset(64 << power for power in range(20))


def prefix_proof(state: ProofState, seconds: float = math.inf) -> FrozenFrame | Counterexample | None:
    """Compute the signal session by session, in a process that never receives a later session.

    Row t is the last row of the signal on what is known at t; NaN if it has no such row. The signal of the
    whole panel is only compared with it: a difference beyond rounding refutes the strategy. None if the proof
    would take longer than ``seconds``; the signal has the symbols that it ever had, in the panel's order.
    """
    reference, rows = state.reference, range(state.total)
    values = np.full(reference.values.shape, np.nan)
    used = np.zeros(len(reference.symbols), dtype=bool)

    def compare(row: int, outcome: TrialOutcome) -> _Difference:
        place = state.rows_to(row) - 1
        values[place], present = reference.row(outcome, place)
        used[present] = True
        columns = np.flatnonzero(reference.row_differs(values[place], present, place))
        return _Difference(cells=(np.full(len(columns), place), columns), values=values[place][columns])

    try:
        hit = _first_beyond(state, rows, compare, walked=True, seconds=seconds)
    except _TooSlow:
        return None
    if hit is not None:
        return state.minimizer.truncation(*hit)
    kept = np.searchsorted(reference.sessions, state.axes.sessions)
    columns = np.flatnonzero(used if used.any() else ~used)
    symbols = tuple(reference.symbols[column] for column in columns)
    return to_frame(state.axes.sessions, symbols, values[np.ix_(kept, columns)])


class _TooSlow(Exception):
    """The proof would take too long."""


class _Pace:
    """Expects from its first steps how long a proof takes: a step grows evenly with the rows that it has.

    It looks at 64, 128, 256 … steps, as long as half of the steps are still to come. Medians are compared, so
    that a machine that stops for a moment decides nothing. A proof that has taken twice its time is too slow,
    wherever it is.
    """

    def __init__(self, seconds: float, total: int) -> None:
        self._seconds, self._total = seconds, total
        self._times = [time.perf_counter()]

    def step(self) -> None:
        """Take the time of a step; raises _TooSlow if the proof is expected to take too long."""
        self._times.append(time.perf_counter())
        done = len(self._times) - 1
        if self._times[-1] - self._times[0] > 2 * self._seconds:
            raise _TooSlow
        if done in _PACE_STEPS and 2 * done <= self._total:
            early, late = (float(np.median(part)) for part in np.split(np.diff(self._times), 2))
            slope = max(late - early, 0.0) / (done / 2)
            if self._total * (early + slope * (self._total - done / 2) / 2) > self._seconds:
                raise _TooSlow


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


_Compare = Callable[[int, TrialOutcome], _Difference]


@dataclass(kw_only=True)
class _PrefixResult:
    """Differences by row, whether the last one stopped the proof, and what else ended it."""

    found: dict[int, _Difference] = field(default_factory=dict)
    stopped: bool = False
    failure: Exception | None = None


def _run_prefixes(
    state: ProofState, rows: Sequence[int], compare: _Compare, seconds: float, most: float
) -> _PrefixResult:
    """Walk through ascending rows; stop if the strategy fails, or more than ``most`` cells differ."""
    result, pace = _PrefixResult(), _Pace(seconds, len(rows))
    other = np.zeros(state.reference.values.shape, dtype=bool)
    try:
        with closing(state.trials.prefixes(state.panel, [state.moment(row) for row in rows])) as run:
            for row, outcome in zip(rows, run, strict=False):
                difference = compare(row, outcome)
                if len(difference.values):
                    result.found[row] = difference
                    close = is_close(state.reference.values[difference.cells], difference.values)
                    other[tuple(part[~close] for part in difference.cells)] = True
                    failed = bool(np.isnan(difference.values).all())
                    if failed or np.count_nonzero(other) > most:
                        result.stopped = True
                        break
                pace.step()
    except (_TooSlow, CodeTimeout, CodeMemoryExceeded) as error:
        result.failure = error
    return result


def _first_beyond(
    state: ProofState,
    rows: Sequence[int],
    compare: _Compare,
    *,
    walked: bool,
    seconds: float = math.inf,
    most: float | None = None,
) -> tuple[Bools, int] | None:
    """Walk through ascending rows, then judge what differs: what no rounding excuses, and its row.

    The rows before it are proved; in a sampled proof no more once the strategy has failed on an alternative
    future. Judging runs the strategy on later rows, so it begins when their process has ended. If they
    take too long, what they showed until then is judged all the same.
    """
    result = _run_prefixes(state, rows, compare, seconds, state.perturbations.most if most is None else most)
    for row in rows:
        if row in result.found:
            beyond = _beyond_rounding(state, *result.found[row].dense(state), row, walked=walked)
            if beyond.any():
                return beyond, row
            if result.stopped and row == max(result.found):  # all of it is rounding after all
                return _first_beyond(state, rows, compare, walked=walked, seconds=seconds, most=math.inf)
        if walked or not state.future_error:
            state.proved.add(row)
    if result.failure is not None:
        raise result.failure
    return None


def sampled_proof(state: ProofState, cuts: Sequence[int]) -> Counterexample | None:
    """Test the strategy on prefixes cut after some rows, then on alternative futures, until a test fails."""
    futures = min(_FUTURE_CUTS, len(cuts))
    return _truncation_test(state, cuts) or _alternative_futures_test(state, futures) or _appended_test(state)


def runs_of_samples(cuts: int) -> int:
    """How many runs :func:`sampled_proof` takes at so many cuts, if no test fails."""
    futures = min(_FUTURE_CUTS, cuts)
    return cuts + 2 * futures + min(_MISSING_FUTURES, futures) + 2


def _truncation_test(state: ProofState, rows: Sequence[int]) -> Counterexample | None:
    """Run prefixes of the panel up to ascending rows, and narrow down the first difference."""
    hit = _first_difference(state, rows)
    if hit is None:
        return None
    # An earlier session may show it too; sessions with an opinion are tried first.
    earliest = state.reference.sessions[first_row(hit[0])]
    before = min(int(np.searchsorted(state.axes.sessions, earliest)), hit[1])
    has_opinion = np.asarray(state.reference.opinions.any(axis=1))
    unproved = [row for row in range(before) if row not in state.proved]
    likely = [row for row in unproved if has_opinion[state.rows_to(row) - 1]] or unproved
    earlier = _first_difference(state, likely[:: 1 + len(likely) // _EARLIER_CUTS])
    return state.minimizer.truncation(*(earlier or hit))


def _first_difference(state: ProofState, rows: Sequence[int]) -> tuple[Bools, int] | None:
    """The cells that the first revealing cut changes, and its row."""

    def compare(row: int, outcome: TrialOutcome) -> _Difference:
        known = state.rows_to(row)
        state.last_rows[known - 1] = True
        # A failure concerns its own session only; the rows before were computed at theirs.
        first = known - 1 if outcome.signal is None else 0
        cells = np.nonzero(state.reference.differing(outcome, known, first))
        return _Difference(cells=cells, values=state.reference.values_at(outcome, cells))

    return _first_beyond(state, rows, compare, walked=False)


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
        if number < _MISSING_FUTURES:
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

    Those of one cut run side by side: what they know beyond it is invented. A failure on a plausible future
    is kept in the state, because nothing was tested there.
    """
    for _, same_cut in itertools.groupby(specs, attrgetter("cut")):
        group = list(same_cut)
        outcomes = state.trials.side_by_side(partial(state.futures.panel, spec) for spec in group)
        # The last one has ended before the first is judged.
        yield from [_change(state, spec, outcome) for spec, outcome in zip(group, outcomes, strict=True)]


def _change(state: ProofState, spec: FutureSpec, outcome: TrialOutcome) -> Bools:
    if outcome.signal is None:
        if spec.kind != "missing":
            state.fail_on_future(outcome.error)
        return np.zeros(state.reference.values.shape, dtype=bool)
    state.alternative_futures[spec.kind] += 1
    return state.reference.changed(outcome, state.rows_to(spec.cut))


def _appended_test(state: ProofState) -> Counterexample | None:
    """Append sessions to the panel, and the opposite ones."""
    panels: dict[bool, Frames] = {}

    def extended(opposite: bool) -> Frames:
        panels[opposite] = state.futures.extended(state.seed, opposite=opposite)
        return panels[opposite]

    ways = (False, True)
    outcomes = list(state.trials.one_by_one(partial(extended, way) for way in ways))
    for way, outcome, other in zip(ways, outcomes, reversed(outcomes), strict=True):
        if outcome.signal is None:
            state.fail_on_future(outcome.error)
            continue
        state.alternative_futures["appended"] += 1
        longer, rows = panels[way], state.total
        reference = ReferenceSignal(outcome.signal, axes_of(longer))
        differing = reference.differing(state.whole, rows)
        near = state.perturbations.explain(differing, reference, reference.values)
        # The opposite sessions decide a tie otherwise if the appended ones decide it.
        alike = ~reference.changed(other, rows)
        odd = (differing & ~near & alike)[:rows]
        if state.share(state.unexplained | odd) <= MAX_FLIPPED_SHARE:
            near[:rows] |= odd
            state.unexplained |= odd
        beyond = differing & ~(near & alike)
        if beyond.any():
            minimizer = Minimizer(state.trials.whole, longer, reference, state.phase)
            return minimizer.truncation(beyond, rows - 1, test="appended")
        state.excuse(differing[:rows], reference.values[:rows])
    return None


def memory_test(state: ProofState, trials: FunctionTrials) -> Counterexample | None:
    """Run prefixes after a longer panel in one process: a function may keep data from call to call."""
    longer = state.futures.panel(_future(state, "resampled", 0))
    moments = [state.moment(row) for row in sorted({state.total // 3, 2 * state.total // 3})]
    after = list(
        trials.in_turn([lambda: longer, *(partial(prefix, state.panel, moment) for moment in moments)])
    )
    before = list(state.trials.prefixes(state.panel, moments))
    for moment, fresh, outcome in zip(moments, before, after[1:], strict=True):
        if outcome.signal is None or fresh.signal is None:
            continue
        reference = ReferenceSignal(fresh.signal, state.axes)
        differing = reference.differing(outcome, reference.rows_to(moment.session))
        if differing.any():
            minimizer = Minimizer(state.trials.whole, state.panel, reference, state.phase)
            return minimizer.memory(differing, outcome)
    return None
