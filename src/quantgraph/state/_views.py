"""How a commit is read: whole, or as known at a moment."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

import numpy as np
import pandas as pd

from quantgraph.errors import BadFrame, FutureRequested, UnknownField
from quantgraph.market import Moment, session_of
from quantgraph.market.actions import CorporateAction, adjusted
from quantgraph.state._commits import PANELS, Commit, Panels
from quantgraph.state.frames._cut import Actions, KnownData, cut_frame, known_actions
from quantgraph.state.frames._frames import MADE, Floats, FrozenFrame, frozen_array
from quantgraph.state.frames._records import Record, RecordKind, members_of, names_of


class Fields(Mapping[str, pd.DataFrame]):
    """One panel, read-only: field name to wide frame. A frame is made when it is asked for."""

    __slots__ = ("_cut", "_fields", "_panel")

    def __init__(
        self,
        panel: str,
        fields: Mapping[str, FrozenFrame],
        cut: Callable[[str, FrozenFrame], FrozenFrame] | None = None,
    ) -> None:
        self._panel = panel
        self._fields = fields
        self._cut = cut

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.frozen(name).frame

    def frozen(self, name: str) -> FrozenFrame:
        """The frame as it is stored."""
        if name not in self._fields:
            raise UnknownField(no_such_name(f"{self._panel} field", name, self._fields), field=name)
        frame = self._fields[name]
        return self._cut(name, frame) if self._cut else frame

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __reversed__(self) -> Iterator[str]:
        return reversed([*self._fields])

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

        All prices are in terms of the last known row: from an ex-date's open on, earlier closes are lowered
        by the dividend, so that they compare with the open. The last row of a view's own session
        equals the raw price. What becomes known later never changes the frame.
        See :func:`quantgraph.market.actions.adjusted`.
        """
        return adjusted(self["ohlcv"], name)


class Snapshot(_Panels):
    """A commit, read-only: panel name to :class:`Fields`."""

    __slots__ = ("_commit", "ref")

    def __init__(self, ref: str, commit: Commit) -> None:
        self.ref = ref
        self._commit = commit

    def __getitem__(self, panel: str) -> Fields:
        return Fields(panel, fields_of(self._commit.panels, panel))

    def records(self, kind: RecordKind, symbol: str | None = None) -> tuple[Record, ...]:
        """All records of a kind, in order of becoming known; those without a date come last."""
        return self._commit.records.all.of(kind, symbol)

    def __repr__(self) -> str:
        shown = (repr(self[panel]) for panel in PANELS if self[panel] or panel not in MADE[1:])
        return f"Snapshot({self.ref[:12]}; {'; '.join(shown)})"


class BaseView(_Panels, ABC):
    """A commit as known at a moment: what :class:`View` and :class:`TrustedView` have in common.

    A field whose row of the moment's own session is not known yet (``close`` at the open) ends one session
    before a field whose row is.
    """

    data_ref: str
    moment: Moment

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.data_ref[:12]} at {self.moment})"

    @abstractmethod
    def _known_actions(self) -> Actions: ...

    def actions(self) -> tuple[CorporateAction, ...]:
        """Dividends, splits and delistings known at the moment, ascending by ``ex`` and symbol.

        An announced one is known before its ex-date, from :attr:`.CorporateAction.known_from` on. They are
        values; no frame leads from them to later rows.

        Raises
        ------
        BadFrame
            If a cell is not a possible amount or date. The error does not say which one: it may be a later
            one.
        """
        actions = self._known_actions()
        if actions is None:
            raise BadFrame(
                "the data's corporate actions are not valid; actions_of(snapshot['ohlcv']) names the cell"
            )
        return actions

    def row(self, panel: str, name: str, session: object = None) -> pd.Series:
        """One known row: of ``session``, or the last one; index ``ts_code``, float64, NaN for no number.

        All is NaN for a known session of which the field has no row, even if its first row is later.

        Raises
        ------
        FutureRequested
            If the row is not known at the moment.
        """
        frame, values = self._row(panel, name, session)
        return pd.Series(frozen_array(values), index=frame.columns, copy=False)

    def numbers(self, panel: str, name: str, session: object = None) -> Mapping[str, float]:
        """The same as plain numbers by symbol."""
        frame, values = self._row(panel, name, session)
        return _Numbers(frame.symbols, values)

    def _row(self, panel: str, name: str, session: object) -> tuple[FrozenFrame, Floats]:
        frame = self[panel].frozen(name)
        rows = len(frame.sessions)
        place = rows - 1
        if session is not None:
            now = self.moment.session
            day = now if session is now else session_of(session)
            place = int(np.searchsorted(frame.sessions, day.to_datetime64()))
            if day > now or (day == now and not self.moment.knows(panel, name)):
                raise FutureRequested(f"{panel}[{name!r}] of {day:%Y-%m-%d} is not known at {self.moment}")
            if place >= rows or frame.sessions[place] != day.to_datetime64():
                place = -1
        return frame, frame.values[place] if place >= 0 else np.full(len(frame.symbols), np.nan)


