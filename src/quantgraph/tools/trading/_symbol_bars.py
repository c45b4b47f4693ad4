"""The bars of one symbol as known at a view's moment, by session, week or month."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from quantgraph.errors import BadOption, UnknownSymbol
from quantgraph.market import Moment
from quantgraph.market.actions import Column, column_adjustment
from quantgraph.market.rules import find_board
from quantgraph.state import View
from quantgraph.state.frames import FrozenFrame
from quantgraph.tools._context import ToolContext

Floats = NDArray[np.float64]

Timeframe = Literal["1d", "1w", "1mo"]
"""A session, a week from Monday to Sunday, a calendar month."""

PRICES = ("open", "high", "low", "close")
_ADJUSTED_BY = ("close", "adj_factor", "pre_close", "dividend", "split")
_READ = tuple(dict.fromkeys((*PRICES, "vol", *_ADJUSTED_BY)))
_TIMEFRAMES = get_args(Timeframe)
_SHOWN = 10
_DECIMALS = 6
SHARES_PER_HAND = 100
"""Shares of one unit of the data's ``vol``, in every market."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SymbolBars:
    """Bars in ascending order, without sessions that have no close.

    ``sessions`` (T,), ``datetime64[us]``: of a week or a month its first session that is known. ``values``
    (T,): ``open``, ``high``, ``low``, ``close`` and ``volume``, NaN where the data has no number. Prices are
    per share of today, see :func:`.adjusted`, by ``factor``; volumes are in the market's unit, see
    :func:`shares_per_unit`, and of the day.
    """

    sessions: NDArray[np.datetime64]
    values: Mapping[str, Floats]
    running: bool = False

    def __len__(self) -> int:
        return len(self.sessions)

    @property
    def times(self) -> list[int]:
        """Seconds from 1970-01-01 to 00:00 UTC of each session's date."""
        times: list[int] = self.sessions.astype("datetime64[s]").astype(np.int64).tolist()
        return times

    @property
    def dates(self) -> list[str]:
        """Each session's date, ``YYYY-MM-DD``."""
        dates: list[str] = self.sessions.astype("datetime64[D]").astype(str).tolist()
        return dates

    def opened(self, session: np.datetime64) -> float | None:
        """The open of a session; None without one."""
        (places,) = np.nonzero(self.sessions == session)
        price = float(self.values["open"][places[0]]) if len(places) else math.nan
        return price if price > 0 else None

    def complete(self) -> SymbolBars:
        """The bars without the running one."""
        return self.part(slice(-1)) if self.running else self

    def part(self, rows: slice) -> SymbolBars:
        """Some of the bars; ``running`` tells of the last one where it is among them."""
        is_last = self.running and bool(len(self)) and rows.indices(len(self))[1] == len(self)
        values = {name: column[rows] for name, column in self.values.items()}
        return SymbolBars(sessions=self.sessions[rows], values=values, running=is_last)

    def rows(self, limit: int) -> list[dict[str, Any]]:
        """The last bars as plain JSON, numbers with at most six decimals, None for no number."""
        last = self.part(slice(max(0, len(self) - limit), len(self)))
        columns = [_plain(last.values[name]) for name in (*PRICES, "volume")]
        names = ("time", "date", *PRICES, "volume")
        rows = zip(last.times, last.dates, *columns, strict=True)
        found: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in rows]
        if last.running:
            found[-1]["running"] = True
        return found


def shares_per_unit(symbol: str) -> int:
    """Shares of one unit of volume: 1 of a US symbol, else 100, a hand (手).

    >>> shares_per_unit("AAPL"), shares_per_unit("600519.SH")
    (1, 100)
    """
    return 1 if find_board(symbol) == "us" else SHARES_PER_HAND


def known_symbol(view: View, symbol: str) -> str:
    """Return the data's own spelling of a symbol: ``600519`` and ``600519.sh`` are ``600519.SH``.

    Raises
    ------
    UnknownSymbol
        If the view has neither a share nor an index of that code.
    """
    wanted = symbol.strip()
    known = (*_columns(view, "ohlcv"), *_columns(view, "index"))
    for spelling in (wanted, wanted.upper()):
        if spelling in known:
            return spelling
    if wanted.isdecimal():
        same = [each for each in known if each.partition(".")[0] == wanted]
        if len(same) == 1:
            return same[0]
    names = view.names()
    meant = [code for code, name in names.items() if name == wanted and code in known]
    meant = meant or difflib.get_close_matches(wanted.upper(), known, n=1)
    hint = f"; did you mean {meant[0]}?" if meant else ""
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    raise UnknownSymbol(
        f"symbol={wanted[:60]!r} is not in the data; there is {', '.join(known[:_SHOWN]) or 'none'}"
        f"{more}{hint}",
        symbol=wanted[:60],
    )


