"""How commits are read: whole, or as known at a moment."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from quantgraph.errors import BadFrame, FutureRequested, UnknownField
from quantgraph.market.actions import ACTION_FIELDS, DATE_FIELDS, CorporateAction, KnownActions
from quantgraph.market.adjust import adjusted
from quantgraph.market.moment import Moment, session_of
from quantgraph.state.commits import PANELS, Commit, Panels
from quantgraph.state.frames import Dates, Floats, FrozenFrame, frozen_array
from quantgraph.state.records import Record, RecordKind, members_of, names_of, of_kind

__all__ = [
    "BaseView",
    "Fields",
    "GrowingViewId",
    "Snapshot",
    "Told",
    "View",
    "actions_at",
    "actions_told",
    "known_frame",
    "known_rows",
    "known_symbols",
    "panel_of",
    "unknown",
]

_LISTING = ("close", "open")
"""Prices whose columns are the symbols that the user chose, the first that there is."""

Told = tuple[CorporateAction, ...] | None
"""Actions known at a moment; None if the data's are not valid."""


class Fields(Mapping[str, pd.DataFrame]):
    """One panel, read-only: field name to wide frame. A frame is made when it is asked for."""

    __slots__ = ("_fields", "_panel")

    def __init__(self, panel: str, fields: Mapping[str, FrozenFrame]) -> None:
        self._panel = panel
        self._fields = fields

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.frozen(name).frame

    def frozen(self, name: str) -> FrozenFrame:
        """The frame as it is stored.

        Raises
        ------
        UnknownField
            If there is no such field.
        """
        if name not in self._fields:
            raise UnknownField(unknown(f"{self._panel} field", name, self._fields), field=name)
        return self._fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"{self._panel}: {', '.join(self._fields) or 'empty'}"


class _Panels(Mapping[str, Fields]):
    """Panel name to :class:`Fields`."""

    def __iter__(self) -> Iterator[str]:
        return iter(PANELS)

    def __len__(self) -> int:
        return len(PANELS)

    def adjusted(self, name: str = "close") -> pd.DataFrame:
        """Prices adjusted for dividends and splits as of the last row, a new frame.

        All prices are in those of the last row known: from the morning of an ex-date on the closes before it
        are lowered by what went off, so that they compare with its open. The last row of a view's own
        session equals the raw price. What is known later never changes the frame.
        See :func:`quantgraph.market.adjust.adjusted`.

        Raises
        ------
        UnknownField
            If there is no such price, or neither ``adj_factor`` nor ``pre_close``, ``dividend`` or ``split``.
        """
        return adjusted(self["ohlcv"], name)


class Snapshot(_Panels):
    """A commit, read-only: panel name to :class:`Fields`."""

    __slots__ = ("_tree", "ref")

    def __init__(self, ref: str, tree: Commit) -> None:
        self.ref = ref
        self._tree = tree

    def __getitem__(self, panel: str) -> Fields:
        return Fields(panel, panel_of(self._tree.panels, panel))

    def records(self, kind: RecordKind, symbol: str | None = None) -> tuple[Record, ...]:
        """All records of a kind, in order of becoming known; those of which that is not told come last."""
        return of_kind(self._tree.records.entries, kind, symbol)

    def __repr__(self) -> str:
        return f"Snapshot({self.ref[:12]}; {'; '.join(repr(self[panel]) for panel in PANELS)})"