class _Numbers(Mapping[str, float]):
    """A row of a frame; most readers want few of its numbers."""

    __slots__ = ("_places", "_values")

    def __init__(self, symbols: tuple[str, ...], values: Floats) -> None:
        self._places, self._values = _places_of(symbols), values

    def __getitem__(self, symbol: str) -> float:
        return float(self._values[self._places[symbol]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@lru_cache(maxsize=64)
def _places_of(symbols: tuple[str, ...]) -> dict[str, int]:
    return {symbol: place for place, symbol in enumerate(symbols)}


class GrowingViewId:
    """Identity of a :class:`.GrowingView`, for weak references. It holds nothing."""

    __slots__ = ("__weakref__",)


class View(BaseView):
    """A commit as known at a moment, and nothing else.

    Nothing in it leads to a later row, action or record. A frame lives in memory that ends at the moment, so
    neither ``.base`` nor strides lead past it; that of a :class:`.GrowingView` lives in memory in which
    nothing later has been written.

    Which symbols a field has in the data tells what is to come. So all fields of ``ohlcv`` and ``indicators``
    have the columns of ``close`` (without it, of ``open``), NaN where nothing is known; another symbol has a
    column once a number of it is known. ``close`` and ``open`` themselves have all their columns from the
    first view on, also those of symbols listed later: the universe is the user's choice, and choosing it by
    what became of it would be biased. A signal has the columns that it was made with.

    Attributes
    ----------
    growing_view_id
        The same for all views of one :class:`.GrowingView`, None for a view that stands alone.
    news_moment
        Moment before which its records were published: the view's, or the begin of its day.
    """

    def __init__(
        self,
        ref: str,
        moment: Moment,
        known: KnownData,
        growing_view_id: GrowingViewId | None = None,
        news_moment: Moment | None = None,
    ) -> None:
        self.data_ref = ref
        self.moment = moment
        self.news_moment = news_moment or moment
        self._known = known
        self.growing_view_id = growing_view_id

    def __getitem__(self, panel: str) -> Fields:
        return Fields(panel, fields_of(self._known.panels, panel))

    def frozen(self) -> dict[str, dict[str, FrozenFrame]]:
        """All frames known at the moment, for handing to another process."""
        return {panel: dict(fields) for panel, fields in self._known.panels.items()}

    def all_records(self) -> tuple[Record, ...]:
        """All records known at the moment, in order of becoming known, for handing to another process."""
        return self._known.records.entries

    def records(self, kind: RecordKind, symbol: str | None = None) -> tuple[Record, ...]:
        """Records of a kind that were known at :attr:`news_moment`, in order of becoming known.

        See :data:`quantgraph.market.PHASE_TIME`. A later text about the same thing comes after the
        earlier one and does not replace it.

        Raises
        ------
        BadOption
            If there is no such kind.
        """
        return self._known.records.of(kind, symbol)

    def names(self) -> dict[str, str]:
        """By symbol its name at the moment, as far as there are records of it."""
        return names_of(self._known.records)

    def members(self, index: str) -> tuple[str, ...] | None:
        """Members of an index by the last list known at the moment; None without one."""
        return members_of(self._known.records, index)

    def _known_actions(self) -> Actions:
        if self._known.actions == "whole":
            return known_actions(self._known.panels["ohlcv"], self.moment)
        return self._known.actions


class TrustedView(BaseView):
    """A commit as known at a moment for the library's own code: rows are cut when they are asked for.

    Nothing is copied, so the whole commit can be reached from it. A decider gets a :class:`View`.
    """

    def __init__(self, ref: str, commit: Commit, moment: Moment) -> None:
        self.data_ref = ref
        self.moment = moment
        self._commit = commit

    def __getitem__(self, panel: str) -> Fields:
        def cut(name: str, frame: FrozenFrame) -> FrozenFrame:
            return cut_frame(panel, name, frame, self.moment, copy=False)

        return Fields(panel, fields_of(self._commit.panels, panel), cut)

    def _known_actions(self) -> Actions:
        return known_actions(self._commit.panels["ohlcv"], self.moment)


def fields_of(panels: Panels, panel: str) -> Mapping[str, FrozenFrame]:
    """One panel; UnknownField if there is none of that name."""
    if panel not in PANELS:
        raise UnknownField(no_such_name("panel", panel, dict.fromkeys(PANELS)), field=panel)
    return panels[panel]


def no_such_name(kind: str, name: object, known: Mapping[str, object]) -> str:
    """Message for an unknown name: which names there are, and which one may be meant."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"there is no {kind} {name!r}; there is {', '.join(known) or 'none yet'}{hint}"
