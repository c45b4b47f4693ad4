"""Tests with another future: other sessions after a cut, more of them, or a longer panel seen before."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from quantgraph.audit.causality._alternative_futures import FutureKind, FutureSpec
from quantgraph.audit.causality._bar_sampling import STYLES, Style
from quantgraph.audit.causality._cuts import Rows, symbol_cuts
from quantgraph.audit.causality._minimize import Minimizer
from quantgraph.audit.causality._panel_slices import axes_of, close_of, only, prefix
from quantgraph.audit.causality._proof_state import ProofState
from quantgraph.audit.causality._signal_comparison import Bools, ReferenceSignal
from quantgraph.audit.causality.counterexample import Counterexample
from quantgraph.audit.causality.trials import FunctionTrials
from quantgraph.audit.causality.verdict import MAX_FLIPPED_SHARE
from quantgraph.state.frames import Floats

__all__ = ["beyond_rounding", "other_futures", "remembered"]

_STAGGERED = 4
_UNIFORM = 12
_OTHERS = 2


def other_futures(case: ProofState) -> Counterexample | None:
    """Rows after a cut replaced: per symbol where symbols go apart, else at more places for all alike.

    Each runs in a process of its own: what code kept of one would tell it of the next.
    """
    apart, found = _staggered(case) if _separable(case) else (False, None)
    return found or _uniform(case, apart=apart) or _appended(case)


def beyond_rounding(
    case: ProofState, differing: Bools, theirs: Floats, row: int, *, trust_nudges: bool
) -> Bools:
    """Those of the ``differing`` cells (T, N) that are not excused as rounding; the others are counted.

    A longer panel is summed up in another order, so a tie may fall otherwise in it; or the future decides it.
    Of that other futures tell, which are as long: a cell that they change is not excused. Cells that no nudge
    turns over are excused if an empty future leaves them as they are, as long as they are few. Where nothing
    was said at all, as when the strategy fails, no rounding is to blame.

    Parameters
    ----------
    theirs
        What was said up to ``row``, on the axes of the reference.
    trust_nudges
        Whether a cell that a nudge turns over is excused without a look at other futures: where it is no
        matter, since what was said without the future is traded.
    """
    if np.isnan(theirs[differing]).all():  # it failed, or has no row
        return differing
    odd = differing & ~case.nudges.among(differing, case.reference, theirs)
    beyond = np.zeros_like(differing)
    if odd.any() or not trust_nudges:
        suspects = odd if trust_nudges else differing
        beyond = np.asarray(suspects & _decided_by_the_future(case, row))
    many = case.share(case.unexplained | odd) > MAX_FLIPPED_SHARE
    if odd.any() and (many or np.isnan(theirs[odd]).any() or not _is_of_the_length(case, odd, row)):
        beyond |= odd
    if not beyond.any():
        case.unexplained |= odd
        case.excuse(differing, theirs)
    return beyond


def _is_of_the_length(case: ProofState, cells: Bools, row: int) -> bool:
    """Whether cells (T, N) come out as they do where later sessions are there, and nothing is known of them.

    Code that looks ahead says then what it says without them.
    """
    cuts = np.full(len(case.axes.symbols), row)
    empty = replace(_future(case, "missing", cuts, row), redated=True)
    before = case.tried["missing"]
    changed = _changed(case, empty)
    return case.tried["missing"] > before and not (changed & cells).any()


def _decided_by_the_future(case: ProofState, row: int) -> Bools:
    """Cells (T, N) up to a row that another future of the same length after it changes."""
    cuts = np.full(len(case.axes.symbols), row)
    changed = np.zeros(case.reference.values.shape, dtype=bool)
    for style in ("apart", STYLES[1 + row % 2]):
        for how in _pair(case, cuts, row, style):
            changed |= _changed(case, how)
    return changed


def _uniform(case: ProofState, *, apart: bool) -> Counterexample | None:
    rows, _ = case.cuts(min(_OTHERS if apart else _UNIFORM, case.total), case.seed + 1)
    for number, row in enumerate(rows):
        cuts = np.full(len(case.axes.symbols), row)
        futures = [] if apart else _pair(case, cuts, row, STYLES[number % len(STYLES)])
        if number % max(1, len(rows) // _OTHERS) == 0:
            futures.append(_future(case, "missing", cuts, row))
        for how in futures:
            found = _replaced(case, how)
            if found:
                return found
    return None


def _future(case: ProofState, kind: FutureKind, cuts: Rows, number: int) -> FutureSpec:
    return FutureSpec(kind=kind, cuts=cuts, phase=case.phase, seed=case.seed + number)


def _pair(case: ProofState, cuts: Rows, number: int, style: Style) -> list[FutureSpec]:
    """A future, and the same the other way round; on other days too, where all symbols are cut alike."""
    redated = style != "apart" and bool((cuts == cuts[0]).all())
    future = replace(_future(case, "redrawn", cuts, number), style=style, redated=redated)
    return [future, replace(future, falling=True)]


def _changed(case: ProofState, how: FutureSpec) -> Bools:
    """Cells up to each symbol's cut that another future changes.

    A strategy that fails on a future that could have come is remembered for it: nothing was settled there.
    """
    outcome = case.trials.whole(case.futures.of(how))
    if outcome.signal is None:
        if how.kind != "missing":
            case.refuse(outcome.error)
        return np.zeros(case.reference.values.shape, dtype=bool)
    case.tried[how.kind] += 1
    known = np.full(len(case.reference.symbols), case.rows_to(int(how.cuts.min())))
    known[: len(how.cuts)] = np.searchsorted(
        case.reference.sessions, case.axes.sessions[how.cuts], side="right"
    )
    differing = case.reference.changed(outcome, int(known.max()))
    return np.asarray(differing & (np.arange(len(differing))[:, None] < known))


def _replaced(case: ProofState, how: FutureSpec) -> Counterexample | None:
    """Try another future after one cut for all symbols: what it changes before the cut is no accident."""
    differing = _changed(case, how)
    if not differing.any():
        return None
    with case.trials.series() as run:
        finder = Minimizer(run, case.panel, case.reference, case.phase)
        return finder.corruption(differing, how, case.futures.of)


def _separable(case: ProofState) -> bool:
    """Whether each symbol's signal seems to depend on its own data only."""
    symbols = case.axes.symbols
    if len(symbols) == 1:
        return True
    outcome = case.trials.whole(only(case.panel, set(symbols[::2])))
    if outcome.signal is None:
        return False
    differing = case.reference.differing(outcome, len(case.reference.sessions))
    return not differing[:, : len(symbols) : 2].any()


