"""The data state: a thread-safe store of panels and records with immutable commits, a tiny git.

``GLOBAL_DATA_STATE`` is the process's default store. ``update`` makes a new commit and returns its
name; a run keeps that name (``data_ref``) and reads by it, so that runs cannot see each other.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from weakref import WeakSet

import pandas as pd

from quantgraph._util.texts import NewsUntil
from quantgraph.errors import BadFrame, BadOption, FutureRequested, UnknownCommit, UnknownField
from quantgraph.market import Moment
from quantgraph.state._commits import (
    PANELS,
    Commit,
    CommitCache,
    Panels,
    commit_name,
    read_commit,
    write_commit,
)
from quantgraph.state._growing_view import GrowingView
from quantgraph.state._views import Fields, Snapshot, TrustedView, View, no_such_name
from quantgraph.state.frames._cut import cut
from quantgraph.state.frames._frames import MADE, FrozenFrame, check_axes, freeze, merge
from quantgraph.state.frames._made import made_of, opinions
from quantgraph.state.frames._records import KnownRecords, Record, Records

_TRIES = 3

_DECIDING: ContextVar[Moment | None] = ContextVar("deciding", default=None)


@contextmanager
def deciding(moment: Moment) -> Iterator[None]:
    """Within this context every data state refuses data that is later than a moment.

    The daily loop decides in it. It holds for the thread or task, and for those that inherit its context, as
    ``asyncio.to_thread`` and ``copy_context().run`` do; a plain ``Thread`` or a pool's thread does not.
    ``view(moment)`` at or before the moment works; methods that give a whole commit do not.
    """
    # A copy: writing into the moment that was handed out must not move the limit.
    moment, outer = Moment(moment.session, moment.phase), _DECIDING.get()
    token = _DECIDING.set(moment if outer is None else min(outer, moment))
    try:
        yield
    finally:
        _DECIDING.reset(token)


def decision_moment() -> Moment | None:
    """The moment of the current decision, see :func:`deciding`; None outside of one."""
    return _DECIDING.get()


def _check_limit(call: str, moment: Moment | None = None) -> None:
    limit = _DECIDING.get()
    if limit is not None and (moment is None or limit < moment):
        raise FutureRequested(
            f"{call} shows data that is later than {limit}, the moment of this decision; read the view "
            "of decide(), or use view(moment, ref) of an earlier moment",
            moment=str(limit),
        )


class DataState:
    """A thread-safe store of the panels ``ohlcv``, ``indicators`` and ``signal``, and of dated records.

    Parameters
    ----------
    spill_dir
        Folder to which every commit is also written (Arrow IPC), and from which a ref that is not in
        memory is loaded, in this process or another.
    read_only
        True: commits are loaded from the folder, and none is written there.
    memory_limit
        Bytes of frames and records that the store keeps, equal ones once. Beyond it the least recently used
        commits are dropped; without a spill folder they are lost. The head and the commits of living
        working trees are always kept, even if they alone exceed the limit. Memory that snapshots and views
        still hold is not counted.

    Notes
    -----
    Frames are checked, merged and written to disk before the lock is taken. It protects the head, the
    commits, their order of use and the cache against threads that read and commit at the same time; it is
    held for the swap only, so readers do not wait for a large update. Reading from a commit needs no lock:
    commits never change.
    """

    def __init__(
        self, spill_dir: str | Path | None = None, *, memory_limit: int = 2 << 30, read_only: bool = False
    ) -> None:
        if memory_limit <= 0:
            raise BadOption(f"memory_limit={memory_limit} must be > 0 bytes")
        self._lock = threading.RLock()
        self._turn = threading.Lock()
        self._source = Path(spill_dir) if spill_dir else None
        self._spill = None if read_only else self._source
        self._limit = memory_limit
        empty = Commit(panels={panel: {} for panel in PANELS})
        self.empty = self._name(empty)
        self._commits: OrderedDict[str, Commit] = OrderedDict({self.empty: empty})
        self._shelf = CommitCache()
        self._lines: WeakSet[WorkingTree] = WeakSet()
        self._head = self.empty

    def __repr__(self) -> str:
        with self._lock:
            head, count, size = self._head, len(self._commits) - 1, self._shelf.nbytes
        folder = f", spill_dir={str(self._source)!r}" if self._source else ""
        return f"DataState(head {head[:12]}, {count} in memory, {size / 1e6:,.1f} MB{folder})"

    @property
    def head(self) -> str:
        """Name of the latest commit."""
        return self._head

    def update(
        self, panel: str, frames: Mapping[str, pd.DataFrame], *, base: str | WorkingTree | None = None
    ) -> str:
        """Commit frames on top of ``base`` (default: the head) and return the new commit's name.

        ``ohlcv`` and ``indicators`` merge by session and symbol: a new number replaces an old one, a
        new NaN does not. A ``signal`` replaces the signal of that name; its sessions and symbols must be
        among the commit's closes (without closes, of all ``ohlcv`` frames). So do target ``weights``, whose
        signal of the same name is 1 where one is above 0 and -1 where it is 0, and a ``score``. A ``signal``
        of ``entries`` and ``exits`` is one, ``entries``; booleans named ``held`` are 1 and -1. All frames are
        committed or none.
        A working tree as ``base`` moves on to the new commit.

        Raises
        ------
        UnknownField
            If ``panel`` is not one of :data:`PANELS`.
        BadFrame
            If a name or a frame is not valid; names the first offending cell.
        """
        if isinstance(frames, Mapping):
            panel, frames = made_of(panel, frames)
        fresh = self._frozen(panel, frames)

        def change(tree: Commit) -> Commit:
            if panel in MADE:
                return replace(tree, panels=_with_made(tree.panels, panel, fresh))
            fields = dict(tree.panels[panel])
            for name, frame in fresh.items():
                fields[name] = merge(fields[name], frame) if name in fields else frame
            return replace(tree, panels={**tree.panels, panel: fields})

        return self._commit(change, base)

    def record(self, records: Iterable[Record], *, base: str | WorkingTree | None = None) -> str:
        """Commit records on top of ``base`` (default: the head) and return the new commit's name.

        Earlier records stay: a new one about the same thing does not replace them. Equal records are one.

        Raises
        ------
        BadOption
            If one of them is not a :class:`Record`.
        """
        fresh = tuple(records)
        for record in fresh:
            if not isinstance(record, Record):
                raise BadOption(f"records must be Record, not {record!r:.60}", parameter="records")
        return self._commit(
            lambda tree: replace(tree, records=Records.of([*tree.records.entries, *fresh])), base
        )

    def override(self, *, base: str | None = None, **panels: Mapping[str, pd.DataFrame]) -> str:
        """Commit with whole panels replaced (an empty mapping clears one) and return its name."""
        fresh = {panel: self._frozen(panel, frames) for panel, frames in panels.items()}

        def change(tree: Commit) -> Commit:
            panels: Panels = {**tree.panels, **{each: {} if each in MADE else fresh[each] for each in fresh}}
            for panel in MADE:
                if panel in fresh:
                    panels = _with_made(panels, panel, fresh[panel])
            return replace(tree, panels=panels)

        return self._commit(change, base)

    def without(self, panel: str, ref: str) -> str:
        """Name of the commit that equals ``ref`` with one panel empty, of a signal all that was made.

        The head stays where it is.
        """
        emptied = MADE if panel in MADE else (panel,)
        empty: dict[str, dict[str, FrozenFrame]] = {each: {} for each in emptied}
        return self._commit(lambda tree: replace(tree, panels={**tree.panels, **empty}), ref, to_head=False)

    def only_about(self, symbols: Collection[str], ref: str) -> str:
        """Name of the commit that equals ``ref`` without records about other symbols.

        Records about none stay, and so does the head.
        """

        def change(tree: Commit) -> Commit:
            kept = [each for each in tree.records.entries if not each.symbol or each.symbol in symbols]
            return tree if len(kept) == len(tree.records.entries) else replace(tree, records=Records.of(kept))

        return self._commit(change, ref, to_head=False)

    def adopt(self, frames: Mapping[str, Mapping[str, FrozenFrame]]) -> str:
        """Commit frames that are frozen already, for example another store's view, and return its name."""
        panels = {panel: dict(frames.get(panel, {})) for panel in PANELS}
        return self._commit(lambda _: Commit(panels=panels), self.empty)

    def snapshot(self, ref: str | None = None) -> Snapshot:
        """Everything of a commit (default: the head), read-only, at a cost that does not grow with it."""
        _check_limit("snapshot()")
        return Snapshot(*self._find(ref))

    def get_field(self, name: str, ref: str | None = None) -> Fields:
        """One panel of a commit (default: the head)."""
        _check_limit("get_field()")
        return self.snapshot(ref)[name]

    def view(self, moment: Moment, ref: str | None = None, news_until: NewsUntil = "open") -> View:
        """A commit (default: the head) as known at ``moment``; ``news_until`` may leave its own day's out.

        It copies all known rows, and nothing if all rows are known.

        Raises
        ------
        FutureRequested
            Within :func:`deciding` at an earlier moment.
        """
        _check_limit(f"view({moment})", moment)
        ref, commit = self._find(ref)
        news_moment = moment.of_news(news_until)
        records = KnownRecords(commit.records.as_of(news_moment))
        return View(ref, moment, cut(commit, moment, records=records), news_moment=news_moment)

    def growing_view(self, ref: str | None = None, news_until: NewsUntil = "previous_day") -> GrowingView:
        """The views of a commit (default: the head) at ascending moments, for the deciders of one run."""
        _check_limit("growing_view()")
        return GrowingView(*self._find(ref), news_until)

    def trusted_view(self, moment: Moment, ref: str | None = None) -> TrustedView:
        """A commit (default: the head) as known at ``moment``, without a copy, for trusted code only."""
        _check_limit("trusted_view()")
        return TrustedView(*self._find(ref), moment)

    def checkout(self, ref: str | None = None) -> WorkingTree:
        """A working tree on ``ref`` (default: an empty commit), for tools that commit in parallel.

        The commit it stands on is kept in memory while the working tree lives.

        Raises
        ------
        UnknownCommit
            If ``ref`` is neither in memory nor in the spill folder.
        """
        _check_limit("checkout()")
        ref, tree = self._find(ref or self.empty)
        with self._lock:
            line = WorkingTree(self, ref, self._keep(ref, tree))
            self._lines.add(line)
        return line

    def _name(self, tree: Commit) -> str:
        return commit_name(tree)

    def _frozen(self, panel: str, frames: object) -> dict[str, FrozenFrame]:
        if panel not in PANELS:
            raise UnknownField(no_such_name("panel", panel, dict.fromkeys(PANELS)), field=panel)
        if not isinstance(frames, Mapping):
            raise BadFrame(f"{panel} must be a mapping of name to frame, for example {{'close': frame}}")
        return {name: freeze(panel, name, frame) for name, frame in frames.items()}

    def _find(self, ref: str | None) -> tuple[str, Commit]:
        with self._lock:
            ref = ref or self._head
            tree = self._commits.get(ref)
            if tree is not None:
                self._commits.move_to_end(ref)
                return ref, tree
        return ref, self._load(ref)

    def _load(self, ref: str) -> Commit:
        tree = read_commit(self._source, ref) if self._source else None
        if tree is None:
            place = (
                f"in memory or in {self._source}"
                if self._source
                else "in memory, and there is no spill folder"
            )
            raise UnknownCommit(
                f"commit {ref[:12]} is not {place}; fetch the data again or give spill_dir", ref=ref
            )
        with self._lock:
            return self._keep(ref, tree)

    def _commit(
        self, change: Callable[[Commit], Commit], base: str | WorkingTree | None, *, to_head: bool = True
    ) -> str:
        line, start_ref = (base, None) if isinstance(base, WorkingTree) else (None, base)
        tries = 0
        # Updates of one working tree take turns, so that none has to be repeated.
        with line.turn if line else nullcontext() if start_ref else self._turn:
            while True:
                tries += 1
                # After several tries the lock keeps other runs from moving the head.
                with self._lock if tries > _TRIES else nullcontext():
                    start, tree = line.tip if line else self._find(start_ref)
                    made = change(tree)
                    ref = self._name(made)
                    if self._spill:
                        made = write_commit(self._spill, ref, made)
                    with self._lock:
                        if not (base or start == self._head):
                            continue
                        if to_head:
                            self._head = ref
                        made = self._keep(ref, made)
                        if line:
                            line.tip = ref, made
                        return ref

    def _keep(self, ref: str, tree: Commit) -> Commit:
        if ref not in self._commits:
            self._commits[ref] = self._shelf.take(tree)
        self._commits.move_to_end(ref)
        kept = {ref, self._head, self.empty, *(line.ref for line in self._lines)}
        for old in [old for old in self._commits if old not in kept] if self._over() else ():
            self._shelf.release(self._commits.pop(old))
            if not self._over():
                break
        return self._commits[ref]

    def _over(self) -> bool:
        return self._shelf.nbytes > self._limit


