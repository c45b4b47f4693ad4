"""From long tables to panels: the shapes that all sources share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from quantgraph.data.protocol import Panel
from quantgraph.errors import BadWindow

__all__ = ["check_window", "long_to_panel", "session_index", "spread"]


def session_index(values: Iterable[Any]) -> pd.DatetimeIndex:
    """Sessions as every panel has them: ascending, unique, naive, unit ``us``, named ``trade_date``.

    >>> session_index(["2024-01-03", "2024-01-02", "2024-01-03"]).strftime("%m-%d").tolist()
    ['01-02', '01-03']
    """
    index = pd.DatetimeIndex(pd.Index(values).unique()).as_unit("us")
    return pd.DatetimeIndex(index.sort_values(), name="trade_date")


def long_to_panel(
    table: pd.DataFrame,
    fields: Sequence[str],
    sessions: pd.DatetimeIndex,
    symbols: Sequence[str],
) -> Panel:
    """Spread a long table into one wide float64 frame a field.

    Parameters
    ----------
    table
        Columns ``ts_code``, ``trade_date`` (naive ``datetime64``) and ``fields``; each
        (symbol, session) at most once. Rows of other sessions or symbols are left out.
    fields
        Fields wanted, in the panel's order. One that is no column of the table is left out of the panel.
    sessions
        Index of every frame, ascending and unique.
    symbols
        Columns of every frame, in the order given, unique.

    Returns
    -------
    Panel
        Frames of shape ``(len(sessions), len(symbols))``; NaN where the table has no row. Each frame
        owns its memory.

    Raises
    ------
    ValueError
        If a (symbol, session) occurs twice, or a field holds something that is no number.
    """
    columns = {field: table[field].to_numpy("float64", na_value=np.nan) for field in fields if field in table}
    return spread(table["ts_code"], table["trade_date"], columns, sessions, symbols)


def spread(
    codes: Iterable[str],
    dates: Iterable[Any],
    columns: Mapping[str, npt.NDArray[Any]],
    sessions: pd.DatetimeIndex,
    symbols: Sequence[str],
) -> Panel:
    """Do the same for loose columns: :func:`long_to_panel` without a table around them."""
    index, header = session_index(sessions), pd.Index(list(symbols), name="ts_code", dtype="str")
    rows = index.get_indexer(pd.DatetimeIndex(pd.Index(dates)).as_unit("us"))
    cols = header.get_indexer(pd.Index(codes))
    wanted = (rows >= 0) & (cols >= 0)
    cells = rows[wanted] * len(header) + cols[wanted]
    taken = np.zeros(len(index) * len(header), dtype=bool)
    taken[cells] = True
    if taken.sum() != len(cells):
        raise ValueError("a (ts_code, trade_date) occurs more than once in the table")
    panel: Panel = {}
    for field, values in columns.items():
        flat = np.full(len(taken), np.nan)
        flat[cells] = values[wanted]
        panel[field] = pd.DataFrame(flat.reshape(len(index), len(header)), index=index, columns=header)
    return panel


def check_window(start: pd.Timestamp, end: pd.Timestamp) -> None:
    """Raise ``BadWindow`` when the window is reversed."""
    if end < start:
        raise BadWindow(
            f"start={start:%Y-%m-%d} is after end={end:%Y-%m-%d}; give the earlier date first",
            start=start,
            end=end,
        )
