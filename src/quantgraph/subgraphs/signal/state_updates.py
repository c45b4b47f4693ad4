"""How nodes report: what was done, what failed, and when it is time to ask or to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quantgraph._util.texts import Language, say
from quantgraph.errors import (
    NoData,
    NotConfigured,
    PermissionDenied,
    RateLimited,
    SourceUnavailable,
)
from quantgraph.llm.planner.normalisation import normalise
from quantgraph.runtime.endings import end_update, extended_history, language, success_update, user_messages
from quantgraph.runtime.questions import answer_schema, question_id
from quantgraph.runtime.state import ClarificationKind, EndedBecause, Update
from quantgraph.subgraphs.signal.messages import without_fields
from quantgraph.subgraphs.signal.state import SignalSubgraphState

__all__ = [
    "CAUSALITY_ERRORS",
    "MAX_CLARIFICATIONS",
    "SAME_ERROR_LIMIT",
    "answer_update",
    "failure_reason",
    "failure_update",
    "initial_state",
    "question_update",
    "repeat_question_update",
    "user_text",
]


def repeat_question_update(
    state: SignalSubgraphState, kind: str, params: Mapping[str, Any], unread: Sequence[str], reason: str
) -> dict[str, Any]:
    """The last question once more, or nothing if its answer was of use.

    It was of none if words of it are unread, and either the same is asked as before, or something is lost
    that was known before. Such an answer is no part of the request from then on. A rule may be told in
    several answers: it is kept as long as nothing is lost.

    Parameters
    ----------
    kind, reason
        What is asked now that the answer is there, and why.
    params, unread
        What was read of the request with the answer, and words that were not.
    """
    task = state.get("answering")
    if not task:
        return {}
    answer = user_messages(state)[-1]
    ignored_message_ids = [*state.get("ignored_message_ids", []), str(answer.id)]
    earlier = _plain(user_text({**state, "ignored_message_ids": ignored_message_ids}))
    strange = [word for word in map(_plain, unread) if word in _plain(answer.text) and word not in earlier]
    known = state.get("user_intent", {}).get("params", {})
    lost = any(known.get(name) and not value for name, value in params.items())
    same = kind == task["kind"]
    if not strange or not (lost or (same and kind != "strategy")):
        return {}
    if not same:
        spoken = language(state)
        before = task["reason"].removeprefix(_not_read(task["unread"], spoken))
        kind, reason = task["kind"], _not_read(unread, spoken) + before
    line = f"{task['kind']}: {answer.text} ("
    return {
        "ignored_message_ids": ignored_message_ids,
        "answering": None,
        "reflected_on": answer.id,
        "assumptions": [said for said in state.get("assumptions", []) if not said.startswith(line)],
        **question_update(state, task["kind"], reason, unread=unread, options=task["options"]),
    }


def _plain(text: object) -> str:
    """A text as whoever reads it may have written it down: widths, number words, case, spaces."""
    return " ".join(normalise(str(text)).casefold().split())


def _not_read(words: Sequence[str], spoken: Language) -> str:
    if not words:
        return ""
    return say(
        spoken,
        zh=f"这部分我没有读懂：{'；'.join(words)}。",
        en=f"I could not read this: {'; '.join(words)}. ",
    )


MAX_CLARIFICATIONS = 3
SAME_ERROR_LIMIT = 2
CAUSALITY_ERRORS = ("not_causal", "causality_undecided")
"""Errors of a signal that uses the future, or was not shown not to. The same one a second time is put to the
user."""


_VENDORS = {kind.code for kind in (NoData, NotConfigured, PermissionDenied, RateLimited, SourceUnavailable)}
"""Codes of errors that a vendor answers with when it cannot serve anybody, or not us, or has nothing yet."""


def initial_state(max_retries: int = 3) -> Update:
    """All fields but the messages, as they are before anything was done."""
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
        "answering": None,
        "ignored_message_ids": [],
        "trail": [],
        "strategy": {},
        "validation": {},
    }


def user_text(state: SignalSubgraphState) -> str:
    """Everything the user said for this request, a line a message, but for answers that could not be read."""
    told = (
        message for message in user_messages(state) if message.id not in state.get("ignored_message_ids", [])
    )
    return "\n".join(str(message.text) for message in told)


def answer_update(state: SignalSubgraphState, text: str) -> Update:
    """The user has answered: the question is closed, and there are new attempts."""
    task, waived = state.get("clarification"), list(state.get("waived", []))
    if task and task["kind"] == "fields" and text == without_fields(task["unread"], task["language"]):
        waived += task["unread"]
    return {
        "waived": waived,
        "answering": task,
        "clarification_needed": None,
        "clarification": None,
        "clarification_count": state.get("clarification_count", 0) + 1,
        "retry_count": 0,
        "failures": [],
        "trail": [],
        **success_update(state, f"clarified: {text}"),
    }


def failure_update(state: SignalSubgraphState, node: str, errors: Sequence[str]) -> Update:
    """An attempt that did not work: counted, and put to the user when it happens too often."""
    count = state.get("retry_count", 0) + 1
    failures = [*state.get("failures", []), errors[0]]
    update: Update = {
        "error_messages": list(errors),
        "execution_history": extended_history(state, f"{node} failed (attempt {count}): {errors[0]}"),
        "retry_count": count,
        "failures": failures,
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
) -> Update:
    """The user has to be asked; after the last allowed question the run ends with a typed reason instead.

    ``unread`` are words of the user that could not be placed, ``options`` answers that would do.
    """
    asked = state.get("clarification_count", 0)
    if asked >= MAX_CLARIFICATIONS:
        # The errors of a failure are in the state already, unless they were just answered.
        return (
            end_update(state, failure_reason(state))
            if kind == "failure" and state.get("failures")
            else end_update(state, "needs_answer", f"needs_answer: {reason}")
        )
    name = question_id(state, len(state["messages"]), kind, reason, asked)
    return {
        "clarification_needed": reason,
        "clarification": {
            "id": name,
            "kind": kind,
            "reason": reason,
            "question": "",
            "options": list(options),
            "default": None,
            "answer_schema": answer_schema(name),
            "rounds_left": MAX_CLARIFICATIONS - asked - 1,
            "language": language(state),
            "unread": list(unread),
        },
        "current_task": "clarify",
    }


def failure_reason(state: SignalSubgraphState) -> EndedBecause:
    """Why attempts ended: the same error again and again, or too many of them; or what no attempt mends."""
    failures = state.get("failures", [])
    last = failures[-1].partition(":")[0] if failures else ""
    if last in CAUSALITY_ERRORS:
        return "causality_failed"
    if last in _VENDORS:
        return "data_unavailable"
    return "repeated_error" if _repeated(failures) else "max_retries"


def _repeated(failures: Sequence[str]) -> bool:
    """Whether one error came more often than it may; code that looks ahead is told so once."""
    limits = {error: 1 if error.startswith(CAUSALITY_ERRORS) else SAME_ERROR_LIMIT for error in failures}
    return any(failures.count(error) > limit for error, limit in limits.items())