class BaseView(_Panels, ABC):
    """A commit as known at a moment: what :class:`View` and :class:`.TrustedView` have in common.

    A field whose row of the moment's own session is not known yet (``close`` at the open) ends one session
    earlier than one whose is.
    """

    data_ref: str
    moment: Moment

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.data_ref[:12]} at {self.moment})"

    @abstractmethod
    def _told(self) -> Told:
        """The actions known."""

    def actions(self) -> tuple[CorporateAction, ...]:
        """Dividends, splits and delistings known at the moment, ascending by ``ex`` and symbol.

        An announced one is known before its ex-date, from :attr:`.CorporateAction.known_from` on. What comes
        are values; no frame leads from them to later rows.

        Raises
        ------
        BadFrame
            If a cell is no possible amount or date. Which one is not said: it may be a later one.
        """
        told = self._told()
        if told is None:
            raise BadFrame(
                "the data's corporate actions are not valid; actions_of(snapshot['ohlcv']) names the cell"
            )
        return told

    def row(self, panel: str, name: str, session: object = None) -> pd.Series:
        """One known row: of ``session``, or the last one; index ``ts_code``, float64, NaN where nothing is.

        A field that has no row of a session that is known is NaN there, be it that its first one is later.

        Raises
        ------
        FutureRequested
            If the row was not known at the moment.
        """
        frame, values = self._row(panel, name, session)
        return pd.Series(frozen_array(values), index=frame.columns, copy=False)

    def numbers(self, panel: str, name: str, session: object = None) -> dict[str, float]:
        """The same by symbol, as plain numbers."""
        frame, values = self._row(panel, name, session)
        return dict(zip(frame.symbols, values.tolist(), strict=True))

    def _row(self, panel: str, name: str, session: object) -> tuple[FrozenFrame, Floats]:
        frame = self[panel].frozen(name)
        rows = len(frame.sessions)
        place = rows - 1
        if session is not None:
            wanted = session_of(session)
            place = int(np.searchsorted(frame.sessions, wanted.to_datetime64()))
            now = self.moment.session
            if wanted > now or (wanted == now and not self.moment.knows(panel, name)):
                raise FutureRequested(f"{panel}[{name!r}] of {wanted:%Y-%m-%d} is not known at {self.moment}")
            if place >= rows or frame.sessions[place] != wanted.to_datetime64():
                place = -1
        return frame, frame.values[place] if place >= 0 else np.full(len(frame.symbols), np.nan)


class GrowingViewId:
    """Says that views are of one walk, as long as the walk or one of them lives. It holds nothing."""

    __slots__ = ("__weakref__",)


class View(BaseView):
    """A commit as known at a moment, and nothing else.

    It holds what was known: nothing in it leads to a later row, action or record. A frame lives in memory
    that ends at the moment, so neither ``.base`` nor strides lead past it; that of a :class:`.GrowingView`
    lives in memory in which nothing later has been written.

    Which symbols a field has in the data tells what is to come. So all fields of ``ohlcv`` and ``indicators``
    have the columns of ``close`` (without one, of ``open``), NaN where nothing is known; another symbol has a
    column once a number of it is known. ``close`` and ``open`` themselves have all their columns from the
    first view on, those of symbols listed later among them: the universe is the user's choice, and one that
    was chosen by what became of it is biased. A signal has the columns that it was made with.

    Attributes
    ----------
    growing_view_id
        The same for all views of one :class:`.GrowingView`, None for a view that stands alone.
    """

    def __init__(
        self,
        ref: str,
        moment: Moment,
        *,
        fields: Mapping[str, Mapping[str, FrozenFrame]],
        actions: Told | Literal["to read"],
        records: tuple[Record, ...],
        growing_view_id: GrowingViewId | None = None,
    ) -> None:
        self.data_ref = ref
        self.moment = moment
        self._fields = fields
        self._actions = actions
        self._records = records
        self.growing_view_id = growing_view_id

    @classmethod
    def cut(cls, ref: str, tree: Commit, moment: Moment) -> View:
        """Take out of a commit what was known at a moment."""
        fields = {
            panel: {name: known_frame(tree, panel, name, moment) for name in named}
            for panel, named in tree.panels.items()
        }
        return cls(
            ref,
            moment,
            fields=fields,
            actions=actions_told(tree, fields["ohlcv"], moment),
            records=tree.records.as_of(moment),
        )

    def __getitem__(self, panel: str) -> Fields:
        return Fields(panel, panel_of(self._fields, panel))

    def frozen(self) -> dict[str, dict[str, FrozenFrame]]:
        """All frames known at the moment, for handing to another process."""
        return {panel: dict(named) for panel, named in self._fields.items()}

    def all_records(self) -> tuple[Record, ...]:
        """All records known at the moment, in order of becoming known, for handing to another process."""
        return self._records

    def records(self, kind: RecordKind, symbol: str | None = None) -> tuple[Record, ...]:
        """Records of a kind that were known at the moment, in order of becoming known.

        See :data:`quantgraph.market.moment.PHASE_TIME`. A later text for the same thing comes after the
        earlier one and does not replace it.

        Raises
        ------
        BadOption
            If there is no such kind.
        """
        return of_kind(self._records, kind, symbol)

    def names(self) -> dict[str, str]:
        """By symbol the name that it had at the moment, as far as there are records of it."""
        return names_of(self._records)

    def members(self, index: str) -> tuple[str, ...] | None:
        """Members of an index by the last list known at the moment; None without one."""
        return members_of(self._records, index)

    def _told(self) -> Told:
        # Where all rows are known they are read from the view's own frames, and only if somebody asks.
        return actions_at(self._fields["ohlcv"], self.moment) if self._actions == "to read" else self._actions


