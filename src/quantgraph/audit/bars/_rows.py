"""Rows in the wrong place: sessions that stand there twice, fields that are a row early or late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantgraph.audit.bars._bar_arrays import BAR, TICK, BarArrays, Floats, Mask
from quantgraph.audit.findings import Finding

__all__ = ["duplicate_sessions", "shifted_fields"]

Counts = NDArray[np.int64]

DUPLICATE_SHARE = 0.5
"""Of the symbols that trade; a volume comes again within a symbol once in thousands of sessions."""

DUPLICATE_SYMBOLS = 3
"""Fewer may repeat a bar by chance, when hardly any shares trade."""

PROBES = 64
"""Symbols at least whose volumes are looked at first, spread over all."""

SHIFT_SESSIONS = 10
"""Fewer tell nothing: of real bars, more than half of the closes lie within the next session's bar too."""

SHIFT_BREAKS = 3
SHIFT_RATIO = 5
"""Sessions at least that a field does not fit, and so many times those that it does not fit when it is moved:
a real open lies within the bar before up to all the time, but then it fits its own."""

SHIFT_MOST = 0.5
"""Where it is so for more of the symbols, the field is moved as a whole."""

_RELATIVE = 2e-3
"""Indicators have four decimals: a turnover of 0.0300 % is rounded by 0.2 %."""


def duplicate_sessions(cells: BarArrays) -> Iterator[Finding]:
    """Sessions whose bars are, for most symbols, those of another session."""
    again, partner = _same_volume(cells)
    trading = (cells["vol"] > 0).sum(axis=1)
    suspects = np.flatnonzero((trading >= DUPLICATE_SYMBOLS) & (again.mean(axis=1) > DUPLICATE_SHARE / 2))
    twins: dict[int, int] = {}
    for row in suspects.tolist():
        twin = int(np.bincount(partner[row][again[row]]).argmax())
        same = np.logical_and.reduce([cells[name][row] == cells[name][twin] for name in (*BAR, "vol")])
        if same.sum() > DUPLICATE_SHARE * trading[row]:
            twins[max(row, twin)] = min(row, twin)
    if not twins:
        return
    double = np.zeros((len(trading), 1), dtype=np.bool_)
    double[list(twins)] = True
    second = min(twins)
    yield Finding(
        severity="error",
        code="duplicate_session",
        message=f"{len(twins)} sessions have the bars of another one, the first is "
        f"{cells.sessions[second]:%Y-%m-%d} with those of {cells.sessions[twins[second]]:%Y-%m-%d}",
        session=f"{cells.sessions[second]:%Y-%m-%d}",
        count=len(twins),
    )
    cells.drop_bars(double)
    cells.drop(double, "up_limit", "down_limit", "adj_factor")


def _same_volume(cells: BarArrays) -> tuple[Mask, Counts]:
    """Whether a probe has the volume of a session in another one too, and one such session."""
    probes = cells["vol"][:, :: max(1, cells.shape[1] // PROBES)]
    vol = np.ascontiguousarray(np.where(probes > 0, probes, np.nan).T)
    order = np.argsort(vol, axis=1)
    ranked = np.take_along_axis(vol, order, axis=1)
    pairs = ranked[:, 1:] == ranked[:, :-1]
    # A volume that hardly ever changes says nothing of a session.
    pairs &= pairs.mean(axis=1, keepdims=True) < DUPLICATE_SHARE
    again, partner = np.zeros(vol.shape, dtype=np.bool_), np.zeros(vol.shape, dtype=np.int64)
    for column, place in np.argwhere(pairs).tolist():
        one, other = order[column, place], order[column, place + 1]
        again[column, [one, other]] = True
        partner[column, [one, other]] = other, one
    return again.T, partner.T


@dataclass(frozen=True, kw_only=True)
class _Relation:
    """What a field fits in its own session: it lies from ``low`` to ``high``."""

    name: str
    value: Floats
    low: Floats
    high: Floats
    to: str
    bar: bool = True
    drops: tuple[str, ...]


def shifted_fields(cells: BarArrays) -> Iterator[Finding]:
    """Fields that fit the bars of the session before or after, and not their own."""
    for relation in _relations(cells):
        own = _breaks(relation.value, relation.low, relation.high)
        if own.max() < SHIFT_BREAKS:
            continue
        known = (~np.isnan(relation.value) & ~np.isnan(relation.low)).sum(axis=0)
        for word, value, bounds in (
            ("early", relation.value[:-1], slice(1, None)),
            ("late", relation.value[1:], slice(None, -1)),
        ):
            other = _breaks(value, relation.low[bounds], relation.high[bounds])
            moved = (known >= SHIFT_SESSIONS) & (own >= SHIFT_BREAKS) & (other * SHIFT_RATIO <= own)
            if not moved.any():
                continue
            if moved.sum() > SHIFT_MOST * (known > 0).sum():
                moved = known > 0
            yield cells.finding(
                "error" if relation.bar or word == "early" else "warning",
                "shifted",
                moved[None, :],
                f"{relation.name} of {{n}} symbols stands one row {word}, the first at {{place}}: it does "
                f"not fit {relation.to} of its own session on {own[moved][0]} of {known[moved][0]}, "
                f"and of the session {'after' if word == 'early' else 'before'} on {other[moved][0]}",
            )
            cells.drop(moved, *relation.drops)


def _breaks(value: Floats, low: Floats, high: Floats) -> Counts:
    """On how many sessions, by symbol, a value is not within its bounds."""
    count: Counts = ((value < low) | (value > high)).sum(axis=0)
    return count


def _relations(cells: BarArrays) -> Iterator[_Relation]:
    # Read one by one: what one has taken out the next does not see.
    for name in ("open", "close"):
        yield _Relation(
            name=name,
            value=cells[name],
            low=cells["low"],
            high=cells["high"],
            to="low and high",
            drops=(name,),
        )
    vol = np.where(cells["vol"] > 0, cells["vol"], np.nan)
    yield _Relation(
        name="vol and amount",
        value=cells["amount"] * 10 / vol,
        low=cells["low"] - TICK,
        high=cells["high"] + TICK,
        to="low and high",
        drops=("vol", "amount"),
    )
    before = cells.at_last(cells["close"])
    yield _Relation(
        name="pre_close",
        value=cells["pre_close"],
        low=before - TICK,
        high=before + TICK,
        to="the close before",
        drops=("pre_close", "up_limit", "down_limit", "adj_factor"),
    )
    for name, one, other, to in (
        ("turnover_rate", cells["vol"], 1 / cells["float_share"], "vol / float_share"),
        ("total_mv", cells["close"], cells["total_share"], "close x total_share"),
        ("circ_mv", cells["close"], cells["float_share"], "close x float_share"),
    ):
        if name in cells:
            product = one * other
            yield _Relation(
                name=name,
                value=cells[name],
                low=product * (1 - _RELATIVE),
                high=product * (1 + _RELATIVE),
                to=to,
                bar=False,
                drops=(name,),
            )
