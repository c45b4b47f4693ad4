"""Plausible bars: drawn from a panel's own returns, on its price grid, inside its price limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.audit.causality._panel_slices import FLAT, axes_of, close_of, panel_name
from quantgraph.data.market_data import EVENT_FIELDS, STATUS_FIELDS
from quantgraph.errors import QuantGraphError
from quantgraph.market.rulebook import Rulebook
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import Dates, Floats, FrozenFrame

__all__ = ["FIRST_MOVES", "BarSampler", "FirstMoves", "SampledBars", "later_days"]

FirstMoves = Literal["diverging", "joint", "ordinary"]
"""How a symbol's first sessions are drawn: among its best for some symbols and its worst for the others;
equally well or badly for all; or like any session. A leak may depend on any of these."""

FIRST_MOVES: tuple[FirstMoves, ...] = get_args(FirstMoves)

_FIRST_SESSIONS = 5
"""Sessions after a cut that are drawn in that way; the others are drawn like any session."""

_TAIL = 0.05
_MOST_DIGITS = 6
_GRID_PROBES = 64
_FREE_SESSIONS = 5
"""First sessions of a new share, in which the mainland's price limits are wider or absent."""

_PRICES = frozenset({"open", "high", "low", "close", "pre_close"})
_TRADED = _PRICES - {"pre_close"}
_UNANNOUNCED = frozenset({*EVENT_FIELDS, "delisting_day"})
"""Fields that stay empty, so that code that acts ahead of announcements finds none."""
_LIMITS = {"up_limit": 1.0, "down_limit": -1.0}
_WITH_PRICE = frozenset({"amount", "total_mv", "circ_mv", "pe", "pe_ttm", "pb", "ps", "ps_ttm"})
_AGAINST_PRICE = frozenset({"dv_ratio", "dv_ttm"})

Rows = NDArray[np.int64]
Number = TypeVar("Number", np.float64, np.int64)


@dataclass(frozen=True, kw_only=True)
class SampledBars:
    """Later sessions of a panel, K of them; each cell (K, N) is taken from a session of its symbol.

    Attributes
    ----------
    cut
        Row of the last close before them.
    source
        Row from which a cell's bar is taken.
    idle
        Where nothing is traded.
    before, close
        The last close before a session, and the session's own, on the grid.
    factor
        New close over that of the source row.
    flags
        (N,), whether a symbol's status is reversed.
    """

    cut: int
    source: Rows
    idle: NDArray[np.bool_]
    before: Floats
    close: Floats
    factor: Floats
    flags: NDArray[np.bool_]


