"""How a step and a run end: what was done, why it stopped, and what the user is told to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from quantgraph._util.texts import Language, Note, language_of, say
from quantgraph.errors import (
    BudgetExceeded,
    ModelOutputInvalid,
    ModelUnavailable,
    NoProgress,
    QuantGraphError,
)
from quantgraph.runtime.state import EndedBecause, Update

__all__ = [
    "closing_text",
    "count_ended_requests",
    "end_reason",
    "end_update",
    "extended_history",
    "has_ended_run",
    "language",
    "success_update",
    "user_messages",
]

_REWORD = Note(
    zh="请换一种说法、换代码或时间范围，或换一个模型，重新开始。",
    en="Begin again with other words, symbols or dates, or with another model.",
)
_BUDGETS = {
    "budget_calls": Note(zh="模型调用次数已到上限", en="the limit on model calls is reached"),
    "budget_tokens": Note(zh="token 用量已到上限", en="the limit on tokens is reached"),
    "budget_money": Note(zh="费用已到上限", en="the limit on money is reached"),
    "timeout": Note(zh="时间已到上限", en="the limit on time is reached"),
}
_RAISE = Note(
    zh="提高上限后可以继续，已付费的调用不会重做。",
    en="Raise it and resume: no call that was paid for is made again.",
)
_ENDINGS: dict[str, tuple[Note, Note]] = {  # all but ``done``
    "needs_answer": (
        Note(zh="有一个问题没有得到回答", en="a question was not answered"),
        Note(
            zh="请回答这个问题；提问次数用完时，请用一句完整的话重新开始。",
            en="Answer it; where no question is left, begin again with the whole sentence.",
        ),
    ),
    "max_retries": (Note(zh="多次尝试都失败了", en="every attempt failed"), _REWORD),
    "repeated_error": (Note(zh="同一个错误反复出现", en="the same error came again and again"), _REWORD),
    "no_progress": (Note(zh="执行在原地打转", en="the run went in circles"), _REWORD),
    **{because: (what, _RAISE) for because, what in _BUDGETS.items()},
    "causality_failed": (
        Note(
            zh="策略用到了未来数据，或无法证明没有用到",
            en="the strategy uses the future, or could not be proved not to",
        ),
        Note(
            zh="请改写规则，只用当时已知的数据，重新开始。",
            en="Begin again with a rule that uses only what was known at the time.",
        ),
    ),
    "data_unavailable": (
        Note(zh="取不到数据", en="the data cannot be had"),
        Note(
            zh="请检查代码、时间范围、令牌和网络；数据就绪后可以继续。",
            en="See to symbols, dates, token and network; resume once the data are there.",
        ),
    ),
    "cancelled": (
        Note(zh="运行被停止", en="the run was stopped"),
        Note(zh="可以随时继续。", en="It can be resumed."),
    ),
    "model_unavailable": (
        Note(zh="模型不可用", en="the model cannot be used"),
        Note(
            zh="请检查模型名、密钥和服务；恢复后可以继续。",
            en="See to its name, key and server; resume once it answers.",
        ),
    ),
}


def closing_text(because: str, why: str, language: str) -> str:
    """What happened and what to do next, with the line that says why, if there is one.

    Empty if ``because`` is none of the endings of a run that is not done.
    """
    if because not in _ENDINGS:
        return ""
    what, then = (note.text(language) for note in _ENDINGS[because])
    told = why.removeprefix(f"{because}: ").rstrip(".。")
    return say(
        language,
        zh=f"未完成（{because}）：{what}{'：' if told else ''}{told}。{then}",
        en=f"Not done ({because}): {what}{': ' if told else ''}{told}. {then}",
    )


HISTORY_LIMIT = 50


CLOSING = "quantgraph_ended"
"""Key in the metadata of the message that closes a request: hosts share messages, if nothing else."""


OF_RUN = "quantgraph_run"
"""Key beside it: the request's run."""


def count_ended_requests(state: Mapping[str, Any]) -> int:
    """How many requests of the thread ended before this one."""
    closings = (getattr(message, "response_metadata", {}) for message in state.get("messages", ()))
    return sum(CLOSING in metadata for metadata in closings)


def has_ended_run(state: Mapping[str, Any], run_id: str) -> bool:
    """Whether a request of the thread that ended before made the signal of a run of this name."""
    closings = (getattr(message, "response_metadata", {}) for message in state.get("messages", ()))
    return any(told.get(CLOSING) == "done" and told.get(OF_RUN) == run_id for told in closings)


def user_messages(state: Mapping[str, Any]) -> list[AnyMessage]:
    """The user's messages of this request: those after the message that closed the one before."""
    messages = state["messages"]
    closed = [place for place, message in enumerate(messages) if CLOSING in message.response_metadata]
    begin = closed[-1] + 1 if closed else 0
    return [message for message in messages[begin:] if isinstance(message, HumanMessage)]


def language(state: Mapping[str, Any]) -> Language:
    """The user's language, by the first thing said: ``zh`` or ``en``."""
    people = user_messages(state)
    return state.get("language") or language_of(str(people[0].text) if people else "")


def extended_history(state: Mapping[str, Any], *lines: str) -> list[str]:
    """The execution history with new lines at its end."""
    return [*state.get("execution_history", []), *lines][-HISTORY_LIMIT:]


def success_update(state: Mapping[str, Any], line: str) -> Update:
    """A step that worked: what was open is solved and moves to the history."""
    solved = [f"solved: {error}" for error in state.get("error_messages", [])]
    return {"error_messages": [], "execution_history": extended_history(state, *solved, line)}


def end_reason(error: QuantGraphError) -> EndedBecause:
    """The reason for the end that an error stands for, when nobody reacts to it."""
    if isinstance(error, BudgetExceeded):
        return _LIMITS[error.data["limit"]]
    lacking: EndedBecause = "model_unavailable" if "model" in error.data else "data_unavailable"
    return next((why for kind, why in _REASONS.items() if isinstance(error, kind)), lacking)


def end_update(
    state: Mapping[str, Any],
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
    text = text or closing_text(because, errors[-1] if errors else "", language(state))
    return {
        "messages": [AIMessage(text, response_metadata={CLOSING: because, OF_RUN: state.get("run_id")})],
        "ended_because": because,
        "current_task": "end",
        "clarification_needed": None,
        "clarification": None,
        "error_messages": errors,
        "execution_history": extended_history(state, f"ended: {because}" + (f" ({line})" if line else "")),
        "handled": people[-1].id if people else state.get("handled"),
    }


_LIMITS: dict[str, EndedBecause] = {
    "calls": "budget_calls",
    "prompt_tokens": "budget_tokens",
    "completion_tokens": "budget_tokens",
    "money": "budget_money",
    "seconds": "timeout",
}


_REASONS: dict[type[QuantGraphError], EndedBecause] = {
    ModelUnavailable: "model_unavailable",
    ModelOutputInvalid: "max_retries",
    NoProgress: "no_progress",
}
