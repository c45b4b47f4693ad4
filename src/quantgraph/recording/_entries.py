"""Entries of a recording: what was asked, where, and the reply or error; and how a replay is served them.

A request that is not among them is the error of a replay, which has both sides. Network access is refused.
"""

from __future__ import annotations

import difflib
import json
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from quantgraph import errors
from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import BudgetExceeded, QuantGraphError, RunDiverged

Kind = Literal["model", "tool", "source", "code", "answer", "fact"]
"""Who was asked: a model, an agent's tool, the data source, a code process, a person; or a fact about the run
that is determined once."""

_ERROR_CLASSES: dict[str, type[QuantGraphError]] = {
    kind.code: kind for name in errors.__all__ for kind in [getattr(errors, name)]
}


RESTART_PATH = "begun anew"
"""Path of the entry that marks a restart of the run: entries before it need not be asked again."""
GROWN_REQUEST: Final = '{"data":"grown"}'
GROWN: Final = content_hash(GROWN_REQUEST)
"""Digest of the mark of a run that goes on to a later end, on longer data."""


class Key(NamedTuple):
    """Identifies a request: in a resumed or replayed run the same request has the same key.

    ``path`` is the node's, from the outermost graph down, joined by ``/`` (in a decision the session is its
    last part). ``seq`` is the number of a model call at that path, from 1; for other kinds, the number of
    model calls made there before. ``digest`` is the request's content hash.
    """

    path: str
    seq: int
    kind: Kind
    digest: str


def without_number(key: Key) -> Key:
    """Return the key with no number: the same request at the same path, whenever it is made."""
    return key._replace(seq=0)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One attempt of a request.

    Attributes
    ----------
    attempt
        From 1; each but the last was repeated.
    final
        Whether the caller got this attempt's ``reply`` or ``error``.
    request, reply
        Canonical JSON texts; ``reply`` is None after an error.
    error
        ``{code, message, data}`` of a ``QuantGraphError``.
    facts
        Of a model call: ``role``, ``model``, ``prompt_tokens``, ``completion_tokens`` (None = unknown),
        ``cost`` (text, None = unknown), ``seconds``, ``finish``, ``cached``. Of an answer not from a
        person: ``role``, which is ``default`` or ``callable``.
    """

    key: Key
    request: str
    attempt: int = 1
    final: bool = True
    reply: str | None = None
    error: Mapping[str, Any] | None = None
    session: str | None = None
    at: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def outcome(self) -> Any:
        """Return the reply as a JSON value.

        Raises
        ------
        QuantGraphError
            The recorded error, of its own class.
        """
        if self.error is not None:
            raise error_of(self.error)
        return json.loads(self.reply or "null")


def error_json(error: QuantGraphError) -> dict[str, Any]:
    """Return an error as JSON, with the part of its data that is JSON."""
    data = {key: value for key, value in error.data.items() if _is_json(value)}
    return {"code": error.code, "message": error.message, "data": data}


def error_of(value: Mapping[str, Any]) -> QuantGraphError:
    """Return the error that :func:`error_json` wrote."""
    kind = _ERROR_CLASSES.get(value["code"], QuantGraphError)
    return kind(value["message"], **value.get("data", {}))


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


_MODEL_FIELDS = frozenset({"model", "base_url", "params"})
"""Fields of a model request that say which model is asked."""
_DIFF_LINES, _DIFF_WIDTH = 40, 120
_MAX_CHANGES, _NAMED_CHANGES = 100, 4


class ReplayLookup:
    """The final entries of a run, read once. Safe to use from several threads."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = [entry for entry in entries if entry.final]
        self._places = {entry.key: place for place, entry in enumerate(self._entries)}
        self._numbers: defaultdict[Key, set[int]] = defaultdict(set)
        for key in self._places:
            self._numbers[without_number(key)].add(key.seq)
        self._keys = [_model_independent(entry.key, entry.request) for entry in self._entries]
        self._alike = {key: place for place, key in enumerate(self._keys)}
        self._restart = max(
            (n for n, entry in enumerate(self._entries) if entry.key.path == RESTART_PATH), default=-1
        )
        self._refused = {entry.session: entry for entry in self._entries if _ends_session_budget(entry)}
        self._used: set[int] = set()
        self._lock = threading.Lock()  # guards _used and divergence
        self.divergence: RunDiverged | None = None

    def find(self, key: Key, request: str) -> Entry:
        """Return the last entry of a request."""
        with self._lock:
            place = self._places.get(key)
            if place is None:
                place = self._find_alike(_model_independent(key, request))
            if place is None and (refused := self._refusal(key)):
                return refused
            if self.divergence is None and place is not None:
                self._used.add(place)
                return self._entries[place]
            if self.divergence is None:
                left = [entry for number, entry in enumerate(self._entries) if number not in self._used]
                self.divergence = _divergence_error(key, request, left)
            raise self.divergence

    def _refusal(self, key: Key) -> Entry | None:
        """Return the end of a session's budget, which refuses every later model call of the session.

        Which calls were made and refused before it ended the decision, was for the order of threads to say.
        """
        sessions = key.path.split("/") if key.kind == "model" else ()
        return next((self._refused[session] for session in sessions if session in self._refused), None)

    def numbers(self, key: Key) -> list[int]:
        """Return the numbers under which a path's request was answered, ascending."""
        return sorted(self._numbers.get(without_number(key), ()))

    def _find_alike(self, wanted: Key) -> int | None:
        """Find a request made to another model, or under another number.

        A fact, which holds for the whole run, may have another number too: concurrent calls are numbered in
        the order in which they arrive.
        """
        if wanted in self._alike:
            return self._alike[wanted]
        return next(
            (
                place
                for place, key in enumerate(self._keys)
                if without_number(key) == without_number(wanted)
                and (key.kind == "fact" or (key.kind == "model" and place not in self._used))
            ),
            None,
        )

    def last(self, kind: Kind, digest: str) -> Entry | None:
        """Return the last answer to a request at any path; it is not marked as used."""
        alike = (entry for entry in reversed(self._entries) if entry.key[2:] == (kind, digest))
        return next(alike, None)

    def unused_entries(self) -> list[Entry]:
        """Return the entries that were recorded but not used, in order.

        Not included are: an earlier answer under a key that was used; entries before a restart of the run;
        entries at a path where a later model call with the same or a lower number was used (a resumed run
        repeated it); requests to the source inside tool calls whose recorded result was used; facts used
        under another number; and requests of a session whose budget ended, where the order of threads decides
        which of them are made.
        """
        used = [(place, self._entries[place].key) for place in self._used]
        facts = {without_number(key) for _, key in used if key.kind == "fact"}
        return [
            entry
            for place, entry in enumerate(self._entries)
            if place > self._restart
            and place not in self._used
            and entry.key.kind != "source"
            and entry.session not in self._refused
            and without_number(entry.key) not in facts
            and self._places[entry.key] == place
            and not any(
                later > place
                and key.kind == "model"
                and key.path == entry.key.path
                and key.seq <= entry.key.seq
                for later, key in used
            )
        ]


