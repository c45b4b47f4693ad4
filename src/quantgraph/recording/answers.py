"""Answers of people in a recording: kept by their question's id, and found again by it."""

from __future__ import annotations

from quantgraph.recording.entry import Entry, Key, canonical, digest
from quantgraph.recording.run import Recording
from quantgraph.recording.scope import current_scope, recorded

__all__ = ["answer_request", "keep_answer", "recorded_answer"]


def answer_request(question_id: str) -> dict[str, str]:
    """The request under which the answer to a question is recorded."""
    return {"id": question_id}


def recorded_answer(recording: Recording, question_id: str) -> str | None:
    """The text that a question was answered with, the last time it was; None if it has no answer."""
    entry = recording.last("answer", digest(canonical(answer_request(question_id))))
    return None if entry is None or entry.error is not None else entry.outcome()


def keep_answer(question_id: str, text: str) -> None:
    """Record what somebody answered in the node that runs; another answer than before is a new line.

    Raises
    ------
    RunDiverged
        In a replay, if the recorded run did not ask this here.
    """
    scope = current_scope()
    if scope is None:
        return
    if recorded_answer(scope.recording, question_id) in (None, text):
        recorded("answer", answer_request(question_id), lambda: text)
        return
    request, (path, seq) = canonical(answer_request(question_id)), scope.place()
    key = Key(path, seq, "answer", digest(request))
    scope.recording.add(Entry(key=key, request=request, reply=canonical(text), session=scope.session))
