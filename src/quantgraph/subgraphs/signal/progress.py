"""How nodes report: what was done, what failed, and when it is time to ask or to stop."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage

from quantgraph.errors import QuantGraphError
from quantgraph.subgraphs.signal.state import ClarificationKind, EndedBecause, SignalSubgraphState
from quantgraph.subgraphs.signal.texts import language_of, say

__all__ = [
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
HISTORY_LIMIT = 50

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
    }


def user_messages(state: SignalSubgraphState) -> list[AnyMessage]:
    """The user's messages of this request: those after the ones of the request before."""
    people = [message for message in state["messages"] if isinstance(message, HumanMessage)]
    ids = [message.id for message in people]
    handled = state.get("handled")
    return list(people[ids.index(handled) + 1 :]) if handled and handled in ids else list(people)


def user_text(state: SignalSubgraphState) -> str:
    """Everything the user said for this request, a line a message."""
    return "\n".join(str(message.text) for message in user_messages(state))


def language(state: SignalSubgraphState) -> str:
    """The user's language: ``zh`` or ``en``."""
    return language_of(user_text(state))


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
    if failures.count(errors[0]) > SAME_ERROR_LIMIT or count >= state.get("max_retries", 3):
        reason = say(
            language(state),
            zh=f"{node} 失败了 {count} 次，最近的错误：{errors[0]}。请换一种说法、换代码或时间范围。",
            en=f"{node} failed {count} times, last with: {errors[0]}. Please rephrase, or change the "
            "symbols or the window.",
        )
        update |= question({**state, **update}, "failure", reason)  # type: ignore[typeddict-item]
    return update


def question(state: SignalSubgraphState, kind: ClarificationKind, reason: str) -> Update:
    """The user has to be asked; after the last allowed question the run ends with a typed reason instead."""
    asked = state.get("clarification_count", 0)
    if asked >= MAX_CLARIFICATIONS:
        # The errors of a failure are in the state already.
        return ended(state, gave_up(state)) if kind == "failure" else ended(state, "needs_answer", reason)
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
        },
        "current_task": "clarify",
    }


def gave_up(state: SignalSubgraphState) -> EndedBecause:
    """Why attempts ended: the same error again and again, or too many of them."""
    failures = state.get("failures", [])
    repeated = any(failures.count(error) > SAME_ERROR_LIMIT for error in failures)
    return "repeated_error" if repeated else "max_retries"


def ended(
    state: SignalSubgraphState, because: EndedBecause, error: str | QuantGraphError | None = None
) -> Update:
    """The run stops here. What was reached stays in the state."""
    line = error.line if isinstance(error, QuantGraphError) else error
    open_errors = state.get("error_messages", [])
    people = user_messages(state)
    return {
        "ended_because": because,
        "current_task": "end",
        "clarification_needed": None,
        "clarification": None,
        "error_messages": [*open_errors, line] if line and line not in open_errors else list(open_errors),
        "execution_history": _history(state, f"ended: {because}" + (f" ({line})" if line else "")),
        "handled": people[-1].id if people else state.get("handled"),
    }
