"""Exact comparison of signals, and the cells in which two differ by rounding only."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantgraph.audit.causality._panel_slices import (
    Axes,
    axes_of,
    map_frames,
    panel_name,
    to_frame,
)
from quantgraph.audit.causality.trials import RunPanels, TrialOutcome
from quantgraph.data.market_data import EVENT_FIELDS, STATUS_FIELDS
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import Dates, Floats, FrozenFrame

__all__ = ["Bools", "Perturbations", "ReferenceSignal", "differs", "first_row", "perturbed"]

Bools = NDArray[np.bool_]

_ROUNDING = 1e-12
_ROWS = 64
"""Rows that are compared at a time: their cells stay in a processor's cache."""

_PERTURBATION = 1e-9
_PAIRS = 3
_CHANGED = 1e-6
_CHAOTIC_SHARE = 0.25
_CHAOTIC_SESSIONS = 3


class ReferenceSignal:
    """A signal to compare others with, on the axes of its panel and any more that it has itself.

    Parameters
    ----------
    signal
        The signal of the whole panel.
    axes
        Axes of the panel.

    Attributes
    ----------
    sessions, symbols
        (T,) and (N,): those of the panel and of the signal.
    values
        (T, N), NaN where the signal has no cell.
    """

    def __init__(self, signal: FrozenFrame, axes: Axes) -> None:
        self.sessions: Dates = np.union1d(axes.sessions, signal.sessions)
        self.symbols = tuple(dict.fromkeys((*axes.symbols, *signal.symbols)))
        self._column_of = {symbol: column for column, symbol in enumerate(self.symbols)}
        self._columns: dict[tuple[str, ...], NDArray[np.int64]] = {}
        self.values, self._present = self._align(signal)

    @property
    def opinions(self) -> Bools:
        """Where the signal is neither NaN nor 0."""
        return np.asarray(np.nan_to_num(self.values) != 0)

    def rows_to(self, session: Any) -> int:
        """How many rows are not later than a session."""
        return int(np.searchsorted(self.sessions, np.datetime64(session, "us"), side="right"))

    def aligned(self, outcome: TrialOutcome) -> Floats:
        """Values (T, N) of another signal on these axes, NaN where it has no cell."""
        return self._align(outcome.signal)[0]

    def differing(self, outcome: TrialOutcome, rows: int, first: int = 0) -> Bools:
        """Where another signal differs in rows ``first`` to ``rows``: (T, N), False in the others.

        NaN equals NaN and nothing else. A cell that only one of the two has is no opinion: it equals NaN and
        0. A strategy that failed has no cells.
        """
        found, part = np.zeros(self.values.shape, dtype=bool), slice(first, rows)
        if self._has_same_rows(outcome.signal, part):
            return found
        values, present = self._align(outcome.signal)
        found[part] = differs(self.values[part], values[part], self._present[part] & present[part])
        return found

    def changed(self, outcome: TrialOutcome, rows: int) -> Bools:
        """As :meth:`differing`, for a panel of the same shape, which is summed in the same order.

        Only a relative difference below 1e-12 is excused: a strategy that drops rows of the future before it
        multiplies makes it.
        """
        differing = self.differing(outcome, rows)
        if differing.any():
            differing &= ~np.isclose(self.values, self.aligned(outcome), rtol=_ROUNDING, atol=0.0)
        return differing

    def row(self, outcome: TrialOutcome, row: int) -> tuple[Floats, Bools]:
        """Values (N,) of another signal in a row, NaN where it has no cell, and where it has one."""
        values, present = np.full(len(self.symbols), np.nan), np.zeros(len(self.symbols), dtype=bool)
        signal, session = outcome.signal, self.sessions[row]
        if signal is None:
            return values, present
        place = int(np.searchsorted(signal.sessions, session))
        if place < len(signal.sessions) and signal.sessions[place] == session:
            columns = self._columns_of(signal.symbols)
            known = columns >= 0
            values[columns[known]], present[columns[known]] = signal.values[place][known], True
        return values, present

    def row_differs(self, values: Floats, present: Bools, row: int) -> Bools:
        """Where a row differs from the one that :meth:`row` returned: (N,), by the rule of ``differing``."""
        return differs(self.values[row], values, self._present[row] & present)

    def _has_same_rows(self, signal: FrozenFrame | None, rows: slice) -> bool:
        """Whether a signal has the same bits in some rows, as most have; that is seen soonest."""
        if signal is None or signal.symbols != self.symbols or len(signal.sessions) < (rows.stop or 0):
            return False
        if not np.array_equal(signal.sessions[rows], self.sessions[rows]):
            return False
        ours, theirs = (values[rows].view(np.int64) for values in (self.values, signal.values))
        return all(
            np.array_equal(ours[first : first + _ROWS], theirs[first : first + _ROWS])
            for first in range(0, len(ours), _ROWS)
        )

    def _columns_of(self, symbols: tuple[str, ...]) -> NDArray[np.int64]:
        """Columns of symbols on these axes, -1 for symbols that are not on them."""
        if symbols not in self._columns:
            self._columns[symbols] = np.array([self._column_of.get(each, -1) for each in symbols], np.int64)
        return self._columns[symbols]

    def _align(self, signal: FrozenFrame | None) -> tuple[Floats, Bools]:
        """Values (T, N) of a signal on these axes, and where it has cells."""
        shape = len(self.sessions), len(self.symbols)
        values, present = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
        if signal is None:
            return values, present
        rows = np.searchsorted(self.sessions, signal.sessions)
        kept = rows < len(self.sessions)
        kept[kept] = self.sessions[rows[kept]] == signal.sessions[kept]
        if signal.symbols == self.symbols and kept.all() and np.array_equal(rows, np.arange(len(rows))):
            values[: len(rows)], present[: len(rows)] = signal.values, True
            return values, present
        columns = self._columns_of(signal.symbols)
        known = columns >= 0
        place = np.ix_(rows[kept], columns[known])
        values[place], present[place] = signal.values[kept][:, known], True
        return values, present


