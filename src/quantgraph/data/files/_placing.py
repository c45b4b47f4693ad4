"""Placing events on the sessions of the bars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from quantgraph.data.files._events import AMOUNTS, combined
from quantgraph.data.files._merge import merge_tables
from quantgraph.data.files._readers import Table
from quantgraph.data.protocol import Panel

__all__ = ["place_events", "without_contained"]

_TELLING = 1.5
"""From this ratio on the open of the ex-date tells whether prices are adjusted for a split already."""


def place_events(
    tables: Sequence[Table], sessions: pd.DatetimeIndex, symbols: Sequence[str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Events of the symbols inside the sessions' window, one row a symbol and session, and notes.

    An ex-date that is no session counts on the next one. A declaration after the ex-date cannot be, and is
    left out.

    Raises
    ------
    BadFile
        If two tables disagree about an amount.
    """
    parts: list[pd.DataFrame] = []
    notes: list[str] = []
    for field in AMOUNTS:
        rows, told = merge_tables([table for table in tables if field in table.rows])
        parts.append(rows)
        notes += told
    rows = pd.concat([part for part in parts if len(part.columns) > 2] or parts, ignore_index=True)
    rows = rows[rows["ts_code"].isin(symbols) & rows["trade_date"].between(sessions[0], sessions[-1])]
    if "action_declared" in rows:
        days = rows["trade_date"].dt
        late = rows["action_declared"] > days.year * 10_000 + days.month * 100 + days.day
        rows = rows.assign(action_declared=rows["action_declared"].mask(late))
        if late.any():
            notes.append(f"{late.sum()} actions are declared after their ex-date; that date is left out")
    rows = rows.assign(trade_date=sessions[sessions.searchsorted(rows["trade_date"])])
    return combined(rows), tuple(notes)


def without_contained(rows: pd.DataFrame, bars: Panel) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Take out the splits that prices are adjusted for already, and say which.

    Such prices do not move by the split on its ex-date: the open is nearer to the close before than to what
    the split makes of it. Ratios below 3:2 cannot be told from a market's move and stay.
    """
    if "split" not in rows:
        return rows, ()
    before, after = bars["close"].ffill().shift(), bars["open"].bfill()
    place = (
        before.index.get_indexer(pd.DatetimeIndex(rows["trade_date"])),
        before.columns.get_indexer(pd.Index(rows["ts_code"])),
    )
    expected = np.log(rows["split"].to_numpy())
    moved = np.log(before.to_numpy()[place] / after.to_numpy()[place])
    inside = (np.abs(expected) >= np.log(_TELLING) - 1e-12) & (moved / expected < 1 / 2)
    if not inside.any():
        return rows, ()
    listed = ", ".join(f"{row.ts_code} {row.trade_date:%Y-%m-%d}" for row in rows[inside].itertuples())
    note = f"prices are adjusted already for these splits, which are left out: {listed}"
    kept = rows.assign(split=rows["split"].mask(inside))
    amounts = [field for field in AMOUNTS if field in rows]
    return kept[kept[amounts].notna().any(axis=1)], (note,)
