"""The data state: a thread-safe store of panels with immutable commits, a tiny git.

``GLOBAL_DATA_STATE`` is the process's default store. ``update`` makes a new commit and returns its
name; a run keeps that name (``data_ref``) and reads by it, so that runs cannot see each other.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from weakref import WeakSet

import pandas as pd

from quantgraph._frames import FrozenFrame, freeze, merge
from quantgraph._objects import PANELS, Tree, read_tree, tree_name, write_tree
from quantgraph._views import Fields, Snapshot, View, unknown
from quantgraph.errors import BadFrame, BadOption, UnknownCommit, UnknownField
from quantgraph.market.moment import Moment

__all__ = ["GLOBAL_DATA_STATE", "PANELS", "DataState", "Fields", "Snapshot", "View", "WorkingTree"]

_TRIES = 3


class DataState:
    """A thread-safe store of the panels ``ohlcv``, ``indicators`` and ``signal``.

    Parameters
    ----------
    spill_dir
        Folder to which every commit is also written (Arrow IPC), and from which a ref that is not in
        memory is loaded, in this process or another.
    memory_limit
        Bytes of frames that the store keeps; equal frames are one buffer and count once. Beyond it the
        commits used longest ago are dropped; without a spill folder they are then gone. The head and the
        commits that living working trees stand on are always kept, even if they alone exceed the limit.
        Frames that snapshots and views still hold elsewhere are not counted.

    Notes
    -----
    Frames are checked, merged and written to disk before the lock is taken. It protects the head, the
    frames, their order of use and the byte count against threads that read and commit at the same time;
    it is held for the swap only, so readers do not wait for a large update. What is read from a commit
    needs no lock: commits never change.
    """

    def __init__(self, spill_dir: str | Path | None = None, *, memory_limit: int = 2 << 30) -> None:
        if memory_limit <= 0:
            raise BadOption(f"memory_limit={memory_limit} bytes; a positive number is wanted")
        self._lock = threading.RLock()
        self._turn = threading.Lock()
        self._spill = Path(spill_dir) if spill_dir else None
        self._limit = memory_limit
        empty: Tree = {panel: {} for panel in PANELS}
        self.empty = tree_name(empty)
        self._commits: OrderedDict[str, Tree] = OrderedDict({self.empty: empty})
        self._frames: dict[str, FrozenFrame] = {}
        self._uses: Counter[str] = Counter()
        self._lines: WeakSet[WorkingTree] = WeakSet()
        self._held = 0
        self._head = self.empty

    @property
    def head(self) -> str:
        """Name of the latest commit."""
        return self._head

    def spill_to(self, folder: str | Path) -> None:
        """From now on write commits to ``folder``, beginning with those in memory."""
        written: set[str] = set()
        while True:
            with self._lock:
                fresh = {ref: tree for ref, tree in self._commits.items() if ref not in written}
                if not fresh:
                    self._spill = Path(folder)
                    return
            for ref, tree in fresh.items():
                write_tree(Path(folder), ref, tree)
            written.update(fresh)

    def update(
        self, panel: str, frames: Mapping[str, pd.DataFrame], *, base: str | WorkingTree | None = None
    ) -> str:
        """Commit frames on top of ``base`` (default: the head) and return the new commit's name.

        ``ohlcv`` and ``indicators`` merge by session and symbol: a new number replaces an old one, a
        new NaN does not. A ``signal`` replaces the signal of that name. Either all frames enter or none.
        A working tree given as ``base`` moves on to the new commit.

        Raises
        ------
        UnknownField
            If ``panel`` is not one of :data:`PANELS`.
        BadFrame
            If a name or a frame may not enter; names the first offending cell.
        """
        fresh = _freeze_all(panel, frames)

        def change(tree: Tree) -> Tree:
            fields = dict(tree[panel])
            for name, frame in fresh.items():
                old = fields.get(name) if panel != "signal" else None
                fields[name] = merge(old, frame) if old else frame
            return {**tree, panel: fields}

        return self._commit(change, base)

    def override(self, *, base: str | None = None, **panels: Mapping[str, pd.DataFrame]) -> str:
        """Commit with whole panels replaced (an empty mapping clears one) and return its name."""
        fresh = {panel: _freeze_all(panel, frames) for panel, frames in panels.items()}
        return self._commit(lambda tree: {**tree, **fresh}, base)

    def without(self, panel: str, ref: str) -> str:
        """Name of the commit that equals ``ref`` with one panel empty. The head stays where it is."""
        return self._commit(lambda tree: {**tree, panel: {}}, ref, to_head=False)

    def adopt(self, frames: Mapping[str, Mapping[str, FrozenFrame]]) -> str:
        """Commit frames that are frozen already, for example another store's view, and return its name."""
        return self._commit(lambda _: {panel: dict(frames.get(panel, {})) for panel in PANELS}, self.empty)

    def snapshot(self, ref: str | None = None) -> Snapshot:
        """Everything of a commit (default: the head), read-only, at a cost that does not grow with it."""
        return Snapshot(*self._find(ref))

    def get_field(self, name: str, ref: str | None = None) -> Fields:
        """One panel of a commit (default: the head)."""
        return self.snapshot(ref)[name]

    def view(self, moment: Moment, ref: str | None = None) -> View:
        """A commit (default: the head) as known at ``moment``."""
        return View(*self._find(ref), moment)

    def checkout(self, ref: str | None = None) -> WorkingTree:
        """A working tree on ``ref`` (default: an empty commit), for tools that publish side by side.

        The commit it stands on is kept in memory while the working tree lives.

        Raises
        ------
        UnknownCommit
            If ``ref`` is neither in memory nor in the spill folder.
        """
        ref, tree = self._find(ref or self.empty)
        with self._lock:
            line = WorkingTree(self, ref, self._keep(ref, tree))
            self._lines.add(line)
        return line

    def _find(self, ref: str | None) -> tuple[str, Tree]:
        with self._lock:
            ref = ref or self._head
            tree = self._commits.get(ref)
            if tree is not None:
                self._commits.move_to_end(ref)
                return ref, tree
        return ref, self._load(ref)

    def _load(self, ref: str) -> Tree:
        tree = read_tree(self._spill, ref) if self._spill else None
        if tree is None:
            place = (
                f"in memory or in {self._spill}" if self._spill else "in memory, and there is no spill folder"
            )
            raise UnknownCommit(
                f"commit {ref[:12]} is not {place}; fetch the data again or give spill_dir", ref=ref
            )
        with self._lock:
            return self._keep(ref, tree)

    def _commit(
        self, change: Callable[[Tree], Tree], base: str | WorkingTree | None, *, to_head: bool = True
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
                    ref = tree_name(made)
                    if folder:
                        write_tree(folder, ref, made)
                    with self._lock:
                        if folder is not self._spill or not (base or start == self._head):
                            continue
                        if to_head:
                            self._head = ref
                        made = self._keep(ref, made)
                        if line:
                            line.tip = ref, made
                        return ref

    def _keep(self, ref: str, tree: Tree) -> Tree:
        if ref not in self._commits:
            self._commits[ref] = {
                panel: {name: self._intern(frame) for name, frame in fields.items()}
                for panel, fields in tree.items()
            }
        self._commits.move_to_end(ref)
        if self._held > self._limit:
            self._evict({ref, self._head, self.empty, *(line.ref for line in self._lines)})
        return self._commits[ref]

    def _intern(self, frame: FrozenFrame) -> FrozenFrame:
        if not self._uses[frame.digest]:
            self._frames[frame.digest] = frame
            self._held += frame.nbytes
        self._uses[frame.digest] += 1
        return self._frames[frame.digest]

    def _evict(self, kept: set[str]) -> None:
        for ref in [ref for ref in self._commits if ref not in kept]:
            for frame in _frames(self._commits.pop(ref)):
                self._uses[frame.digest] -= 1
                if not self._uses[frame.digest]:
                    self._held -= frame.nbytes
                    del self._frames[frame.digest], self._uses[frame.digest]
            if self._held <= self._limit:
                break


class WorkingTree:
    """A line of commits that one run's tools write to, in parallel if they like.

    Attributes
    ----------
    tip
        Name and content of the commit it stands on; only the store moves it.
    turn
        Held by the update that is moving the tip, so that updates queue.
    """

    def __init__(self, store: DataState, ref: str, tree: Tree) -> None:
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

    def snapshot(self) -> Snapshot:
        """The tree as it stands."""
        return Snapshot(*self.tip)

    def view(self, moment: Moment) -> View:
        """The tree as known at ``moment``."""
        return View(*self.tip, moment)


def _freeze_all(panel: str, frames: object) -> dict[str, FrozenFrame]:
    if panel not in PANELS:
        raise UnknownField(unknown("panel", panel, dict.fromkeys(PANELS)), field=panel)
    if not isinstance(frames, Mapping):
        raise BadFrame(f"{panel} wants a mapping of name to frame, for example {{'close': frame}}")
    return {name: freeze(panel, name, frame) for name, frame in frames.items()}


def _frames(tree: Tree) -> Iterator[FrozenFrame]:
    return (frame for fields in tree.values() for frame in fields.values())


GLOBAL_DATA_STATE = DataState()
"""The process's default store."""
