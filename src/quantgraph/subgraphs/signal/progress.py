"""How nodes report: what was done, what failed, and when it is time to ask or to stop."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from quantgraph._texts import Language, language_of, say
from quantgraph.errors import QuantGraphError
from quantgraph.subgraphs.signal.state import ClarificationKind, EndedBecause, SignalSubgraphState

__all__ = [
    "LOOK_AHEAD",
    "MAX_CLARIFICATIONS",
    "SAME_ERROR_LIMIT",
    "answered",
    "ended",
    "failed",
    "fresh_state",
    "gave_up",
    "language",
    "question",
    "succeeded",
    "user_messages",
    "user_text",
]

MAX_CLARIFICATIONS = 3
SAME_ERROR_LIMIT = 2
LOOK_AHEAD = "not_causal"
"""Code of the error of a signal that uses the future. The same one a second time is put to the user."""
HISTORY_LIMIT = 50
CLOSING = "quantgraph_ended"
"""Key in the metadata of the message that closes a request: hosts share messages, if nothing else."""

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
        "strategy": {},
        "validation": {},
    }


def user_messages(state: SignalSubgraphState) -> list[AnyMessage]:
    """The user's messages of this request: those after the message that closed the one before."""
    messages = state["messages"]
    closed = [place for place, message in enumerate(messages) if CLOSING in message.response_metadata]
    begin = closed[-1] + 1 if closed else 0
    return [message for message in messages[begin:] if isinstance(message, HumanMessage)]


def user_text(state: SignalSubgraphState) -> str:
    """Everything the user said for this request, a line a message."""
    return "\n".join(str(message.text) for message in user_messages(state))


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
    return {
        "clarification_needed": None,
        "clarification": None,
        "clarification_count": state.get("clarification_count", 0) + 1,
        "retry_count": 0,
        "failures": [],
        **succeeded(state, f"clarified: {text}"),
    }


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
    state: SignalSubgraphState, kind: ClarificationKind, reason: str, *, unread: Sequence[str] = ()
) -> Update:
    """The user has to be asked; after the last allowed question the run ends with a typed reason instead.

    ``unread`` are words of the user that could not be placed.
    """
    asked = state.get("clarification_count", 0)
    if asked >= MAX_CLARIFICATIONS:
        # The errors of a failure are in the state already.
        return (
            ended(state, gave_up(state))
            if kind == "failure"
            else ended(state, "needs_answer", f"needs_answer: {reason}")
        )
    name = hashlib.blake2b(f"{kind}|{reason}|{asked}".encode(), digest_size=8).hexdigest()
    return {
        "clarification_needed": reason,
        "clarification": {
            "id": name,
            "kind": kind,
            "reason": reason,
            "question": "",
            "default": None,
            "rounds_left": MAX_CLARIFICATIONS - asked - 1,
            "language": language(state),
            "unread": list(unread),
        },
        "current_task": "clarify",
    }


def gave_up(state: SignalSubgraphState) -> EndedBecause:
    """Why attempts ended: the same error again and again, or too many of them."""
    failures = state.get("failures", [])
    if failures and failures[-1].startswith(LOOK_AHEAD):
        return "causality_failed"
    return "repeated_error" if _repeated(failures) else "max_retries"


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
    why = errors[-1] if errors else because
    told = why.removeprefix(f"{because}: ")
    text = text or say(language(state), zh=f"未完成（{because}）：{told}", en=f"Not done ({because}): {told}")
    return {
        "messages": [AIMessage(text, response_metadata={CLOSING: because})],
        "ended_because": because,
        "current_task": "end",
        "clarification_needed": None,
        "clarification": None,
        "error_messages": errors,
        "execution_history": _history(state, f"ended: {because}" + (f" ({line})" if line else "")),
        "handled": people[-1].id if people else state.get("handled"),
    }
