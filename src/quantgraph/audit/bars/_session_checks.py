"""Sessions and bars that are lacking, and sessions that are none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from quantgraph.audit.bars._bar_arrays import TICK, BarArrays, Mask
from quantgraph.audit.findings import Finding, Severity

__all__ = ["lacking_sessions", "symbol_gaps", "thin_sessions"]

THIN_SHARE = 0.5
"""More of the symbols are not suspended on one day; in July 2015, the worst so far, about half were."""

THIN_SYMBOLS = 5
"""Of fewer, half may be suspended by chance."""

_SLACK = 1e-6


def lacking_sessions(
    cells: BarArrays, sessions: pd.DatetimeIndex, expected: pd.DatetimeIndex | None
) -> Iterator[Finding]:
    """Sessions asked for, and sessions of the exchange, against those that the data has."""
    lost = sessions.difference(cells.sessions)
    if len(lost):
        yield _days(
            "missing_session",
            lost,
            f"close lacks {len(lost)} of {len(sessions)} sessions, the first is {lost[0]:%Y-%m-%d}",
        )
    if expected is None:
        return
    holes = expected.difference(cells.sessions)
    if len(holes):
        yield _days(
            "calendar_gap",
            holes,
            f"the exchange had {len(holes)} sessions that the data lacks, the first is {holes[0]:%Y-%m-%d}",
        )
        after = cells.sessions.searchsorted(holes)
        jumped = np.zeros((len(cells.sessions) + 1, 1), dtype=np.bool_)
        jumped[after] = True
        cells.drop(jumped[:-1], "pre_close")
    strange = cells.sessions.difference(expected)
    if len(strange):
        yield _days(
            "no_session",
            strange,
            f"the data has {len(strange)} sessions on which the exchange was closed, the first is "
            f"{strange[0]:%Y-%m-%d}",
        )


def _days(code: str, days: pd.DatetimeIndex, message: str) -> Finding:
    return Finding(
        severity="error" if code == "missing_session" else "warning",
        code=code,
        message=message,
        session=f"{days[0]:%Y-%m-%d}",
        count=len(days),
    )


def thin_sessions(cells: BarArrays) -> Iterator[Finding]:
    """Sessions on which most symbols that trade before and after have no bar."""
    missing, alive = _missing(cells)
    thin = _thin(missing, alive)
    if thin.any():
        first = f"{cells.sessions[thin][0]:%Y-%m-%d}"
        yield Finding(
            severity="warning",
            code="thin_session",
            message=f"more than {THIN_SHARE:.0%} of the symbols have no bar on {int(thin.sum())} sessions, "
            f"the first is {first}, and have bars before and after",
            session=first,
            symbol=cells.symbols[int(missing[thin][0].argmax())],
            count=int(thin.sum()),
        )


def symbol_gaps(cells: BarArrays) -> Iterator[Finding]:
    """Bars that a symbol lacks between others, and that no suspension explains.

    After a suspension ``pre_close`` is the close before it, less what actions since then took. Where it is
    another price the symbol has traded in between. Without ``pre_close`` the two cannot be told apart.
    """
    missing, alive = _missing(cells)
    missing &= ~_thin(missing, alive)[:, None]
    after, resumed = cells["pre_close"], np.zeros(cells.shape, dtype=np.bool_)
    resumed[cells.resumed] = True
    if not resumed.any():
        return
    off = resumed & (np.abs(after - cells.theoretical()) > TICK + _SLACK)
    unknown = resumed & np.isnan(cells.given("pre_close")).all(axis=0)
    told: tuple[tuple[Severity, Mask, str], ...] = (
        ("warning", off, "pre_close after it is not the close before it, as after a suspension"),
        ("info", unknown, "without pre_close, suspensions and holes look alike"),
    )
    for severity, where, words in told:
        if not where.any():
            continue
        gaps = missing & np.take_along_axis(where, cells.following, axis=0)
        if gaps.any():
            text = "{n} bars are lacking between others of their symbol, the first at {place}; "
            yield cells.finding(severity, "symbol_gap", gaps, text + words)
    cells.drop(off, "pre_close")


def _missing(cells: BarArrays) -> tuple[Mask, Mask]:
    """Cells without a bar between bars of their symbol, and all cells between such bars."""
    later = np.logical_or.accumulate(cells.traded[::-1], axis=0)[::-1]
    alive = later & (cells.traded | (cells.last >= 0))
    return alive & ~cells.traded, alive


def _thin(missing: Mask, alive: Mask) -> Mask:
    living = alive.sum(axis=1)
    thin: Mask = (living >= THIN_SYMBOLS) & (missing.sum(axis=1) > THIN_SHARE * living)
    return thin
