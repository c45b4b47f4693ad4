"""Does the code do it: the conversation in which a model writes it, kept in the state as its attempts.

The node of the generation runs once for each attempt, perhaps in another process. What an attempt ran, what
was wrong with it, and what the user answered is plain JSON, of which the same messages are made each time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from typing_extensions import TypedDict

from quantgraph._util.parsing import parse_code
from quantgraph._util.texts import Language, Note
from quantgraph.llm.messages import wrap
from quantgraph.runtime import as_earlier_reply, stop_line, tool_errors
from quantgraph.runtime.graph_state import Attempt, Update
from quantgraph.tools import python_repl

_MAX_ATTEMPTS = 8
"""Attempts that are kept, the newest."""
_MAX_CELL = 20_000
"""Characters of a cell that are kept for the conversation."""
_MAX_TEXT = 2_000
"""Characters of a reply that are kept."""
_FINDING = Note(
    zh="还不正确：\n{errors}\n各段代码的变量已不在：改好后作为一段完整的代码重新运行。",
    en="That is not right yet:\n{errors}\nThe cells' variables are gone: mend the code and run it as one "
    "complete cell.",
)
_QUESTION = Note(
    zh="{errors}\n若属实请改代码；若不属实，请原样再运行一次并说明理由。各段代码的变量已不在：运行一段完整的代码。",
    en="{errors}\nIf that is right, mend the code; if it is not, hand the same code over again and say why. "
    "The cells' variables are gone: run one complete cell.",
)
REVIEW = "review: "
"""Begins what a reviewer thinks and no cell shows."""
_ANSWER = Note(
    zh="用户的回答：\n{answer}\n请写出完整的代码并运行。",
    en="The user's answer to your question:\n{answer}\nNow write the code and run it as one complete cell.",
)


class CodeRefusal(TypedDict):
    """What a model says in place of code: a question to the user, or why it declines."""

    kind: Literal["ask", "decline"]
    text: str


def instead_of_code(replies: Sequence[AnyMessage]) -> CodeRefusal | None:
    """Return what the first call of ``ask`` or ``decline`` says; None if there is none."""
    for message in replies:
        if isinstance(message, ToolMessage) and message.status != "error":
            if message.name == "ask":
                return CodeRefusal(kind="ask", text=str(message.text))
            if message.name == "decline":
                return CodeRefusal(kind="decline", text=str(message.text))
    return None


def _closing_words(replies: Sequence[AnyMessage]) -> str:
    """Return the words with which a model closes; empty if a limit ended it."""
    last = replies[-1]
    return (
        str(last.text).strip()[:_MAX_TEXT] if isinstance(last, AIMessage) and not stop_line(replies) else ""
    )


def attempt_of(request: Mapping[str, Any], replies: Sequence[AnyMessage], kept: Collection[str]) -> Attempt:
    """Return the attempt that a model's replies are."""
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

    They are attempts at the same rule with errors or an answered question.
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


def earlier_messages(attempts: Sequence[Attempt], language: Language) -> list[AnyMessage]:
    """Return the messages of earlier attempts: cells, closing words or question, and what came of them."""
    messages: list[AnyMessage] = []
    for number, attempt in enumerate(attempts, start=1):
        for place, cell in enumerate(attempt["cells"], start=1):
            messages += _call(python_repl.name, {"query": cell}, f"cell_{number}_{place}", "(ran)")
        if "question" in attempt:
            asked = {"question": attempt["question"]}
            messages += _call("ask", asked, f"ask_{number}", "(asked)")
        elif attempt["said"]:
            messages.append(as_earlier_reply(AIMessage(attempt["said"])))
        if "answer" in attempt:
            messages.append(
                HumanMessage(_ANSWER.text(language).format(answer=wrap("answers", attempt["answer"])))
            )
        if attempt["errors"]:
            errors = wrap("errors", "\n".join(attempt["errors"]))
            asks = all(error.startswith(REVIEW) for error in attempt["errors"])
            messages.append(
                HumanMessage((_QUESTION if asks else _FINDING).text(language).format(errors=errors))
            )
    return messages


def _call(tool: str, args: dict[str, Any], call_id: str, result: str) -> list[AnyMessage]:
    call = AIMessage("", tool_calls=[{"name": tool, "args": args, "id": call_id}])
    return [as_earlier_reply(call), ToolMessage(result, name=tool, tool_call_id=call_id)]


_REPLY_CHARACTERS = 160
_FENCE = re.compile(r"```[a-zA-Z0-9_+-]*\n(.*?)```", re.DOTALL)  # "```python\nprices\n```"
_LINE_OF_CODE = re.compile(  # "GLOBAL_DATA_STATE.update("
    r"^\s*(GLOBAL_DATA_STATE\.update\(|\w+ = (snapshot|GLOBAL_DATA_STATE)\b)", re.MULTILINE
)
_DOES = ast.Import | ast.ImportFrom | ast.Assign | ast.AugAssign | ast.Call


def no_signal_error(
    replies: Sequence[AnyMessage], names: Collection[str] = (), wanted: Collection[str] = ()
) -> str:
    """Return why an agent has published no signal, or not all ``wanted`` ones, as ``code: message``.

    In this order: a limit that ended it; code that it wrote into its reply instead of calling the tool;
    the error of its last tool call.
    """
    if names:
        lacking = ", ".join(name for name in wanted if name not in names)
        return f"no_signal: the code handed over no signal named {lacking}" if lacking else ""
    if line := stop_line(replies):
        return line
    text, calls = str(replies[-1].text), [each for each in replies if isinstance(each, ToolMessage)]
    if _LINE_OF_CODE.search(text) or any(_does_something(code) for code in _FENCE.findall(text)):
        return (
            "no_tool_call: the reply has code in its text, where it does not run; "
            f"call the tool {python_repl.name} with it"
        )
    if calls and (errors := tool_errors(calls[-1:])):
        return errors[0]
    reply_line = f" Reply: {reply}" if (reply := " ".join(text.split())[:_REPLY_CHARACTERS]) else ""
    if not calls:
        return (
            f"no_tool_call: no cell was run; call the tool {python_repl.name} with the code, ask with "
            f"a question to the user, or decline with the reason why the data cannot do it.{reply_line}"
        )
    return (
        "no_signal: the code handed over no signal; call GLOBAL_DATA_STATE.update('signal', "
        f"{{'name': frame}}).{reply_line}"
    )


def _does_something(code: str) -> bool:
    try:
        return any(isinstance(node, _DOES) for node in ast.walk(parse_code(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
