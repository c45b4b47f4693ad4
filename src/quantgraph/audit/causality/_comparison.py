"""Exact comparison of signals, cells that differ by rounding only, and the fields that a strategy reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantgraph.audit.causality._trials import (
    Axes,
    CodeTrials,
    Reads,
    RunPanels,
    TrialOutcome,
    Trials,
    axes_of,
    map_frames,
    only_fields,
    panel_name,
    to_frame,
)
from quantgraph.data import EVENT_FIELDS, STATUS_FIELDS
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import MADE, Dates, FieldKey, Floats, FrozenFrame

Bools = NDArray[np.bool_]
Cells = tuple[NDArray[np.intp], ...]
"""Rows (n,) and columns (n,)."""
_Moved = tuple[NDArray[np.intp], Floats]
"""Ascending places (n,) of the cells that a move changes, and their values."""

_ROUNDING = 1e-12
_ROWS = 64
"""Rows that are compared at a time: their cells stay in a processor's cache."""

_PERTURBATION = 1e-9
_PAIRS = 3
_CHANGED = 1e-6
_CHAOTIC_SHARE = 0.25
_CHAOTIC_SESSIONS = 3


class ReferenceSignal:
    """A signal (T, N) to compare others with, NaN without a cell, on its panel's axes and any of its own."""

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

    def values_at(self, outcome: TrialOutcome, cells: Cells) -> Floats:
        """Values (n,) of another signal in some cells, NaN where it has none."""
        signal = outcome.signal
        rows = None if signal is None else self._rows_of(signal)
        if signal is None or rows is None:
            return self._align(signal)[0][cells]
        places = cells[0] - rows.start
        inside = (places >= 0) & (places < len(signal.sessions))
        found = np.full(len(places), np.nan)
        found[inside] = signal.values[places[inside], cells[1][inside]]
        return found

    def differing(self, outcome: TrialOutcome, rows: int, first: int = 0) -> Bools:
        """Where another signal differs in rows ``first`` to ``rows``: (T, N), False in the others.

        NaN equals NaN and nothing else. A cell that only one of the two has is no opinion: it equals NaN and
        0. A strategy that failed has no cells.
        """
        found, signal = np.zeros(self.values.shape, dtype=bool), outcome.signal
        theirs = None if signal is None else self._rows_of(signal)
        if signal is None or theirs is None or first < theirs.start or rows > theirs.stop:
            values, present = self._align(signal)
            part = slice(first, rows)
            found[part] = differs(self.values[part], values[part], self._present[part] & present[part])
            return found
        for begin in range(first, rows, _ROWS):
            part = slice(begin, min(begin + _ROWS, rows))
            ours = self.values[part]
            others = signal.values[part.start - theirs.start : part.stop - theirs.start]
            if not np.array_equal(ours.view(np.int64), others.view(np.int64)):
                found[part] = differs(ours, others, self._present[part])
        return found

    def unequal(self, outcome: TrialOutcome) -> Bools:
        """Where another signal has another value (T, N); one without a cell has NaN there."""
        signal = outcome.signal
        rows = None if signal is None else self._rows_of(signal)
        whole = rows == slice(0, len(self.sessions))
        values = signal.values if signal is not None and whole else self._align(signal)[0]
        found, every = np.zeros(values.shape, dtype=bool), np.ones((), dtype=bool)
        for first in range(0, len(values), _ROWS):
            part = slice(first, first + _ROWS)
            found[part] = differs(self.values[part], values[part], every)
        return found

    def places(self, cells: Cells) -> NDArray[np.intp]:
        """Places (n,) of cells, row by row; negative for a cell that is not on these axes."""
        return np.asarray(np.where(np.minimum(*cells) < 0, -1, cells[0] * len(self.symbols) + cells[1]))

    def cells_of(self, other: ReferenceSignal, cells: Cells) -> Cells:
        """Rows and columns of another's cells on these axes, -1 for none."""
        rows = np.minimum(np.searchsorted(self.sessions, other.sessions), len(self.sessions) - 1)
        rows[self.sessions[rows] != other.sessions] = -1
        return rows[cells[0]], self._columns_of(other.symbols)[cells[1]]

    def changed(self, outcome: TrialOutcome, rows: int) -> Bools:
        """As :meth:`differing`, for a panel of the same shape, which is summed in the same order.

        Only a relative difference below 1e-12 is excused: a strategy that drops rows of the future before it
        multiplies makes it.
        """
        outcome = self._first_rows(outcome, rows)
        differing = self.differing(outcome, rows)
        cells = np.nonzero(differing)
        ours, theirs = self.values[cells], self.values_at(outcome, cells)
        differing[cells] = ~np.isclose(ours, theirs, rtol=_ROUNDING, atol=0.0)
        return differing

    def _first_rows(self, outcome: TrialOutcome, rows: int) -> TrialOutcome:
        """A signal without the sessions after ``rows``, which may fall on other days than these."""
        signal = outcome.signal
        if signal is None or not rows:
            return outcome
        kept = int(np.searchsorted(signal.sessions, self.sessions[rows - 1], side="right"))
        first = FrozenFrame(signal.sessions[:kept], signal.symbols, signal.values[:kept])
        return TrialOutcome(signal=first)

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

    def _rows_of(self, signal: FrozenFrame) -> slice | None:
        """The rows of a signal with the same symbols and some sessions in a row; None for any other."""
        if signal.symbols != self.symbols or not len(signal.sessions):
            return None
        first = int(np.searchsorted(self.sessions, signal.sessions[0]))
        rows = slice(first, first + len(signal.sessions))
        return rows if np.array_equal(self.sessions[rows], signal.sessions) else None

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