def differs(a: Floats, b: Floats, both: Bools) -> Bools:
    """Where two arrays differ; NaN equals NaN, and where not ``both`` have a cell it equals 0 too."""
    unequal = (a != b) & ~(np.isnan(a) & np.isnan(b))
    if not both.all():
        unequal = np.where(both, unequal, np.nan_to_num(a) != np.nan_to_num(b))
    return np.asarray(unequal)


def first_row(marked: Bools) -> int:
    """The first row with a marked cell."""
    return int(np.flatnonzero(marked.any(axis=1))[0])


class Perturbations:
    """Cells of a signal that flip when the panel is moved by 1e-9 of itself.

    A sum in another order, as BLAS takes it for another number of rows, moves a number by some 1e-16 of
    itself; a cell that a move by 1e-9 flips is at a threshold. If a move changes more than a quarter of the
    opinions, and more than three sessions have, the strategy is chaotic: then no cell counts.

    Parameters
    ----------
    run_each
        Runs the strategy on panels.
    panel, whole
        A panel and the outcome on it.
    seed
        Equal seeds give equal moves.
    """

    def __init__(self, run_each: RunPanels, panel: Frames, whole: TrialOutcome, seed: int) -> None:
        self._run_each, self._panel, self._whole, self._seed = run_each, panel, whole, seed

    @cached_property
    def _outcomes(self) -> list[TrialOutcome]:
        moves = [(self._seed + number, sign) for number in range(_PAIRS) for sign in (1.0, -1.0)]
        return list(self._run_each(partial(perturbed, self._panel, *move) for move in moves))

    def explain(self, differing: Bools, reference: ReferenceSignal, values: Floats) -> Bools:
        """Those of the ``differing`` cells (T, N) that a move changes to their ``values`` too.

        Both are on the axes of ``reference``.
        """
        if not differing.any():
            return differing
        whole = reference.aligned(self._whole)
        moved = [reference.aligned(outcome) for outcome in self._outcomes]
        if _is_chaotic(whole, moved):
            return np.zeros_like(differing)
        stack = np.stack([whole, *moved])
        equal = ((stack == values) | (np.isnan(stack) & np.isnan(values)))[1:].any(axis=0)
        between = (np.fmin.reduce(stack) <= values) & (values <= np.fmax.reduce(stack))
        return np.asarray(differing & (equal | between))


def _is_chaotic(whole: Floats, moved: list[Floats]) -> bool:
    limit = max(_CHAOTIC_SHARE * np.count_nonzero(np.nan_to_num(whole)), _CHAOTIC_SESSIONS * whole.shape[1])
    return any(
        np.count_nonzero(~np.isclose(whole, other, rtol=_CHANGED, atol=0.0, equal_nan=True)) > limit
        for other in moved
    )


def perturbed(panel: Frames, seed: int, sign: float) -> Frames:
    """The panel moved by some 1e-9 of itself, each bar as a whole."""
    axes, rng = axes_of(panel), np.random.default_rng(seed)
    factor = 1 + sign * _PERTURBATION * rng.standard_normal((len(axes.sessions), len(axes.symbols)))

    def move(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
        if panel_name(key) == "signal" or name in (*EVENT_FIELDS, *STATUS_FIELDS):
            return frame
        return to_frame(frame.sessions, frame.symbols, frame.values * _on_frame(factor, axes, frame))

    return map_frames(panel, move)


def _on_frame(factor: Floats, axes: Axes, frame: FrozenFrame) -> Floats:
    """Factors (T, N) of the axes for the cells of a frame."""
    if axes.match(frame):
        return factor
    rows = np.minimum(np.searchsorted(axes.sessions, frame.sessions), len(axes.sessions) - 1)
    column = {symbol: place for place, symbol in enumerate(axes.symbols)}
    columns = np.array([column.get(symbol, 0) for symbol in frame.symbols], dtype=np.int64)
    return np.asarray(factor[np.ix_(rows, columns)])
