"""A data state and a source with unmistakable sentinels in place of everything after a moment.

A run over both that uses no future shows no sentinel: not in a prompt, a reply, a tool's result, an error, a
log line, a signal or the ledger. :class:`~canary_watch.CanaryWatch` looks for them.
A result that carries no magnitude (a signal of 1, 0 and -1, a ratio, a rank, a logarithm) is compared between
two runs whose sentinels have opposite signs and another order: ``seed=0`` and ``seed=1``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from canary_sentinels import CANARY_SESSIONS, CANARY_SYMBOL, MARK, find_canaries, sentinels
from numpy.typing import NDArray

from quantgraph._util.texts import NewsUntil
from quantgraph.data import (
    EVENT_FIELDS,
    AsOfSource,
    DatedRecords,
    MarketDataSource,
    Members,
    Panel,
    record_kinds_of,
)
from quantgraph.errors import BadWindow, NoData, UnknownSymbol
from quantgraph.market import Moment
from quantgraph.state import (
    RECORD_KINDS,
    Commit,
    DataState,
    GrowingView,
    Record,
    RecordKind,
    Snapshot,
    TrustedView,
    View,
    WorkingTree,
)
from quantgraph.state.frames import FrozenFrame, Records, known_rows

Answer = TypeVar("Answer")


class CanaryStore(DataState):
    """A data state whose readers get sentinels in place of what they may not know.

    Every kind of view is cut from a commit with sentinels in every row and record after the view's own
    moment, so that a wrong cut shows.
    """

    def __init__(self, as_of: Moment, *, seed: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.as_of = as_of
        self.seed = seed
        self.leaks: list[str] = []
        self._after: ContextVar[Moment | None] = ContextVar("after", default=None)

    def view(self, moment: Moment, ref: str | None = None, news_until: NewsUntil = "open") -> View:
        """See :meth:`.DataState.view`; cut from a commit with sentinels after ``moment``."""
        with self._reading_at(moment):
            return super().view(moment, ref, news_until)

    def growing_view(self, ref: str | None = None, news_until: NewsUntil = "previous_day") -> GrowingView:
        """See :meth:`.DataState.growing_view`; each view is cut from a commit with sentinels after it."""
        view = super().growing_view(ref, news_until)
        return _CanaryGrowingView(view.data_ref, self._find(view.data_ref)[1], self.seed, news_until)

    def trusted_view(self, moment: Moment, ref: str | None = None) -> TrustedView:
        """See :meth:`.DataState.trusted_view`; cut from a commit with sentinels after ``moment``."""
        with self._reading_at(moment):
            return super().trusted_view(moment, ref)

    def snapshot(self, ref: str | None = None) -> Snapshot:
        """See :meth:`.DataState.snapshot`; with sentinels after the run's moment."""
        with self._reading_at(self.as_of):
            return super().snapshot(ref)

    def checkout(self, ref: str | None = None) -> WorkingTree:
        """See :meth:`.DataState.checkout`; its views and snapshots have sentinels."""
        ref, tree = super().checkout(ref).tip
        with self._lock:
            line = _CanaryTree(self, ref, self._keep(ref, tree))
            self._lines.add(line)
        return line

    def update(
        self, panel: str, frames: Mapping[str, pd.DataFrame], *, base: str | WorkingTree | None = None
    ) -> str:
        """See :meth:`.DataState.update`; sentinels in the frames are leaks."""
        self._check_leaks(panel, frames)
        return super().update(panel, frames, base=base)

    def record(self, records: Iterable[Record], *, base: str | WorkingTree | None = None) -> str:
        """See :meth:`.DataState.record`; sentinels in the records are leaks."""
        fresh = tuple(records)
        self._check_leaks("records", fresh)
        return super().record(fresh, base=base)

    def override(self, *, base: str | None = None, **panels: Mapping[str, pd.DataFrame]) -> str:
        """See :meth:`.DataState.override`; sentinels in the panels are leaks."""
        self._check_leaks("panels", panels)
        return super().override(base=base, **panels)

    def _check_leaks(self, what: str, thing: object) -> None:
        self.leaks += [f"committed {what}: {place}" for place in find_canaries(thing)]

    @contextmanager
    def _reading_at(self, moment: Moment) -> Iterator[None]:
        before = self._after.set(moment)
        try:
            yield
        finally:
            self._after.reset(before)

    def _find(self, ref: str | None) -> tuple[str, Commit]:
        ref, tree = super()._find(ref)
        moment = self._after.get()
        return ref, tree if moment is None else with_sentinels(tree, moment, self.seed)


