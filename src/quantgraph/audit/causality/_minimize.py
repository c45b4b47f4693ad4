"""The smallest counterexample: earliest cell, fewest later sessions, fewest symbols."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from quantgraph.audit.causality._alternative_futures import FutureSpec
from quantgraph.audit.causality._cuts import Rows
from quantgraph.audit.causality._panel_slices import axes_of, only, prefix
from quantgraph.audit.causality._signal_comparison import Bools, ReferenceSignal, first_row
from quantgraph.audit.causality.counterexample import Counterexample, TestKind
from quantgraph.audit.causality.trials import RunPanel, TrialOutcome
from quantgraph.market.moment import Moment, Phase
from quantgraph.sandbox.wire import Frames

__all__ = ["Minimizer"]


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """A row of the reference, a column of it, and what stands there before and after."""

    row: int
    column: int
    known: float
    later: float
    raised: str = ""


class Minimizer:
    """Narrows a difference down on one panel.

    What it finds is shown, and proves nothing that was not seen before: any way to run will do.
    """

    def __init__(self, run: RunPanel, panel: Frames, reference: ReferenceSignal, phase: Phase) -> None:
        self._run, self._panel, self._reference, self._phase = run, panel, reference, phase
        self._sessions = axes_of(panel).sessions

    def truncation(self, differing: Bools, cut: int, *, test: TestKind = "truncation") -> Counterexample:
        """From cells (T, N) in which the panel cut after row ``cut`` differs from the whole."""
        row = first_row(differing)
        columns = np.flatnonzero(differing[row])
        base = max(int(np.searchsorted(self._sessions, self._reference.sessions[row], side="right")) - 1, 0)
        start = Moment(pd.Timestamp(self._sessions[base]), self._phase)
        same = self._phase != "post_close"
        steps = _gallop(base, cut, len(self._sessions), same=same)
        first, before, cell, step = self._run(prefix(self._panel, start)), base - same, None, cut

        def at(step: int) -> _Cell | None:
            other = self._run(prefix(self._panel, self._after(step)))
            return self._changed(first, other, row, columns)

        for step in steps:
            cell = at(step)
            if cell:
                break
            before = step
        if cell is None:  # only the whole panel shows it
            cell, step = self._given(first, row, int(columns[0])), len(self._sessions) - 1

        cell, step = _bisected(cell, before, step, at)
        alone = self._alone(
            cell, lambda panel: prefix(panel, start), lambda panel: prefix(panel, self._after(step))
        )
        return self._told(test, cell, needs=step - base, alone=alone)

    def corruption(
        self, differing: Bools, how: FutureSpec, corrupted: Callable[[FutureSpec], Frames]
    ) -> Counterexample:
        """From cells (T, N) that another future after one cut for all symbols changes."""
        row = first_row(differing)
        columns = np.flatnonzero(differing[row])
        cut = int(how.cuts[0])
        given = self._run(self._panel)
        least = 0 if self._phase != "post_close" else 1
        steps = [
            *(cut + step for step in _powers(least, len(self._sessions) - 1 - cut)),
            len(self._sessions) - 1,
        ]

        def at(step: int) -> _Cell | None:
            other = self._run(corrupted(replace(how, sessions=step - cut)))
            return self._changed(given, other, row, columns)

        before, cell, step = cut - 1 + least, None, steps[-1]
        for step in steps:
            cell = at(step)
            if cell:
                break
            before = step
        if cell is None:
            cell = self._given(given, row, int(columns[0]))
        cell, step = _bisected(cell, before, step, at)
        base = int(np.searchsorted(self._sessions, self._reference.sessions[row]))
        return self._told("corruption", cell, needs=step - base, alone=False)

    def memory(self, differing: Bools, after: TrialOutcome) -> Counterexample:
        """From cells (T, N) of the reference that are others once a longer panel was seen."""
        row, column = (int(place) for place in np.argwhere(differing)[0])
        known, later = self._reference.values[row, column], self._reference.of(after)[row, column]
        cell = _Cell(row=row, column=column, known=float(known), later=float(later))
        return self._told("memory", cell, needs=0, alone=False)

    def _after(self, row: int) -> Moment:
        return Moment(pd.Timestamp(self._sessions[row]))

    def _changed(self, first: TrialOutcome, other: TrialOutcome, row: int, columns: Rows) -> _Cell | None:
        a, b = self._reference.of(first)[row], self._reference.of(other)[row]
        unequal = self._reference.unequal(first, other, row)
        found = [int(column) for column in columns if unequal[column]]
        if not found:
            return None
        return _Cell(
            row=row, column=found[0], known=float(a[found[0]]), later=float(b[found[0]]), raised=first.error
        )

    def _given(self, first: TrialOutcome, row: int, column: int) -> _Cell:
        known, later = self._reference.of(first)[row, column], self._reference.values[row, column]
        return _Cell(row=row, column=column, known=float(known), later=float(later), raised=first.error)

    def _alone(
        self, cell: _Cell, before: Callable[[Frames], Frames], after: Callable[[Frames], Frames]
    ) -> bool:
        """Whether the symbol shows it when it is the only one."""
        if len(self._reference.symbols) == 1:
            return True
        single = only(self._panel, {self._reference.symbols[cell.column]})
        if not any(single.values()):
            return False
        first, later = self._run(before(single)), self._run(after(single))
        return bool(self._reference.unequal(first, later, cell.row)[cell.column])

    def _told(self, test: TestKind, cell: _Cell, *, needs: int, alone: bool) -> Counterexample:
        return Counterexample(
            test=test,
            session=pd.Timestamp(self._reference.sessions[cell.row]),
            symbol=self._reference.symbols[cell.column],
            known=cell.known,
            later=cell.later,
            needs=needs,
            symbols=1 if alone else len(self._reference.symbols),
            phase=self._phase,
            raised=cell.raised,
        )


def _powers(least: int, most: int) -> list[int]:
    steps = [0] if least == 0 else []
    step = 1
    while step < most:
        steps.append(step)
        step *= 2
    return steps


def _gallop(base: int, cut: int, total: int, *, same: bool) -> list[int]:
    """Rows up to which to look, further and further; the cut that showed it, and the last."""
    steps = {base + step for step in _powers(0 if same else 1, total - base)}
    return sorted(row for row in {*steps, cut, total - 1} if base < row < total or (same and row == base))


def _bisected(cell: _Cell, before: int, step: int, at: Callable[[int], _Cell | None]) -> tuple[_Cell, int]:
    """The first step at which the cell changes, between one where it does not and one where it does."""
    while step - before > 1:
        middle = (before + step) // 2
        found = at(middle)
        if found:
            cell, step = found, middle
        else:
            before = middle
    return cell, step
