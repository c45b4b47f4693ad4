"""Answers in a recording: kept by their question's id with who gave them, and found again by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import QuantGraphError, StorageUnavailable
from quantgraph.recording.entry import Entry, Key, error_json
from quantgraph.recording.recordings import Recording
from quantgraph.recording.scope import Scope, current_scope

__all__ = ["OWN_NAME", "AnsweredBy", "answer_request", "ask_once", "keep_answer", "recorded_answer"]

AnsweredBy = Literal["default", "callable"]
"""Who gave an answer that no person gave."""

OWN_NAME = 16
"""Characters at the end of a question's id that do not name its run: a branch of the run asks it too."""


def answer_request(question_id: str) -> dict[str, str]:
    """The request under which the answer to a question is recorded."""
    return {"id": question_id[-OWN_NAME:]}


def recorded_answer(recording: Recording, question_id: str) -> str | None:
    """The text that a question was answered with, the last time it was; None if it has no answer."""
    entry = _last(recording, question_id)
    return None if entry is None else entry.outcome()


def keep_answer(question_id: str, text: str, by: AnsweredBy | None = None) -> AnsweredBy | None:
    """Record what was answered in the node that runs; another answer than before is a new line.

    Returns
    -------
    Giver or None
        Who gave it, the first time; None for a person.

    Raises
    ------
    RunDiverged
        In a replay, if the recorded run did not ask this here.
    """
    scope = current_scope()
    if scope is None:
        return by
    key, request = _place(scope, question_id)
    found, last = scope.recording.find(key, request), _last(scope.recording, question_id)
    if last is not None and last.outcome() == text:
        by = last.facts.get("role")
    if found is None or found.error is not None or found.outcome() != text:
        scope.recording.add(_entry(scope, key, request, text, by))
    return by


def ask_once(question_id: str, ask: Callable[[], str]) -> tuple[str, AnsweredBy | None]:
    """What a function answers, or what the record has, and who gave it.

    An error of ours is recorded for a replay; a run that goes on asks again.

    Raises
    ------
    QuantGraphError
        What ``ask`` raises.
    RunDiverged
        In a replay, if the recorded run did not ask this here.
    """
    scope = current_scope()
    if scope is None:
        return ask(), "callable"
    key, request = _place(scope, question_id)
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


def _place(scope: Scope, question_id: str) -> tuple[Key, str]:
    request, (path, seq) = canonical_json(answer_request(question_id)), scope.place()
    return Key(path, seq, "answer", content_hash(request)), request


def _entry(scope: Scope, key: Key, request: str, text: str, by: AnsweredBy | None) -> Entry:
    facts = {"role": by} if by else {}
    return Entry(key=key, request=request, reply=canonical_json(text), session=scope.session, facts=facts)


def _last(recording: Recording, question_id: str) -> Entry | None:
    entry = recording.last("answer", content_hash(canonical_json(answer_request(question_id))))
    return None if entry is None or entry.error is not None else entry