class WorkingTree:
    """A line of commits that one run's tools write to, also in parallel.

    Attributes
    ----------
    tip
        Name and content of its commit; updates and :meth:`move_to` change it.
    turn
        Lock held by the update that is moving the tip.
    """

    def __init__(self, store: DataState, ref: str, tree: Commit) -> None:
        self._store = store
        self.tip = (ref, tree)
        self.turn = threading.Lock()

    def __repr__(self) -> str:
        return f"WorkingTree({self.ref[:12]})"

    @property
    def ref(self) -> str:
        """Name of its commit."""
        return self.tip[0]

    def update(self, panel: str, frames: Mapping[str, pd.DataFrame]) -> str:
        """Commit on top of this tree, see :meth:`DataState.update`."""
        return self._store.update(panel, frames, base=self)

    def move_to(self, ref: str) -> None:
        """Move the tree to a commit that exists.

        Raises
        ------
        UnknownCommit
            If ``ref`` is neither in memory nor in the spill folder.
        """
        if ref != self.ref:
            self.tip = self._store.checkout(ref).tip

    def snapshot(self) -> Snapshot:
        """The tree's commit."""
        _check_limit("snapshot()")
        return Snapshot(*self.tip)

    def view(self, moment: Moment) -> View:
        """The tree as known at ``moment``."""
        _check_limit(f"view({moment})", moment)
        ref, commit = self.tip
        return View(ref, moment, cut(commit, moment))


def _with_made(panels: Panels, panel: str, made: Mapping[str, FrozenFrame]) -> Panels:
    """The panels with what a strategy has made: of one name there is one thing, and weights have a signal."""
    for name, frame in made.items():
        check_axes(name, frame, panels["ohlcv"], panel)
    others: dict[str, Mapping[str, FrozenFrame]] = {
        other: {name: old for name, old in panels[other].items() if name not in made}
        for other in MADE
        if other != panel
    }
    found = {**panels, **others, panel: {**panels[panel], **made}}
    if panel == "weights":
        signals = {name: opinions(frame) for name, frame in made.items()}
        found["signal"] = {**found["signal"], **signals}
    return found


GLOBAL_DATA_STATE = DataState()
"""The process's default store."""
