"""Quality checks of market data and of signals; every finding has a severity and a code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from quantgraph.audit._findings import Finding, Report, Severity
from quantgraph.audit.bars._checks import (
    PRICES,
    BarArrays,
    adjustment_factor,
    bar_order,
    duplicate_sessions,
    extreme_returns,
    missing_sessions,
    price_limits,
    prices_above_zero,
    prices_in_fen,
    reference_prices,
    stale_prices,
    symbol_gaps,
    thin_sessions,
)
from quantgraph.data import EVENT_FIELDS, STATUS_FIELDS

Panels = Mapping[str, Mapping[str, pd.DataFrame]]

_A_YEAR = 240
"""Cells of sessions and symbols in which most rules buy at least once."""
MISSING_SHARE = 0.5
"""A symbol or a signal with more missing cells gets a warning."""

_CHECKS = (
    thin_sessions,
    prices_above_zero,
    duplicate_sessions,
    bar_order,
    prices_in_fen,
    symbol_gaps,
    reference_prices,
    adjustment_factor,
    price_limits,
    extreme_returns,
    stale_prices,
)
"""In this order: each removes the cells in which it finds a fault, so that one fault is one finding."""


def check_data(
    panels: Panels,
    *,
    symbols: Sequence[str],
    sessions: pd.DatetimeIndex,
    indicators: Sequence[str] = (),
    expected_sessions: pd.DatetimeIndex | None = None,
) -> Report:
    """Check that the data of a request is complete and plausible.

    Parameters
    ----------
    panels
        ``ohlcv`` and ``indicators``, wide frames (T sessions x N symbols, NaN = no trading).
    symbols, sessions, indicators
        The requested symbols, sessions and indicator fields.
    expected_sessions
        The exchange's sessions of the window; None skips the comparison.
    """
    ohlcv, basics = panels["ohlcv"], panels["indicators"]
    findings: list[Finding] = list(_missing(ohlcv, basics, symbols, indicators))
    if "close" in ohlcv:
        close = ohlcv["close"]
        bars = BarArrays(close, {**basics, **ohlcv})
        findings += missing_sessions(bars, sessions, expected_sessions)
        findings += _sparse(close, symbols)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for check in _CHECKS:
                findings += check(bars)
        findings += _alignment(close, [("ohlcv", ohlcv), ("indicators", basics)])
    return Report(
        checks=(
            "existence",
            "shape",
            "gaps",
            "prices",
            "rows",
            "units",
            "reference",
            "limits",
            "returns",
            "alignment",
        ),
        findings=tuple(findings),
        summary=_summary(panels),
    )


def _missing(
    ohlcv: Mapping[str, pd.DataFrame],
    basics: Mapping[str, pd.DataFrame],
    symbols: Sequence[str],
    indicators: Sequence[str],
) -> Iterator[Finding]:
    for panel, fields, required in (("ohlcv", ohlcv, ("open", "close")), ("indicators", basics, indicators)):
        for name in required:
            if name not in fields:
                yield Finding(
                    severity="error",
                    code="missing_field",
                    message=f"{panel} has no {name}; it has {_list(fields)}",
                )
    if "close" not in ohlcv:
        return
    close = ohlcv["close"]
    absent = [symbol for symbol in symbols if symbol not in close.columns]
    if absent:
        yield Finding(severity="error", code="missing_symbol", message=f"close has no {_list(absent)}")
    present = [symbol for symbol in symbols if symbol in close.columns]
    bare = close.columns[np.isnan(close.to_numpy()).all(axis=0)]
    empty = [symbol for symbol in present if symbol in bare]
    if empty:
        severity: Severity = "error" if len(empty) == len(present) else "warning"
        yield Finding(
            severity=severity, code="missing_symbol", message=f"{_list(empty)} has no bar in the window"
        )


def _sparse(close: pd.DataFrame, symbols: Sequence[str]) -> Iterator[Finding]:
    share = close.reindex(columns=[s for s in symbols if s in close.columns]).isna().mean()
    thin = share[(share > MISSING_SHARE) & (share < 1)]
    if len(thin):
        yield Finding(
            severity="warning",
            code="many_gaps",
            message=f"{_list(thin.index)} has no bar on more than {MISSING_SHARE:.0%} of the sessions",
            symbol=str(thin.index[0]),
            count=len(thin),
        )


def _alignment(
    close: pd.DataFrame, panels: Sequence[tuple[str, Mapping[str, pd.DataFrame]]]
) -> Iterator[Finding]:
    for panel, fields in panels:
        for name, frame in fields.items():
            message = _misaligned(frame, close, sparse=panel == "ohlcv" and name in EVENT_FIELDS)
            if message:
                yield Finding(severity="warning", code="misaligned", message=f"{panel}[{name!r}] {message}")


def _misaligned(frame: pd.DataFrame, close: pd.DataFrame, *, sparse: bool) -> str:
    """How the sessions or the symbols of a frame differ from close's; empty if they do not."""
    if not frame.index.equals(close.index) and not (sparse and frame.index.isin(close.index).all()):
        if len(frame.index) != len(close.index):
            return f"has {len(frame.index)} sessions, close {len(close.index)}"
        days = pd.DatetimeIndex(frame.index)
        strange = days.difference(pd.DatetimeIndex(close.index))
        if len(strange):
            return f"has {strange[0]:%Y-%m-%d}, which is not a session of close"
        return "has the sessions of close in another order"
    if not sparse and not frame.columns.equals(close.columns):
        lost = close.columns.difference(frame.columns)
        if len(lost):
            return f"lacks {_list(lost)} of the symbols of close"
    return ""


