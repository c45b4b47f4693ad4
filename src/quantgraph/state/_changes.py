"""What of the past another commit tells differently: a run that grows must find its past as it was."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from quantgraph.state._views import View
from quantgraph.state.frames._frames import FrozenFrame


def first_change(before: View, after: View) -> str:
    """The earliest thing that two commits, as known at one moment, tell differently; "" if there is none.

    It is a field, a symbol, a row or a cell of a panel, or a record: revised news and filings count, too.
    """
    frames, records = sorted(_panel_changes(before, after)), _record_changes(before, after)
    return frames[0][1] if frames else next(records, "")


def _panel_changes(before: View, after: View) -> Iterator[tuple[str, str]]:
    """The first change of each field that has one, with its day; "" comes before all days."""
    old, new = before.frozen(), after.frozen()
    for panel in old:
        for name in {*old[panel], *new[panel]}:
            was, now = old[panel].get(name), new[panel].get(name)
            if was is None or now is None:
                yield "", f"the field {name!r} of {panel} is {'new' if was is None else 'gone'}"
            elif was.digest != now.digest:
                yield from _frame_change(name, was, now)


def _frame_change(name: str, was: FrozenFrame, now: FrozenFrame) -> Iterator[tuple[str, str]]:
    if differing := sorted({*was.symbols} ^ {*now.symbols}):
        what = "gone" if differing[0] in was.symbols else "new"
        yield "", f"the symbol {differing[0]} of {name} is {what}"
    elif (rows := np.setxor1d(was.sessions, now.sessions)).size:
        day = f"{pd.Timestamp(rows[0]):%Y-%m-%d}"
        yield day, f"the row {day} of {name} is {'gone' if rows[0] in was.sessions else 'new'}"
    else:
        values = now.rows(slice(None), now.positions(was.symbols))
        differs = ~((was.values == values) | (np.isnan(was.values) & np.isnan(values)))
        for row, column in np.argwhere(differs)[:1]:
            day = f"{pd.Timestamp(was.sessions[row]):%Y-%m-%d}"
            numbers = f"was {was.values[row, column]:.10g} and is {values[row, column]:.10g}"
            yield day, f"{name} of {was.symbols[column]} on {day} {numbers}"


def _record_changes(before: View, after: View) -> Iterator[str]:
    old, new = before.all_records(), after.all_records()
    known = {record.digest for record in old} & {record.digest for record in new}
    for record in (*old, *new):
        if record.digest not in known:
            yield f"a record is {'gone' if record in old else 'new'}: {record!r}"