def known_frame(tree: Commit, panel: str, name: str, moment: Moment) -> FrozenFrame:
    """Cut one field of a commit at a moment."""
    frame = tree.panels[panel][name]
    rows, symbols = known_rows(panel, name, frame.sessions, moment), known_symbols(tree.panels, panel, name)
    if symbols is None:
        listed = _listed(tree.panels)
        columns = np.flatnonzero((~np.isnan(frame.values[:rows])).any(axis=0))
        symbols = tuple(dict.fromkeys([*listed, *(frame.symbols[column] for column in columns)]))
    return frame.head(rows, symbols)


def known_symbols(panels: Panels, panel: str, name: str) -> tuple[str, ...] | None:
    """Columns that a field has in all views; None if there are more when a number of them is known."""
    symbols, listed = panels[panel][name].symbols, _listed(panels)
    if symbols == listed or panel == "signal" or (panel == "ohlcv" and name in _LISTING):
        return symbols
    return listed if set(symbols) <= set(listed) else None


def _listed(panels: Panels) -> tuple[str, ...]:
    """The symbols of the data, as far as anybody may know them."""
    return next((panels["ohlcv"][name].symbols for name in _LISTING if name in panels["ohlcv"]), ())


def actions_told(tree: Commit, known: Mapping[str, FrozenFrame], moment: Moment) -> Told | Literal["to read"]:
    """The actions of a commit known at a moment, to be read later where ``known`` is all there is to them."""
    used = _action_fields(tree.panels["ohlcv"])
    if all(known[name] is frame for name, frame in used.items()):
        return "to read"
    return actions_at(used, moment)


# One commit is asked at every session, and reading all its actions takes long. Keys are weak: frames go
# with their commit.
_ACTIONS: WeakKeyDictionary[FrozenFrame, tuple[dict[str, str], KnownActions]] = WeakKeyDictionary()


def actions_at(fields: Mapping[str, FrozenFrame], moment: Moment) -> Told:
    """The actions known at a moment, out of all fields of a commit's ``ohlcv``."""
    used = _action_fields(fields)
    try:
        return _known_actions(used).at(moment) if used.keys() & {*ACTION_FIELDS} else ()
    except BadFrame:
        return None  # the error itself would lead to the cell


def _action_fields(fields: Mapping[str, FrozenFrame]) -> dict[str, FrozenFrame]:
    return {name: fields[name] for name in (*ACTION_FIELDS, *DATE_FIELDS) if name in fields}


def _known_actions(used: Mapping[str, FrozenFrame]) -> KnownActions:
    first, digests = next(iter(used.values())), {name: frame.digest for name, frame in used.items()}
    found = _ACTIONS.get(first)
    if found is None or found[0] != digests:
        known = KnownActions({name: frame.frame for name, frame in used.items()})
        found = _ACTIONS[first] = digests, known
    return found[1]


def known_rows(panel: str, name: str, sessions: Dates, moment: Moment) -> int:
    """How many rows of a field are known at a moment; ``sessions`` (T,) are the field's, ascending."""
    side: Literal["left", "right"] = "right" if moment.knows(panel, name) else "left"
    return int(np.searchsorted(sessions, moment.session.to_datetime64(), side=side))


def panel_of(panels: Panels, panel: str) -> Mapping[str, FrozenFrame]:
    """One panel; UnknownField if there is none of that name."""
    if panel not in PANELS:
        raise UnknownField(unknown("panel", panel, dict.fromkeys(PANELS)), field=panel)
    return panels[panel]


def unknown(kind: str, name: object, known: Mapping[str, object]) -> str:
    """Say that there is no such name, what there is, and what may have been meant."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"there is no {kind} {name!r}; there is {', '.join(known) or 'none yet'}{hint}"