def is_close(a: Floats, b: Floats) -> Bools:
    """Where two arrays have the same number but for its last digits, or both have none."""
    return np.isclose(a, b, rtol=_CHANGED, atol=0.0, equal_nan=True)


def signal_changes(signal: Floats) -> Bools:
    """Where a signal (T, N) is an opinion that differs from the row before."""
    changes = (signal != 0) & ~np.isnan(signal)
    changes[1:] &= signal[1:] != signal[:-1]
    return np.asarray(changes)


def first_row(marked: Bools) -> int:
    """The first row with a marked cell."""
    return int(np.flatnonzero(marked.any(axis=1))[0])


class Perturbations:
    """Cells of a signal that flip when the panel is moved by 1e-9 of itself.

    A sum in another order, as BLAS takes it for another number of rows, moves a number by some 1e-16 of
    itself; a cell that a move by 1e-9 flips is at a threshold. If a move changes more than a quarter of the
    opinions, and more than three sessions have, the strategy is chaotic: then no cell counts.
    """

    def __init__(self, run_each: RunPanels, panel: Frames, whole: TrialOutcome, seed: int) -> None:
        self._run_each, self._panel, self._whole, self._seed = run_each, panel, whole, seed
        self._tried: list[list[_Moved] | None] = []

    @cached_property
    def _own(self) -> ReferenceSignal:
        assert self._whole.signal is not None  # noqa: S101 - the caller has compared with it
        return ReferenceSignal(self._whole.signal, axes_of(self._panel))

    def _pairs(self) -> Iterator[list[_Moved] | None]:
        """Of each pair of opposite moves the cells that they change; None once a move is chaotic.

        A pair is run when it is asked for first: most ties are explained by the first one.
        """
        for pair in range(_PAIRS):
            if pair == len(self._tried):
                self._tried.append(self._run_pair(self._seed + pair))
            yield self._tried[pair]

    @cached_property
    def most(self) -> float:
        """How many cells may become another opinion before the strategy counts as chaotic."""
        whole = self._own
        opinions = np.count_nonzero(whole.opinions)
        return max(_CHAOTIC_SHARE * float(opinions), float(_CHAOTIC_SESSIONS * whole.values.shape[1]))

    def _run_pair(self, seed: int) -> list[_Moved] | None:
        whole = self._own
        found: list[_Moved] = []
        for outcome in self._run_each(partial(perturb, self._panel, seed, sign) for sign in (1.0, -1.0)):
            cells = np.nonzero(whole.unequal(outcome))
            before, after = whole.values[cells], whole.values_at(outcome, cells)
            if np.count_nonzero(~is_close(before, after)) > self.most:
                return None
            found.append((whole.places(cells), after))
        return found

    def explain(self, differing: Bools, reference: ReferenceSignal, values: Floats) -> Bools:
        """Those of the ``differing`` cells (T, N) that a move changes to their ``values`` too.

        Both are on the axes of ``reference``.
        """
        explained, cells = np.zeros_like(differing), np.nonzero(differing)
        explained[cells] = self.explain_cells(cells, reference, values[cells])
        return explained

    def explain_cells(self, cells: Cells, reference: ReferenceSignal, values: Floats) -> Bools:
        """As :meth:`explain`, for the cells (n,) alone, on the axes of ``reference``."""
        if not len(values):
            return np.zeros(0, dtype=bool)
        own, there = self._own, self._own.cells_of(reference, cells)
        places = own.places(there)
        whole = np.where(places < 0, np.nan, own.values[there])
        equal, low, high = np.zeros(len(values), dtype=bool), whole, whole
        explained = equal
        for pair in self._pairs():
            if pair is None:
                return np.zeros(len(values), dtype=bool)
            for moved, after in pair:
                is_moved = np.isin(places, moved)
                value = whole.copy()
                value[is_moved] = after[np.searchsorted(moved, places[is_moved])]
                equal = equal | (value == values) | (np.isnan(value) & np.isnan(values))
                low, high = np.fmin(low, value), np.fmax(high, value)
            explained = equal | ((low <= values) & (values <= high))
            if explained.all():
                break
        return np.asarray(explained)


