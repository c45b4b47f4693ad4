"""State updates of the signal nodes: a new request, an answer, a failed attempt, a question."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from quantgraph._util.texts import Language, say
from quantgraph.errors import (
    NoData,
    NotConfigured,
    PermissionDenied,
    RateLimited,
    SourceUnavailable,
)
from quantgraph.llm.planner.normalisation import normalise
from quantgraph.llm.planner.said import restates_without
from quantgraph.runtime.endings import end_update, extended_history, language, success_update, user_messages
from quantgraph.runtime.questions import answer_schema, question_id
from quantgraph.runtime.state import (
    Clarification,
    ClarificationKind,
    EndedBecause,
    QuestionAnswered,
    Update,
)
from quantgraph.subgraphs.signal.attempts import answered_attempts, with_errors
from quantgraph.subgraphs.signal.messages import is_waiver
from quantgraph.subgraphs.signal.state import SignalSubgraphState

MAX_CLARIFICATIONS = 3
"""Questions that one request may put to the user."""
SAME_ERROR_LIMIT = 2
"""Times that an error may occur before the user is asked."""
CAUSALITY_ERRORS = ("not_causal", "causality_undecided")
"""Codes of a signal that uses the future or was not proved not to; at the second time the user is asked."""

_VENDOR_ERRORS = {
    kind.code for kind in (NoData, NotConfigured, PermissionDenied, RateLimited, SourceUnavailable)
}
"""Codes of a vendor that is down, refuses, or has no data yet."""


def initial_state(max_retries: int = 3) -> Update:
    """Return all fields except the messages as they are at the start of a request."""
    return {
        "current_task": "reflection",
        "data_ready": False,
        "indicators_ready": False,
        "signal_ready": False,
        "user_intent": {},
        "clarification_needed": None,
        "clarification_count": 0,
        "execution_history": [],
        "error_messages": [],
        "max_retries": max_retries,
        "retry_count": 0,
        "request": {},
        "clarification": None,
        "failures": [],
        "assumptions": [],
        "waived": [],
        "waived_symbols": [],
        "accepted_bars": [],
        "answers": [],
        "confirmed": None,
        "open_question": None,
        "answering": None,
        "ignored_message_ids": [],
        "trail": [],
        "strategy": {},
        "attempts": [],
        "validation": {},
    }


def user_text(state: SignalSubgraphState) -> str:
    """Return the user's messages of this request, one a line, without the ignored ones."""
    return _joined_text(state, state.get("ignored_message_ids", []))


def request_text(state: SignalSubgraphState) -> str:
    """Return the same without the answers, which :func:`answered_questions` has."""
    answers = [answer["message"] for answer in state.get("answers", [])]
    return _joined_text(state, [*state.get("ignored_message_ids", []), *answers])


def said_text(state: SignalSubgraphState) -> str:
    """Return the user's messages without the answers that nobody said."""
    unsaid = [answer["message"] for answer in state.get("answers", []) if answer["by"] == "default"]
    return _joined_text(state, [*state.get("ignored_message_ids", []), *unsaid])


def answered_questions(state: SignalSubgraphState) -> list[dict[str, str]]:
    """Return the questions of this request with their answers, without the ignored ones, for a prompt."""
    ignored = state.get("ignored_message_ids", [])
    return [
        {"question": each["question"], "answer": each["answer"], "by": each["by"]}
        for each in state.get("answers", [])
        if each["message"] not in ignored
    ]


def _joined_text(state: SignalSubgraphState, left_out: Collection[str]) -> str:
    return "\n".join(str(message.text) for message in user_messages(state) if str(message.id) not in left_out)


def answer_update(
    state: SignalSubgraphState,
    task: Clarification,
    text: str,
    *,
    message: str,
    by: Literal["person", "callable", "default"] = "person",
) -> Update:
    """Return the update for an answer: the question is closed and the attempts start again.

    Parameters
    ----------
    message
        Id of the answer's message.
    """
    waived, symbols = list(state.get("waived", [])), list(state.get("waived_symbols", []))
    kinds = ("symbol", "fields", "plan", "strategy")
    gone = is_waiver(text, task["unread"], task["language"])
    gone = gone or (task["kind"] == "plan" and restates_without(text, task["unread"]))
    if task["kind"] in kinds and gone:
        waived += task["unread"]
        symbols += task["unread"] if task["kind"] == "symbol" else []
    answered: QuestionAnswered = {
        "question": task["question"] or task["reason"],
        "answer": text,
        "by": by,
        "message": message,
    }
    return {
        "waived": waived,
        "waived_symbols": symbols,
        "answers": [*state.get("answers", []), answered],
        "answering": task,
        "clarification_needed": None,
        "clarification": None,
        "clarification_count": state.get("clarification_count", 0) + 1,
        "retry_count": 0,
        "failures": [],
        "trail": [],
        **answered_attempts(state.get("attempts", []), task["reason"], text),
        **success_update(state, f"clarified: {text}"),
    }


