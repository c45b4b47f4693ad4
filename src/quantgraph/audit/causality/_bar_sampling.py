"""Bars that could have come: drawn from a panel's own returns, on its grid of prices, inside its limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.audit.causality._cuts import Rows
from quantgraph.audit.causality._panel_slices import FLAT, axes_of, close_of, panel_name
from quantgraph.data.market_data import EVENT_FIELDS, STATUS_FIELDS
from quantgraph.errors import QuantGraphError
from quantgraph.market.rulebook import Rulebook
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import Dates, Floats, FrozenFrame

__all__ = ["STYLES", "BarSampler", "SampledBars", "Style", "grid_of", "later_days"]

Style = Literal["apart", "together", "alike"]
"""How a symbol's first sessions are drawn: among its best for some symbols and its worst for the others;
equally well or badly for all; or like any session. A leak that asks how far it went finds every answer."""

STYLES: tuple[Style, ...] = get_args(Style)

_STYLED = 5
"""Sessions after a cut that are drawn in a style; those after them come as they may."""

_TAIL = 0.05
_DEEPEST = 6
_PROBES = 64
_FREE_SESSIONS = 5
"""First sessions of a new share, in which the mainland's price limits are wider or absent."""

_PRICES = frozenset({"open", "high", "low", "close", "pre_close"})
_TRADED = _PRICES - {"pre_close"}
_NOT_YET_KNOWN = frozenset({*EVENT_FIELDS, "delisting_day"})
"""What is announced in the future does not come: code that acts on it in advance then does not."""
_LIMITS = {"up_limit": 1.0, "down_limit": -1.0}
_WITH_PRICE = frozenset({"amount", "total_mv", "circ_mv", "pe", "pe_ttm", "pb", "ps", "ps_ttm"})
_AGAINST_PRICE = frozenset({"dv_ratio", "dv_ttm"})

Bands = NDArray[np.float64]
Places = NDArray[np.int64]
Number = TypeVar("Number", np.float64, np.int64)


@dataclass(frozen=True, kw_only=True)
class SampledBars:
    """Later sessions of a panel, K of them, each cell (K, N) taken from a session of its symbol.

    Attributes
    ----------
    cuts
        (N,) row after which each symbol's begin.
    source
        Row that a cell's bar is taken from.
    idle
        Where nothing is traded.
    before, close
        The close that was last before a session, and its own, on the grid.
    factor
        New close over that of the row taken from.
    flags
        (N,), whether a symbol's status is turned over.
    """

    cuts: Rows
    source: Places
    idle: NDArray[np.bool_]
    before: Floats
    close: Floats
    factor: Floats
    flags: NDArray[np.bool_]


