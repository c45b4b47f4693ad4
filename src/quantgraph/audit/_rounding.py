"""Whether cells differ because they hang by a hair, not because of the future."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from quantgraph._frames import Floats
from quantgraph.audit._compare import Bools, Reference
from quantgraph.audit.corrupt import nudged
from quantgraph.audit.trials import Run
from quantgraph.market.moment import Moment
from quantgraph.sandbox.wire import Frames

__all__ = ["Hanging"]

_PAIRS = 3
_MOVED = 1e-6
_SHARE = 0.25
_FEW = 3


class Hanging:
    """Cells that come out either way when what was known is moved by 1e-9 of itself.

    A sum taken in another order, as BLAS takes it for another number of rows, moves a number by some 1e-16
    of itself; a cell that does not survive 1e-9 is at a threshold. A strategy of which more than a quarter of
    the opinions changes so, and more than three sessions have, is not near a threshold, it is chaotic: then
    there are no such cells.

    Parameters
    ----------
    panel
        A panel, moved up to ``moment``.
    ours
        (T, N), the signal it gives, on the axes of ``reference``.
    """

    def __init__(self, run: Run, panel: Frames, moment: Moment, reference: Reference, ours: Floats) -> None:
        self._run, self._panel, self._moment = run, panel, moment
        self._reference, self._ours = reference, ours

    @cached_property
    def _tries(self) -> list[Floats]:
        return [
            self._reference.of(self._run(nudged(self._panel, self._moment, seed, sign)))
            for seed in range(_PAIRS)
            for sign in (1.0, -1.0)
        ]

    @cached_property
    def _chaotic(self) -> bool:
        limit = max(_SHARE * np.count_nonzero(np.nan_to_num(self._ours)), _FEW * self._ours.shape[1])
        return any(
            np.count_nonzero(~np.isclose(self._ours, other, rtol=_MOVED, atol=0.0, equal_nan=True)) > limit
            for other in self._tries
        )

    def among(self, differing: Bools, theirs: Floats) -> Bools:
        """Those of the ``differing`` cells (T, N) whose value in ``theirs`` comes out of such a move too."""
        if self._chaotic:
            return np.zeros_like(differing)
        stack = np.stack([self._ours, *self._tries])
        equal = ((stack == theirs) | (np.isnan(stack) & np.isnan(theirs)))[1:].any(axis=0)
        between = (np.fmin.reduce(stack) <= theirs) & (theirs <= np.fmax.reduce(stack))
        return np.asarray(differing & (equal | between))
