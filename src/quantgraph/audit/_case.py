"""One audit: the strategy, the panel, and what was found so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd

from quantgraph._frames import Floats
from quantgraph.audit._compare import Bools, Reference
from quantgraph.audit._rounding import Hanging
from quantgraph.audit._slices import axes_of, close_of
from quantgraph.audit.corrupt import Corruption, corrupted
from quantgraph.audit.cuts import aimed_cuts
from quantgraph.audit.trials import Outcome, Run, Trials
from quantgraph.errors import CodeFailed
from quantgraph.market.moment import Moment, Phase
from quantgraph.sandbox.wire import Frames

__all__ = ["Case", "Counted", "Longer"]


class Counted:
    """Trials that count how often the strategy was run."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self.evaluations = 0

    def walk(self, panel: Frames, moments: Sequence[Moment]) -> Iterator[Outcome]:
        """See :class:`Trials`."""
        for outcome in self._trials.walk(panel, moments):
            self.evaluations += 1
            yield outcome

    def whole(self, panel: Frames) -> Outcome:
        """See :class:`Trials`."""
        self.evaluations += 1
        return self._trials.whole(panel)

    @contextmanager
    def series(self) -> Iterator[Run]:
        """See :class:`Trials`."""
        with self._trials.series() as run:

            def counted(panel: Frames) -> Outcome:
                self.evaluations += 1
                return run(panel)

            yield counted


@dataclass(frozen=True, kw_only=True)
class Longer:
    """A panel, and the signal it gives."""

    panel: Frames
    reference: Reference


class Case:
    """What all tests of one audit share.

    Attributes
    ----------
    first, reference
        The signal of the whole panel, and the same to hold others against.
    tried
        How many other futures were tried, by kind.
    proved
        Rows at which the signal was the same without the future.
    hair
        Cells (T, N) that rounding turns over and other futures of the same length do not.
    """

    def __init__(self, trials: Trials, panel: Frames, phase: Phase, seed: int) -> None:
        self.trials = Counted(trials)
        self.panel, self.phase, self.seed = panel, phase, seed
        self.axes = axes_of(panel)
        self.total = len(self.axes.sessions)
        self.first = self.trials.whole(panel)
        if self.first.signal is None:
            raise CodeFailed(f"the strategy fails on the whole panel: {self.first.error}")
        self.reference = Reference(self.first.signal, self.axes)
        self.tried: Counter[str] = Counter()
        self.proved: set[int] = set()
        self.hair: Bools = np.zeros(self.reference.values.shape, dtype=bool)

    def moment(self, row: int) -> Moment:
        """When the signal of a row is decided."""
        return Moment(pd.Timestamp(self.axes.sessions[row]), self.phase)

    def rows_to(self, row: int) -> int:
        """How many rows of the signal are not later than a row of the panel."""
        return self.reference.rows_to(self.axes.sessions[row])

    @property
    def signal(self) -> Floats:
        """The signal on the panel's axes."""
        rows = np.searchsorted(self.reference.sessions, self.axes.sessions)
        return self.reference.values[rows][:, : len(self.axes.symbols)]

    def aimed(self, count: int, seed: int) -> tuple[int, ...]:
        """Rows after which a leak would show."""
        close = close_of(self.panel).values
        return aimed_cuts(self.signal, close, self.axes.sessions, count=count, seed=seed)

    def beyond_rounding(
        self, differing: Bools, ours: Floats, run: Run, *, row: int, short: Frames, longer: Longer
    ) -> tuple[Bools, bool]:
        """The ``differing`` cells (T, N) without those that rounding turns over, and if that is settled.

        A tie may be turned over by rounding, since a longer panel is summed up in another order, or be
        decided by the future. Of that other futures tell, which are as long: a cell that they change is not
        excused. It is not settled if the strategy fails on them.

        Parameters
        ----------
        ours, short
            The signal (T, N) of the shorter panel, on the axes of the longer one's, and that panel.
        run
            How other panels are run.
        row
            Row of the last session of ``short``.
        """
        moment, reference, settled = self.moment(row), longer.reference, True
        if not differing.any():
            return differing, settled
        hair = Hanging(run, short, moment, reference, ours).among(differing, reference.values)
        cuts = np.full(len(self.axes.symbols), row)
        for flipped in (False, True):
            if not hair[differing].all():
                return np.asarray(differing & ~hair), True
            how = Corruption(
                kind="scaled", cuts=cuts, phase=self.phase, seed=self.seed + row, flipped=flipped
            )
            other = run(corrupted(longer.panel, how))
            if other.signal is None:
                settled = False
            else:
                hair &= ~reference.changed(other, reference.rows_to(moment.session))
        beyond = np.asarray(differing & ~hair)
        if reference is self.reference and not beyond.any():
            self.hair |= hair
        return beyond, settled