def _ends_session_budget(entry: Entry) -> bool:
    error = entry.error or {}
    return error.get("code") == BudgetExceeded.code and error.get("data", {}).get("of") == "session"


def _model_independent(key: Key, request: str) -> Key:
    """Return a key that does not depend on which model is asked."""
    return (
        key._replace(digest=content_hash(canonical_json(_comparable(key, request))))
        if key.kind == "model"
        else key
    )


def _divergence_error(key: Key, request: str, entries: Sequence[Entry]) -> RunDiverged:
    """Return the error of a replay whose request is not recorded."""
    subject = f"{key.path}: {key.kind} request number {key.seq}"
    near = _nearest_entry(key, request, entries)
    if near is None:
        text, places, shown = f"{subject} was not made by the recorded run", [], ""
    else:
        found = islice(changes(_comparable(near.key, near.request), _comparable(key, request)), _MAX_CHANGES)
        places, shown = [change.place for change in found], _request_diff(near, key, request)
        more = f" and {len(places) - _NAMED_CHANGES} more" if len(places) > _NAMED_CHANGES else ""
        there = "" if near.key[:2] == key[:2] else f"; the nearest is {near.key.path} number {near.key.seq}"
        text = (
            f"{subject} is not what was recorded{there}; changed: {', '.join(places[:_NAMED_CHANGES])}{more}"
        )
    return RunDiverged(text, path=key.path, seq=key.seq, kind=key.kind, changed=places, diff=shown)


def _comparable(key: Key, request: str) -> Any:
    """Return a request as JSON; without the model's name, as a replay asks no model."""
    value = json.loads(request) if request else None
    if key.kind != "model" or not isinstance(value, dict):
        return value
    return {name: each for name, each in value.items() if name not in _MODEL_FIELDS}