def check_signal(name: str, signal: pd.DataFrame, close: pd.DataFrame) -> Report:
    """Check a signal (T, N) against the close frame it was computed for.

    The data state guarantees its values: 1, 0, -1 or NaN.
    """
    counts = signal_counts(signal)
    return Report(
        checks=("existence", "values", "alignment", "distribution"),
        findings=(*_misaligned_signal(name, signal, close), *_opinions(name, signal, counts)),
        summary={"signal_fields": [name], **_extent(signal), "signal_counts": counts},
    )


def _misaligned_signal(name: str, signal: pd.DataFrame, close: pd.DataFrame) -> Iterator[Finding]:
    def error(message: str) -> Finding:
        return Finding(severity="error", code="misaligned", message=f"{name} {message}")

    unknown = signal.columns.difference(close.columns)
    if len(unknown):
        yield error(f"has columns that are not symbols of the data: {_list(unknown)}")
    outside = signal.index.difference(close.index)
    if len(outside):
        yield error(
            f"has {len(outside)} rows that are not sessions of the data, the first is {outside[0]:%Y-%m-%d}"
        )
    lost = close.index.difference(signal.index)
    if len(lost):
        yield error(f"lacks {len(lost)} of {len(close.index)} sessions")


def _opinions(name: str, signal: pd.DataFrame, counts: Mapping[str, int]) -> Iterator[Finding]:
    missing = counts["nan"]
    if missing == signal.size:
        yield Finding(
            severity="error",
            code="no_opinion",
            message=f"{name} has no opinion on any of its {signal.size} cells; are its windows longer "
            f"than the {len(signal.index)} sessions there are?",
        )
    elif not counts["buy"]:
        code = "never_buys" if signal.size >= _A_YEAR else "no_trades"
        yield Finding(severity="warning", code=code, message=f"{name} never buys in this window")
    if MISSING_SHARE * signal.size < missing < signal.size:
        yield Finding(
            severity="warning",
            code="many_gaps",
            message=f"{name} has no opinion on {missing / signal.size:.0%} of the cells",
        )


def signal_counts(signal: pd.DataFrame) -> dict[str, int]:
    """Count the cells that buy, sell, keep the position, or have no opinion."""
    values = signal.to_numpy()
    return {
        "buy": int((values == 1).sum()),
        "sell": int((values == -1).sum()),
        "hold": int((values == 0).sum()),
        "nan": int(np.isnan(values).sum()),
    }


def _summary(panels: Panels) -> dict[str, Any]:
    listed: dict[str, Any] = {
        "ohlcv_fields": list(panels["ohlcv"]),
        "indicator_fields": list(panels["indicators"]),
        "signal_fields": list(panels.get("signal", {})),
    }
    listed["missing_cells"] = {
        name: missing
        for panel in ("ohlcv", "indicators")
        for name, frame in panels[panel].items()
        if name not in (*EVENT_FIELDS, *STATUS_FIELDS) and (missing := int(frame.isna().to_numpy().sum()))
    }
    return {**listed, **(_extent(panels["ohlcv"]["close"]) if "close" in panels["ohlcv"] else {})}


def _extent(frame: pd.DataFrame) -> dict[str, Any]:
    span = f"{frame.index[0]:%Y-%m-%d} - {frame.index[-1]:%Y-%m-%d}" if len(frame.index) else "no session"
    return {
        "date_range": span,
        "session_count": len(frame.index),
        "stock_count": len(frame.columns),
        "total_data_points": int(frame.notna().to_numpy().sum()),
    }


def _list(names: Any, most: int = 5) -> str:
    known = [str(name) for name in names]
    return (
        ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "") or "nothing"
    )


def impossible_bars(
    bars: Mapping[str, pd.DataFrame], *, symbols: Sequence[str], sessions: pd.DatetimeIndex
) -> dict[str, str]:
    """Return the first session, ``YYYY-MM-DD``, with a bar that cannot be, of each symbol that has one.

    Parameters
    ----------
    bars
        Frames of open, high, low and close, sessions x symbols; NaN and a missing field contradict nothing.
    """
    prices = {
        name: bars[name].reindex(index=sessions, columns=list(symbols)).to_numpy(dtype=np.float64)
        for name in PRICES
        if name in bars
    }
    wrong = np.zeros((len(sessions), len(symbols)), dtype=np.bool_)
    for price in prices.values():
        wrong |= price <= 0
    for price in prices.values():
        wrong |= price > prices.get("high", np.nan)
        wrong |= price < prices.get("low", np.nan)
    return {
        symbol: f"{sessions[int(wrong[:, column].argmax())]:%Y-%m-%d}"
        for column, symbol in enumerate(symbols)
        if wrong[:, column].any()
    }