class BarSampler:
    """What may be drawn of a panel: returns of each symbol, its grid of prices, and its price limit."""

    def __init__(self, panel: Frames) -> None:
        self._panel = panel
        self.axes = axes_of(panel)
        self._close = close_of(panel).values
        self._grids: dict[tuple[str, str], Floats] = {}

    def draw(
        self, cuts: Rows, first: int, count: int, rng: np.random.Generator, style: Style, *, falling: bool
    ) -> SampledBars:
        """Draw ``count`` sessions from row ``first`` on; a symbol's begin after row ``cuts[n]``.

        A cell of a symbol whose turn has not come is drawn too, and means nothing. Equal generators draw
        opposite sessions where it is ``falling``: for the best the worst.
        """
        steps = np.maximum(first + np.arange(count)[:, None] - cuts, 0)
        chance = rng.random((count, len(cuts)))
        styled = steps <= _STYLED
        if style == "apart":
            tail = np.where(rng.random(len(cuts)) < 0.5, 1 - _TAIL * chance, _TAIL * chance)
            chance = np.where(styled, tail, chance)
        elif style == "together":
            chance = np.where(styled, 0.8 * rng.random((count, 1)) + 0.2 * chance, chance)
        if falling:
            chance = 1 - chance
        ranked, known = self._ranked
        place = np.minimum((chance * known).astype(np.int64), np.maximum(known - 1, 0))
        source = _taken(ranked, place)
        idle = ((rng.random(source.shape) < self._idle) & ~styled) | (known == 0)
        moves = _taken(self._moves, source)
        moves[idle | (steps == 0)] = 0.0
        base = self._last_known(cuts)
        before, close = self._on_grid(base, base * np.exp(np.cumsum(moves, axis=0)))
        return SampledBars(
            cuts=cuts,
            source=source,
            idle=idle,
            before=before,
            close=close,
            factor=close / _taken(self._close, source),
            flags=rng.random(len(cuts)) < 0.5,
        )

    def rows(self, key: str, name: str, frame: FrozenFrame, draw: SampledBars, *, first: int) -> Floats:
        """Cells (K, N) of a frame on the panel's axes as they were drawn, from row ``first`` on."""
        count = len(draw.source)
        bars = panel_name(key) == "ohlcv"
        kept = _kept(frame.values, first, count)
        if bars and name in _NOT_YET_KNOWN:
            return np.full_like(kept, np.nan)
        if bars and name == "adj_factor":  # without an event it stays
            return np.broadcast_to(_filled(frame.values)[draw.cuts, np.arange(len(draw.cuts))], kept.shape)
        if bars and name in STATUS_FIELDS:
            return np.where(draw.flags & ~np.isnan(kept), 1.0 - kept, kept) if name == "is_st" else kept
        values = _taken(frame.values, draw.source)
        if bars and name == "close":
            values = np.where(np.isnan(values), np.nan, draw.close)
        elif bars and name == "pre_close":
            values = np.where(np.isnan(values), np.nan, draw.before)
        elif bars and name in _LIMITS:
            banded = draw.before * (1 + _LIMITS[name] * self._bands)
            values = np.where(np.isnan(self._bands), values * draw.factor, banded)
        elif name in _WITH_PRICE or (bars and name in _PRICES):
            values = values * draw.factor
        elif name in _AGAINST_PRICE:
            values = values / draw.factor
        if bars and name in _TRADED:
            values = np.clip(values, self._floor(draw), self._ceiling(draw))
        return np.where(draw.idle, np.nan, _rounded(values, self._grid_of(key, name, frame)))

    def _grid_of(self, key: str, name: str, frame: FrozenFrame) -> Floats:
        if (key, name) not in self._grids:
            self._grids[key, name] = grid_of(frame.values)
        return self._grids[key, name]

    @cached_property
    def _changes(self) -> Floats:
        """Close over the close before it (T, N), NaN where it is not one that can come on any day."""
        prices = self._panel.get(FLAT, self._panel.get("ohlcv", {}))
        before = np.vstack([np.full((1, self._close.shape[1]), np.nan), _filled(self._close)[:-1]])
        stated = prices.get("pre_close")
        if stated is not None and stated.values.shape == self._close.shape:
            before = np.where(np.isnan(stated.values), before, stated.values)
        with np.errstate(divide="ignore", invalid="ignore"):
            change = self._close / before
        priced = np.cumsum(~np.isnan(self._close), axis=0)
        new = (priced <= _FREE_SESSIONS) & np.isnan(self._close[0])
        band = np.where(np.isnan(self._bands), np.inf, self._bands + 0.005)
        usual = (change > 0) & (change <= 1 + band) & (change >= 1 - band) & ~new
        return np.where(usual, change, np.nan)

    @cached_property
    def _moves(self) -> Floats:
        """The same as logarithms, 0 where there is none."""
        return np.nan_to_num(np.log(self._changes))

    @cached_property
    def _ranked(self) -> tuple[Places, Places]:
        """Rows (T, N) by ascending change, those without one last; and how many have one (N,)."""
        return np.argsort(self._changes, axis=0), np.isfinite(self._changes).sum(axis=0)

    @cached_property
    def _idle(self) -> Floats:
        """Share (N,) of the sessions since a symbol's first in which it did not trade."""
        begun = np.logical_or.accumulate(~np.isnan(self._close), axis=0)
        idle: Floats = (begun & np.isnan(self._close)).sum(axis=0) / np.maximum(begun.sum(axis=0), 1)
        return np.minimum(idle, 0.5)

    @cached_property
    def _bands(self) -> Bands:
        """Share (N,) of the close before that a price may move, NaN where there is no limit."""
        day = pd.Timestamp(self.axes.sessions[-1]).date()
        rules, found = Rulebook.mainland(), np.full(len(self.axes.symbols), np.nan)
        for column, symbol in enumerate(self.axes.symbols):
            try:
                limits = rules.limits(symbol, day, 1000)
            except QuantGraphError:  # another market, or a fund of unknown kind: no limit is known
                continue
            if limits is not None:
                found[column] = float(limits[0]) / 1000 - 1
        return found

    @cached_property
    def _grid(self) -> Floats:
        return grid_of(self._close)

    def _last_known(self, cuts: Rows) -> Floats:
        """The last close (N,) at or before each cut, the first later one where there is none."""
        filled = _filled(self._close)
        found = filled[cuts, np.arange(len(cuts))]
        first = _filled(self._close[::-1])[-1]
        return np.where(np.isnan(found), first, found)

    def _on_grid(self, base: Floats, path: Floats) -> tuple[Floats, Floats]:
        """The close before each session and its own, rounded, and no further apart than the limit."""
        close = _rounded(path, self._grid)
        before = np.vstack([base, close[:-1]])
        close = np.fmax(np.fmin(close, before * (1 + self._bands)), before * (1 - self._bands))
        close = _rounded(close, self._grid)
        return np.vstack([base, close[:-1]]), close

    def _floor(self, draw: SampledBars) -> Floats:
        return np.where(np.isnan(self._bands), -np.inf, draw.before * (1 - self._bands))

    def _ceiling(self, draw: SampledBars) -> Floats:
        return np.where(np.isnan(self._bands), np.inf, draw.before * (1 + self._bands))