def failure_update(state: SignalSubgraphState, node: str, errors: Sequence[str]) -> Update:
    """Return the update of a failed attempt: it is counted; after too many the user is asked.

    The errors are those of the generation's last attempt, unless it has errors of its own.
    """
    count = state.get("retry_count", 0) + 1
    failures = [*state.get("failures", []), errors[0]]
    update: Update = {
        "error_messages": list(errors),
        "execution_history": extended_history(state, f"{node} failed (attempt {count}): {errors[0]}"),
        "retry_count": count,
        "failures": failures,
        "attempts": with_errors(state.get("attempts", []), errors),
    }
    if _repeated(failures) or count >= state.get("max_retries", 3):
        reason = say(
            language(state),
            zh=f"{node} 失败了 {count} 次，最近的错误：{errors[0]}。请换一种说法、换代码或时间范围。",
            en=f"{node} failed {count} times, last with: {errors[0]}. Please rephrase, or change the "
            "symbols or the window.",
        )
        update |= question_update({**state, **update}, "failure", reason)  # type: ignore[typeddict-item]
    return update


def question_update(
    state: SignalSubgraphState,
    kind: ClarificationKind,
    reason: str,
    *,
    unread: Sequence[str] = (),
    options: Sequence[str] = (),
    worded: bool = True,
) -> Update:
    """Return the update that asks the user; after the last allowed question, the one that ends the run.

    Parameters
    ----------
    unread
        The user's words that were not understood.
    options
        Suggested answers.
    worded
        Whether ``reason`` is asked as it is; else a model words the question.
    """
    count = state.get("clarification_count", 0)
    if count >= MAX_CLARIFICATIONS and kind != "confirmation":
        # The errors of a failure are in the state already, unless they were just answered.
        return (
            end_update(state, failure_reason(state))
            if kind == "failure" and state.get("failures")
            else end_update(state, "needs_answer", f"needs_answer: {reason}")
        )
    identifier = question_id(state, len(state["messages"]), kind, reason, count)
    return {
        "clarification_needed": reason,
        "clarification": {
            "id": identifier,
            "kind": kind,
            "reason": reason,
            "worded": worded,
            "question": "",
            "options": list(options),
            "default": None,
            "answer_schema": answer_schema(identifier),
            "rounds_left": max(0, MAX_CLARIFICATIONS - count - 1),
            "language": language(state),
            "unread": list(unread),
        },
        "current_task": "clarify",
    }


def failure_reason(state: SignalSubgraphState) -> EndedBecause:
    """Return why attempts ended: future data, the vendor, the same error repeatedly, or too many errors."""
    failures = state.get("failures", [])
    last = failures[-1].partition(":")[0] if failures else ""
    if last in CAUSALITY_ERRORS:
        return "causality_failed"
    if last in _VENDOR_ERRORS:
        return "data_unavailable"
    return "repeated_error" if _repeated(failures) else "max_retries"


def _repeated(failures: Sequence[str]) -> bool:
    """Whether an error occurred more often than allowed; a use of the future is allowed once."""
    limits = {error: 1 if error.startswith(CAUSALITY_ERRORS) else SAME_ERROR_LIMIT for error in failures}
    return any(failures.count(error) > limit for error, limit in limits.items())


def repeat_question_update(
    state: SignalSubgraphState,
    kind: str,
    params: Mapping[str, Any],
    unread: Sequence[str],
    reason: str,
    *,
    worded: bool = True,
) -> dict[str, Any]:
    """Return the update that asks the last question again; empty if its answer was useful.

    An answer is not useful if some of its words were not understood, and either the same question arises
    again, or a part that was known is lost. It is then ignored for the rest of the request. A rule may take
    several answers: they are kept as long as nothing is lost.

    Parameters
    ----------
    kind, reason
        The question that arises with the answer, and why.
    worded
        See :func:`question_update`.
    params, unread
        The request as read with the answer, and the words that were not understood.
    """
    task = state.get("answering")
    if not task:
        return {}
    answer = user_messages(state)[-1]
    ignored = [*state.get("ignored_message_ids", []), str(answer.id)]
    earlier = _plain(user_text({**state, "ignored_message_ids": ignored}))
    not_understood = [
        word for word in map(_plain, unread) if word in _plain(answer.text) and word not in earlier
    ]
    known = state.get("user_intent", {}).get("params", {})
    lost = any(known.get(name) and not value for name, value in params.items())
    same = kind == task["kind"]
    if not not_understood or not (lost or (same and kind != "strategy")):
        return {}
    if not same:
        user_language = language(state)
        before = task["reason"].removeprefix(_not_understood(task["unread"], user_language))
        kind, reason = task["kind"], _not_understood(unread, user_language) + before
    line = f"{task['kind']}: {answer.text} ("
    return {
        "ignored_message_ids": ignored,
        "answering": None,
        "reflected_on": answer.id,
        "assumptions": [each for each in state.get("assumptions", []) if not each.startswith(line)],
        **question_update(state, task["kind"], reason, unread=unread, options=task["options"], worded=worded),
    }


def _plain(text: object) -> str:
    """Normalise widths, number words, case and spaces, which a model may have changed."""
    return " ".join(normalise(str(text)).casefold().split())


def _not_understood(words: Sequence[str], language: Language) -> str:
    if not words:
        return ""
    return say(
        language,
        zh=f"这部分我没有读懂：{'；'.join(words)}。",
        en=f"I could not read this: {'; '.join(words)}. ",
    )
