"""Alternative futures: panels with the same past and other, plausible sessions after a cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.audit.causality._trials import (
    FLAT,
    axes_of,
    close_of,
    map_frames,
    panel_name,
    rows_known,
    to_frame,
)
from quantgraph.data import EVENT_FIELDS, STATUS_FIELDS
from quantgraph.errors import QuantGraphError
from quantgraph.market import Moment, Phase, Rulebook
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import Floats, FrozenFrame

FirstMoves = Literal["diverging", "joint", "ordinary"]
"""How a symbol's first sessions are drawn: among its best for some symbols and its worst for the others;
equally well or badly for all; or like any session. A leak may depend on any of these."""

FIRST_MOVES: tuple[FirstMoves, ...] = get_args(FirstMoves)

_FIRST_SESSIONS = 5
"""Sessions after a cut that are drawn in that way; the others are drawn like any session."""

_TAIL = 0.05
_BLOCK = 1 << 17
"""Cells of a block of columns: some arrays of this size stay in a processor's cache."""
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

Rows = NDArray[np.int32]
Number = TypeVar("Number", np.float64, np.int32)


@dataclass(frozen=True, kw_only=True)
class SampledBars:
    """Later sessions of a panel, K of them; each cell (K, N) is taken from a session of its symbol."""

    cut: int
    source: Rows
    idle: NDArray[np.bool_]
    before: Floats
    close: Floats
    flags: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class _History:
    """The changes of a panel's closes; ``ranked`` are rows (T, N) by ascending change, NaN last."""

    ranked: Rows
    known: Rows
    moves: Floats


class BarSampler:
    """Draws later bars of a panel from the returns, price grid and price limit of each symbol.

    A panel of 100 MB is worked through in blocks of columns: a dozen arrays of its size would not fit into a
    processor's cache, nor several futures at once into memory.
    """

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
        symbols, history = len(self.axes.symbols), self._history
        steps = first + np.arange(count) - cut
        early = int((steps <= _FIRST_SESSIONS).sum())
        chance = rng.random((count, symbols))
        if first_moves == "diverging":
            best = rng.random(symbols) < 0.5
            chance[:early] = np.where(best, 1 - _TAIL * chance[:early], _TAIL * chance[:early])
        elif first_moves == "joint":
            chance[:early] = 0.8 * rng.random((count, 1))[:early] + 0.2 * chance[:early]
        if opposite:
            np.subtract(1, chance, out=chance)
        idle = rng.random((count, symbols)) < self._idle_share
        idle[:early] = False
        idle |= history.known == 0
        base = self._last_known(cut)
        source = np.empty((count, symbols), np.int32)
        before, close = np.empty((count, symbols)), np.empty((count, symbols))
        for part in _column_blocks(len(self._close), symbols):
            known = history.known[part]
            place = np.minimum((chance[:, part] * known).astype(np.int32), np.maximum(known - 1, 0))
            rows = _take(history.ranked[:, part], place)
            moves = _take(history.moves[:, part], rows)
            moves[idle[:, part] | (steps == 0)[:, None]] = 0.0
            path = base[part] * np.exp(np.cumsum(moves, axis=0))
            source[:, part] = rows
            before[:, part], close[:, part] = self._on_grid(base[part], path, part)
        flags = rng.random(symbols) < 0.5
        return SampledBars(cut=cut, source=source, idle=idle, before=before, close=close, flags=flags)

    def rows(self, key: str, name: str, frame: FrozenFrame, drawn: SampledBars, *, first: int) -> Floats:
        """Cells (K, N) of a frame on the panel's axes for drawn sessions from row ``first`` on."""
        shape, bars = drawn.source.shape, panel_name(key) == "ohlcv"
        if bars and name in _UNANNOUNCED:
            return np.full(shape, np.nan)
        if bars and name == "adj_factor":  # without an event it stays
            return np.broadcast_to(_last_at(frame.values, drawn.cut), shape)
        if bars and name in STATUS_FIELDS:
            kept = frame.values[np.minimum(first + np.arange(shape[0]), len(frame.values) - 1)]
            return np.where(drawn.flags & ~np.isnan(kept), 1.0 - kept, kept) if name == "is_st" else kept
        found, grid = np.empty(shape), self._grid_of(key, name, frame)
        for part in _column_blocks(len(frame.values), shape[1]):
            values = self._draw_values(name, frame.values[:, part], drawn, part, bars=bars)
            found[:, part] = np.where(drawn.idle[:, part], np.nan, _round(values, grid[part]))
        return found

    def _draw_values(
        self, name: str, values: Floats, drawn: SampledBars, part: slice, *, bars: bool
    ) -> Floats:
        """Cells (K, n) of a field in a block of columns, before they are put on its grid."""
        source, bands = drawn.source[:, part], self._bands[part]
        before, close = drawn.before[:, part], drawn.close[:, part]
        taken = _take(values, source)
        if bars and name == "close":
            taken = np.where(np.isnan(taken), np.nan, close)
        elif bars and name == "pre_close":
            taken = np.where(np.isnan(taken), np.nan, before)
        elif bars and name in _LIMITS:
            banded = before * (1 + _LIMITS[name] * bands)
            taken = np.where(np.isnan(bands), taken * self._growth(source, close, part), banded)
        elif name in _WITH_PRICE or (bars and name in _PRICES):
            taken = taken * self._growth(source, close, part)
        elif name in _AGAINST_PRICE:
            taken = taken / self._growth(source, close, part)
        if bars and name in _TRADED:
            limit = np.where(np.isnan(bands), np.inf, bands)
            taken = np.clip(taken, before * (1 - limit), before * (1 + limit))
        return taken

    def _growth(self, source: Rows, close: Floats, part: slice) -> Floats:
        """New close over the source row's (K, n)."""
        grown: Floats = close / _take(self._close[:, part], source)
        return grown

    def _grid_of(self, key: str, name: str, frame: FrozenFrame) -> Floats:
        if (key, name) not in self._grids:
            self._grids[key, name] = _decimal_grid(frame.values)
        return self._grids[key, name]

    @cached_property
    def _history(self) -> _History:
        shape = self._close.shape
        ranked, moves, known = np.empty(shape, np.int32), np.empty(shape), np.empty(shape[1], np.int32)
        for part in _column_blocks(*shape):
            changes = self._changes(part)
            ranked[:, part] = np.argsort(changes, axis=0)
            known[part] = np.isfinite(changes).sum(axis=0)
            moves[:, part] = np.nan_to_num(np.log(changes))
        return _History(ranked=ranked, known=known, moves=moves)

    def _changes(self, part: slice) -> Floats:
        """Close over the close before it (T, n), NaN where it cannot come on any other day."""
        prices, close = self._panel.get(FLAT, self._panel.get("ohlcv", {})), self._close[:, part]
        before = np.vstack([np.full((1, close.shape[1]), np.nan), _fill_forward(close)[:-1]])
        stated = prices.get("pre_close")
        if stated is not None and stated.values.shape == self._close.shape:
            stated_cells = stated.values[:, part]
            before = np.where(np.isnan(stated_cells), before, stated_cells)
        with np.errstate(divide="ignore", invalid="ignore"):
            change = close / before
        new = (np.cumsum(~np.isnan(close), axis=0) <= _FREE_SESSIONS) & np.isnan(close[0])
        bands = self._bands[part]
        band = np.where(np.isnan(bands), np.inf, bands + 0.005)
        usual = (change > 0) & (change <= 1 + band) & (change >= 1 - band) & ~new
        return np.where(usual, change, np.nan)

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
        found, first = _last_at(self._close, cut), (~np.isnan(self._close)).argmax(axis=0)
        return np.where(np.isnan(found), self._close[first, np.arange(len(first))], found)

    def _on_grid(self, base: Floats, path: Floats, part: slice) -> tuple[Floats, Floats]:
        """The close before each session and its own, on the grid and within the price limit."""
        bands, close = self._bands[part], _round(path, self._grid[part])
        before = np.vstack([base, close[:-1]])
        close = np.fmax(np.fmin(close, before * (1 + bands)), before * (1 - bands))
        close = _round(close, self._grid[part])
        return np.vstack([base, close[:-1]]), close