class _CanaryTree(WorkingTree):
    def snapshot(self) -> Snapshot:
        return self._store.snapshot(self.ref)

    def view(self, moment: Moment) -> View:
        return self._store.view(moment, self.ref)


class _CanaryGrowingView(GrowingView):
    """A growing view of a commit whose rows are sentinels until the moment at which they are known."""

    def __init__(self, ref: str, tree: Commit, seed: int, news_until: NewsUntil) -> None:
        super().__init__(ref, tree, news_until)
        self._whole, self._seed = tree, seed

    def at(self, moment: Moment) -> View:
        self._commit = with_sentinels(self._whole, moment, self._seed)
        return super().at(moment)


def with_sentinels(tree: Commit, moment: Moment, seed: int) -> Commit:
    """A commit with sentinels in place of everything that is not known at a moment."""
    return Commit(
        panels={
            panel: {name: _frame_with_sentinels(panel, name, fields, moment, seed) for name in fields}
            for panel, fields in tree.panels.items()
        },
        records=_records(tree.records, moment),
    )


def _frame_with_sentinels(
    panel: str, name: str, fields: Mapping[str, FrozenFrame], moment: Moment, seed: int
) -> FrozenFrame:
    frame, last = fields[name], CANARY_SESSIONS.to_numpy()
    rows = known_rows(panel, name, frame.sessions, moment)
    sessions = np.concatenate([frame.sessions, last])
    later = sentinels(panel, name, (len(sessions), len(frame.symbols)), seed)
    if name.startswith("action_"):  # a date: no sentinel is a valid one
        later[:] = np.nan
    values = np.concatenate([frame.values[:rows], later[rows:]])
    if panel == "ohlcv" and name in EVENT_FIELDS and "action_declared" in fields:
        announced = _announced(frame, fields["action_declared"], moment)
        values[: len(announced)] = np.where(announced, frame.values, values[: len(announced)])
    return FrozenFrame(sessions, frame.symbols, values)


def _announced(frame: FrozenFrame, declared: FrozenFrame, moment: Moment) -> NDArray[np.bool_]:
    """Where an action was declared by a moment: it may be known before its ex-date."""
    days = declared.frame.reindex(index=frame.frame.index, columns=frame.frame.columns).to_numpy()
    day = float(f"{moment.session:%Y%m%d}")
    return np.asarray(days <= day if moment.phase == "post_close" else days < day)


def _records(records: Records, moment: Moment) -> Records:
    known = records.as_of(moment)
    later = [
        Record(each.kind, each.known, each.symbol, _body(each.kind))
        for each in records.entries
        if each not in known
    ]
    added = [Record(kind, CANARY_SESSIONS[0].date(), CANARY_SYMBOL, _body(kind)) for kind in RECORD_KINDS]
    return Records.of([*known, *later, *added])


def _body(kind: str) -> dict[str, Any]:
    bodies: dict[str, dict[str, Any]] = {
        "name": {"name": MARK},
        "action": {"ex": f"{CANARY_SESSIONS[0]:%Y-%m-%d}", "cash": "1", "ratio": "1", "text": MARK},
        "membership": {"index": CANARY_SYMBOL, "symbols": [CANARY_SYMBOL]},
    }
    return bodies.get(kind, {"text": MARK})