def known_bars(context: ToolContext, symbol: str) -> SymbolBars:
    """Return the bars of the complete sessions that are known of a symbol; raises UnknownSymbol."""
    name = known_symbol(context.view, symbol)
    kept: dict[str, SymbolBars] = context.kept.setdefault("bars", {})
    if name not in kept:
        kept[name] = _bars_in(context.view, name)
    return kept[name]


def _bars_in(view: View, symbol: str) -> SymbolBars:
    panel = "ohlcv" if symbol in _columns(view, "ohlcv") else "index"
    fields = view[panel]
    if "close" not in fields:
        none = {name: np.empty(0) for name in (*PRICES, "volume", "factor")}
        return SymbolBars(sessions=np.empty(0, "datetime64[us]"), values=none)
    columns = {name: _column(fields.frozen(name), symbol) for name in _READ if name in fields}
    sessions, _ = columns["close"]
    values = {
        name: _at(columns[field], sessions) if field in columns else np.full(len(sessions), np.nan)
        for name, field in zip((*PRICES, "volume"), (*PRICES, "vol"), strict=True)
    }
    values["volume"] = values["volume"] * (SHARES_PER_HAND // shares_per_unit(symbol))
    values["factor"] = np.ones(len(sessions))
    if panel == "ohlcv" and len(sessions):
        adjusted_by = {name: column for name, column in columns.items() if name in _ADJUSTED_BY}
        factor = column_adjustment(symbol, adjusted_by, sessions)
        if factor is not None:
            values |= {name: values[name] * factor for name in (*PRICES, "factor")}
    return _with_close(SymbolBars(sessions=sessions, values=values))


def _with_close(bars: SymbolBars) -> SymbolBars:
    """The bars that have a close; before its first factor a symbol has no adjusted one."""
    priced = ~np.isnan(bars.values["close"])
    values = {name: column[priced] for name, column in bars.values.items()}
    return SymbolBars(sessions=bars.sessions[priced], values=values)


def bars_by(bars: SymbolBars, timeframe: Timeframe, moment: Moment) -> SymbolBars:
    """Join the bars of sessions to bars of weeks or months; the last one is running until its period is over.

    The period of the moment's own session counts as running: which sessions are to come is not asked.
    """
    if timeframe == "1d" or not len(bars):
        return bars
    periods = _period(bars.sessions, timeframe)
    firsts = np.flatnonzero(np.concatenate(([True], periods[1:] != periods[:-1])))
    lasts = np.concatenate((firsts[1:], [len(bars)])) - 1
    values = bars.values
    joined = {
        "open": values["open"][firsts],
        "high": np.fmax.reduceat(values["high"], firsts),
        "low": np.fmin.reduceat(values["low"], firsts),
        "close": values["close"][lasts],
        "volume": np.add.reduceat(values["volume"], firsts),
    }
    today = _period(np.array([moment.session.to_datetime64()]), timeframe)[0]
    return SymbolBars(sessions=bars.sessions[firsts], values=joined, running=bool(periods[-1] == today))


def check_timeframe(timeframe: str) -> Timeframe:
    """Return a timeframe that the data has."""
    if timeframe.strip() in _TIMEFRAMES:
        return cast("Timeframe", timeframe.strip())
    raise BadOption(
        f"timeframe={timeframe[:60]!r}; valid are {', '.join(_TIMEFRAMES)}: the data has one bar a session "
        "and no prices within it",
        parameter="timeframe",
    )


def _columns(view: View, panel: str) -> tuple[str, ...]:
    fields = view[panel]
    name = next((name for name in ("close", "open") if name in fields), None)
    return fields.frozen(name).symbols if name else ()


def _column(frame: FrozenFrame, symbol: str) -> Column:
    if symbol not in frame.symbols:
        return frame.sessions, np.full(len(frame.sessions), np.nan)
    return frame.sessions, frame.values[:, frame.symbols.index(symbol)]


def _at(column: Column, sessions: NDArray[np.datetime64]) -> Floats:
    """Values of a column at some sessions, NaN where it has none."""
    theirs, values = column
    if np.array_equal(theirs[: len(sessions)], sessions):
        return values[: len(sessions)]
    places = np.searchsorted(theirs, sessions)
    inside = places < len(theirs)
    inside[inside] = theirs[places[inside]] == sessions[inside]
    found = np.full(len(sessions), np.nan)
    found[inside] = values[places[inside]]
    return found


def _period(sessions: NDArray[np.datetime64], timeframe: Timeframe) -> NDArray[np.int64]:
    if timeframe == "1mo":
        return sessions.astype("datetime64[M]").astype(np.int64)
    days = sessions.astype("datetime64[D]").astype(np.int64)
    return np.asarray((days + 3) // 7, dtype=np.int64)  # 1970-01-01 was a Thursday


def _plain(values: Floats) -> Sequence[float | None]:
    rounded: list[float] = np.round(values, _DECIMALS).tolist()
    return [None if math.isnan(value) else value for value in rounded] if np.isnan(values).any() else rounded
