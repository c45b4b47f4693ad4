"""Sessions and bars that are missing, repeated, or on days without trading."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.audit.bars._bar_arrays import PRICES, TICK, BarArrays, Mask
from quantgraph.audit.findings import Finding, Severity

THIN_SHARE = 0.5
"""More of the symbols are not suspended on one day; in July 2015, the worst so far, about half were."""

THIN_SYMBOLS = 5
"""Half of fewer symbols may be suspended by chance."""

DUPLICATE_SHARE = 0.5
"""Of the symbols that trade; a volume repeats within a symbol once in thousands of sessions."""

DUPLICATE_SYMBOLS = 3
"""Fewer may repeat a bar by chance, when hardly any shares trade."""

PROBES = 64
"""Least number of symbols, spread over all, whose volumes are compared first."""

_SLACK = 1e-6


def missing_sessions(
    bars: BarArrays, sessions: pd.DatetimeIndex, expected: pd.DatetimeIndex | None
) -> Iterator[Finding]:
    """Compare the data's sessions with the requested ones and with the exchange's."""
    lost = sessions.difference(bars.sessions)
    if len(lost):
        yield _dates_finding(
            "missing_session",
            lost,
            f"close lacks {len(lost)} of {len(sessions)} sessions, the first is {lost[0]:%Y-%m-%d}",
        )
    if expected is None:
        return
    holes = expected.difference(bars.sessions)
    if len(holes):
        yield _dates_finding(
            "calendar_gap",
            holes,
            f"the exchange had {len(holes)} sessions that the data lacks, the first is {holes[0]:%Y-%m-%d}",
        )
        after = bars.sessions.searchsorted(holes)
        jumped = np.zeros((len(bars.sessions) + 1, 1), dtype=np.bool_)
        jumped[after] = True
        bars.drop(jumped[:-1], "pre_close")
    closed = bars.sessions.difference(expected)
    if len(closed):
        yield _dates_finding(
            "no_session",
            closed,
            f"the data has {len(closed)} sessions on which the exchange was closed, the first is "
            f"{closed[0]:%Y-%m-%d}",
        )


def _dates_finding(code: str, days: pd.DatetimeIndex, message: str) -> Finding:
    return Finding(
        severity="error" if code == "missing_session" else "warning",
        code=code,
        message=message,
        session=f"{days[0]:%Y-%m-%d}",
        count=len(days),
    )


def thin_sessions(bars: BarArrays) -> Iterator[Finding]:
    """Find sessions on which most symbols that trade before and after have no bar."""
    missing, alive = _missing_bars(bars)
    thin = _is_thin(missing, alive)
    if thin.any():
        first = f"{bars.sessions[thin][0]:%Y-%m-%d}"
        yield Finding(
            severity="warning",
            code="thin_session",
            message=f"more than {THIN_SHARE:.0%} of the symbols have no bar on {int(thin.sum())} sessions, "
            f"the first is {first}, and have bars before and after",
            session=first,
            symbol=bars.symbols[int(missing[thin][0].argmax())],
            count=int(thin.sum()),
        )


def symbol_gaps(bars: BarArrays) -> Iterator[Finding]:
    """Find bars that a symbol lacks between others and that no suspension explains.

    After a suspension ``pre_close`` is the close before it, less the actions since then. Any other price
    means that the symbol traded in between. Without ``pre_close`` the two cannot be told apart.
    """
    missing, alive = _missing_bars(bars)
    missing &= ~_is_thin(missing, alive)[:, None]
    pre_close, resumed = bars["pre_close"], np.zeros(bars.shape, dtype=np.bool_)
    resumed[bars.resumed] = True
    if not resumed.any():
        return
    off = resumed & (np.abs(pre_close - bars.theoretical()) > TICK + _SLACK)
    unknown = resumed & np.isnan(bars.original("pre_close")).all(axis=0)
    kinds: tuple[tuple[Severity, Mask, str], ...] = (
        ("warning", off, "pre_close after it is not the close before it, as after a suspension"),
        ("info", unknown, "without pre_close, suspensions and holes look alike"),
    )
    for severity, where, reason in kinds:
        if not where.any():
            continue
        gaps = missing & np.take_along_axis(where, bars.following, axis=0)
        text = "{n} bars are lacking between others of their symbol, the first at {place}; "
        yield from bars.findings(severity, "symbol_gap", gaps, text + reason)
    bars.drop(off, "pre_close")


def _missing_bars(bars: BarArrays) -> tuple[Mask, Mask]:
    """Cells without a bar between bars of their symbol, and all cells between such bars."""
    later = np.logical_or.accumulate(bars.traded[::-1], axis=0)[::-1]
    alive = later & (bars.traded | (bars.last >= 0))
    return alive & ~bars.traded, alive


def _is_thin(missing: Mask, alive: Mask) -> Mask:
    living = alive.sum(axis=1)
    thin: Mask = (living >= THIN_SYMBOLS) & (missing.sum(axis=1) > THIN_SHARE * living)
    return thin


def duplicate_sessions(bars: BarArrays) -> Iterator[Finding]:
    """Find sessions whose bars are, for most symbols, those of another session."""
    repeats, partner = _repeated_volumes(bars)
    trading = (bars["vol"] > 0).sum(axis=1)
    suspects = np.flatnonzero((trading >= DUPLICATE_SYMBOLS) & (repeats.mean(axis=1) > DUPLICATE_SHARE / 2))
    originals: dict[int, int] = {}
    for row in suspects.tolist():
        twin = int(np.bincount(partner[row][repeats[row]]).argmax())
        same = np.logical_and.reduce([bars[name][row] == bars[name][twin] for name in (*PRICES, "vol")])
        if same.sum() > DUPLICATE_SHARE * trading[row]:
            originals[max(row, twin)] = min(row, twin)
    if not originals:
        return
    copies = np.zeros((len(trading), 1), dtype=np.bool_)
    copies[list(originals)] = True
    first = min(originals)
    yield Finding(
        severity="error",
        code="duplicate_session",
        message=f"{len(originals)} sessions have the bars of another one, the first is "
        f"{bars.sessions[first]:%Y-%m-%d} with those of {bars.sessions[originals[first]]:%Y-%m-%d}",
        session=f"{bars.sessions[first]:%Y-%m-%d}",
        count=len(originals),
    )
    bars.drop_bars(copies)
    bars.drop(copies, "up_limit", "down_limit", "adj_factor")


def _repeated_volumes(bars: BarArrays) -> tuple[Mask, NDArray[np.int64]]:
    """Whether a probe has the volume of a session in another one too, and the row of one such session."""
    probes = bars["vol"][:, :: max(1, bars.shape[1] // PROBES)]
    vol = np.ascontiguousarray(np.where(probes > 0, probes, np.nan).T)
    order = np.argsort(vol, axis=1)
    ranked = np.take_along_axis(vol, order, axis=1)
    pairs = ranked[:, 1:] == ranked[:, :-1]
    # A volume that hardly ever changes identifies no session.
    pairs &= pairs.mean(axis=1, keepdims=True) < DUPLICATE_SHARE
    repeats, partner = np.zeros(vol.shape, dtype=np.bool_), np.zeros(vol.shape, dtype=np.int64)
    for column, place in np.argwhere(pairs).tolist():
        one, other = order[column, place], order[column, place + 1]
        repeats[column, [one, other]] = True
        partner[column, [one, other]] = other, one
    return repeats.T, partner.T
