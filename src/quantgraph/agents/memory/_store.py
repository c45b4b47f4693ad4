"""Where episodes are kept: in memory, in a JSONL file that processes share, or in a store of LangGraph."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.files import storage_errors
from quantgraph.agents.memory._episodes import DecisionEpisode
from quantgraph.errors import BadFile, BadOption

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore


if os.name == "posix":
    import fcntl


_PAGE = 1000


class EpisodeStore:
    """Episodes by id in this process, sorted by simulated date. An episode replaces the one with its id."""

    name = ""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._episodes: dict[str, DecisionEpisode] = {}
        self._of_symbol: dict[str, dict[str, DecisionEpisode]] = {}
        self._sorted: dict[str | None, tuple[DecisionEpisode, ...]] = {}

    def refresh(self) -> None:
        """Take what others have written since."""

    def add(self, episodes: Sequence[DecisionEpisode]) -> None:
        """Keep episodes; one that is there already changes nothing."""
        with self._lock:
            for each in episodes:
                self._take(each)

    def discard(self, episode_id: str) -> None:
        """Drop an episode, if it is there."""
        with self._lock:
            self._drop(episode_id)

    def episodes(self, symbol: str | None = None) -> tuple[DecisionEpisode, ...]:
        """All episodes, or those of a symbol; newest first, and of one day by symbol."""
        with self._lock:
            if symbol not in self._sorted:
                found = self._episodes if symbol is None else self._of_symbol.get(symbol, {})
                by_symbol = sorted(found.values(), key=lambda each: (each.symbol, each.id))
                by_symbol.sort(key=lambda each: each.date, reverse=True)
                self._sorted[symbol] = tuple(by_symbol)
            return self._sorted[symbol]

    def _take(self, episode: DecisionEpisode) -> None:
        self._drop(episode.id)
        self._episodes[episode.id] = episode
        self._of_symbol.setdefault(episode.symbol, {})[episode.id] = episode
        self._unsort(episode)

    def _drop(self, episode_id: str) -> None:
        episode = self._episodes.pop(episode_id, None)
        if episode is not None:
            del self._of_symbol[episode.symbol][episode_id]
            self._unsort(episode)

    def _unsort(self, episode: DecisionEpisode) -> None:
        for symbol in (None, episode.symbol):
            self._sorted.pop(symbol, None)

    def _forget(self) -> None:
        for kept in (self._episodes, self._of_symbol, self._sorted):
            kept.clear()


class EpisodeFile(EpisodeStore):
    """A JSONL file, one episode a line, to which processes append under a lock.

    It is made, with its folder, by the first episode.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.name = path.name
        self._offset = self._lines = 0

    def refresh(self) -> None:
        """Take what others have written since."""
        with self._lock, storage_errors(self.path):
            if not self.path.exists():
                self._forget()
            elif self.path.stat().st_size != self._offset:
                with self.path.open("rb") as file, _locked(file, write=False):
                    self._read_from(file)

    def add(self, episodes: Sequence[DecisionEpisode]) -> None:
        """Write the episodes that are not there already."""
        if not episodes:
            return
        with self._appending() as file:
            new = [each for each in episodes if self._episodes.get(each.id) != each]
            self._append(file, [each.to_json() for each in new])

    def discard(self, episode_id: str) -> None:
        """Drop an episode, if it is there."""
        if not self.path.exists():
            return
        with self._appending() as file:
            self._append(file, [{"discarded": episode_id}] if episode_id in self._episodes else [])

    @contextmanager
    def _appending(self) -> Iterator[IO[bytes]]:
        """The file, read to its end, and locked."""
        with self._lock, storage_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b") as file, _locked(file, write=True):
                self._read_from(file)
                yield file

    def _append(self, file: IO[bytes], bodies: Sequence[Mapping[str, Any]]) -> None:
        if bodies:
            file.write("".join(f"{canonical_json(body)}\n" for body in bodies).encode())
            file.flush()
            os.fsync(file.fileno())
            self._read_from(file)

    def _read_from(self, file: IO[bytes]) -> None:
        """Take the lines behind those read before; all of them if the file was replaced by a shorter one."""
        if file.seek(0, os.SEEK_END) < self._offset:
            self._forget()
        file.seek(self._offset)
        for line in file:
            self._take_line(line, self._lines + 1)
            self._offset += len(line)
            self._lines += 1

    def _forget(self) -> None:
        super()._forget()
        self._offset = self._lines = 0

    def _take_line(self, line: bytes, number: int) -> None:
        try:
            if not line.endswith(b"\n"):
                raise ValueError("it is cut off")
            body = json.loads(line.decode())
            if isinstance(body, dict) and body.keys() == {"discarded"}:
                self._drop(str(body["discarded"]))
            else:
                self._take(DecisionEpisode.from_json(body))
        except (ValueError, RecursionError) as error:
            reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error) or "too deep"
            raise BadFile(
                f"{self.path} line {number} is not an episode: {reason}; mend or remove the line",
                path=str(self.path),
                line=number,
            ) from error


class GraphStore(EpisodeStore):
    """A namespace of a LangGraph ``BaseStore``, one item an episode."""

    def __init__(self, store: BaseStore, namespace: tuple[str, ...]) -> None:
        super().__init__()
        self._store, self._namespace = store, namespace
        self.name = "/".join(namespace)
        self._read: dict[str, tuple[object, DecisionEpisode]] = {}

    def refresh(self) -> None:
        """Take what others have written since."""
        with self._lock:
            self._forget()
            read = 0
            while page := self._store.search(self._namespace, limit=_PAGE, offset=read):
                for item in page:
                    if tuple(item.namespace) == self._namespace:
                        self._take(self._episode(item.key, item.value))
                read += len(page)

    def add(self, episodes: Sequence[DecisionEpisode]) -> None:
        """Write the episodes that are not there already."""
        for each in episodes:
            found, body = self._store.get(self._namespace, each.id), each.to_json()
            if found is None or found.value != body:
                self._store.put(self._namespace, each.id, body, index=False)

    def discard(self, episode_id: str) -> None:
        """Drop an episode, if it is there."""
        self._store.delete(self._namespace, episode_id)

    def _episode(self, key: str, value: object) -> DecisionEpisode:
        """The episode of an item, read once for each value."""
        before = self._read.get(key)
        if before is None or before[0] != value:
            try:
                before = self._read[key] = deepcopy(value), DecisionEpisode.from_json(value)
            except BadOption as error:
                raise BadFile(
                    f"item {key!r:.80} of the store {self.name} is not an episode: {error}", path=self.name
                ) from error
        return before[1]


@contextmanager
def _locked(file: IO[bytes], *, write: bool) -> Iterator[None]:
    """Hold the file's lock, so that no reader sees half a line; closing the file lets go of it."""
    if os.name == "posix":
        fcntl.flock(file, fcntl.LOCK_EX if write else fcntl.LOCK_SH)
    yield
