"""How nodes report: what was done, what failed, and when it is time to ask or to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from quantgraph._texts import Language, language_of, say
from quantgraph.errors import (
    BudgetExceeded,
    ModelOutputInvalid,
    ModelUnavailable,
    NoData,
    NoProgress,
    NotConfigured,
    PermissionDenied,
    QuantGraphError,
    RateLimited,
    SourceUnavailable,
)
from quantgraph.recording import Giver, current_scope, digest
from quantgraph.recording.answers import OWN_NAME
from quantgraph.subgraphs.signal.answers import answer_schema
from quantgraph.subgraphs.signal.endings import closing
from quantgraph.subgraphs.signal.state import (
    ClarificationKind,
    EndedBecause,
    SignalSubgraphState,
)
from quantgraph.subgraphs.signal.texts import without_fields

__all__ = [
    "LOOK_AHEAD",
    "MAX_CLARIFICATIONS",
    "SAME_ERROR_LIMIT",
    "answered",
    "assumed",
    "ended",
    "failed",
    "fresh_state",
    "gave_up",
    "has_signal",
    "language",
    "question",
    "question_id",
    "requests_ended",
    "succeeded",
    "user_messages",
    "user_text",
    "why_ended",
]

MAX_CLARIFICATIONS = 3
SAME_ERROR_LIMIT = 2
LOOK_AHEAD = ("not_causal", "causality_undecided")
"""Errors of a signal that uses the future, or was not shown not to. The same one a second time is put to the
user."""
HISTORY_LIMIT = 50
CLOSING = "quantgraph_ended"
"""Key in the metadata of the message that closes a request: hosts share messages, if nothing else."""
OF_RUN = "quantgraph_run"
"""Key beside it: the request's run."""

_BUDGETS: dict[str, EndedBecause] = {
    "calls": "budget_calls",
    "prompt_tokens": "budget_tokens",
    "completion_tokens": "budget_tokens",
    "money": "budget_money",
    "seconds": "timeout",
}
_ENDINGS: dict[type[QuantGraphError], EndedBecause] = {
    ModelUnavailable: "model_unavailable",
    ModelOutputInvalid: "max_retries",
    NoProgress: "no_progress",
}

_VENDORS = {kind.code for kind in (NoData, NotConfigured, PermissionDenied, RateLimited, SourceUnavailable)}
"""Codes of errors that a vendor answers with when it cannot serve anybody, or not us, or has nothing yet."""

Update = dict[str, Any]


def fresh_state(max_retries: int = 3) -> Update:
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
        "left_out": [],
        "trail": [],
        "strategy": {},
        "validation": {},
    }


def requests_ended(state: Mapping[str, Any]) -> int:
    """How many requests of the thread ended before this one."""
    closings = (getattr(message, "response_metadata", {}) for message in state.get("messages", ()))
    return sum(CLOSING in metadata for metadata in closings)


def has_signal(state: Mapping[str, Any], run_id: str) -> bool:
    """Whether a request of the thread that ended before made the signal of a run of this name."""
    closings = (getattr(message, "response_metadata", {}) for message in state.get("messages", ()))
    return any(told.get(CLOSING) == "done" and told.get(OF_RUN) == run_id for told in closings)


def user_messages(state: SignalSubgraphState) -> list[AnyMessage]:
    """The user's messages of this request: those after the message that closed the one before."""
    messages = state["messages"]
    closed = [place for place, message in enumerate(messages) if CLOSING in message.response_metadata]
    begin = closed[-1] + 1 if closed else 0
    return [message for message in messages[begin:] if isinstance(message, HumanMessage)]


def user_text(state: SignalSubgraphState) -> str:
    """Everything the user said for this request, a line a message, but for answers that could not be read."""
    told = (message for message in user_messages(state) if message.id not in state.get("left_out", []))
    return "\n".join(str(message.text) for message in told)


def language(state: SignalSubgraphState) -> Language:
    """The user's language, by the first thing said: ``zh`` or ``en``."""
    people = user_messages(state)
    return state.get("language") or language_of(str(people[0].text) if people else "")