def _column_blocks(rows: int, columns: int) -> Iterator[slice]:
    width = max(1, _BLOCK // max(1, rows))
    return (slice(first, first + width) for first in range(0, columns, width))


def _take(values: NDArray[Number], rows: Rows) -> NDArray[Number]:
    """Cells (K, N) of a frame (T, N), each from a row of its column; faster than by two indices."""
    found: NDArray[Number] = values.ravel().take(rows * values.shape[1] + np.arange(values.shape[1]))
    return found


def _last_at(values: Floats, row: int) -> Floats:
    """The last number (N,) at or above a row, NaN where there is none."""
    known = ~np.isnan(values[: row + 1])
    found: Floats = values[row - known[::-1].argmax(axis=0), np.arange(values.shape[1])]
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


def _round(values: Floats, grid: Floats) -> Floats:
    """Numbers on the grid of their column, at least one step where they are above 0."""
    steps = np.rint(values * grid)
    steps[(steps == 0) & (values > 0)] = 1.0
    steps /= grid
    return np.where(np.isnan(grid), values, steps) if np.isnan(grid).any() else steps


FutureKind = Literal["resampled", "missing"]

_GAP_DAYS = 10
"""Days before the first redated session; in the opposite future it is the next day."""


@dataclass(frozen=True, kw_only=True)
class FutureSpec:
    """Specification of one alternative future."""

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

        panel = self._widen(map_frames(self._panel, replace), spec)
        if not spec.redated:
            return panel
        return _shift_dates(panel, axes.sessions[spec.cut], 1 if spec.opposite else _GAP_DAYS, rng)

    def _replaced_rows(self, key: str, name: str, frame: FrozenFrame, spec: FutureSpec) -> slice:
        """Rows of a frame to replace: those after the cut, up to ``spec.sessions`` later."""
        sessions = self._axes.sessions
        first = rows_known(key, name, frame, Moment(pd.Timestamp(sessions[spec.cut]), spec.phase))
        last = len(frame.sessions)
        if spec.sessions is not None:
            end = sessions[min(spec.cut + spec.sessions, len(sessions) - 1)]
            last = int(np.searchsorted(frame.sessions, end, side="right"))
        return slice(first, max(first, last))

    def _widen(self, panel: Frames, spec: FutureSpec) -> Frames:
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


def rehearsal_panel(panel: Frames, seed: int = 0) -> Frames:
    """The panel with invented rows after its first session, for runs before the strategy's first one.

    Bars, indicators, an index, factors and limits fit each other; sessions and symbols are the panel's.
    """
    spec = FutureSpec(kind="resampled", cut=0, phase="post_close", seed=seed, first_moves="ordinary")
    return AlternativeFutures(panel).panel(spec)


def _shift_dates(panel: Frames, last: np.datetime64, gap: int, rng: np.random.Generator) -> Frames:
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
