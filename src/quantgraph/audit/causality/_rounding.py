"""Whether cells differ because they hang by a rounding error, not because of the future."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from quantgraph.audit.causality._alternative_futures import perturbed
from quantgraph.audit.causality._panel_slices import axes_of
from quantgraph.audit.causality._signal_comparison import Bools, ReferenceSignal
from quantgraph.audit.causality.trials import RunPanel, TrialOutcome
from quantgraph.market.moment import Moment
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import Floats

__all__ = ["Perturbations"]

_PAIRS = 3
_MOVED = 1e-6
_SHARE = 0.25
_FEW = 3


class Perturbations:
    """Cells of a panel's signal that come out either way when the panel is moved by 1e-9 of itself.

    A sum taken in another order, as BLAS takes it for another number of rows, moves a number by some 1e-16
    of itself; a cell that does not survive 1e-9 is at a threshold. A strategy of which more than a quarter of
    the opinions changes so, and more than three sessions have, is not near a threshold, it is chaotic: then
    there are no such cells.

    Parameters
    ----------
    run
        How a panel is run.
    panel, given
        A panel, and the signal it gives.
    seed
        Equal seeds give equal moves.
    """

    def __init__(self, run: RunPanel, panel: Frames, given: TrialOutcome, seed: int) -> None:
        self._run, self._panel, self._given, self._seed = run, panel, given, seed

    @cached_property
    def _outcomes(self) -> list[TrialOutcome]:
        end = Moment(pd.Timestamp(axes_of(self._panel).sessions[-1]))
        return [
            self._run(perturbed(self._panel, end, self._seed + number, sign))
            for number in range(_PAIRS)
            for sign in (1.0, -1.0)
        ]

    def among(self, differing: Bools, reference: ReferenceSignal, theirs: Floats) -> Bools:
        """Those of the ``differing`` cells (T, N) whose value in ``theirs`` comes out of such a move too.

        Both are on the axes of ``reference``.
        """
        if not differing.any():
            return differing
        ours = reference.of(self._given)
        tries = [reference.of(outcome) for outcome in self._outcomes]
        if _chaotic(ours, tries):
            return np.zeros_like(differing)
        stack = np.stack([ours, *tries])
        equal = ((stack == theirs) | (np.isnan(stack) & np.isnan(theirs)))[1:].any(axis=0)
        between = (np.fmin.reduce(stack) <= theirs) & (theirs <= np.fmax.reduce(stack))
        return np.asarray(differing & (equal | between))


def _chaotic(ours: Floats, tries: list[Floats]) -> bool:
    limit = max(_SHARE * np.count_nonzero(np.nan_to_num(ours)), _FEW * ours.shape[1])
    return any(
        np.count_nonzero(~np.isclose(ours, other, rtol=_MOVED, atol=0.0, equal_nan=True)) > limit
        for other in tries
    )
