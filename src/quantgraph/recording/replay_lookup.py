"""What a replay is served: a run's answers as they were recorded, and which of them nobody asked for."""

from __future__ import annotations

import difflib
import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import RunDiverged
from quantgraph.recording.entry import RESTART_PATH, Entry, Key, Kind, without_number

__all__ = ["Change", "ReplayLookup", "changes", "diff", "divergence_error", "nearest", "question"]

_WHO = frozenset({"model", "base_url", "params"})
_LINES, _WIDTH = 40, 120
_MOST, _NAMED = 100, 4


def divergence_error(key: Key, request: str, entries: Sequence[Entry]) -> RunDiverged:
    """The error of a replay that asks something else than the recorded run did.

    Parameters
    ----------
    entries
        What the recorded run asked and the replay has not asked yet, in order.

    Returns
    -------
    RunDiverged
        ``data`` has ``path``, ``seq`` and ``kind`` of the question; ``changed``, the places in it that
        differ, such as ``messages[0].content``; and ``diff``, unified, at most forty lines, empty if there is
        nothing to compare it with.
    """
    asked = f"{key.path}: {key.kind} request number {key.seq}"
    near = nearest(key, request, entries)
    if near is None:
        told, places, shown = f"{asked} was not made by the recorded run", [], ""
    else:
        found = islice(changes(question(near.key, near.request), question(key, request)), _MOST)
        places, shown = [change.place for change in found], diff(near, key, request)
        more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
        there = "" if near.key[:2] == key[:2] else f"; the nearest is {near.key.path} number {near.key.seq}"
        told = f"{asked} is not what was recorded{there}; changed: {', '.join(places[:_NAMED])}{more}"
    return RunDiverged(told, path=key.path, seq=key.seq, kind=key.kind, changed=places, diff=shown)


def question(key: Key, request: str) -> Any:
    """What is asked, as JSON; of a model without whom: a replay needs no model, so it has none to name."""
    told = json.loads(request) if request else None
    if key.kind != "model" or not isinstance(told, dict):
        return told
    return {name: value for name, value in told.items() if name not in _WHO}


def nearest(key: Key, request: str, entries: Sequence[Entry]) -> Entry | None:
    """What was asked there under that number; else the next number; else anywhere: the most alike."""
    alike = [entry for entry in entries if entry.key.kind == key.kind]
    there = [entry for entry in alike if entry.key.path == key.path]
    if there:
        least = min(abs(entry.key.seq - key.seq) for entry in there)
        alike = [entry for entry in there if abs(entry.key.seq - key.seq) == least]
    lines = _pretty(question(key, request))

    def likeness(entry: Entry) -> float:
        told = _pretty(question(entry.key, entry.request))
        return difflib.SequenceMatcher(None, told, lines, autojunk=False).ratio()

    return max(alike, key=likeness) if len(alike) > 1 else next(iter(alike), None)


class Change(NamedTuple):
    """A place in a JSON value, and what two such values have there: JSON, empty where there is nothing."""

    place: str
    old: str
    new: str


def changes(old: Any, new: Any, place: str = "") -> Iterator[Change]:
    """The places in which two JSON values differ.

    >>> [change.place for change in changes({"a": [1, {"b": 2}], "c": 0}, {"a": [1, {"b": 3}, 4], "d": 0})]
    ['a[1].b', 'a[2]', 'c', 'd']
    """
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _inside(old, new, {name: f"{place}.{name}".lstrip(".") for name in sorted({*old, *new})})
    elif isinstance(old, list) and isinstance(new, list):
        numbers = range(max(len(old), len(new)))
        yield from _inside(
            dict(enumerate(old)), dict(enumerate(new)), {number: f"{place}[{number}]" for number in numbers}
        )
    elif old != new:
        yield Change(place or "all", canonical_json(old), canonical_json(new))


def _inside(old: dict[Any, Any], new: dict[Any, Any], places: dict[Any, str]) -> Iterator[Change]:
    for name, place in places.items():
        if name in old and name in new:
            yield from changes(old[name], new[name], place)
        else:
            yield Change(place, *(canonical_json(side[name]) if name in side else "" for side in (old, new)))


def diff(recorded: Entry, key: Key, request: str) -> str:
    """The two requests, pretty, as a unified diff that can be read."""
    lines = list(
        difflib.unified_diff(
            _pretty(question(recorded.key, recorded.request)),
            _pretty(question(key, request)),
            f"recorded {recorded.key.path} #{recorded.key.seq} {recorded.key.kind}",
            f"replayed {key.path} #{key.seq} {key.kind}",
            n=2,
            lineterm="",
        )
    )
    more = [f"... and {len(lines) - _LINES} more lines"] if len(lines) > _LINES else []
    return "\n".join(lines[:_LINES] + more)


def _pretty(asked: Any) -> list[str]:
    """A line a value, long texts by their own lines."""
    text = json.dumps(_by_lines(asked), ensure_ascii=False, sort_keys=True, indent=1)
    return [
        line[start : start + _WIDTH]
        for line in text.splitlines()
        for start in range(0, max(len(line), 1), _WIDTH)
    ]


def _by_lines(value: Any) -> Any:
    if isinstance(value, str) and "\n" in value:
        return value.splitlines()
    if isinstance(value, dict):
        return {name: _by_lines(inner) for name, inner in value.items()}
    return [_by_lines(inner) for inner in value] if isinstance(value, list) else value


class ReplayLookup:
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
            self._numbers[without_number(key)].add(key.seq)
        self._asked = [_asked(entry.key, entry.request) for entry in self._entries]
        self._alike = {key: place for place, key in enumerate(self._asked)}
        self._begun = max(
            (n for n, entry in enumerate(self._entries) if entry.key.path == RESTART_PATH), default=-1
        )
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
                self.divergence = divergence_error(key, request, left)
            raise self.divergence

    def numbers(self, key: Key) -> list[int]:
        """Under which numbers a path's request was answered, ascending."""
        return sorted(self._numbers.get(without_number(key), ()))

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
                if without_number(key) == without_number(asked)
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
        facts = {without_number(key) for _, key in again if key.kind == "fact"}
        return [
            entry
            for place, entry in enumerate(self._entries)
            if place > self._begun
            and place not in self._used
            and entry.key.kind != "source"
            and without_number(entry.key) not in facts
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
