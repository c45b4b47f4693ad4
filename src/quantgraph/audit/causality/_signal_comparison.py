"""Where two signals differ, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantgraph.audit.causality._panel_slices import Axes
from quantgraph.audit.causality.trials import TrialOutcome
from quantgraph.state.frames import Dates, Floats, FrozenFrame

__all__ = ["Bools", "ReferenceSignal", "first_row"]

Bools = NDArray[np.bool_]

_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class AlignedSignal:
    """A signal on the axes of a reference: values (T, N), NaN where absent, and where it is present."""

    values: Floats
    present: Bools


class ReferenceSignal:
    """A signal that others are held against, on the axes of its panel and whatever it has beside them.

    Parameters
    ----------
    signal
        The signal of the whole panel.
    axes
        Axes of the panel.

    Attributes
    ----------
    sessions, symbols
        (T,) and (N,): those of the panel, and of the signal.
    values
        (T, N), NaN where the signal has no cell.
    """

    def __init__(self, signal: FrozenFrame, axes: Axes) -> None:
        self.sessions: Dates = np.union1d(axes.sessions, signal.sessions)
        self.symbols = tuple(dict.fromkeys((*axes.symbols, *signal.symbols)))
        self._columns = {symbol: place for place, symbol in enumerate(self.symbols)}
        self._found: dict[tuple[str, ...], NDArray[np.int64]] = {}
        self._cells = self._placed(signal)

    @property
    def values(self) -> Floats:
        """The signal, see above."""
        return self._cells.values

    @property
    def opinions(self) -> Bools:
        """Where the signal is neither NaN nor 0."""
        return np.asarray(np.nan_to_num(self.values) != 0)

    def rows_to(self, session: Any) -> int:
        """How many rows are not later than a session."""
        return int(np.searchsorted(self.sessions, np.datetime64(session, "us"), side="right"))

    def of(self, outcome: TrialOutcome) -> Floats:
        """Values (T, N) of another signal on these axes, NaN where it has no cell."""
        return self._other(outcome).values

    def differing(self, outcome: TrialOutcome, rows: int, first: int = 0) -> Bools:
        """Where another signal says something else in rows ``first`` to ``rows``: (T, N), False elsewhere.

        NaN equals NaN and nothing else. A cell that one of the two does not have is no opinion: it equals
        NaN and 0. A strategy that failed has no cells.
        """
        theirs, ours = self._other(outcome), self._cells
        found = np.zeros(self.values.shape, dtype=bool)
        part = slice(first, rows)
        both = ours.present[part] & theirs.present[part]
        found[part] = _unequal(ours.values[part], theirs.values[part], both)
        return found

    def changed(self, outcome: TrialOutcome, rows: int) -> Bools:
        """As :meth:`differing`, for a signal of a panel of the same shape.

        Rounding does not differ then, and nothing is excused but what a strategy makes that drops rows of the
        future before it multiplies: numbers that differ by less than 1e-12 of themselves.
        """
        close = np.isclose(self.values, self.of(outcome), rtol=_ROUNDING, atol=0.0)
        return np.asarray(self.differing(outcome, rows) & ~close)

    def unequal(self, one: TrialOutcome, other: TrialOutcome, row: int) -> Bools:
        """Where two signals differ in a row: (N,), by the same rule."""
        a, b = self._other(one), self._other(other)
        return _unequal(a.values[row], b.values[row], a.present[row] & b.present[row])

    def row_of(self, outcome: TrialOutcome, row: int) -> tuple[Floats, Bools]:
        """Values (N,) of another signal in a row, NaN where it has no cell, and where it has one."""
        values, present = np.full(len(self.symbols), np.nan), np.zeros(len(self.symbols), dtype=bool)
        signal = outcome.signal
        place = -1 if signal is None else int(np.searchsorted(signal.sessions, self.sessions[row]))
        if (
            signal is not None
            and place < len(signal.sessions)
            and signal.sessions[place] == self.sessions[row]
        ):
            columns = self._columns_of(signal.symbols)
            known = columns >= 0
            values[columns[known]], present[columns[known]] = signal.values[place][known], True
        return values, present

    def unequal_to(self, values: Floats, present: Bools, row: int) -> Bools:
        """Where a row differs from what :meth:`row_of` gave: (N,), by the same rule."""
        return _unequal(self.values[row], values, self._cells.present[row] & present)

    def _columns_of(self, symbols: tuple[str, ...]) -> NDArray[np.int64]:
        """Places of symbols on these axes, -1 for those that are not on them."""
        if symbols not in self._found:
            self._found[symbols] = np.array([self._columns.get(symbol, -1) for symbol in symbols], np.int64)
        return self._found[symbols]

    def _other(self, outcome: TrialOutcome) -> AlignedSignal:
        if outcome.signal is None:
            return AlignedSignal(
                values=np.full(self.values.shape, np.nan), present=np.zeros(self.values.shape, bool)
            )
        return self._placed(outcome.signal)

    def _placed(self, signal: FrozenFrame) -> AlignedSignal:
        shape = len(self.sessions), len(self.symbols)
        values, present = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
        rows = np.searchsorted(self.sessions, signal.sessions)
        kept = rows < len(self.sessions)
        kept[kept] = self.sessions[rows[kept]] == signal.sessions[kept]
        if signal.symbols == self.symbols and kept.all() and np.array_equal(rows, np.arange(len(rows))):
            values[: len(rows)], present[: len(rows)] = signal.values, True
            return AlignedSignal(values=values, present=present)
        columns = self._columns_of(signal.symbols)
        known = columns >= 0
        place = np.ix_(rows[kept], columns[known])
        values[place], present[place] = signal.values[kept][:, known], True
        return AlignedSignal(values=values, present=present)


def _unequal(a: Floats, b: Floats, both: Bools) -> Bools:
    unequal = (a != b) & ~(np.isnan(a) & np.isnan(b))
    if not both.all():
        unequal = np.where(both, unequal, np.nan_to_num(a) != np.nan_to_num(b))
    return np.asarray(unequal)


def first_row(marked: Bools) -> int:
    """The first row with a marked cell."""
    return int(np.flatnonzero(marked.any(axis=1))[0])
