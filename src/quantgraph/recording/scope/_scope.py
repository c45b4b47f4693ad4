"""The scope of a running node: where in a run a request is made, and the number of a model call.

Answers in a recording: kept by the id of their question, with who gave them.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import QuantGraphError, StorageUnavailable
from quantgraph.recording._entries import Entry, Key, Kind, error_json
from quantgraph.recording._recordings import Recording
from quantgraph.state import decision_moment

T = TypeVar("T")


class NumberedCall(NamedTuple):
    """A model call of an execution: its key as counted, and how often the request was made so far."""

    key: Key
    nth: int


_SCOPE: ContextVar[Scope | None] = ContextVar("scope", default=None)
_BRANCH: ContextVar[str | None] = ContextVar("branch", default=None)


@dataclass(kw_only=True)
class Scope:
    """One execution of a node in a run.

    Attributes
    ----------
    path
        The node's, see :class:`~quantgraph.recording.Key`.
    calls
        The highest number of a model call at each path. Those outside of sessions come from the graph's state
        and are written back by the node's update, see :meth:`lasting_calls`.
    before
        ``calls`` when this execution began.
    fatal
        The first error of a model call that ends the run, which the node's own code may have swallowed.
    request
        Number of the thread's requests that ended before this one.
    begun
        When the execution began, on the monotonic clock.
    on_model_call
        Called after each model call with its entry, and whether it was served instead of made.
    """

    recording: Recording
    path: str
    calls: dict[str, int] = field(default_factory=dict)
    request: int = 0
    on_model_call: Callable[[Entry, bool], None] | None = None
    begun: float = field(default_factory=time.monotonic)
    before: Mapping[str, int] = field(init=False)
    fatal: BaseException | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _of_sessions: set[str] = field(default_factory=set, repr=False)
    _made: Counter[str] = field(default_factory=Counter, repr=False)
    _asked: Counter[tuple[str, str]] = field(default_factory=Counter, repr=False)
    _answered: dict[tuple[str, str], list[int]] = field(default_factory=dict, repr=False)
    _earlier: dict[tuple[str, str], int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.before = dict(self.calls)

    @property
    def session(self) -> str | None:
        """The session that is being decided, ``YYYYMMDD``; None outside of a decision."""
        moment = decision_moment()
        return None if moment is None else f"{moment.session:%Y%m%d}"

    def place(self) -> tuple[str, int]:
        """Return the current path, and the number of model calls made there so far."""
        session = self.session
        path = "/".join(part for part in (self.path, session, _BRANCH.get()) if part)
        with self._lock:
            if session:
                self._of_sessions.add(path)
            return path, self.calls.get(path, 0)

    def lasting_calls(self) -> dict[str, int]:
        """Return :attr:`calls` without the sessions', each of which is decided whole in one execution."""
        return {path: number for path, number in self.calls.items() if path not in self._of_sessions}

    def raise_fatal(self) -> None:
        """Raise the error of a model call that ends the run, if there was one."""
        if self.fatal is not None:
            raise self.fatal

    def next_call(self, digest: str) -> NumberedCall:
        """Count a new model call."""
        path, _ = self.place()
        with self._lock:
            self._made[path] += 1
            self._asked[path, digest] += 1
            number = self.before.get(path, 0) + self._made[path]
            self.calls[path] = max(self.calls.get(path, 0), number)
            return NumberedCall(Key(path, number, "model", digest), self._asked[path, digest])

    def key_of(self, call: NumberedCall) -> Key:
        """Return the key of a model call, the one of an earlier try of this execution if there was one.

        Concurrent calls are numbered as they arrive, which may differ now: equal requests are matched by
        their order.
        """
        key, nth = call
        request = key.path, key.digest
        if request not in self._answered:  # before the first of them is answered in this execution
            numbers = self.recording.numbers(key)
            self._answered.setdefault(request, [one for one in numbers if one > self.before.get(key.path, 0)])
        then = self._answered[request]
        number = key.seq
        if then:
            number = then[nth - 1] if nth <= len(then) else max(number, then[-1] + nth - len(then))
        with self._lock:
            self.calls[key.path] = max(self.calls[key.path], number)
        return key._replace(seq=number)

    def times_before(self, call: NumberedCall) -> int:
        """Count how often the run made a request before a model call that has its key.

        In this execution each call counts as made, since none of concurrent calls may be answered yet.
        """
        (path, _, kind, digest), nth = call
        request = path, digest
        if request not in self._earlier:
            answered = self.recording.times(kind, digest) - len(self._answered[request])
            self._earlier.setdefault(request, answered)
        return self._earlier[request] + nth - 1


def current_scope() -> Scope | None:
    """Return the scope of the running node; None outside of a node."""
    return _SCOPE.get()


