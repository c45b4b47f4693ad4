"""Other futures: panels that are what was known up to a cut, and something else after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from quantgraph.audit.causality._bar_sampling import BarSampler, Style, later_days
from quantgraph.audit.causality._cuts import Rows
from quantgraph.audit.causality._panel_slices import Axes, axes_of, made, mapped, panel_name, rows_known
from quantgraph.audit.causality._signal_comparison import Bools
from quantgraph.data.market_data import EVENT_FIELDS, STATUS_FIELDS
from quantgraph.market.moment import Moment, Phase
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import Floats, FrozenFrame

__all__ = ["AlternativeFutures", "FutureKind", "FutureSpec", "perturbed"]

FutureKind = Literal["redrawn", "missing"]

_APPENDED = 25
_HOLIDAY = 10
"""Days; the other way round the next session is on the next day."""
_NUDGE = 1e-9
_BAR = {"open", "high", "low", "close"}


@dataclass(frozen=True, kw_only=True)
class FutureSpec:
    """What to put in place of the future.

    Attributes
    ----------
    kind
        ``redrawn``: bars drawn again from each symbol's own returns; ``missing``: no trading at all.
    cuts
        (N,) row of the last session that is kept, for each symbol of the panel's axes.
    phase
        Phase of that session up to which it is kept.
    seed
        Equal seeds give equal futures.
    style, falling
        How its first sessions are drawn, see :meth:`.Bars.draw`, and whether the other way round.
    redated
        Whether the sessions after the first cut fall on other days too.
    sessions
        How many sessions after the cut are replaced; None is all.
    """

    kind: FutureKind
    cuts: Rows
    phase: Phase
    seed: int
    style: Style = "apart"
    falling: bool = False
    redated: bool = False
    sessions: int | None = None


class AlternativeFutures:
    """Other futures of one panel.

    Bars are drawn whole, so that a high stays the highest and a low the lowest. Prices lie on the grid of
    their symbol and inside its price limits, numbers on the grid of their column. Nothing goes ex any more.
    """

    def __init__(self, panel: Frames) -> None:
        self._panel, self._axes, self._bars = panel, axes_of(panel), BarSampler(panel)

    def of(self, how: FutureSpec) -> Frames:
        """The panel with another future."""
        axes, first = self._axes, int(how.cuts.min()) + (how.phase == "post_close")
        rng = np.random.default_rng(how.seed)
        # Of a session that is known in part the close is not known yet.
        known = how.cuts if how.phase == "post_close" else np.maximum(how.cuts - 1, 0)
        count = len(axes.sessions) - first
        drawn = None
        if how.kind == "redrawn" and count > 0:
            drawn = self._bars.draw(known, first, count, rng, how.style, falling=how.falling)

        def change(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
            later = _later(key, name, frame, axes, how)
            values = frame.values.copy()
            if how.kind == "missing":
                values[later] = np.nan
            elif drawn is not None and _is_on(frame, axes):
                block = later[first:]
                values[first:][block] = self._bars.rows(key, name, frame, drawn, first=first)[block]
            elif panel_name(key) == "ohlcv" and name in EVENT_FIELDS:
                values[later] = np.nan
            else:
                values[later] = _shuffled(frame.values, rng)[later]
            return made(frame.sessions, frame.symbols, values)

        panel = _sane(mapped(self._panel, change), axes, how)
        if not how.redated:
            return panel
        return _redated(panel, axes.sessions[int(how.cuts.min())], 1 if how.falling else _HOLIDAY, rng)

    def extended(self, seed: int, *, falling: bool = False) -> Frames:
        """The panel with sessions appended: weekdays, their bars drawn like another future's."""
        axes, rng, total = self._axes, np.random.default_rng(seed), len(self._axes.sessions)
        sessions = np.concatenate([axes.sessions, later_days(axes.sessions[-1], _APPENDED)])
        cuts = np.full(len(axes.symbols), total - 1)
        drawn = self._bars.draw(cuts, total, _APPENDED, rng, "apart", falling=falling)

        def change(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
            if (panel_name(key) == "ohlcv" and name in EVENT_FIELDS) or not _is_on(frame, axes):
                return frame
            more = self._bars.rows(key, name, frame, drawn, first=total)
            return made(sessions, frame.symbols, np.concatenate([frame.values, more]))

        return mapped(self._panel, change)


def _redated(panel: Frames, last: np.datetime64, gap: int, rng: np.random.Generator) -> Frames:
    """Sessions after one of them on other days: ``gap`` days later, then one to nine days apart."""
    later = np.unique(np.concatenate([f.sessions for fields in panel.values() for f in fields.values()]))
    later = later[later > last]
    steps = rng.integers(1, 10, len(later))
    steps[:1] = gap
    days = last + np.cumsum(steps).astype("timedelta64[D]")

    def change(_key: str, _name: str, frame: FrozenFrame) -> FrozenFrame:
        sessions = frame.sessions.copy()
        moved = sessions > last
        sessions[moved] = days[np.searchsorted(later, sessions[moved])]
        return made(sessions, frame.symbols, frame.values)

    return mapped(panel, change)


def _is_on(frame: FrozenFrame, axes: Axes) -> bool:
    return frame.symbols == axes.symbols and np.array_equal(frame.sessions, axes.sessions)


def _shuffled(values: Floats, rng: np.random.Generator) -> Floats:
    """Rows of a frame of another shape, each from anywhere in it."""
    rows: Floats = values[rng.integers(0, len(values), len(values))]
    return rows


def _later(key: str, name: str, frame: FrozenFrame, axes: Axes, how: FutureSpec) -> Bools:
    """Where a frame is later than the cut of its symbol, as far as it is to be replaced: (T, N)."""
    rows = np.unique(how.cuts)
    moments = [Moment(pd.Timestamp(axes.sessions[row]), how.phase) for row in rows]
    first = np.array([rows_known(key, name, frame, moment) for moment in moments])
    last = np.full(len(rows), len(frame.sessions))
    if how.sessions is not None:
        ends = axes.sessions[np.minimum(rows + how.sessions, len(axes.sessions) - 1)]
        last = np.searchsorted(frame.sessions, ends, side="right")
    # A symbol beside the axes is cut with the first of the others.
    cut = dict(zip(axes.symbols, np.searchsorted(rows, how.cuts), strict=True))
    place = np.array([cut.get(symbol, 0) for symbol in frame.symbols], dtype=np.int64)
    row = np.arange(len(frame.sessions))[:, None]
    return np.asarray((row >= first[place]) & (row < last[place]))


def _sane(panel: Frames, axes: Axes, how: FutureSpec) -> Frames:
    """Highs and lows that hold a bar of which a part, its open, was kept."""
    if how.phase == "post_close":
        return panel

    def widened(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
        fields = panel[key]
        if panel_name(key) != "ohlcv" or name not in ("high", "low"):
            return frame
        pick = np.fmax if name == "high" else np.fmin
        values, later = frame.values, _later(key, name, frame, axes, how)
        for other in _BAR & fields.keys():
            if fields[other].values.shape == values.shape:
                values = np.where(later & ~np.isnan(values), pick(values, fields[other].values), values)
        return made(frame.sessions, frame.symbols, values)

    return mapped(panel, widened)


def perturbed(panel: Frames, moment: Moment, seed: int, sign: float) -> Frames:
    """The panel with what was known at a moment moved by some 1e-9 of itself, each bar as a whole."""
    axes, rng = axes_of(panel), np.random.default_rng(seed)
    factor = 1 + sign * _NUDGE * rng.standard_normal((len(axes.sessions), len(axes.symbols)))

    def change(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
        if panel_name(key) == "signal" or name in (*EVENT_FIELDS, *STATUS_FIELDS):
            return frame
        rows = rows_known(key, name, frame, moment)
        values = frame.values * _placed(factor, axes, frame)
        values[rows:] = frame.values[rows:]
        return made(frame.sessions, frame.symbols, values)

    return mapped(panel, change)


def _placed(factor: Floats, axes: Axes, frame: FrozenFrame) -> Floats:
    """Factors (T, N) of the axes for the cells of a frame."""
    if _is_on(frame, axes):
        return factor
    rows = np.minimum(np.searchsorted(axes.sessions, frame.sessions), len(axes.sessions) - 1)
    column = {symbol: place for place, symbol in enumerate(axes.symbols)}
    columns = np.array([column.get(symbol, 0) for symbol in frame.symbols], dtype=np.int64)
    return np.asarray(factor[np.ix_(rows, columns)])
