"""What of the past another commit tells differently: a run that grows must find its past as it was."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from quantgraph.state._views import View
from quantgraph.state.frames._frames import FrozenFrame


def first_change(before: View, after: View) -> str:
    """The first thing that two commits, as known at one moment, tell differently; "" if there is none.

    It is a field, a row, a symbol or a cell of a panel (the earliest of the first field that differs), or a
    record: revised news and filings are changes, too.
    """
    return next(_panel_changes(before, after), "") or next(_record_changes(before, after), "")


def _panel_changes(before: View, after: View) -> Iterator[str]:
    old, new = before.frozen(), after.frozen()
    for panel in old:
        for name in sorted({*old[panel], *new[panel]}):
            was, now = old[panel].get(name), new[panel].get(name)
            if was is None or now is None:
                yield f"the field {name!r} of {panel} is {'new' if was is None else 'gone'}"
            else:
                yield from _frame_changes(name, was, now)


def _frame_changes(name: str, was: FrozenFrame, now: FrozenFrame) -> Iterator[str]:
    if was.digest == now.digest:
        return
    for what, old, new in (
        ("row", was.sessions.tolist(), now.sessions.tolist()),
        ("symbol", was.symbols, now.symbols),
    ):
        if differing := sorted({*old} ^ {*new}):
            first = differing[0]
            shown = first if what == "symbol" else f"{pd.Timestamp(first):%Y-%m-%d}"
            yield f"the {what} {shown} of {name} is {'gone' if first in old else 'new'}"
    if was.values.shape == now.values.shape:
        values = now.rows(slice(None), now.positions(was.symbols))
        row, column = np.argwhere(~((was.values == values) | (np.isnan(was.values) & np.isnan(values))))[0]
        place = f"{name} of {was.symbols[column]} on {pd.Timestamp(was.sessions[row]):%Y-%m-%d}"
        yield f"{place} was {was.values[row, column]:.10g} and is {values[row, column]:.10g}"


def _record_changes(before: View, after: View) -> Iterator[str]:
    old, new = before.all_records(), after.all_records()
    for record in (*old, *new):
        if (record in old) != (record in new):
            yield f"a record is {'gone' if record in old else 'new'}: {record!r}"