def perturb(panel: Frames, seed: int, sign: float) -> Frames:
    """The panel moved by some 1e-9 of itself, each bar as a whole."""
    axes, rng = axes_of(panel), np.random.default_rng(seed)
    factor = 1 + sign * _PERTURBATION * rng.standard_normal((len(axes.sessions), len(axes.symbols)))

    def move(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
        if panel_name(key) in MADE or name in (*EVENT_FIELDS, *STATUS_FIELDS):
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


def fields_read(trials: Trials, panel: Frames, outcome: TrialOutcome) -> Reads:
    """The fields that a strategy reads, from its ``outcome`` on a panel; None if they are not known.

    Which ones its source names is only a guess: if its signal is another one without the rest, all of them
    count as read. If it is the same, the strategy receives those fields alone from then on.
    """
    if not isinstance(trials, CodeTrials):
        return None
    named = _used_fields(trials.cells, panel)
    part = only_fields(panel, named)
    if outcome.signal is None or sum(map(len, part.values())) == sum(map(len, panel.values())):
        return None
    again = trials.whole(part).signal
    return named if again is not None and _is_equal(outcome.signal, again) else None


def _is_equal(one: FrozenFrame, other: FrozenFrame) -> bool:
    return (
        one.symbols == other.symbols
        and np.array_equal(one.sessions, other.sessions)
        and np.array_equal(one.values, other.values, equal_nan=True)
    )


def _used_fields(cells: Sequence[str], panel: Frames) -> frozenset[FieldKey]:
    """Fields whose names are words of the source; adjusted prices and actions are read from many bars."""
    text = "\n".join(cells)
    words, every_bar = {*re.findall(r"\w+", text)}, "adjusted" in text or "actions" in text  # "close"
    return frozenset(
        (panel_name(key), name)
        for key, fields in panel.items()
        for name in fields
        if name in words or (every_bar and panel_name(key) == "ohlcv")
    )
