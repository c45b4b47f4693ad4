"""What a replay is served: a run's answers as they were recorded, and which of them nobody asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from quantgraph.errors import RunDiverged
from quantgraph.recording.diverge import diverged, question
from quantgraph.recording.entry import ANEW, Entry, Key, Kind, canonical, digest

__all__ = ["Served"]


class Served:
    """The final answers of a run, read once. Safe to use from several threads.

    Attributes
    ----------
    divergence
        The first question that is not there: from then on every other one meets it too, so that nothing
        which takes errors of ours for an answer hides it.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = [entry for entry in entries if entry.final]
        self._keys = [_asked(entry.key, entry.request) for entry in self._entries]
        self._places = {key: place for place, key in enumerate(self._keys)}
        self._begun = max((n for n, entry in enumerate(self._entries) if entry.key.path == ANEW), default=-1)
        self._used: set[int] = set()
        self._lock = threading.Lock()  # what was asked for is counted by all threads
        self.divergence: RunDiverged | None = None

    def find(self, key: Key, request: str) -> Entry:
        """What was answered to a question, the last time it was asked.

        Raises
        ------
        RunDiverged
            If it was not asked, or another one before it was not.
        """
        asked = _asked(key, request)
        with self._lock:
            place = self._places.get(asked, self._at_another_number(asked))
            if self.divergence is None and place is not None:
                self._used.add(place)
                return self._entries[place]
            if self.divergence is None:
                left = [entry for number, entry in enumerate(self._entries) if number not in self._used]
                self.divergence = diverged(key, request, left)
            raise self.divergence

    def _at_another_number(self, asked: Key) -> int | None:
        """Calls made at the same time are numbered as they come, which may be in another order now."""
        return next(
            (
                place
                for place, key in enumerate(self._keys)
                if key.kind == "model" and key._replace(seq=asked.seq) == asked and place not in self._used
            ),
            None,
        )

    def last(self, kind: Kind, digest: str) -> Entry | None:
        """The last answer to a request, wherever it was asked; it does not count as asked for."""
        alike = (entry for entry in reversed(self._entries) if entry.key[2:] == (kind, digest))
        return next(alike, None)

    def unasked(self) -> list[Entry]:
        """What was recorded and never asked for, in order.

        An answer that was asked for again under the same key is not missed; nor is what a resumed run left
        behind when it was begun anew, or made a model call of that path again, with that number or a lower
        one; nor what a tool or a check asked of the source, since it is served itself.
        """
        again = [(place, self._entries[place].key) for place in self._used]
        return [
            entry
            for place, entry in enumerate(self._entries)
            if place > self._begun
            and place not in self._used
            and entry.key.kind != "source"
            and self._places[self._keys[place]] == place
            and not any(
                later > place
                and key.kind == "model"
                and key.path == entry.key.path
                and key.seq <= entry.key.seq
                for later, key in again
            )
        ]


def _asked(key: Key, request: str) -> Key:
    """What a question is known by when it does not matter which model it is put to."""
    return key._replace(digest=digest(canonical(question(key, request)))) if key.kind == "model" else key
