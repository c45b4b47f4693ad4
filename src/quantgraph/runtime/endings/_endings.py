"""How a step and a run end: the errors that end it, the state update, and the closing text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.texts import Language, Note, language_of, say, table_beside
from quantgraph.errors import (
    BadFile,
    BudgetExceeded,
    CodeUnavailable,
    ModelOutputInvalid,
    ModelUnavailable,
    NoData,
    NoOpenPrices,
    NoProgress,
    NotConfigured,
    PermissionDenied,
    QuantGraphError,
    RateLimited,
    RunDiverged,
    SandboxTooWeak,
    SourceUnavailable,
    StorageUnavailable,
    UnknownCommit,
    UnknownSymbol,
)
from quantgraph.runtime.graph_state import EndedBecause, Update, dialogue_of, request_of, strategy_of
from quantgraph.sentences.phrases import is_courtesy

MODEL_ERRORS = (ModelUnavailable, NotConfigured, PermissionDenied)
"""Errors of an agent call that no retry solves."""

FATAL_ERRORS = (BudgetExceeded, CodeUnavailable, RunDiverged, SandboxTooWeak, StorageUnavailable)
"""Errors that are not failed attempts of a node: neither a retry nor a model can solve them."""

DATA_ERRORS = (
    BadFile,
    NoData,
    NotConfigured,
    PermissionDenied,
    RateLimited,
    SourceUnavailable,
    UnknownCommit,
    UnknownSymbol,
)
"""Errors of a source or the store: the data are not available."""

HISTORY_LIMIT = 50
"""Lines kept of ``execution_history``."""

CLOSING_KEY = "quantgraph_ended"
"""Key in the metadata of the message that closes a request; a host shares at least the messages."""

RUN_KEY = "quantgraph_run"
"""Key beside it: the request's run."""

FOLLOW_UP_KEY = "quantgraph"
"""Key in its ``additional_kwargs``: :func:`last_request`, for a host that does not keep the groups."""

_THANKS_KEY = "quantgraph_thanks"
"""Key beside it in the message that answers thanks."""

_BUDGET_REASONS: dict[str, EndedBecause] = {
    "calls": "budget_calls",
    "prompt_tokens": "budget_tokens",
    "completion_tokens": "budget_tokens",
    "money": "budget_money",
    "seconds": "timeout",
}
_ERROR_REASONS: dict[type[QuantGraphError], EndedBecause] = {
    CodeUnavailable: "code_unavailable",
    ModelUnavailable: "model_unavailable",
    ModelOutputInvalid: "max_retries",
    NoOpenPrices: "no_open_prices",
    NoProgress: "no_progress",
}

_ENDINGS: dict[str, tuple[Note, Note]] = {
    reason: (Note(zh=zh, en=en), Note(zh=then_zh, en=then_en))
    for reason, zh, en, then_zh, then_en in table_beside(__file__, "endings.csv")
}
"""By reason, except ``done``: what happened, and what to do next."""


def closing_text(because: str, why: str, language: str) -> str:
    """What happened, the line ``why`` if not empty, and what to do next.

    Empty if ``because`` is ``done`` or not an ending.
    """
    if because not in _ENDINGS:
        return ""
    what, then = (note.text(language) for note in _ENDINGS[because])
    detail = why.removeprefix(f"{because}: ").rstrip(".。")
    asks = detail.endswith(("?", "？"))
    return say(
        language,
        zh=f"未完成（{because}）：{what}{'：' if detail else ''}{detail}{'' if asks else '。'}{then}",
        en=f"Not done ({because}): {what}{': ' if detail else ''}{detail}{'' if asks else '.'} {then}",
    )