def _staggered(case: ProofState) -> tuple[bool, Counterexample | None]:
    """Whether symbols go apart, and what cuts of their own for each show: many places in one run."""
    close = close_of(case.panel).values
    for number, cuts in enumerate(symbol_cuts(case.signal, close, count=_STAGGERED, seed=case.seed)):
        for how in _pair(case, cuts, number, STYLES[number % len(STYLES)]):
            columns = np.flatnonzero(_changed(case, how).any(axis=0))
            # Only a cut for all symbols proves anything: one may depend on another after all.
            for column in columns[columns < len(cuts)][:_OTHERS]:
                found = _replaced(case, replace(how, cuts=np.full_like(cuts, cuts[column])))
                if found:
                    return True, found
            if len(columns):
                return False, None
    return True, None


def _appended(case: ProofState) -> Counterexample | None:
    """The same panel with sessions after its last, and with the opposite ones."""
    panels = [case.futures.extended(case.seed, falling=falling) for falling in (False, True)]
    outcomes = [case.trials.whole(longer) for longer in panels]
    for longer, outcome, other in zip(panels, outcomes, reversed(outcomes), strict=True):
        if outcome.signal is None:
            case.refuse(outcome.error)
            continue
        case.tried["appended"] += 1
        reference, rows = ReferenceSignal(outcome.signal, axes_of(longer)), case.total
        differing = reference.differing(case.first, rows)
        near = case.nudges.among(differing, reference, reference.values)
        # A tie that the sessions appended decide is decided otherwise by the opposite ones.
        alike = ~reference.changed(other, rows)
        odd = (differing & ~near & alike)[:rows]
        if case.share(case.unexplained | odd) <= MAX_FLIPPED_SHARE:
            near[:rows] |= odd
            case.unexplained |= odd
        beyond = differing & ~(near & alike)
        if beyond.any():
            with case.trials.series() as run:
                finder = Minimizer(run, longer, reference, case.phase)
                return finder.truncation(beyond, rows - 1, test="appended")
        case.excuse(differing[:rows], reference.values[:rows])
    return None


def remembered(case: ProofState, trials: FunctionTrials) -> Counterexample | None:
    """Prefixes after a longer panel, in one process: what a function keeps from call to call."""
    start = np.zeros(len(case.axes.symbols), dtype=np.int64)
    longer = case.futures.of(_future(case, "redrawn", start, 0))
    moments = [case.moment(row) for row in sorted({case.total // 3, 2 * case.total // 3})]
    after = trials.in_turn([lambda: longer, *(partial(prefix, case.panel, moment) for moment in moments)])
    next(after)
    for moment, fresh, outcome in zip(moments, case.trials.walk(case.panel, moments), after, strict=True):
        if outcome.signal is None or fresh.signal is None:
            continue
        reference = ReferenceSignal(fresh.signal, case.axes)
        differing = reference.differing(outcome, reference.rows_to(moment.session))
        if differing.any():
            return Minimizer(case.trials.whole, case.panel, reference, case.phase).memory(differing, outcome)
    return None
