"""Check that a source of market data keeps the protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from quantgraph.data import BAR_FIELDS, DatedLists, DescribedSource, MarketDataSource, Panel
from quantgraph.errors import BadWindow, QuantGraphError, UnknownSymbol

_NOBODY = "NOBODY-X"
_ROWS, _SYMBOLS = 20, 3
_PRICES = ("open", "high", "low", "close")
_ROOM = 1e-9


def check_source(
    source: MarketDataSource,
    symbols: Sequence[str] = (),
    window: tuple[pd.Timestamp, pd.Timestamp] | None = None,
) -> None:
    """Ask a source as a run does, and raise at the first answer that breaks the protocol.

    Parameters
    ----------
    symbols
        Some of its codes with bars in the window. Default: its first three.
    window
        First and last day, both inclusive. Default: its last twenty sessions.

    Raises
    ------
    AssertionError
        With what the source answered and what the protocol says.
    """
    _expect(isinstance(source, MarketDataSource), "it lacks a method of MarketDataSource")
    _expect(bool(source.name) and isinstance(source.synthetic, bool), "name is a text, synthetic is a bool")
    sessions = source.sessions()
    _check_index(sessions, "sessions()")
    listed = source.symbols()
    _expect(
        isinstance(listed, tuple) and list(listed) == sorted({*listed}), "symbols() is an ascending tuple"
    )
    codes = sorted(symbols or listed[:_SYMBOLS])
    first, last = window or (sessions[-_ROWS:][0], sessions[-1])
    days = sessions[(sessions >= first) & (sessions <= last)]
    panel = source.bars(codes, first, last)
    _check_panel(panel, days, codes)
    _check_again(source, panel, codes, (first, last))
    _check_errors(source, codes, (first, last))
    _check_lists(source, days)


def _expect(holds: bool, rule: str) -> None:
    if not holds:
        raise AssertionError(f"the source breaks the protocol: {rule}")


def _check_index(index: object, what: str) -> None:
    _expect(
        isinstance(index, pd.DatetimeIndex) and len(index) > 0, f"{what} is a DatetimeIndex with sessions"
    )
    if isinstance(index, pd.DatetimeIndex):
        _expect(index.tz is None and index.name == "trade_date", f"{what} is naive and named trade_date")
        _expect(index.is_monotonic_increasing and index.is_unique, f"{what} is ascending and unique")


def _check_panel(panel: Panel, days: pd.DatetimeIndex, codes: list[str]) -> None:
    other = sorted({*panel} - {*BAR_FIELDS})
    _expect(
        not other and {"open", "close"} <= {*panel}, f"bars() has open, close and BAR_FIELDS alone: {other}"
    )
    for field, frame in panel.items():
        _check_index(frame.index, f"the index of {field}")
        _expect(frame.index.equals(days), f"the rows of {field} are the sessions of the window")
        _expect(list(frame.columns) == codes, f"the columns of {field} are the symbols, ascending")
        _expect(all(kind == np.float64 for kind in frame.dtypes), f"{field} is float64")
        _expect(not np.isinf(frame.to_numpy()).any(), f"{field} is finite, or NaN where nothing traded")
    for field in _PRICES:
        if field in panel:
            _expect(not (panel[field] <= 0).to_numpy().any(), f"{field} is above 0")
    if {"high", "low"} <= {*panel}:
        for field in ("open", "close"):
            above = panel[field] > panel["high"] * (1 + _ROOM)
            below = panel[field] < panel["low"] * (1 - _ROOM)
            _expect(not (above | below).to_numpy().any(), f"{field} lies between low and high")


def _check_again(
    source: MarketDataSource, panel: Panel, codes: list[str], window: tuple[pd.Timestamp, pd.Timestamp]
) -> None:
    """The same request, in another order and in a part of the window, has the same answer."""
    whole = {field: frame.copy() for field, frame in panel.items()}
    for frame in panel.values():
        if frame.to_numpy().flags.writeable:
            frame.iloc[:, :] = -1.0
    again = source.bars([*reversed(codes), codes[0]], *window)
    for field, frame in whole.items():
        _expect(
            field in again and frame.equals(again[field]), f"{field} is the same when it is asked for again"
        )
    traded = whole["close"].notna().any(axis=1)
    middle = traded.index[traded][-1]
    for field, frame in source.bars(codes, middle, window[1]).items():
        _expect(frame.equals(whole[field].loc[middle:]), f"{field} does not depend on the window's start")


def _check_errors(
    source: MarketDataSource, codes: list[str], window: tuple[pd.Timestamp, pd.Timestamp]
) -> None:
    first, last = window
    if first < last:
        _check_refusal(BadWindow, lambda: source.bars(codes, last, first), "a reversed window")
    _check_refusal(UnknownSymbol, lambda: source.bars([_NOBODY], first, last), "a symbol that it lacks")
    _check_refusal(UnknownSymbol, lambda: source.members(_NOBODY, last), "an index that it lacks")
    _check_refusal(UnknownSymbol, lambda: source.index_bars(_NOBODY, first, last), "levels that it lacks")


def _check_refusal(kind: type[QuantGraphError], ask: Callable[[], object], what: str) -> None:
    try:
        ask()
    except kind as error:
        _expect("\n" not in error.message, f"the error about {what} has one line")
        return
    except Exception as error:
        raise AssertionError(
            f"the source breaks the protocol: {what} is a {kind.__name__}, not {error!r}"
        ) from error
    _expect(False, f"{what} is a {kind.__name__}, not an answer")


def _check_lists(source: MarketDataSource, days: pd.DatetimeIndex) -> None:
    if isinstance(source, DatedLists):
        early, late = ({*source.symbols_on(day)} for day in (days[0], days[-1]))
        _expect(early <= late <= {*source.symbols()}, "symbols_on() grows with the day, up to symbols()")
    if isinstance(source, DescribedSource) and not source.synthetic:
        for language in ("en", "zh"):
            lines = source.provenance(language)
            _expect(bool(lines) and not any("\n" in line for line in lines), "provenance() has lines")
