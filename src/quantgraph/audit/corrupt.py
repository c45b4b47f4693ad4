"""Other futures: panels that are what was known up to a cut, and something else after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from quantgraph._frames import Dates, Floats, FrozenFrame
from quantgraph.audit._compare import Bools
from quantgraph.audit._slices import Axes, axes_of, made, mapped, panel_name, rows_known
from quantgraph.audit.cuts import Rows
from quantgraph.data.source import EVENT_FIELDS, STATUS_FIELDS
from quantgraph.market.actions import DATE_FIELDS
from quantgraph.market.moment import Moment, Phase
from quantgraph.sandbox.wire import Frames

__all__ = ["Corruption", "Kind", "corrupted", "extended", "nudged"]

Kind = Literal["scaled", "permuted", "missing"]

_APPENDED = 25
_NUDGE = 1e-9
_STRENGTH = (0.7, 3.0)
_BAR = {"open", "high", "low", "close"}


@dataclass(frozen=True, kw_only=True)
class Corruption:
    """What to put in place of the future.

    Attributes
    ----------
    kind
        ``scaled``: each bar by a factor of its own, 2 to 20 or 1/20 to 1/2; ``permuted``: the later sessions
        in another order; ``missing``: no trading at all.
    cuts
        (N,) row of the last session that is kept, for each symbol of the panel's axes.
    phase
        Phase of that session up to which it is kept.
    seed
        Equal seeds give equal futures.
    flipped
        Turns the factors over: what went up goes down.
    sessions
        How many sessions after the cut are replaced; None is all.
    """

    kind: Kind
    cuts: Rows
    phase: Phase
    seed: int
    flipped: bool = False
    sessions: int | None = None


def corrupted(panel: Frames, how: Corruption) -> Frames:
    """The panel with another future.

    All fields of a bar go together: its high stays the highest and its low the lowest, prices stay above 0,
    flags stay flags, and dates and day counts of events stay as they are or are missing.
    """
    axes, rng = axes_of(panel), np.random.default_rng(how.seed)
    shape = len(axes.sessions), len(axes.symbols)
    if how.kind == "permuted":
        return _permuted(panel, axes, how, rng)
    exponent = rng.uniform(*_STRENGTH, size=shape) * rng.choice([-1.0, 1.0], size=shape[1])
    factor = np.exp(-exponent if how.flipped else exponent)

    def change(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
        later = _later(key, name, frame, axes, how)
        if how.kind == "missing":
            return made(frame.sessions, frame.symbols, np.where(later, np.nan, frame.values))
        scaled = _scaled(panel_name(key), name, frame.values, _placed(factor, axes, frame))
        return made(frame.sessions, frame.symbols, np.where(later, scaled, frame.values))

    return _sane(mapped(panel, change), axes, how)


def _scaled(panel: str, name: str, values: Floats, factor: Floats) -> Floats:
    if panel == "signal":
        return -values + 0.0
    if panel == "ohlcv" and name == "is_st":
        return 1.0 - values
    if panel == "ohlcv" and name in (*DATE_FIELDS, *STATUS_FIELDS):
        return values
    # Against the price, so that a ratio of the two moves as well.
    return values / factor if name == "vol" else values * factor


def _permuted(panel: Frames, axes: Axes, how: Corruption, rng: np.random.Generator) -> Frames:
    first = int(how.cuts.min()) + 1
    last = len(axes.sessions) if how.sessions is None else min(first + how.sessions, len(axes.sessions))
    order = np.arange(len(axes.sessions))
    order[first:last] = rng.permutation(order[first:last])

    def change(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
        # Events stay where they are: an ex-date is not before its announcement.
        if (panel_name(key) == "ohlcv" and name in EVENT_FIELDS) or not np.array_equal(
            frame.sessions, axes.sessions
        ):
            return frame
        return made(frame.sessions, frame.symbols, frame.values[order])

    return mapped(panel, change)


def _later(key: str, name: str, frame: FrozenFrame, axes: Axes, how: Corruption) -> Bools:
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


def _placed(factor: Floats, axes: Axes, frame: FrozenFrame) -> Floats:
    """Factors (T, N) of the axes for the cells of a frame."""
    if frame.symbols == axes.symbols and np.array_equal(frame.sessions, axes.sessions):
        return factor
    rows = np.minimum(np.searchsorted(axes.sessions, frame.sessions), len(axes.sessions) - 1)
    column = {symbol: place for place, symbol in enumerate(axes.symbols)}
    columns = np.array([column.get(symbol, 0) for symbol in frame.symbols], dtype=np.int64)
    return np.asarray(factor[np.ix_(rows, columns)])


def _sane(panel: Frames, axes: Axes, how: Corruption) -> Frames:
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


def extended(panel: Frames, seed: int) -> Frames:
    """The panel with sessions appended: weekdays, their bars those of earlier ones at other prices."""
    axes, rng = axes_of(panel), np.random.default_rng(seed)
    days = pd.bdate_range(pd.Timestamp(axes.sessions[-1]), periods=_APPENDED + 1)[1:]
    sessions: Dates = np.concatenate([axes.sessions, days.to_numpy().astype("datetime64[us]")])
    rows = rng.integers(0, len(axes.sessions), size=_APPENDED)
    factor = np.exp(rng.uniform(-1.0, 1.0, size=(_APPENDED, 1)))

    def change(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
        if (panel_name(key) == "ohlcv" and name in EVENT_FIELDS) or not np.array_equal(
            frame.sessions, axes.sessions
        ):
            return frame
        more = frame.values[rows]
        if not (panel_name(key) == "signal" or name in STATUS_FIELDS):
            more = more * factor
        return made(sessions, frame.symbols, np.concatenate([frame.values, more]))

    return mapped(panel, change)


def nudged(panel: Frames, moment: Moment, seed: int, sign: float) -> Frames:
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
