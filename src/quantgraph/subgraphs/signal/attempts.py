"""The conversation in which a model writes a signal's code, kept in the state as its attempts.

The node of the generation runs once for each attempt, perhaps in another process. What an attempt ran, what
was wrong with it, and what the user answered is plain JSON, of which the same messages are made each time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NotRequired

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from typing_extensions import TypedDict

from quantgraph.llm.tags import wrap
from quantgraph.runtime.agent_middleware import as_earlier_reply, stop_line
from quantgraph.runtime.state import Update
from quantgraph.tools import ask, decline, python_repl

_MAX_ATTEMPTS = 8
"""Attempts that are kept, the newest."""
_MAX_CELL = 20_000
"""Characters of a cell that are kept for the conversation."""
_MAX_TEXT = 2_000
"""Characters of a reply that are kept."""
_FINDING = """\
That is not right yet / 还不正确:
{errors}
The cells' variables are gone: mend the code and run it as one complete cell. 请修正后重新运行完整的代码。"""
_ANSWER = """\
The user's answer to your question / 用户的回答:
{answer}
Now write the code and run it as one complete cell. 请写出完整的代码并运行。"""


class Attempt(TypedDict):
    """One attempt at a signal, as plain JSON."""

    request: dict[str, Any]
    """The request that it was for."""
    cells: list[str]
    """The cells that it ran; if none ran, the last that failed."""
    said: str
    """Its closing words."""
    errors: list[str]
    """What was wrong with it; empty while nothing is."""
    made: str | None
    """Content hash of the request with the sessions that its signal needs; None without a signal."""
    question: NotRequired[str]
    """What it asks the user in place of a signal."""
    answer: NotRequired[str]


class NotCoded(TypedDict):
    """What a model says in place of code: a question to the user, or why it declines."""

    kind: Literal["ask", "decline"]
    text: str


def instead_of_code(replies: Sequence[AnyMessage]) -> NotCoded | None:
    """Return what the first call of ``ask`` or ``decline`` says; None if there is none."""
    for message in replies:
        if isinstance(message, ToolMessage) and message.status != "error":
            if message.name == ask.name:
                return NotCoded(kind="ask", text=str(message.text))
            if message.name == decline.name:
                return NotCoded(kind="decline", text=str(message.text))
    return None


def _closing_words(replies: Sequence[AnyMessage]) -> str:
    """Return the words with which a model closes; empty if a limit ended it."""
    last = replies[-1]
    return (
        str(last.text).strip()[:_MAX_TEXT] if isinstance(last, AIMessage) and not stop_line(replies) else ""
    )


def attempt_of(request: Mapping[str, Any], replies: Sequence[AnyMessage], kept: Collection[str]) -> Attempt:
    """Return the attempt that a model's replies are.

    Parameters
    ----------
    kept
        The cells that are part of the strategy.
    """
    cells = (
        list(kept)
        or [
            str(call["args"].get("query", ""))
            for message in replies
            if isinstance(message, AIMessage)
            for call in message.tool_calls
            if call["name"] == python_repl.name
        ][-1:]
    )
    return Attempt(
        request=dict(request),
        cells=[cell[:_MAX_CELL] for cell in cells],
        said=_closing_words(replies),
        errors=[],
        made=None,
    )


def with_errors(attempts: Sequence[Attempt], errors: Sequence[str]) -> list[Attempt]:
    """Return the attempts, the last of which has these errors unless it has others."""
    if not attempts or attempts[-1]["errors"]:
        return list(attempts)
    return [*attempts[:-1], {**attempts[-1], "errors": list(errors)}]


def open_attempts(attempts: Sequence[Attempt], request: Mapping[str, Any]) -> list[Attempt]:
    """Return the attempts with which the conversation about a request goes on.

    They are those at the same rule with errors, and those whose question is answered.
    """
    rule = request["strategy"]
    return [
        each
        for each in attempts
        if "answer" in each or (each["errors"] and each["request"]["strategy"] == rule)
    ]


def keep_attempts(attempts: Sequence[Attempt], attempt: Attempt) -> list[Attempt]:
    """Return the attempts and a new one, without the oldest if they are many."""
    return [*attempts, attempt][-_MAX_ATTEMPTS:]


def answered_attempts(attempts: Sequence[Attempt], question: str, answer: str) -> Update:
    """Return the update in which the generation's open question has its answer; empty if it is not its."""
    if not attempts or attempts[-1].get("question") != question or "answer" in attempts[-1]:
        return {}
    return {"attempts": [*attempts[:-1], {**attempts[-1], "answer": answer}]}


def earlier_messages(attempts: Sequence[Attempt]) -> list[AnyMessage]:
    """Return the messages of earlier attempts: cells, closing words or question, and what came of them."""
    messages: list[AnyMessage] = []
    for number, attempt in enumerate(attempts, start=1):
        for place, cell in enumerate(attempt["cells"], start=1):
            messages += _call(python_repl.name, {"query": cell}, f"cell_{number}_{place}", "(ran)")
        if "question" in attempt:
            asked = {"question": attempt["question"]}
            messages += _call(ask.name, asked, f"ask_{number}", "(asked)")
        elif attempt["said"]:
            messages.append(as_earlier_reply(AIMessage(attempt["said"])))
        if "answer" in attempt:
            messages.append(HumanMessage(_ANSWER.format(answer=wrap("answers", attempt["answer"]))))
        if attempt["errors"]:
            errors = wrap("errors", "\n".join(attempt["errors"]))
            messages.append(HumanMessage(_FINDING.format(errors=errors)))
    return messages


def _call(tool: str, args: dict[str, Any], call_id: str, result: str) -> list[AnyMessage]:
    call = AIMessage("", tool_calls=[{"name": tool, "args": args, "id": call_id}])
    return [as_earlier_reply(call), ToolMessage(result, name=tool, tool_call_id=call_id)]
