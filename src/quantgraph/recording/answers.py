"""Answers in a recording: kept by the id of their question, with who gave them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import QuantGraphError, StorageUnavailable
from quantgraph.recording.entry import Entry, Key, error_json
from quantgraph.recording.recordings import Recording
from quantgraph.recording.scope import Scope, current_scope

AnsweredBy = Literal["default", "callable"]
"""Who gave an answer, if not a person."""

OWN_NAME = 16
"""Characters at the end of a question's id that do not depend on its run: a branch has the same."""


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
    """Return the recorded answer, or that of the function ``ask``, and who gave it.

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
