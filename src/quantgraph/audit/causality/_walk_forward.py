"""The signal that was computed session by session, in a process that was never sent a later one."""

from __future__ import annotations

import numpy as np

from quantgraph.audit.causality._future_tests import beyond_rounding
from quantgraph.audit.causality._minimize import Minimizer
from quantgraph.audit.causality._panel_slices import made
from quantgraph.audit.causality._proof_state import ProofState
from quantgraph.audit.causality.counterexample import Counterexample
from quantgraph.audit.causality.trials import RunPanel
from quantgraph.state.frames import FrozenFrame

__all__ = ["walked"]


def walked(case: ProofState, run: RunPanel) -> FrozenFrame | Counterexample:
    """Row t of the signal is the last row of the run on what was known at t; NaN where that has none.

    The signal of the whole panel is held against it, and is good for nothing else: where the two differ by
    more than rounding the strategy uses the future.

    Parameters
    ----------
    run
        How a counterexample is narrowed down.

    Returns
    -------
    FrozenFrame or Counterexample
        The signal, on the symbols that it ever spoke of, in the panel's order.
    """
    reference = case.reference
    values = np.full(reference.values.shape, np.nan)
    spoken = np.zeros(len(reference.symbols), dtype=bool)
    walk = case.trials.walk(case.panel, [case.moment(row) for row in range(case.total)])
    for row, outcome in enumerate(walk):
        place = case.rows_to(row) - 1
        values[place], present = reference.row_of(outcome, place)
        spoken |= present
        differing = np.zeros(values.shape, dtype=bool)
        differing[place] = reference.unequal_to(values[place], present, place)
        if differing.any():
            beyond = beyond_rounding(case, differing, values, row, trust_nudges=True)
            if beyond.any():
                return Minimizer(run, case.panel, reference, case.phase).truncation(beyond, row)
        case.proved.add(row)
    rows = np.searchsorted(reference.sessions, case.axes.sessions)
    columns = np.flatnonzero(spoken if spoken.any() else ~spoken)
    symbols = tuple(reference.symbols[column] for column in columns)
    return made(case.axes.sessions, symbols, values[np.ix_(rows, columns)])