class CanarySource:
    """A source that answers with sentinels for everything after a moment.

    It has three more sessions than ``source``, in 2177, and a stock that is listed then.
    """

    def __init__(self, source: MarketDataSource, as_of: Moment, *, seed: int = 0) -> None:
        self._source = source
        self._as_of = as_of
        self._seed = seed

    @property
    def name(self) -> str:
        """That of the source."""
        return self._source.name

    @property
    def synthetic(self) -> bool:
        """That of the source."""
        return self._source.synthetic

    def sessions(self) -> pd.DatetimeIndex:
        """Those of the source, and three more."""
        return pd.DatetimeIndex(self._source.sessions().append(CANARY_SESSIONS))

    def symbols(self) -> tuple[str, ...]:
        """Those of the source, and one more."""
        return tuple(sorted((*self._source.symbols(), CANARY_SYMBOL)))

    def symbols_on(self, day: pd.Timestamp) -> tuple[str, ...]:
        """Those of the source, and one more after the moment."""
        return AsOfSource(self._source, Moment(day)).symbols() if self._knows(day) else self.symbols()

    def names(self) -> Mapping[str, str]:
        """Future names: sentinels."""
        named = {code: f"{name} {MARK}" for code, name in self._source.names().items()}
        return named | {CANARY_SYMBOL: MARK}

    def names_on(self, day: pd.Timestamp) -> Mapping[str, str]:
        """Those of the source, and future names after the moment."""
        return AsOfSource(self._source, Moment(day)).names() if self._knows(day) else self.names()

    def members(self, index_code: str, on: pd.Timestamp) -> Members:
        """Those of the source; after the moment the added stock is the only member."""
        if self._knows(on):
            return _with_sentinel_error(lambda: self._source.members(index_code, on))
        listed_on = CANARY_SESSIONS[0]
        return Members(
            index_code=index_code, symbols=(CANARY_SYMBOL,), listed_on=listed_on, point_in_time=True
        )

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> Panel:
        """Those of the source, with sentinels after the moment."""
        frames = _with_sentinel_error(lambda: self._source.bars(symbols, start, end))
        return {name: self._plant("ohlcv", name, frame, end) for name, frame in frames.items()}

    def indicators(
        self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp, fields: Sequence[str] = ()
    ) -> Panel:
        """Those of the source, with sentinels after the moment."""
        frames = _with_sentinel_error(lambda: self._source.indicators(symbols, start, end, fields))
        return {name: self._plant("indicators", name, frame, end) for name, frame in frames.items()}

    def index_bars(self, index_code: str, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        """Those of the source, with sentinels after the moment."""
        levels = _with_sentinel_error(lambda: self._source.index_bars(index_code, start, end))
        fields = {name: self._plant("ohlcv", str(name), levels[[name]], end) for name in levels.columns}
        return pd.DataFrame({name: frame[name] for name, frame in fields.items()})

    @property
    def record_kinds(self) -> tuple[RecordKind, ...]:
        """Those of the source."""
        return record_kinds_of(self._source)

    def records(
        self, kinds: Sequence[RecordKind], symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp
    ) -> tuple[Record, ...]:
        """Those of the source, whose texts are sentinels after the moment, and one of each kind in 2177."""
        source = self._source
        if not isinstance(source, DatedRecords):
            return ()
        known = Records.of(_with_sentinel_error(lambda: source.records(kinds, symbols, start, end)))
        return tuple(record for record in _records(known, self._as_of).entries if record.kind in kinds)

    def _knows(self, day: pd.Timestamp) -> bool:
        return day <= self._as_of.session

    def _plant(self, panel: str, name: str, frame: pd.DataFrame, end: pd.Timestamp) -> pd.DataFrame:
        index = pd.DatetimeIndex(frame.index).append(
            CANARY_SESSIONS[: CANARY_SESSIONS.searchsorted(end, side="right")]
        )
        longer = frame.reindex(index)
        rows = known_rows(panel, name, index.to_numpy(), self._as_of)
        longer.iloc[rows:] = sentinels(panel, name, longer.shape, self._seed)[rows:]
        return longer


def _with_sentinel_error(ask: Callable[[], Answer]) -> Answer:
    """Call the source; an error's message mentions the last sentinel session."""
    try:
        return ask()
    except (NoData, BadWindow, UnknownSymbol) as error:
        raise type(error)(
            f"{error.message}; its sessions run to {CANARY_SESSIONS[-1]:%Y-%m-%d}", **error.data
        ) from error
