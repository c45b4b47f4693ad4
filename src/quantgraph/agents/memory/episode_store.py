"""Where episodes are kept: in memory, in a JSONL file that processes share, or in a store of LangGraph."""

from __future__ import annotations

import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.files import storage_errors
from quantgraph.agents.memory.decision_episode import DecisionEpisode
from quantgraph.errors import BadFile, BadOption

if os.name == "posix":
    import fcntl

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

__all__ = ["EpisodeFile", "EpisodeStore", "GraphStore"]

_PAGE = 1000


class EpisodeStore:
    """Episodes by id in this process, sorted by simulated date. An episode replaces the one with its id.

    The lock protects what was read and written: agents in several threads share a store.
    """

    name = ""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._episodes: dict[str, DecisionEpisode] = {}
        self._sorted: dict[str | None, tuple[DecisionEpisode, ...]] = {}

    def add(self, episode: DecisionEpisode) -> None:
        """Keep an episode; one that is there already changes nothing."""
        with self._lock:
            self._take(episode)

    def episodes(self, symbol: str | None = None) -> tuple[DecisionEpisode, ...]:
        """All episodes, or those of a symbol; newest first, and of one day by symbol."""
        with self._lock:
            if symbol not in self._sorted:
                found = [each for each in self._episodes.values() if symbol in (None, each.symbol)]
                by_symbol = sorted(found, key=lambda each: (each.symbol, each.id))
                by_symbol.sort(key=lambda each: each.date, reverse=True)
                self._sorted[symbol] = tuple(by_symbol)
            return self._sorted[symbol]

    def _take(self, episode: DecisionEpisode) -> None:
        before = self._episodes.get(episode.id)
        self._episodes[episode.id] = episode
        for symbol in (None, episode.symbol, before.symbol if before else None):
            self._sorted.pop(symbol, None)

    def _forget(self) -> None:
        self._episodes.clear()
        self._sorted.clear()


class _OutsideStore(EpisodeStore, ABC):
    """Episodes that live outside of this process, read before each use."""

    def add(self, episode: DecisionEpisode) -> None:
        with self._lock:
            self._write(episode)

    def episodes(self, symbol: str | None = None) -> tuple[DecisionEpisode, ...]:
        with self._lock:
            self._read()
            return super().episodes(symbol)

    @abstractmethod
    def _read(self) -> None:
        """Take what is new."""

    @abstractmethod
    def _write(self, episode: DecisionEpisode) -> None:
        """Take what is new, and write the episode unless it is there already."""


class EpisodeFile(_OutsideStore):
    """A JSONL file, one episode a line, to which processes append under a lock.

    It is made, with its folder, by the first episode. A later line with the same id replaces an earlier one.

    Raises
    ------
    BadFile
        At each use, if a line is damaged: its file and number are named, and nothing is written.
    StorageUnavailable
        If the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.name = path.name
        self._offset = self._lines = 0

    def _read(self) -> None:
        with storage_errors(self.path):
            if not self.path.exists():
                self._forget()
            elif self.path.stat().st_size != self._offset:
                with self.path.open("rb") as file, _locked(file, write=False):
                    self._read_from(file)

    def _write(self, episode: DecisionEpisode) -> None:
        with storage_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b") as file, _locked(file, write=True):
                self._read_from(file)
                if self._episodes.get(episode.id) == episode:
                    return
                line = f"{canonical_json(episode.to_json())}\n".encode()
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        self._offset += len(line)
        self._lines += 1
        self._take(episode)

    def _read_from(self, file: IO[bytes]) -> None:
        """Take the lines behind those read before; all of them if the file was replaced by a shorter one."""
        if file.seek(0, os.SEEK_END) < self._offset:
            self._forget()
        file.seek(self._offset)
        for line in file:
            self._take(self._episode(line, self._lines + 1))
            self._offset += len(line)
            self._lines += 1

    def _forget(self) -> None:
        super()._forget()
        self._offset = self._lines = 0

    def _episode(self, line: bytes, number: int) -> DecisionEpisode:
        try:
            if not line.endswith(b"\n"):
                raise ValueError("it is cut off")
            return DecisionEpisode.from_json(json.loads(line.decode()))
        except (ValueError, RecursionError) as error:
            reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error) or "too deep"
            raise BadFile(
                f"{self.path} line {number} is not an episode: {reason}; mend or remove the line",
                path=str(self.path),
                line=number,
            ) from error


class GraphStore(_OutsideStore):
    """A namespace of a LangGraph ``BaseStore``, one item an episode.

    Raises
    ------
    BadFile
        At each use, if an item is not an episode.
    """

    def __init__(self, store: BaseStore, namespace: tuple[str, ...]) -> None:
        super().__init__()
        self._store, self._namespace = store, namespace
        self.name = "/".join(namespace)

    def _read(self) -> None:
        self._forget()
        read = 0
        while True:
            page = self._store.search(self._namespace, limit=_PAGE, offset=read)
            for item in page:
                if tuple(item.namespace) == self._namespace:
                    self._take(self._episode(item.key, item.value))
            read += len(page)
            if len(page) < _PAGE:
                return

    def _write(self, episode: DecisionEpisode) -> None:
        found, body = self._store.get(self._namespace, episode.id), episode.to_json()
        if found is None or found.value != body:
            self._store.put(self._namespace, episode.id, body, index=False)

    def _episode(self, key: str, value: object) -> DecisionEpisode:
        try:
            return DecisionEpisode.from_json(value)
        except BadOption as error:
            raise BadFile(
                f"item {key!r:.80} of the store {self.name} is not an episode: {error}", path=self.name
            ) from error


@contextmanager
def _locked(file: IO[bytes], *, write: bool) -> Iterator[None]:
    """Hold the file's lock, so that no reader sees half a line; closing the file lets go of it."""
    if os.name == "posix":
        fcntl.flock(file, fcntl.LOCK_EX if write else fcntl.LOCK_SH)
    yield
