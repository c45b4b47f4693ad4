"""What is known at a moment: the one place where frames, actions and records are cut in time.

Row *t* of a field is known from the phase of session *t* that :data:`quantgraph.market._moment.KNOWN_FROM`
gives. The functions differ in their input and in how they treat a partly known last row:

=====================  ===============================================================================
:func:`cut`            a commit: frames (rows and columns), corporate actions, records. What a view holds
:func:`known_rows`     the number of rows of a field: what all the others are made of
:func:`cut_frame`      a frame whose last row is the last one that is known: ``close`` at the open ends one
                       session before ``open``
:func:`cut_panels`     the same for frames by panel and field
:func:`align_frame`    a frame that keeps the moment's session, NaN where the field is not known yet: fields
                       stay aligned, the last row is partial
:func:`align_table`    the same for a DataFrame of a data source
:func:`known_symbols`  the columns of a field that are known from the start
=====================  ===============================================================================

Frames own their memory, which ends at the moment, unless ``copy=False`` shares the whole frame's. That
is for trusted code: ``.base`` leads to later rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from quantgraph.errors import BadFrame
from quantgraph.market import Moment
from quantgraph.market.actions import ACTION_FIELDS, DATE_FIELDS, CorporateAction, KnownActions
from quantgraph.state._commits import Commit, Panels
from quantgraph.state.frames._frames import MADE, Dates, FrozenFrame, frozen_array
from quantgraph.state.frames._records import KnownRecords

FieldKey = tuple[str, str]
"""Panel and field."""

Actions = tuple[CorporateAction, ...] | None
"""Actions known at a moment; None if a cell of the data is not a possible amount or date."""

_LISTING_FIELDS = ("close", "open")
"""Prices whose columns are the universe that the user chose; the first one that is there counts."""


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownData:
    """What is known of a commit at a moment.

    Attributes
    ----------
    actions
        ``"whole"`` where ``panels`` holds every cell that they are read from.
    """

    panels: Panels
    actions: Actions | Literal["whole"]
    records: KnownRecords


def cut(
    commit: Commit,
    moment: Moment,
    known: Mapping[FieldKey, FrozenFrame] | None = None,
    records: KnownRecords | None = None,
) -> KnownData:
    """Cut a commit."""
    known = known or {}
    panels = {
        panel: {
            name: known.get((panel, name)) or _cut_field(commit.panels, panel, name, moment)
            for name in fields
        }
        for panel, fields in commit.panels.items()
    }
    whole = _action_fields(commit.panels["ohlcv"])
    is_whole = all(panels["ohlcv"][name] is frame for name, frame in whole.items())
    return KnownData(
        panels=panels,
        actions="whole" if is_whole else known_actions(whole, moment),
        records=KnownRecords(commit.records.as_of(moment)) if records is None else records,
    )


def known_rows(panel: str, name: str, sessions: Dates, moment: Moment) -> int:
    """Count the known rows of a field; ``sessions`` (T,) are the field's, ascending."""
    side: Literal["left", "right"] = "right" if moment.knows(panel, name) else "left"
    return int(np.searchsorted(sessions, moment.session.to_datetime64(), side=side))


def cut_frame(
    panel: str,
    name: str,
    frame: FrozenFrame,
    moment: Moment,
    *,
    symbols: tuple[str, ...] | None = None,
    copy: bool = True,
) -> FrozenFrame:
    """Cut a frame after its last known row; ``symbols`` are its columns then, NaN for those it lacks."""
    rows = known_rows(panel, name, frame.sessions, moment)
    return frame.head(rows, symbols) if copy else frame.prefix(rows)


def cut_panels(panels: Panels, moment: Moment, *, copy: bool = True) -> dict[str, dict[str, FrozenFrame]]:
    """Cut frames by panel and field, each with :func:`cut_frame`; they keep all their columns."""
    return {
        panel: {name: cut_frame(panel, name, frame, moment, copy=copy) for name, frame in fields.items()}
        for panel, fields in panels.items()
    }


def align_frame(panel: str, name: str, frame: FrozenFrame, moment: Moment) -> FrozenFrame:
    """Cut a frame after the moment's session, whose row is NaN if it is not known."""
    rows = int(np.searchsorted(frame.sessions, moment.session.to_datetime64(), side="right"))
    known = known_rows(panel, name, frame.sessions, moment)
    values = frame.values[:rows]
    if known < rows:
        values = values.copy()
        values[known:] = np.nan
    return FrozenFrame(frozen_array(frame.sessions[:rows]), frame.symbols, frozen_array(values))


def align_table(panel: str, name: str, table: pd.DataFrame, moment: Moment) -> pd.DataFrame:
    """Cut a table of a field, indexed by session, as :func:`align_frame` does; its ``attrs`` are dropped."""
    known = table.loc[: moment.session].copy()
    known.attrs = {}
    known.iloc[known_rows(panel, name, known.index.to_numpy(), moment) :] = np.nan
    return known


def known_symbols(panels: Panels, panel: str, name: str) -> tuple[str, ...] | None:
    """Columns that a field has at every moment; None if a column is added when its first number is known."""
    symbols, universe = panels[panel][name].symbols, _universe(panels)
    if symbols == universe or panel in (*MADE, "index") or (panel == "ohlcv" and name in _LISTING_FIELDS):
        return symbols
    return universe if set(symbols) <= set(universe) else None


def _cut_field(panels: Panels, panel: str, name: str, moment: Moment) -> FrozenFrame:
    frame, symbols = panels[panel][name], known_symbols(panels, panel, name)
    if symbols is None:
        rows = known_rows(panel, name, frame.sessions, moment)
        columns = np.flatnonzero((~np.isnan(frame.values[:rows])).any(axis=0))
        symbols = tuple(dict.fromkeys([*_universe(panels), *(frame.symbols[column] for column in columns)]))
    return cut_frame(panel, name, frame, moment, symbols=symbols)


def _universe(panels: Panels) -> tuple[str, ...]:
    return next((panels["ohlcv"][name].symbols for name in _LISTING_FIELDS if name in panels["ohlcv"]), ())


def known_actions(ohlcv: Mapping[str, FrozenFrame], moment: Moment) -> Actions:
    """Read the corporate actions known at a moment from all fields of a commit's ``ohlcv``."""
    fields = _action_fields(ohlcv)
    try:
        return _all_actions(fields).at(moment) if fields.keys() & {*ACTION_FIELDS} else ()
    except BadFrame:
        return None  # the error itself would lead to the cell


def _action_fields(ohlcv: Mapping[str, FrozenFrame]) -> dict[str, FrozenFrame]:
    return {name: ohlcv[name] for name in (*ACTION_FIELDS, *DATE_FIELDS) if name in ohlcv}


# Reading all actions of a commit takes long, and it is asked for at every session. Keys are weak: an entry
# goes with its commit.
_CACHE: WeakKeyDictionary[FrozenFrame, tuple[dict[str, str], KnownActions]] = WeakKeyDictionary()


def _all_actions(fields: Mapping[str, FrozenFrame]) -> KnownActions:
    first, digests = next(iter(fields.values())), {name: frame.digest for name, frame in fields.items()}
    found = _CACHE.get(first)
    if found is None or found[0] != digests:
        found = _CACHE[first] = digests, KnownActions({name: frame.frame for name, frame in fields.items()})
    return found[1]