def _history(state: SignalSubgraphState, *lines: str) -> list[str]:
    return [*state.get("execution_history", []), *lines][-HISTORY_LIMIT:]


def succeeded(state: SignalSubgraphState, line: str) -> Update:
    """A step that worked: what was open is solved and moves to the history."""
    solved = [f"solved: {error}" for error in state.get("error_messages", [])]
    return {"error_messages": [], "execution_history": _history(state, *solved, line)}


def answered(state: SignalSubgraphState, text: str) -> Update:
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
        **succeeded(state, f"clarified: {text}"),
    }


def assumed(state: SignalSubgraphState, kind: ClarificationKind, text: str, who: Giver | None) -> Update:
    """An answer that no person gave is written down, with who gave it."""
    if who is None:
        return {}
    return {"assumptions": [*state.get("assumptions", []), f"{kind}: {text} ({who})"]}


def failed(state: SignalSubgraphState, node: str, errors: Sequence[str]) -> Update:
    """An attempt that did not work: counted, and put to the user when it happens too often."""
    count = state.get("retry_count", 0) + 1
    failures = [*state.get("failures", []), errors[0]]
    update: Update = {
        "error_messages": list(errors),
        "execution_history": _history(state, f"{node} failed (attempt {count}): {errors[0]}"),
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
        update |= question({**state, **update}, "failure", reason)  # type: ignore[typeddict-item]
    return update


def question(
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
            ended(state, gave_up(state))
            if kind == "failure" and state.get("failures")
            else ended(state, "needs_answer", f"needs_answer: {reason}")
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


def question_id(state: Mapping[str, Any], *content: object) -> str:
    """Name of a question: its run's, then its own by the graph that asks it and its content.

    It is the same in a replay; by the second part a branch of the run finds what was answered.
    """
    scope = current_scope()
    graph = scope.path.rpartition("/")[0] if scope else ""
    run, own = digest(str(state.get("run_id"))), digest("|".join(map(str, (graph, *content))))
    return run[:8] + own[:OWN_NAME]


def gave_up(state: SignalSubgraphState) -> EndedBecause:
    """Why attempts ended: the same error again and again, or too many of them; or what no attempt mends."""
    failures = state.get("failures", [])
    last = failures[-1].partition(":")[0] if failures else ""
    if last in LOOK_AHEAD:
        return "causality_failed"
    if last in _VENDORS:
        return "data_unavailable"
    return "repeated_error" if _repeated(failures) else "max_retries"


def why_ended(error: QuantGraphError) -> EndedBecause:
    """The reason for the end that an error stands for, when nobody reacts to it."""
    if isinstance(error, BudgetExceeded):
        return _BUDGETS[error.data["limit"]]
    lacking: EndedBecause = "model_unavailable" if "model" in error.data else "data_unavailable"
    return next((why for kind, why in _ENDINGS.items() if isinstance(error, kind)), lacking)


def _repeated(failures: Sequence[str]) -> bool:
    """Whether one error came more often than it may; code that looks ahead is told so once."""
    limits = {error: 1 if error.startswith(LOOK_AHEAD) else SAME_ERROR_LIMIT for error in failures}
    return any(failures.count(error) > limit for error, limit in limits.items())


def ended(
    state: SignalSubgraphState,
    because: EndedBecause,
    error: str | QuantGraphError | None = None,
    *,
    text: str = "",
) -> Update:
    """The run stops here, and says so in a closing message. What was reached stays in the state."""
    line = error.line if isinstance(error, QuantGraphError) else error
    open_errors = state.get("error_messages", [])
    errors = [*open_errors, line] if line and line not in open_errors else list(open_errors)
    people = user_messages(state)
    text = text or closing(because, errors[-1] if errors else "", language(state))
    return {
        "messages": [AIMessage(text, response_metadata={CLOSING: because, OF_RUN: state.get("run_id")})],
        "ended_because": because,
        "current_task": "end",
        "clarification_needed": None,
        "clarification": None,
        "error_messages": errors,
        "execution_history": _history(state, f"ended: {because}" + (f" ({line})" if line else "")),
        "handled": people[-1].id if people else state.get("handled"),
    }
