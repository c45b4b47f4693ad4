"""How commits are read: whole, or as known at a moment."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from quantgraph._frames import FrozenFrame, frozen_array
from quantgraph._objects import PANELS, Tree
from quantgraph.errors import BadFrame, FutureRequested, UnknownField
from quantgraph.market.actions import ACTION_FIELDS, DATE_FIELDS, CorporateAction, KnownActions
from quantgraph.market.adjust import adjusted
from quantgraph.market.moment import Moment, session_of

__all__ = ["Fields", "Snapshot", "View", "panel_of", "unknown"]


class Fields(Mapping[str, pd.DataFrame]):
    """One panel, read-only: field name to wide frame. A frame is made when it is asked for."""

    __slots__ = ("_cut", "_fields", "_panel")

    def __init__(
        self,
        panel: str,
        fields: Mapping[str, FrozenFrame],
        cut: Callable[[str, str], FrozenFrame] | None = None,
    ) -> None:
        self._panel = panel
        self._fields = fields
        self._cut = cut

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._fields:
            raise UnknownField(unknown(f"{self._panel} field", name, self._fields), field=name)
        return (self._cut(self._panel, name) if self._cut else self._fields[name]).frame

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"{self._panel}: {', '.join(self._fields) or 'empty'}"


class Snapshot(Mapping[str, Fields]):
    """A commit, read-only: panel name to :class:`Fields`."""

    __slots__ = ("_tree", "ref")

    def __init__(self, ref: str, tree: Tree) -> None:
        self.ref = ref
        self._tree = tree

    def __getitem__(self, panel: str) -> Fields:
        return Fields(panel, panel_of(self._tree, panel))

    def __iter__(self) -> Iterator[str]:
        return iter(PANELS)

    def __len__(self) -> int:
        return len(PANELS)

    def adjusted(self, name: str = "close") -> pd.DataFrame:
        """Prices in those of the last row, dividends and splits taken out; see :meth:`View.adjusted`."""
        return adjusted(self["ohlcv"], name)

    def __repr__(self) -> str:
        return f"Snapshot({self.ref[:12]}; {'; '.join(repr(self[panel]) for panel in PANELS)})"


class View(Mapping[str, Fields]):
    """A commit as known at a moment.

    Rows that were not known yet are cut off physically: a frame lives in memory of its own that ends
    at the moment, so neither ``.base`` nor strides lead past it. A field whose row of the moment's
    own session is not known yet (``close`` at the open) ends one session earlier than one whose is.
    """

    def __init__(self, ref: str, tree: Tree, moment: Moment) -> None:
        self.data_ref = ref
        self.moment = moment
        self._tree = tree
        self._known: dict[tuple[str, str], FrozenFrame] = {}

    def __getitem__(self, panel: str) -> Fields:
        return Fields(panel, panel_of(self._tree, panel), self._cut)

    def __iter__(self) -> Iterator[str]:
        return iter(PANELS)

    def __len__(self) -> int:
        return len(PANELS)

    def __repr__(self) -> str:
        return f"View({self.data_ref[:12]} at {self.moment})"

    def _rows(self, panel: str, name: str) -> tuple[FrozenFrame, int]:
        fields = panel_of(self._tree, panel)
        if name not in fields:
            raise UnknownField(unknown(f"{panel} field", name, fields), field=name)
        frame = fields[name]
        side: Literal["left", "right"] = "right" if self.moment.knows(panel, name) else "left"
        return frame, int(np.searchsorted(frame.sessions, self.moment.session.to_datetime64(), side=side))

    def _cut(self, panel: str, name: str) -> FrozenFrame:
        known = self._known.get((panel, name))
        if known is None:
            frame, rows = self._rows(panel, name)
            known = self._known[panel, name] = frame.head(rows)
        return known

    def frozen(self) -> dict[str, dict[str, FrozenFrame]]:
        """Everything known at the moment, for handing to another process."""
        return {
            panel: {name: self._cut(panel, name) for name in fields} for panel, fields in self._tree.items()
        }

    def actions(self) -> tuple[CorporateAction, ...]:
        """Dividends, splits and delistings known at the moment, ascending by ``ex`` and symbol.

        An announced one is known before its ex-date, from :attr:`.CorporateAction.known_from` on. What comes
        are values; no frame leads from them to later rows.

        Raises
        ------
        BadFrame
            If a cell is no possible amount or date. Which one is not said: it may be a later one.
        """
        fields = panel_of(self._tree, "ohlcv")
        used = {name: fields[name] for name in (*ACTION_FIELDS, *DATE_FIELDS) if name in fields}
        try:
            return _known_actions(used).at(self.moment) if used.keys() & {*ACTION_FIELDS} else ()
        except BadFrame:
            raise BadFrame(
                "the data's corporate actions are not valid; actions_of(snapshot['ohlcv']) names the cell"
            ) from None

    def adjusted(self, name: str = "close") -> pd.DataFrame:
        """Prices adjusted for dividends and splits as of the moment, a new frame.

        All prices are in those of the last row known: from the morning of an ex-date on the closes before it
        are lowered by what went off, so that they compare with its open. The last row of the moment's own
        session equals the raw price. What is known later never changes the frame.
        See :func:`quantgraph.market.adjust.adjusted`.

        Raises
        ------
        UnknownField
            If there is no such price, or neither ``adj_factor`` nor ``pre_close``, ``dividend`` or ``split``.
        """
        return adjusted(self["ohlcv"], name)

    def row(self, panel: str, name: str, session: object = None) -> pd.Series:
        """One known row: of ``session``, or the last one; index ``ts_code``, float64, NaN where nothing is.

        Raises
        ------
        FutureRequested
            If the row was not known at the view's moment.
        """
        frame, rows = self._rows(panel, name)
        if session is None:
            place = rows - 1
        else:
            wanted = session_of(session)
            place = int(np.searchsorted(frame.sessions, wanted.to_datetime64()))
            if Moment(wanted) > self.moment and place >= rows:
                raise FutureRequested(f"{panel}[{name!r}] of {wanted:%Y-%m-%d} is not known at {self.moment}")
            if place >= rows or frame.sessions[place] != wanted.to_datetime64():
                place = -1
        if place < 0:
            return pd.Series(np.nan, index=frame.columns, dtype=np.float64)
        return pd.Series(frozen_array(frame.values[place]), index=frame.columns, copy=False)


# One commit is asked at every session, and reading all its actions takes long. Keys are weak: frames go
# with their commit.
_ACTIONS: WeakKeyDictionary[FrozenFrame, tuple[dict[str, str], KnownActions]] = WeakKeyDictionary()


def _known_actions(used: Mapping[str, FrozenFrame]) -> KnownActions:
    first, digests = next(iter(used.values())), {name: frame.digest for name, frame in used.items()}
    found = _ACTIONS.get(first)
    if found is None or found[0] != digests:
        known = KnownActions({name: frame.frame for name, frame in used.items()})
        found = _ACTIONS[first] = digests, known
    return found[1]


def panel_of(tree: Tree, panel: str) -> Mapping[str, FrozenFrame]:
    """One panel of a tree; UnknownField if there is none of that name."""
    if panel not in PANELS:
        raise UnknownField(unknown("panel", panel, dict.fromkeys(PANELS)), field=panel)
    return tree[panel]


def unknown(kind: str, name: object, known: Mapping[str, object]) -> str:
    """Say that there is no such name, what there is, and what may have been meant."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"there is no {kind} {name!r}; there is {', '.join(known) or 'none yet'}{hint}"
