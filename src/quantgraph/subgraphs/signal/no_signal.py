"""Why an agent's conversation ended without a signal: the fault that is still open, in one line."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from langchain_core.messages import AnyMessage, ToolMessage

from quantgraph._util.parsed_code import parse_code
from quantgraph.runtime.agent_factory import tool_errors
from quantgraph.runtime.agent_middleware import stop_line
from quantgraph.tools import ask, decline, python_repl

_REPLY_CHARACTERS = 160
_FENCE = re.compile(r"```[a-zA-Z0-9_+-]*\n(.*?)```", re.DOTALL)
_LINE_OF_CODE = re.compile(
    r"^\s*(GLOBAL_DATA_STATE\.update\(|\w+ = (snapshot|GLOBAL_DATA_STATE)\b)", re.MULTILINE
)
_DOES = ast.Import | ast.ImportFrom | ast.Assign | ast.AugAssign | ast.Call


def no_signal_error(replies: Sequence[AnyMessage]) -> str:
    """Return why an agent that was to publish a signal has published none, as ``code: message``.

    In this order: a limit that ended it; code that it wrote into its reply instead of calling the tool; the
    error of its last tool call. The error of a cell after which another cell ran is solved and not returned:
    what is missing then is the update.

    Parameters
    ----------
    replies
        What the agent replied, tool messages included; at least one.
    """
    if line := stop_line(replies):
        return line
    text, calls = str(replies[-1].text), [each for each in replies if isinstance(each, ToolMessage)]
    if _has_code(text):
        return (
            "no_tool_call: the reply has code in its text, where it does not run; "
            f"call the tool {python_repl.name} with it"
        )
    if calls and (errors := tool_errors(calls[-1:])):
        return errors[0]
    told = f" Reply: {reply}" if (reply := " ".join(text.split())[:_REPLY_CHARACTERS]) else ""
    if not calls:
        return (
            f"no_tool_call: no cell was run; call the tool {python_repl.name} with the code, {ask.name} with "
            f"a question to the user, or {decline.name} with the reason why the data cannot do it.{told}"
        )
    return (
        "no_signal: the code handed over no signal; call GLOBAL_DATA_STATE.update('signal', "
        f"{{'name': frame}}).{told}"
    )


def _has_code(text: str) -> bool:
    return bool(_LINE_OF_CODE.search(text)) or any(_does_something(code) for code in _FENCE.findall(text))


def _does_something(code: str) -> bool:
    try:
        return any(isinstance(node, _DOES) for node in ast.walk(parse_code(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
