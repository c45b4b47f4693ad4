"""The data state: a thread-safe store of panels and records with immutable commits, a tiny git.

``GLOBAL_DATA_STATE`` is the process's default store. ``update`` makes a new commit and returns its
name; a run keeps that name (``data_ref``) and reads by it, so that runs cannot see each other.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from weakref import WeakSet

import pandas as pd

from quantgraph.errors import BadFrame, BadOption, FutureRequested, UnknownCommit, UnknownField
from quantgraph.market.moment import Moment
from quantgraph.state.commits import PANELS, Commit, CommitCache, commit_name, read_commit, write_commit
from quantgraph.state.cut import cut
from quantgraph.state.frames import FrozenFrame, check_axes, freeze, merge
from quantgraph.state.growing_view import GrowingView
from quantgraph.state.records import Record, Records
from quantgraph.state.views import Fields, Snapshot, TrustedView, View, no_such_name

__all__ = ["GLOBAL_DATA_STATE", "DataState", "WorkingTree", "deciding", "decision_moment"]

_TRIES = 3

_DECIDING: ContextVar[Moment | None] = ContextVar("deciding", default=None)


@contextmanager
def deciding(moment: Moment) -> Iterator[None]:
    """While somebody decides at a moment: every data state refuses what is later than it.

    It holds for the thread, or the task, and for those that inherit its context, as ``asyncio.to_thread`` and
    ``copy_context().run`` do. A plain ``Thread`` or a pool's does not, and nothing tells it from one of
    another run. ``view(moment)`` at or before the moment works; whatever gives a whole commit does not.
    """
    # A copy: whoever is handed the moment must not be able to move the limit by writing into it.
    moment, outer = Moment(moment.session, moment.phase), _DECIDING.get()
    token = _DECIDING.set(moment if outer is None else min(outer, moment))
    try:
        yield
    finally:
        _DECIDING.reset(token)


def decision_moment() -> Moment | None:
    """The moment that is being decided at, see :func:`deciding`; None outside of a decision."""
    return _DECIDING.get()


def _allow(asked: str, moment: Moment | None = None) -> None:
    limit = _DECIDING.get()
    if limit is not None and (moment is None or limit < moment):
        raise FutureRequested(
            f"{asked} shows what is later than {limit}, the moment that is being decided at; read the view "
            "that decide() was given, or ask for view(moment, ref) of an earlier moment",
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
        Whether commits are only loaded from the folder, and none is written there.
    memory_limit
        Bytes of frames and records that the store keeps; equal ones are one and count once. Beyond it the
        commits used longest ago are dropped; without a spill folder they are then gone. The head and the
        commits that living working trees stand on are always kept, even if they alone exceed the limit.
        What snapshots, views and walks still hold elsewhere is not counted.

    Notes
    -----
    Frames are checked, merged and written to disk before the lock is taken. It protects the head, the
    commits, their order of use and the shelf they stand on against threads that read and commit at the same
    time; it is held for the swap only, so readers do not wait for a large update. What is read from a commit
    needs no lock: commits never change.
    """

    def __init__(
        self, spill_dir: str | Path | None = None, *, memory_limit: int = 2 << 30, read_only: bool = False
    ) -> None:
        if memory_limit <= 0:
            raise BadOption(f"memory_limit={memory_limit} bytes; a positive number is wanted")
        self._lock = threading.RLock()
        self._turn = threading.Lock()
        self._source = Path(spill_dir) if spill_dir else None
        self._spill = None if read_only else self._source
        self._limit = memory_limit
        empty = Commit(panels={panel: {} for panel in PANELS})
        self.empty = commit_name(empty)
        self._commits: OrderedDict[str, Commit] = OrderedDict({self.empty: empty})
        self._shelf = CommitCache()
        self._lines: WeakSet[WorkingTree] = WeakSet()
        self._head = self.empty

    @property
    def head(self) -> str:
        """Name of the latest commit."""
        return self._head

    def spill_to(self, folder: str | Path) -> None:
        """From now on write commits to ``folder``, beginning with those in memory."""
        _allow("spill_to()")
        written: set[str] = set()
        while True:
            with self._lock:
                fresh = {ref: tree for ref, tree in self._commits.items() if ref not in written}
                if not fresh:
                    self._source = self._spill = Path(folder)
                    return
            for ref, tree in fresh.items():
                write_commit(Path(folder), ref, tree)
            written.update(fresh)

    def update(
        self, panel: str, frames: Mapping[str, pd.DataFrame], *, base: str | WorkingTree | None = None
    ) -> str:
        """Commit frames on top of ``base`` (default: the head) and return the new commit's name.

        ``ohlcv`` and ``indicators`` merge by session and symbol: a new number replaces an old one, a
        new NaN does not. A ``signal`` replaces the signal of that name; its sessions and symbols must be
        among those of the commit's closes (of all ``ohlcv`` frames where there are none). Either all frames
        enter or none.
        A working tree given as ``base`` moves on to the new commit.

        Raises
        ------
        UnknownField
            If ``panel`` is not one of :data:`PANELS`.
        BadFrame
            If a name or a frame may not enter; names the first offending cell.
        """
        fresh = _freeze_all(panel, frames)

        def change(tree: Commit) -> Commit:
            if panel == "signal":
                _check_signals(fresh, tree.panels["ohlcv"])
            fields = dict(tree.panels[panel])
            for name, frame in fresh.items():
                old = fields.get(name) if panel != "signal" else None
                fields[name] = merge(old, frame) if old else frame
            return replace(tree, panels={**tree.panels, panel: fields})

        return self._commit(change, base)

    def record(self, records: Iterable[Record], *, base: str | WorkingTree | None = None) -> str:
        """Commit records on top of ``base`` (default: the head) and return the new commit's name.

        None of those that are there is replaced: what is said anew about the same thing stands beside what
        was said before. An equal record is the same record.

        Raises
        ------
        BadOption
            If one of them is no :class:`Record`.
        """
        fresh = tuple(records)
        for record in fresh:
            if not isinstance(record, Record):
                raise BadOption(f"{record!r:.60} among the records; a Record is wanted", parameter="records")
        return self._commit(
            lambda tree: replace(tree, records=Records.of([*tree.records.entries, *fresh])), base
        )

    def override(self, *, base: str | None = None, **panels: Mapping[str, pd.DataFrame]) -> str:
        """Commit with whole panels replaced (an empty mapping clears one) and return its name."""
        fresh = {panel: _freeze_all(panel, frames) for panel, frames in panels.items()}

        def change(tree: Commit) -> Commit:
            made = replace(tree, panels={**tree.panels, **fresh})
            _check_signals(fresh.get("signal", {}), made.panels["ohlcv"])
            return made

        return self._commit(change, base)

    def without(self, panel: str, ref: str) -> str:
        """Name of the commit that equals ``ref`` with one panel empty. The head stays where it is."""
        return self._commit(lambda tree: replace(tree, panels={**tree.panels, panel: {}}), ref, to_head=False)

    def adopt(self, frames: Mapping[str, Mapping[str, FrozenFrame]]) -> str:
        """Commit frames that are frozen already, for example another store's view, and return its name."""
        given = {panel: dict(frames.get(panel, {})) for panel in PANELS}
        return self._commit(lambda _: Commit(panels=given), self.empty)

    def snapshot(self, ref: str | None = None) -> Snapshot:
        """Everything of a commit (default: the head), read-only, at a cost that does not grow with it."""
        _allow("snapshot()")
        return Snapshot(*self._find(ref))

    def get_field(self, name: str, ref: str | None = None) -> Fields:
        """One panel of a commit (default: the head)."""
        _allow("get_field()")
        return self.snapshot(ref)[name]

    def view(self, moment: Moment, ref: str | None = None) -> View:
        """A commit (default: the head) as known at ``moment``.

        It costs a copy of all that was known, and nothing where everything was.

        Raises
        ------
        FutureRequested
            If somebody is :func:`deciding` at an earlier moment.
        """
        _allow(f"view({moment})", moment)
        ref, commit = self._find(ref)
        return View(ref, moment, cut(commit, moment))

    def growing_view(self, ref: str | None = None) -> GrowingView:
        """The views of a commit (default: the head) one moment after the other, for one run."""
        _allow("growing_view()")
        return GrowingView(*self._find(ref))

    def trusted_view(self, moment: Moment, ref: str | None = None) -> TrustedView:
        """A commit (default: the head) as known at ``moment``, without a copy, for trusted code alone."""
        _allow("trusted_view()")
        return TrustedView(*self._find(ref), moment)

    def checkout(self, ref: str | None = None) -> WorkingTree:
        """A working tree on ``ref`` (default: an empty commit), for tools that publish side by side.

        The commit it stands on is kept in memory while the working tree lives.

        Raises
        ------
        UnknownCommit
            If ``ref`` is neither in memory nor in the spill folder.
        """
        _allow("checkout()")
        ref, tree = self._find(ref or self.empty)
        with self._lock:
            line = WorkingTree(self, ref, self._keep(ref, tree))
            self._lines.add(line)
        return line

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
        line, given = (base, None) if isinstance(base, WorkingTree) else (None, base)
        tries = 0
        # Updates of one line take turns, so that they need not do their work again for each other.
        with line.turn if line else nullcontext() if given else self._turn:
            while True:
                tries += 1
                # A head that runs keep moving is held still in the end.
                with self._lock if tries > _TRIES else nullcontext():
                    start, tree = line.tip if line else self._find(given)
                    folder, made = self._spill, change(tree)
                    ref = commit_name(made)
                    if folder:
                        write_commit(folder, ref, made)
                    with self._lock:
                        if folder is not self._spill or not (base or start == self._head):
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
    """A line of commits that one run's tools write to, in parallel if they like.

    Attributes
    ----------
    tip
        Name and content of the commit it stands on; the store moves it, and :meth:`move_to`.
    turn
        Held by the update that is moving the tip, so that updates queue.
    """

    def __init__(self, store: DataState, ref: str, tree: Commit) -> None:
        self._store = store
        self.tip = (ref, tree)
        self.turn = threading.Lock()

    @property
    def ref(self) -> str:
        """Name of the commit it stands on."""
        return self.tip[0]

    def update(self, panel: str, frames: Mapping[str, pd.DataFrame]) -> str:
        """Commit on top of this tree, see :meth:`DataState.update`."""
        return self._store.update(panel, frames, base=self)

    def move_to(self, ref: str) -> None:
        """Put the tree on a commit that was made before, on top of this one or anywhere else.

        Raises
        ------
        UnknownCommit
            If ``ref`` is neither in memory nor in the spill folder.
        """
        if ref != self.ref:
            self.tip = self._store.checkout(ref).tip

    def snapshot(self) -> Snapshot:
        """The tree as it stands."""
        _allow("snapshot()")
        return Snapshot(*self.tip)

    def view(self, moment: Moment) -> View:
        """The tree as known at ``moment``."""
        _allow(f"view({moment})", moment)
        ref, commit = self.tip
        return View(ref, moment, cut(commit, moment))


def _check_signals(signals: Mapping[str, FrozenFrame], ohlcv: Mapping[str, FrozenFrame]) -> None:
    for name, signal in signals.items():
        check_axes(name, signal, ohlcv)


def _freeze_all(panel: str, frames: object) -> dict[str, FrozenFrame]:
    if panel not in PANELS:
        raise UnknownField(no_such_name("panel", panel, dict.fromkeys(PANELS)), field=panel)
    if not isinstance(frames, Mapping):
        raise BadFrame(f"{panel} wants a mapping of name to frame, for example {{'close': frame}}")
    return {name: freeze(panel, name, frame) for name, frame in frames.items()}


GLOBAL_DATA_STATE = DataState()
"""The process's default store."""