def _kept(values: Floats, first: int, count: int) -> Floats:
    """Rows as they are, the last one again after the end."""
    rows: Floats = values[np.minimum(first + np.arange(count), len(values) - 1)]
    return rows


def _taken(values: NDArray[Number], rows: Places) -> NDArray[Number]:
    """Cells (K, N) of a frame (T, N), each from a row of its column; four times as fast as by two indices."""
    found: NDArray[Number] = values.ravel().take(rows * values.shape[1] + np.arange(values.shape[1]))
    return found


def _filled(values: Floats) -> Floats:
    """Each cell the last number at or above it."""
    row = np.where(np.isnan(values), 0, np.arange(len(values))[:, None])
    return _taken(values, np.maximum.accumulate(row, axis=0))


def grid_of(values: Floats) -> Floats:
    """How many steps make one (N,) in each column, such as 100 for cents; NaN where there is no grid."""
    probe = values[:: max(1, len(values) // _PROBES)]
    found = np.full(values.shape[1], np.nan)
    for digits in range(_DEEPEST, -1, -1):
        scaled = probe * 10.0**digits
        fits = np.isnan(probe) | (
            np.abs(scaled - np.rint(scaled)) < 1e-6 * np.maximum(1.0, np.abs(scaled) * 1e-6)
        )
        found = np.where(fits.all(axis=0), 10.0**digits, found)
    return found


def _rounded(values: Floats, grid: Floats) -> Floats:
    """Numbers on the grid of their column, at least one step of it where they are above 0."""
    steps = np.rint(values * grid)
    steps[(steps == 0) & (values > 0)] = 1.0
    steps /= grid
    return np.where(np.isnan(grid), values, steps) if np.isnan(grid).any() else steps


def later_days(last: np.datetime64, count: int) -> Dates:
    """Weekdays after a session."""
    days = pd.bdate_range(pd.Timestamp(last), periods=count + 1)[1:]
    return days.to_numpy().astype("datetime64[us]")