class BarSampler:
    """Draws later bars of a panel from the returns, price grid and price limit of each symbol."""

    def __init__(self, panel: Frames) -> None:
        self._panel = panel
        self.axes = axes_of(panel)
        self._close = close_of(panel).values
        self._grids: dict[tuple[str, str], Floats] = {}

    def draw(
        self,
        cut: int,
        first: int,
        count: int,
        rng: np.random.Generator,
        first_moves: FirstMoves,
        *,
        opposite: bool,
    ) -> SampledBars:
        """Draw ``count`` sessions from row ``first`` on, which follow the close of row ``cut``.

        Equal generators draw opposite sessions if ``opposite``: the worst in place of the best.
        """
        symbols = len(self.axes.symbols)
        steps = (first + np.arange(count) - cut)[:, None]
        chance = rng.random((count, symbols))
        early = steps <= _FIRST_SESSIONS
        if first_moves == "diverging":
            tail = np.where(rng.random(symbols) < 0.5, 1 - _TAIL * chance, _TAIL * chance)
            chance = np.where(early, tail, chance)
        elif first_moves == "joint":
            chance = np.where(early, 0.8 * rng.random((count, 1)) + 0.2 * chance, chance)
        if opposite:
            chance = 1 - chance
        ranked, known = self._ranked
        place = np.minimum((chance * known).astype(np.int64), np.maximum(known - 1, 0))
        source = _take(ranked, place)
        idle = ((rng.random(source.shape) < self._idle_share) & ~early) | (known == 0)
        moves = _take(self._moves, source)
        moves[idle | (steps == 0)] = 0.0
        base = self._last_known(cut)
        before, close = self._on_grid(base, base * np.exp(np.cumsum(moves, axis=0)))
        return SampledBars(
            cut=cut,
            source=source,
            idle=idle,
            before=before,
            close=close,
            factor=close / _take(self._close, source),
            flags=rng.random(symbols) < 0.5,
        )

    def rows(self, key: str, name: str, frame: FrozenFrame, drawn: SampledBars, *, first: int) -> Floats:
        """Cells (K, N) of a frame on the panel's axes for drawn sessions from row ``first`` on."""
        count = len(drawn.source)
        bars = panel_name(key) == "ohlcv"
        kept = frame.values[np.minimum(first + np.arange(count), len(frame.values) - 1)]
        if bars and name in _UNANNOUNCED:
            return np.full_like(kept, np.nan)
        if bars and name == "adj_factor":  # without an event it stays
            return np.broadcast_to(_fill_forward(frame.values)[drawn.cut], kept.shape)
        if bars and name in STATUS_FIELDS:
            return np.where(drawn.flags & ~np.isnan(kept), 1.0 - kept, kept) if name == "is_st" else kept
        values = _take(frame.values, drawn.source)
        if bars and name == "close":
            values = np.where(np.isnan(values), np.nan, drawn.close)
        elif bars and name == "pre_close":
            values = np.where(np.isnan(values), np.nan, drawn.before)
        elif bars and name in _LIMITS:
            banded = drawn.before * (1 + _LIMITS[name] * self._bands)
            values = np.where(np.isnan(self._bands), values * drawn.factor, banded)
        elif name in _WITH_PRICE or (bars and name in _PRICES):
            values = values * drawn.factor
        elif name in _AGAINST_PRICE:
            values = values / drawn.factor
        if bars and name in _TRADED:
            limit = np.where(np.isnan(self._bands), np.inf, self._bands)
            values = np.clip(values, drawn.before * (1 - limit), drawn.before * (1 + limit))
        return np.where(drawn.idle, np.nan, _rounded(values, self._grid_of(key, name, frame)))

    def _grid_of(self, key: str, name: str, frame: FrozenFrame) -> Floats:
        if (key, name) not in self._grids:
            self._grids[key, name] = _decimal_grid(frame.values)
        return self._grids[key, name]

    @cached_property
    def _changes(self) -> Floats:
        """Close over the close before it (T, N), NaN where it cannot come on any other day."""
        prices = self._panel.get(FLAT, self._panel.get("ohlcv", {}))
        before = np.vstack([np.full((1, self._close.shape[1]), np.nan), _fill_forward(self._close)[:-1]])
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
        """The logarithm of ``_changes``, 0 where that is NaN."""
        return np.nan_to_num(np.log(self._changes))

    @cached_property
    def _ranked(self) -> tuple[Rows, Rows]:
        """Rows (T, N) by ascending change, those without one last; and the number (N,) of changes."""
        return np.argsort(self._changes, axis=0), np.isfinite(self._changes).sum(axis=0)

    @cached_property
    def _idle_share(self) -> Floats:
        """Share (N,) of the sessions since a symbol's first in which it did not trade."""
        begun = np.logical_or.accumulate(~np.isnan(self._close), axis=0)
        idle: Floats = (begun & np.isnan(self._close)).sum(axis=0) / np.maximum(begun.sum(axis=0), 1)
        return np.minimum(idle, 0.5)

    @cached_property
    def _bands(self) -> Floats:
        """Share (N,) of the close before by which a price may move, NaN where there is no limit."""
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
        return _decimal_grid(self._close)

    def _last_known(self, cut: int) -> Floats:
        """The last close (N,) at or before a row, the first later one where there is none."""
        found: Floats = _fill_forward(self._close)[cut]
        first: Floats = _fill_forward(self._close[::-1])[-1]
        return np.where(np.isnan(found), first, found)

    def _on_grid(self, base: Floats, path: Floats) -> tuple[Floats, Floats]:
        """The close before each session and its own, on the grid and within the price limit."""
        close = _rounded(path, self._grid)
        before = np.vstack([base, close[:-1]])
        close = np.fmax(np.fmin(close, before * (1 + self._bands)), before * (1 - self._bands))
        close = _rounded(close, self._grid)
        return np.vstack([base, close[:-1]]), close


def _take(values: NDArray[Number], rows: Rows) -> NDArray[Number]:
    """Cells (K, N) of a frame (T, N), each from a row of its column; faster than by two indices."""
    found: NDArray[Number] = values.ravel().take(rows * values.shape[1] + np.arange(values.shape[1]))
    return found


def _fill_forward(values: Floats) -> Floats:
    """The last number at or above each cell."""
    row = np.where(np.isnan(values), 0, np.arange(len(values))[:, None])
    return _take(values, np.maximum.accumulate(row, axis=0))


def _decimal_grid(values: Floats) -> Floats:
    """Steps per unit (N,) of each column, such as 100 for cents; NaN where there is no grid."""
    probe = values[:: max(1, len(values) // _GRID_PROBES)]
    found = np.full(values.shape[1], np.nan)
    for digits in range(_MOST_DIGITS, -1, -1):
        scaled = probe * 10.0**digits
        fits = np.isnan(probe) | (
            np.abs(scaled - np.rint(scaled)) < 1e-6 * np.maximum(1.0, np.abs(scaled) * 1e-6)
        )
        found = np.where(fits.all(axis=0), 10.0**digits, found)
    return found


def _rounded(values: Floats, grid: Floats) -> Floats:
    """Numbers on the grid of their column, at least one step where they are above 0."""
    steps = np.rint(values * grid)
    steps[(steps == 0) & (values > 0)] = 1.0
    steps /= grid
    return np.where(np.isnan(grid), values, steps) if np.isnan(grid).any() else steps


def later_days(last: np.datetime64, count: int) -> Dates:
    """Weekdays after a session."""
    days = pd.bdate_range(pd.Timestamp(last), periods=count + 1)[1:]
    return days.to_numpy().astype("datetime64[us]")