def _nearest_entry(key: Key, request: str, entries: Sequence[Entry]) -> Entry | None:
    """Return the most similar entry: at the path, of the nearest number; else at any path."""
    alike = [entry for entry in entries if entry.key.kind == key.kind]
    there = [entry for entry in alike if entry.key.path == key.path]
    if there:
        least = min(abs(entry.key.seq - key.seq) for entry in there)
        alike = [entry for entry in there if abs(entry.key.seq - key.seq) == least]
    lines = _pretty(_comparable(key, request))

    def likeness(entry: Entry) -> float:
        other = _pretty(_comparable(entry.key, entry.request))
        return difflib.SequenceMatcher(None, other, lines, autojunk=False).ratio()

    return max(alike, key=likeness) if len(alike) > 1 else next(iter(alike), None)


class Change(NamedTuple):
    """A place where two JSON values differ, and their parts there as JSON; empty if absent."""

    place: str
    old: str
    new: str


def changes(old: Any, new: Any, place: str = "") -> Iterator[Change]:
    """Yield the places where two JSON values differ.

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


def _request_diff(recorded: Entry, key: Key, request: str) -> str:
    """Return a readable unified diff of two requests."""
    lines = list(
        difflib.unified_diff(
            _pretty(_comparable(recorded.key, recorded.request)),
            _pretty(_comparable(key, request)),
            f"recorded {recorded.key.path} #{recorded.key.seq} {recorded.key.kind}",
            f"replayed {key.path} #{key.seq} {key.kind}",
            n=2,
            lineterm="",
        )
    )
    more = [f"... and {len(lines) - _DIFF_LINES} more lines"] if len(lines) > _DIFF_LINES else []
    return "\n".join(lines[:_DIFF_LINES] + more)


def _pretty(value: Any) -> list[str]:
    """Write a JSON value with one line per value; long texts keep their lines."""
    text = json.dumps(_by_lines(value), ensure_ascii=False, sort_keys=True, indent=1)
    return [
        line[start : start + _DIFF_WIDTH]
        for line in text.splitlines()
        for start in range(0, max(len(line), 1), _DIFF_WIDTH)
    ]


def _by_lines(value: Any) -> Any:
    if isinstance(value, str) and "\n" in value:
        return value.splitlines()
    if isinstance(value, dict):
        return {name: _by_lines(inner) for name, inner in value.items()}
    return [_by_lines(inner) for inner in value] if isinstance(value, list) else value


_REFUSED: ContextVar[bool] = ContextVar("refused", default=False)

_ADDRESS_EVENTS = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1}
"""CPython's audit events with an address, and its place among the arguments."""
_LOOKUP_EVENTS = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
)
"""Audit events that look up a name; the host, or ``(host, port)``, is the first argument."""


class _AuditHook:
    """The process's one audit hook, which cannot be removed and so checks each time whether to refuse."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # the hook is set once, and no count is lost
        self._hooked = False
        self._everywhere = 0

    def install(self, *, everywhere: int) -> None:
        with self._lock:
            if not self._hooked:
                sys.addaudithook(self._check)
            self._hooked = True
            self._everywhere += everywhere

    def _check(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not event.startswith("socket.") or not (self._everywhere or _REFUSED.get()):
            return
        if event in _ADDRESS_EVENTS:
            _refuse(event, arguments[_ADDRESS_EVENTS[event]])
        elif event in _LOOKUP_EVENTS:
            _refuse(event, arguments[:2] if event == "socket.getaddrinfo" else arguments[0])


_HOOK = _AuditHook()


@contextmanager
def no_network(*, everywhere: bool = False) -> Iterator[None]:
    """Refuse every connection, datagram and name look-up.

    This holds for the current context and those that inherit it, which a plain ``Thread`` does not; with
    ``everywhere``, for the whole process. Traffic of C libraries, and over connections that are open already,
    is not detected.

    Raises
    ------
    RunDiverged
        In the code that uses the network; ``data`` has ``host`` and ``port``, None if unknown.
    """
    _HOOK.install(everywhere=int(everywhere))
    token = _REFUSED.set(True)
    try:
        yield
    finally:
        _REFUSED.reset(token)
        _HOOK.install(everywhere=-int(everywhere))


def _refuse(event: str, address: Any) -> None:
    host, port = address[:2] if isinstance(address, tuple) else (address, None)
    host = host.decode(errors="replace") if isinstance(host, bytes) else host
    where = str(host) if port is None else f"{host}:{port}"
    raise RunDiverged(
        f"{event.removeprefix('socket.')} {where}: refused: a replay uses no network; the request is "
        "not in the recording",
        host=host,
        port=port,
    )
