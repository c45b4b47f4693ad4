"""The warm-up of a signal: sessions after which it no longer depends on where the data begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np

from quantgraph.audit.causality._comparison import (
    Cells,
    Perturbations,
    ReferenceSignal,
    fields_read,
    signal_changes,
)
from quantgraph.audit.causality._futures import rehearsal_panel
from quantgraph.audit.causality._trials import (
    BuiltTrials,
    CodeTrials,
    Reads,
    RunPanels,
    TrialOutcome,
    Trials,
    axes_of,
    one_by_one,
    only_fields,
    read_panels,
    since,
)
from quantgraph.errors import CodeFailed
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import Floats, FrozenFrame

_SHARES = (0.0, 0.125, 0.25, 0.5)
_ROUNDS = 6
_AIMED = 4
_MARGIN = 0.1
_FEW_SYMBOLS = 12  # so few are rehearsed a second time: they show few prices, on which a need may depend


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """A measured warm-up (None: the whole history), and the number of later starts it is measured from."""

    warm_up: int | None
    later_starts: int


def measure_warm_up(strategy: Trials, panels: object, *, whole: TrialOutcome | None = None) -> int | None:
    """Sessions after which the signal no longer depends on where the data begins.

    A mean of n sessions needs n, its crossing n + 1, a row by itself 1. NaN differs from 0: a signal that is
    NaN in its warm-up needs it. Cells that a perturbation of the data by 1e-9 flips do not count.

    Returns
    -------
    int or None
        None if it depends on the whole history, or if the panel is too short to tell: a mean of 50 on 58
        sessions and a sum from the first one both give None. A panel of twice the need is enough as a rule.

    Raises
    ------
    CodeFailed
        If the strategy fails on the whole panel.
    """
    panel = read_panels(panels)
    outcome = whole or strategy.whole(panel)
    if outcome.signal is None:
        raise CodeFailed(f"the strategy fails on the whole panel: {outcome.error}")
    run_each = one_by_one(strategy)
    perturbations = Perturbations(run_each, panel, outcome, seed=0)
    reference = ReferenceSignal(outcome.signal, axes_of(panel))
    return measure_start(strategy, run_each, panel, reference, perturbations).warm_up


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """A strategy's run on invented rows: its signal, what it reads and needs, and how long it took."""

    signal: FrozenFrame
    reads: Reads
    warm_up: int | None
    seconds: float


def rehearse(trials: Trials, panel: Frames, *, warm_up: bool = False) -> Rehearsal:
    """Run a strategy on invented rows, to find its errors and what it needs before its first run.

    Of a signal that is built of parts which look back only, the first rows show its errors.

    Raises
    ------
    CodeFailed
        If it hands over no signal.
    """
    invented = trials.beginning(panel) if isinstance(trials, BuiltTrials) else rehearsal_panel(panel)
    outcome = trials.whole(invented)
    if outcome.signal is None:
        raise CodeFailed(f"the strategy fails on invented rows, before its first run: {outcome.error}")
    if isinstance(trials, BuiltTrials):
        return Rehearsal(signal=outcome.signal, reads=None, warm_up=trials.needs, seconds=outcome.seconds)
    reads = fields_read(trials, invented, outcome)
    need = measure_warm_up(trials, only_fields(invented, reads), whole=outcome) if warm_up else None
    if need is not None and need > 1 and len(axes_of(panel).symbols) <= _FEW_SYMBOLS:
        again = only_fields(rehearsal_panel(panel, seed=1), reads)
        need = max(need, measure_warm_up(trials, again) or 0)
    return Rehearsal(signal=outcome.signal, reads=reads, warm_up=need, seconds=outcome.seconds)


def measure_start(
    trials: Trials,
    run_each: RunPanels,
    panel: Frames,
    reference: ReferenceSignal,
    perturbations: Perturbations,
) -> WarmUp:
    """Measure the warm-up against the signal of the whole panel; ``perturbations`` must be of that panel."""
    if isinstance(trials, CodeTrials) and trials.need_of_parts:
        return WarmUp(warm_up=trials.need_of_parts(partial(measure_warm_up, panels=panel)), later_starts=0)
    found = _Measured(run_each, panel, reference, perturbations)
    total = found.total
    found.try_from([max(1, int(total * share)) for share in _SHARES])
    changed = np.flatnonzero(signal_changes(reference.values).any(axis=1))
    for _ in range(_ROUNDS):
        need = found.warm_up
        if need is None:
            break
        # A start from which a change of the signal is the first row that counts.
        aimed = changed[(changed - need + 1 >= 1) & (changed - need + 1 < total - need)] - need + 1
        fresh = [int(row) for row in aimed if row not in found.last]
        found.try_from(fresh[:: max(1, len(fresh) // _AIMED)][:_AIMED])
        if found.warm_up == need:
            break
    return WarmUp(warm_up=found.warm_up, later_starts=len(found.last))


class _Measured:
    """By start (row of the panel) the last row, counted from it, that differs from the whole's, or -1."""

    def __init__(
        self, run_each: RunPanels, panel: Frames, reference: ReferenceSignal, perturbations: Perturbations
    ) -> None:
        self._run_each, self._panel = run_each, panel
        self._reference, self._perturbations = reference, perturbations
        self._sessions = axes_of(panel).sessions
        self.total = len(self._sessions)
        self.last: dict[int, int] = {}
        self._unsure: dict[int, tuple[Cells, Floats]] = {}

    def try_from(self, starts: Sequence[int]) -> None:
        """Run the strategy from later starts; a start at which it fails is ignored."""
        fresh = [start for start in dict.fromkeys(starts) if start < self.total]
        panels = (partial(since, self._panel, self._sessions[start]) for start in fresh)
        for start, outcome in zip(fresh, self._run_each(panels), strict=True):
            if outcome.signal is not None:
                rows = len(self._reference.sessions)
                differing = np.nonzero(self._reference.differing(outcome, rows, self._first(start)))
                self._unsure[start] = differing, self._reference.values_at(outcome, differing)
                self.last[start] = self._last(start, differing)
        need, lasts = self.warm_up, [*self.last.values()]
        usual = median(lasts) if lasts else 0
        most = usual + 2 if 2 * lasts.count(int(usual)) > len(lasts) else 2 * usual + 4
        if need is None or need > most:  # a sum that begins elsewhere may round otherwise
            for start, (differing, theirs) in self._unsure.items():
                near = self._perturbations.explain_cells(differing, self._reference, theirs)
                self.last[start] = self._last(start, tuple(part[~near] for part in differing))
            self._unsure.clear()

    def _first(self, start: int) -> int:
        return self._reference.rows_to(self._sessions[start]) - 1

    def _last(self, start: int, differing: Cells) -> int:
        return int(differing[0][-1]) - self._first(start) if len(differing[0]) else -1

    @property
    def warm_up(self) -> int | None:
        """The longest need of any start, if the starts agree on it.

        A start has settled if its need ends well before the data does. All others must be too short to
        settle. One that skips as many sessions as are needed must have settled, or all needs must be similar.
        """
        room = {start: (self.total - start) * (1 - _MARGIN) for start in self.last}
        settled = {start: last + 2 for start, last in self.last.items() if last + 2 <= room[start]}
        need = max(settled.values(), default=0)
        if not need or any(room[start] >= need for start in self.last.keys() - settled.keys()):
            return None
        alike = len(settled) > 1 and need <= min(settled.values()) * (1 + _MARGIN) + 2
        return need if alike or any(start >= need for start in settled) else None
