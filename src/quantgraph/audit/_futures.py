"""Tests with another future: other sessions after a cut, more of them, or a longer panel seen before."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from quantgraph.audit._case import Case, Longer
from quantgraph.audit._compare import Bools, Reference
from quantgraph.audit._shrink import Finder
from quantgraph.audit._slices import axes_of, close_of, only, prefix
from quantgraph.audit.corrupt import Corruption, Kind, corrupted, extended
from quantgraph.audit.counterexample import Counterexample
from quantgraph.audit.cuts import Rows, symbol_cuts
from quantgraph.audit.trials import FunctionTrials, Run

__all__ = ["other_futures", "remembered"]

_STAGGERED = 6
_UNIFORM = 12
_OTHERS = 2


def other_futures(case: Case) -> Counterexample | None:
    """Rows after a cut replaced: per symbol where symbols go apart, else at more places for all alike."""
    with case.trials.series() as run:
        apart = _separable(case, run)
    with case.trials.series() as run:  # a process that has seen no true future
        return _other_futures(case, run, apart=apart) or _appended(case, run)


def _other_futures(case: Case, run: Run, *, apart: bool) -> Counterexample | None:
    found = None
    if apart:
        apart, found = _staggered(case, run)
    if found:
        return found
    rows = case.aimed(min(_OTHERS if apart else _UNIFORM, case.total), case.seed + 1)
    for number, row in enumerate(rows):
        cuts = np.full(len(case.axes.symbols), row)
        futures = [] if apart else [_future(case, "scaled", cuts, number, flipped=f) for f in (False, True)]
        if number % max(1, len(rows) // _OTHERS) == 0:
            futures += [_future(case, kind, cuts, number) for kind in ("permuted", "missing")]
        for how in futures:
            found = _replaced(case, run, how)
            if found:
                return found
    return None


def _future(case: Case, kind: Kind, cuts: Rows, number: int, *, flipped: bool = False) -> Corruption:
    return Corruption(kind=kind, cuts=cuts, phase=case.phase, seed=case.seed + number, flipped=flipped)


def _changed(case: Case, run: Run, how: Corruption) -> Bools:
    """Cells up to each symbol's cut that another future changes. A strategy that fails there says nothing."""
    outcome = run(corrupted(case.panel, how))
    if outcome.signal is None:
        return np.zeros(case.reference.values.shape, dtype=bool)
    case.tried[how.kind] += 1
    known = np.full(len(case.reference.symbols), case.rows_to(int(how.cuts.min())))
    known[: len(how.cuts)] = np.searchsorted(
        case.reference.sessions, case.axes.sessions[how.cuts], side="right"
    )
    differing = case.reference.changed(outcome, int(known.max()))
    return np.asarray(differing & (np.arange(len(differing))[:, None] < known))


def _replaced(case: Case, run: Run, how: Corruption) -> Counterexample | None:
    """Try another future after one cut for all symbols: what it changes before the cut is no accident."""
    differing = _changed(case, run, how)
    if not differing.any():
        return None
    return Finder(run, case.panel, case.reference, case.phase).corruption(differing, how)


def _separable(case: Case, run: Run) -> bool:
    """Whether each symbol's signal seems to depend on its own data only."""
    symbols = case.axes.symbols
    if len(symbols) == 1:
        return True
    outcome = run(only(case.panel, set(symbols[::2])))
    if outcome.signal is None:
        return False
    differing = case.reference.differing(outcome, len(case.reference.sessions))
    return not differing[:, : len(symbols) : 2].any()


def _staggered(case: Case, run: Run) -> tuple[bool, Counterexample | None]:
    """Whether symbols go apart, and what cuts of their own for each show: many places in one run."""
    close = close_of(case.panel).values
    for number, cuts in enumerate(symbol_cuts(case.signal, close, count=_STAGGERED, seed=case.seed)):
        for flipped in (False, True):
            how = _future(case, "scaled", cuts, number, flipped=flipped)
            columns = np.flatnonzero(_changed(case, run, how).any(axis=0))
            # Only a cut for all symbols proves anything: one may depend on another after all.
            for column in columns[columns < len(cuts)][:_OTHERS]:
                found = _replaced(case, run, replace(how, cuts=np.full_like(cuts, cuts[column])))
                if found:
                    return True, found
            if len(columns):
                return False, None
    return True, None


def _appended(case: Case, run: Run) -> Counterexample | None:
    """The same panel with sessions after its last."""
    longer = extended(case.panel, case.seed)
    outcome = run(longer)
    if outcome.signal is None:
        return None
    case.tried["appended"] += 1
    reference, last = Reference(outcome.signal, axes_of(longer)), case.total - 1
    differing, _ = case.beyond_rounding(
        reference.differing(case.first, reference.rows_to(case.axes.sessions[-1])),
        reference.of(case.first),
        run,
        row=last,
        short=case.panel,
        longer=Longer(panel=longer, reference=reference),
    )
    if not differing.any():
        return None
    return Finder(run, longer, reference, case.phase).truncation(differing, last, test="appended")


def remembered(case: Case, trials: FunctionTrials) -> Counterexample | None:
    """Prefixes after a longer panel, in one process: what a function keeps from call to call."""
    start = np.zeros(len(case.axes.symbols), dtype=np.int64)
    longer = corrupted(extended(case.panel, case.seed), _future(case, "scaled", start, 0))
    moments = [case.moment(row) for row in sorted({case.total // 3, 2 * case.total // 3})]
    after = trials.in_turn([lambda: longer, *(partial(prefix, case.panel, moment) for moment in moments)])
    next(after)
    for moment, fresh, outcome in zip(moments, case.trials.walk(case.panel, moments), after, strict=True):
        if outcome.signal is None or fresh.signal is None:
            continue
        reference = Reference(fresh.signal, case.axes)
        differing = reference.differing(outcome, reference.rows_to(moment.session))
        if differing.any():
            return Finder(case.trials.whole, case.panel, reference, case.phase).memory(differing, outcome)
    return None
