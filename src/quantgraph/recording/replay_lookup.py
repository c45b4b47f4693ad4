"""What a replay is served: a run's answers as they were recorded, and which of them nobody asked for."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import RunDiverged
from quantgraph.recording.divergence import diverged, question
from quantgraph.recording.entry import ANEW, Entry, Key, Kind, unnumbered

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
        self._places = {entry.key: place for place, entry in enumerate(self._entries)}
        self._numbers: defaultdict[Key, set[int]] = defaultdict(set)
        for key in self._places:
            self._numbers[unnumbered(key)].add(key.seq)
        self._asked = [_asked(entry.key, entry.request) for entry in self._entries]
        self._alike = {key: place for place, key in enumerate(self._asked)}
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
        with self._lock:
            place = self._places.get(key)
            if place is None:
                place = self._of_anybody(_asked(key, request))
            if self.divergence is None and place is not None:
                self._used.add(place)
                return self._entries[place]
            if self.divergence is None:
                left = [entry for number, entry in enumerate(self._entries) if number not in self._used]
                self.divergence = diverged(key, request, left)
            raise self.divergence

    def numbers(self, key: Key) -> list[int]:
        """Under which numbers a path's request was answered, ascending."""
        return sorted(self._numbers.get(unnumbered(key), ()))

    def _of_anybody(self, asked: Key) -> int | None:
        """A question put to another model than then, under that number or else another one.

        A fact, which is so for a whole run, may be found out at another number too: calls made at the same
        time are numbered as they come.
        """
        if asked in self._alike:
            return self._alike[asked]
        return next(
            (
                place
                for place, key in enumerate(self._asked)
                if unnumbered(key) == unnumbered(asked)
                and (key.kind == "fact" or (key.kind == "model" and place not in self._used))
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
        one; nor what a tool or a check asked of the source, since it is served itself; nor a fact that was
        asked for at another number.
        """
        again = [(place, self._entries[place].key) for place in self._used]
        facts = {unnumbered(key) for _, key in again if key.kind == "fact"}
        return [
            entry
            for place, entry in enumerate(self._entries)
            if place > self._begun
            and place not in self._used
            and entry.key.kind != "source"
            and unnumbered(entry.key) not in facts
            and self._places[entry.key] == place
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
    return (
        key._replace(digest=content_hash(canonical_json(question(key, request))))
        if key.kind == "model"
        else key
    )