def replaying() -> bool:
    """Whether the running node is served everything and must make no request."""
    scope = current_scope()
    return scope is not None and scope.recording.replays


@contextmanager
def in_scope(scope: Scope) -> Iterator[Scope]:
    """Set the scope while a node runs, for its thread and for code that inherits its context."""
    token = _SCOPE.set(scope)
    try:
        with scope.recording.budget_tracker.working():
            yield scope
    finally:
        _SCOPE.reset(token)


@contextmanager
def branch(name: str) -> Iterator[None]:
    """Give what is asked of the world in this context a path of its own, below the session's."""
    token = _BRANCH.set(name)
    try:
        yield
    finally:
        _BRANCH.reset(token)


def call_once(kind: Kind, request: Mapping[str, Any], ask: Callable[[], T]) -> T:
    """Return what ``ask`` returns, a JSON value: it runs once in a run, then is served from its recording.

    A ``QuantGraphError`` is recorded too. Outside of a scope ``ask`` simply runs.

    Raises
    ------
    RunDiverged
        In a replay, if the recorded run did not make this request here.
    """
    scope = current_scope()
    if scope is None:
        return ask()
    text = canonical_json(request)
    path, seq = scope.place()
    return scope.recording.once(Key(path, seq, kind, content_hash(text)), text, ask, session=scope.session)


def happened(event: str, now: Callable[[], bool]) -> bool:
    """Return whether an event of the outside, such as the end of a time limit, happens here.

    It is recorded if it does: a resumed run and a replay have it again, and have no other.
    """
    scope = current_scope()
    if scope is None:
        return now()
    text = canonical_json({"event": event})
    path, seq = scope.place()
    return scope.recording.happened(Key(path, seq, "tool", content_hash(text)), text, now)


AnsweredBy = Literal["default", "callable"]
"""Who gave an answer, if not a person."""

OWN_NAME = 16
"""Characters at the end of a question's id that do not depend on its run."""


def answer_request(question_id: str) -> dict[str, str]:
    """Return the request under which the answer to a question is recorded."""
    return {"id": question_id[-OWN_NAME:]}


def recorded_answer(recording: Recording, question_id: str) -> str | None:
    """Return the last answer to a question; None if it has none."""
    entry = _last_answer(recording, question_id)
    return None if entry is None else entry.outcome()


def keep_answer(question_id: str, text: str, by: AnsweredBy | None = None) -> AnsweredBy | None:
    """Record an answer in the running node's scope; an answer that changed is a new entry.

    Returns
    -------
    AnsweredBy or None
        Who gave this answer first; None for a person.

    Raises
    ------
    RunDiverged
        In a replay, if the recorded run did not ask this question here.
    """
    scope = current_scope()
    if scope is None:
        return by
    key, request = _key_and_request(scope, question_id)
    found, last = scope.recording.find(key, request), _last_answer(scope.recording, question_id)
    if last is not None and last.outcome() == text:
        by = last.facts.get("role")
    if found is None or found.error is not None or found.outcome() != text:
        scope.recording.add(_entry(scope, key, request, text, by))
    return by


def ask_once(question_id: str, ask: Callable[[], str]) -> tuple[str, AnsweredBy | None]:
    """Return the recorded answer, or the function ``ask``'s, and who gave it.

    A ``QuantGraphError`` is recorded for a replay; a resumed run calls the function again.

    Raises
    ------
    QuantGraphError
        What ``ask`` raises.
    RunDiverged
        In a replay, if the recorded run did not ask this question here.
    """
    scope = current_scope()
    if scope is None:
        return ask(), "callable"
    key, request = _key_and_request(scope, question_id)
    found = scope.recording.find(key, request)
    if found is not None and (found.error is None or scope.recording.replays):
        return found.outcome(), found.facts.get("role")
    try:
        text = ask()
    except StorageUnavailable:
        raise
    except QuantGraphError as error:
        scope.recording.add(Entry(key=key, request=request, error=error_json(error), session=scope.session))
        raise
    scope.recording.add(_entry(scope, key, request, text, "callable"))
    return text, "callable"


def _key_and_request(scope: Scope, question_id: str) -> tuple[Key, str]:
    request, (path, seq) = canonical_json(answer_request(question_id)), scope.place()
    return Key(path, seq, "answer", content_hash(request)), request


def _entry(scope: Scope, key: Key, request: str, text: str, by: AnsweredBy | None) -> Entry:
    facts = {"role": by} if by else {}
    return Entry(key=key, request=request, reply=canonical_json(text), session=scope.session, facts=facts)


def _last_answer(recording: Recording, question_id: str) -> Entry | None:
    entry = recording.last("answer", content_hash(canonical_json(answer_request(question_id))))
    return None if entry is None or entry.error is not None else entry
