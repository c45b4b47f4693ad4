"""One audit: the strategy, the panel, and what was found so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np
import pandas as pd

from quantgraph.audit.causality._alternative_futures import AlternativeFutures
from quantgraph.audit.causality._cuts import secret_cuts
from quantgraph.audit.causality._panel_slices import axes_of, close_of
from quantgraph.audit.causality._rounding import Perturbations
from quantgraph.audit.causality._signal_comparison import Bools, ReferenceSignal
from quantgraph.audit.causality.trials import CodeTrials, FunctionTrials, RunPanel, TrialOutcome, Trials
from quantgraph.errors import CodeFailed
from quantgraph.market.moment import Moment, Phase
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import Floats

__all__ = ["CountedTrials", "ProofState"]

_FEW = 2
"""Sessions in which ties may come together by chance."""


class CountedTrials:
    """Trials that count how often the strategy was run."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self.evaluations = 0

    @property
    def sealed(self) -> bool:
        """See :class:`Trials`."""
        return self._trials.sealed

    @property
    def cells(self) -> tuple[str, ...]:
        """Source of the strategy, empty where it is not known."""
        return self._trials.cells if isinstance(self._trials, CodeTrials | FunctionTrials) else ()

    def walk(self, panel: Frames, moments: Sequence[Moment]) -> Iterator[TrialOutcome]:
        """See :class:`Trials`."""
        for outcome in self._trials.walk(panel, moments):
            self.evaluations += 1
            yield outcome

    def whole(self, panel: Frames) -> TrialOutcome:
        """See :class:`Trials`."""
        self.evaluations += 1
        return self._trials.whole(panel)

    @contextmanager
    def series(self) -> Iterator[RunPanel]:
        """See :class:`Trials`."""
        with self._trials.series() as run:

            def counted(panel: Frames) -> TrialOutcome:
                self.evaluations += 1
                return run(panel)

            yield counted


class ProofState:
    """What all tests of one audit share.

    Parameters
    ----------
    seed
        Draws whatever is drawn.
    whole
        The signal of the whole panel if it is known to come out again; None runs the strategy.

    Attributes
    ----------
    first, reference
        The signal of the whole panel, and the same to hold others against.
    nudges
        What hangs by a rounding error in it.
    tried
        How many other futures were tried, by kind.
    proved
        Rows at which the signal was the same without the future.
    near
        Cells (T, N) that differ by rounding: a later session decides how their sums are taken, and no more.
    turned
        Those of them that come out as another opinion, not as the same number but for its last digits.
    unexplained
        Those of them that no nudge turns over, such as a count that a product adds up to 0.5 or to the number
        before it: other sessions in the place of the later ones leave them as they are.
    last
        Cells (T, N) in the last rows of the prefixes that were tried.
    refused
        What the strategy said when it failed on another future, empty if it never did.
    """

    def __init__(
        self, trials: Trials, panel: Frames, phase: Phase, seed: int, whole: TrialOutcome | None = None
    ) -> None:
        self.trials = CountedTrials(trials)
        self.panel, self.phase, self.seed = panel, phase, seed
        self.axes = axes_of(panel)
        self.total = len(self.axes.sessions)
        self.first = whole or self.trials.whole(panel)
        if self.first.signal is None:
            raise CodeFailed(f"the strategy fails on the whole panel: {self.first.error}")
        self.reference = ReferenceSignal(self.first.signal, self.axes)
        self.nudges = Perturbations(self.trials.whole, panel, self.first, seed)
        self.tried: Counter[str] = Counter()
        self.proved: set[int] = set()
        self.near: Bools = np.zeros(self.reference.values.shape, dtype=bool)
        self.turned: Bools = np.zeros_like(self.near)
        self.unexplained: Bools = np.zeros_like(self.near)
        self.last: Bools = np.zeros_like(self.near)
        self.refused = ""

    @cached_property
    def futures(self) -> AlternativeFutures:
        """Other futures of the panel."""
        return AlternativeFutures(self.panel)

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

    def cuts(self, count: int, seed: int) -> tuple[tuple[int, ...], int]:
        """Rows after which a leak would show, and how many of them are drawn from all alike."""
        close = close_of(self.panel).values
        return secret_cuts(self.signal, close, self.axes.sessions, count=count, seed=seed)

    def share(self, cells: Bools) -> float:
        """How many of the opinions cells (T, N) are, their own among them."""
        return _share(cells, self.reference.opinions | cells)

    @property
    def turned_share(self) -> float:
        """How many of the opinions rounding turned over: of all, or of those that no later session followed.

        The last row of a prefix is no nearer to a threshold than the others, unless code makes it so.
        """
        sessions = int((self.turned & self.last).any(axis=1).sum())
        last = _share(self.turned & self.last, self.last & (self.reference.opinions | self.turned))
        return max(self.share(self.turned), last if sessions > _FEW else 0.0)

    def refuse(self, error: str) -> None:
        """Remember that the strategy failed on a future that could have come; the first failure is told."""
        self.refused = self.refused or error

    def excuse(self, cells: Bools, theirs: Floats) -> None:
        """Count cells (T, N) that differ from ``theirs`` by rounding only."""
        self.near |= cells
        self.turned |= cells & ~np.isclose(self.reference.values, theirs, rtol=1e-6, atol=0.0, equal_nan=True)


def _share(part: Bools, whole: Bools) -> float:
    return int(np.count_nonzero(part)) / (int(np.count_nonzero(whole)) or 1)