def _closing_metadata(state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Metadata of the messages that closed the thread's earlier requests."""
    metadata = (getattr(message, "response_metadata", {}) for message in state.get("messages", ()))
    return [each for each in metadata if CLOSING_KEY in each]


def count_ended_requests(state: Mapping[str, Any]) -> int:
    """Count the thread's requests that ended before this one."""
    return len(_closing_metadata(state))


def has_ended_run(state: Mapping[str, Any], run_id: str) -> bool:
    """Whether an earlier request of the thread ended with the signal of this run."""
    closed = ((each[CLOSING_KEY], each.get(RUN_KEY)) for each in _closing_metadata(state))
    return ("done", run_id) in closed


def user_messages(state: Mapping[str, Any]) -> list[AnyMessage]:
    """Return the user's messages of this request: those after the last closing message."""
    return messages_by_request(state)[-1]


def messages_by_request(state: Mapping[str, Any]) -> list[list[AnyMessage]]:
    """Return the user's messages of each request of the thread, which a closing message ends.

    An edited request has its words in place of those that it had before.
    """
    requests: list[list[AnyMessage]] = [[]]
    for message in state["messages"]:
        if CLOSING_KEY in message.response_metadata:
            requests.append([])
        elif isinstance(message, HumanMessage):
            requests[-1].append(message)
    request = (state.get("quantgraph") or {}).get("request") or {}
    for place, edited in request.get("edited", {}).items():
        if int(place) < len(requests):
            words, before = edited["words"], edited["instead"].split()
            said = [each for each in requests[int(place)] if str(each.id) not in before]
            requests[int(place)] = [HumanMessage(words, id=f"edited-{content_hash(words)}"), *said]
    return requests


def last_request(state: Mapping[str, Any]) -> Update:
    """Return what a message after the end may change: the parameters of the last request, and its code."""
    params = (state.get("user_intent") or {}).get("params") or request_of(state)["params"]
    request, cells = request_of(state)["checked"], strategy_of(state).get("cells", [])
    cells = [] if request.get("trees") else cells[:-1] if request.get("parts") else cells
    return {
        "last_request": params or dialogue_of(state)["last_request"],
        "last_cells": cells or dialogue_of(state)["last_cells"],
    }


def keep_last_request(messages: Sequence[AnyMessage], state: Mapping[str, Any]) -> None:
    """Write the last request into the closing message among those that a step adds to the state."""
    kept = last_request(state)
    for message in messages:
        if CLOSING_KEY in message.response_metadata and kept["last_request"]:
            message.additional_kwargs[FOLLOW_UP_KEY] = json.loads(canonical_json(kept, sort_keys=False))


def kept_request(messages: Sequence[AnyMessage]) -> object:
    """Return the last request as the newest closing message has it, which a caller may have written."""
    closing = (each.additional_kwargs for each in reversed(messages) if CLOSING_KEY in each.response_metadata)
    return next((each[FOLLOW_UP_KEY] for each in closing if FOLLOW_UP_KEY in each), None)


def only_thanks(state: Mapping[str, Any]) -> bool:
    """Whether the newest message only greets or thanks on a thread whose last request has ended."""
    earlier, newest = messages_by_request(state)[:-1], user_messages(state)
    return bool(earlier and newest) and all(is_courtesy(str(message.text)) for message in newest)


def thanked_update(state: Mapping[str, Any]) -> Update:
    """Return the update that answers thanks by a friendly message; empty if the newest one does not thank."""
    if not only_thanks(state):
        return {}
    text = say(
        language_of(str(user_messages(state)[-1].text)),
        zh="不客气，什么都没有改动。想改哪一点直接说，例如“改成30天”或“换成600036.SH”。",
        en="You are welcome; nothing was changed. To change something, just say it, such as "
        '"use 30 days" or "600036.SH instead".',
    )
    because = state.get("ended_because") or "done"
    metadata = {CLOSING_KEY: because, RUN_KEY: state.get("run_id"), _THANKS_KEY: True}
    return {
        "messages": [AIMessage(text, response_metadata=metadata)],
        "ended_because": because,
        "reflected_on": user_messages(state)[-1].id,
    }


def was_thanked(state: Mapping[str, Any]) -> bool:
    """Whether the newest message of the thread is the answer to thanks: there is nothing to run."""
    return any(_THANKS_KEY in message.response_metadata for message in list(state.get("messages") or [])[-1:])


def language(state: Mapping[str, Any]) -> Language:
    """Return the user's language, ``zh`` or ``en``."""
    return request_of(state)["language"] or request_language(state)


def request_language(state: Mapping[str, Any]) -> Language:
    """Return the language of the request's longest message with a number: the others greet or answer."""
    texts = [str(message.text) for message in user_messages(state)]
    wordy = [text for text in texts if any(map(str.isdigit, text))] or texts
    return language_of(max(wordy, key=len, default=""))


def extended_history(state: Mapping[str, Any], *lines: str) -> list[str]:
    """Return the execution history with ``lines`` appended."""
    return [*state.get("execution_history", []), *lines][-HISTORY_LIMIT:]


def success_update(state: Mapping[str, Any], line: str) -> Update:
    """Return the update of a step that worked: open errors move to the history as solved."""
    solved = [f"solved: {error}" for error in state.get("error_messages", [])]
    return {"error_messages": [], "execution_history": extended_history(state, *solved, line)}


def end_reason(error: QuantGraphError) -> EndedBecause:
    """Return the reason for the end of a run that ends with ``error``."""
    if isinstance(error, BudgetExceeded):
        return _BUDGET_REASONS[error.data["limit"]]
    default: EndedBecause = "model_unavailable" if "model" in error.data else "data_unavailable"
    return next((why for kind, why in _ERROR_REASONS.items() if isinstance(error, kind)), default)


def end_update(
    state: Mapping[str, Any],
    because: EndedBecause,
    error: str | QuantGraphError | None = None,
    *,
    text: str = "",
) -> Update:
    """Return the update that ends the run with a closing message. What was reached stays in the state."""
    line = error.line if isinstance(error, QuantGraphError) else error
    open_errors = state.get("error_messages", [])
    errors = [*open_errors, line] if line and line not in open_errors else list(open_errors)
    text = text or closing_text(because, errors[-1] if errors else "", language(state))
    metadata = {CLOSING_KEY: because, RUN_KEY: state.get("run_id")}
    return {
        "messages": [AIMessage(text, response_metadata=metadata)],
        "ended_because": because,
        "current_task": "end",
        "clarification_needed": None,
        "clarification": None,
        "error_messages": errors,
        "execution_history": extended_history(state, f"ended: {because}" + (f" ({line})" if line else "")),
        "left_ref": state.get("data_ref"),
        "ended": True,
    }
