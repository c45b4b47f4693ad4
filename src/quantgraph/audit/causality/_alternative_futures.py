"""Alternative futures: panels that keep what was known at a cut and have other sessions after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from quantgraph.audit.causality._bar_sampling import BarSampler, FirstMoves, later_days
from quantgraph.audit.causality._panel_slices import axes_of, map_frames, panel_name, rows_known, to_frame
from quantgraph.data.market_data import EVENT_FIELDS
from quantgraph.market.moment import Moment, Phase
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import FrozenFrame

FutureKind = Literal["resampled", "missing"]

_APPENDED = 25
_GAP_DAYS = 10
"""Days before the first redated session; in the opposite future it is the next day."""


@dataclass(frozen=True, kw_only=True)
class FutureSpec:
    """Specification of one alternative future.

    Attributes
    ----------
    kind
        ``resampled``: bars drawn again from each symbol's own returns; ``missing``: no trading at all.
    cut
        Row of the last session that is kept, on the panel's axes.
    phase
        Phase of that session up to which it is kept.
    seed
        Equal seeds give equal futures.
    first_moves, opposite
        How its first sessions are drawn, see :meth:`.BarSampler.draw`.
    redated
        Whether the sessions after the cut fall on other days too.
    sessions
        How many sessions after the cut are replaced; None is all.
    """

    kind: FutureKind
    cut: int
    phase: Phase
    seed: int
    first_moves: FirstMoves = "diverging"
    opposite: bool = False
    redated: bool = False
    sessions: int | None = None


class AlternativeFutures:
    """Alternative futures of one panel.

    Bars are drawn as a whole, so that a high stays the highest price and a low the lowest. Prices lie on the
    grid of their symbol and inside its price limits, numbers on the grid of their column. Corporate actions
    after the cut are removed.

    Parameters
    ----------
    panel
        What the bars are drawn from.
    handed
        The frames of it that are made; None is all.
    """

    def __init__(self, panel: Frames, handed: Frames | None = None) -> None:
        self._panel = panel if handed is None else handed
        self._axes, self._sampler = axes_of(panel), BarSampler(panel)

    def panel(self, spec: FutureSpec) -> Frames:
        """The panel with another future."""
        axes, closes_known = self._axes, spec.phase == "post_close"
        first = spec.cut + closes_known
        rng = np.random.default_rng(spec.seed)
        count = len(axes.sessions) - first
        drawn = None
        if spec.kind == "resampled" and count > 0:
            last_close = spec.cut if closes_known else max(spec.cut - 1, 0)
            drawn = self._sampler.draw(
                last_close, first, count, rng, spec.first_moves, opposite=spec.opposite
            )

        def replace(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
            later = self._replaced_rows(key, name, frame, spec)
            values = frame.values.copy()
            if spec.kind == "missing":
                values[later] = np.nan
            elif drawn is not None and axes.match(frame):
                kept = slice(later.start - first, later.stop - first)
                values[later] = self._sampler.rows(key, name, frame, drawn, first=first)[kept]
            elif panel_name(key) == "ohlcv" and name in EVENT_FIELDS:
                values[later] = np.nan
            else:  # a frame of another shape: its rows, shuffled
                values[later] = frame.values[rng.integers(0, len(values), len(values))][later]
            return to_frame(frame.sessions, frame.symbols, values)

        panel = self._widened(map_frames(self._panel, replace), spec)
        if not spec.redated:
            return panel
        return _redated(panel, axes.sessions[spec.cut], 1 if spec.opposite else _GAP_DAYS, rng)

    def extended(self, seed: int, *, opposite: bool = False) -> Frames:
        """The panel with sessions appended: weekdays, with resampled bars."""
        axes, total = self._axes, len(self._axes.sessions)
        sessions = np.concatenate([axes.sessions, later_days(axes.sessions[-1], _APPENDED)])
        rng = np.random.default_rng(seed)
        drawn = self._sampler.draw(total - 1, total, _APPENDED, rng, "diverging", opposite=opposite)

        def append(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
            if (panel_name(key) == "ohlcv" and name in EVENT_FIELDS) or not np.array_equal(
                frame.sessions, axes.sessions
            ):
                return frame
            if axes.match(frame):
                more = self._sampler.rows(key, name, frame, drawn, first=total)
            else:  # other columns, such as those of an index
                more = frame.values[rng.integers(0, total, _APPENDED)]
            return to_frame(sessions, frame.symbols, np.concatenate([frame.values, more]))

        return map_frames(self._panel, append)

    def _replaced_rows(self, key: str, name: str, frame: FrozenFrame, spec: FutureSpec) -> slice:
        """Rows of a frame to replace: those after the cut, up to ``spec.sessions`` later."""
        sessions = self._axes.sessions
        first = rows_known(key, name, frame, Moment(pd.Timestamp(sessions[spec.cut]), spec.phase))
        last = len(frame.sessions)
        if spec.sessions is not None:
            end = sessions[min(spec.cut + spec.sessions, len(sessions) - 1)]
            last = int(np.searchsorted(frame.sessions, end, side="right"))
        return slice(first, max(first, last))

    def _widened(self, panel: Frames, spec: FutureSpec) -> Frames:
        """Widen highs and lows so that they contain the open that was kept."""
        if spec.phase == "post_close":
            return panel

        def widen(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
            fields = panel[key]
            if panel_name(key) != "ohlcv" or name not in ("high", "low"):
                return frame
            pick = np.fmax if name == "high" else np.fmin
            values, later = frame.values.copy(), self._replaced_rows(key, name, frame, spec)
            for other in {"open", "high", "low", "close"} & fields.keys():
                if fields[other].values.shape == values.shape:
                    prices = values[later]
                    values[later] = np.where(
                        np.isnan(prices), prices, pick(prices, fields[other].values[later])
                    )
            return to_frame(frame.sessions, frame.symbols, values)

        return map_frames(panel, widen)


def _redated(panel: Frames, last: np.datetime64, gap: int, rng: np.random.Generator) -> Frames:
    """Sessions after ``last`` on other days: ``gap`` days later, then one to nine days apart."""
    later = np.unique(np.concatenate([f.sessions for fields in panel.values() for f in fields.values()]))
    later = later[later > last]
    steps = rng.integers(1, 10, len(later))
    steps[:1] = gap
    days = last + np.cumsum(steps).astype("timedelta64[D]")

    def redate(_key: str, _name: str, frame: FrozenFrame) -> FrozenFrame:
        sessions = frame.sessions.copy()
        moved = sessions > last
        sessions[moved] = days[np.searchsorted(later, sessions[moved])]
        return to_frame(sessions, frame.symbols, frame.values)

    return map_frames(panel, redate)
