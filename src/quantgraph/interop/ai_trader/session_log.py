"""AI-Trader's ``log.jsonl``: what was said in a session, a JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

LogForm = Literal["messages", "ai-trader"]
"""``messages``: ``role`` and ``content`` a line. ``ai-trader``: ``signature`` and ``new_messages``."""


@dataclass(frozen=True, kw_only=True)
class SessionMessage:
    """A message of a session.

    Attributes
    ----------
    role, content
        ``user`` or ``assistant``, and the text.
    of_step
        Whether it belongs to a step; else it is the first message or the final answer.
    unresolved
        Numbers of the text that nothing of the day explains.
    """

    role: Literal["user", "assistant"]
    content: str
    of_step: bool = False
    unresolved: Sequence[str] = ()


def session_log(
    messages: Iterable[SessionMessage], form: LogForm = "messages", *, signature: str = ""
) -> bytes:
    r"""Write the messages of a session as lines.

    In AI-Trader's own form the first message and the final answer are lists, and the messages of steps are
    objects.

    >>> told = SessionMessage(role="user", content="Begin.")
    >>> session_log([told])
    b'{"role": "user", "content": "Begin."}\n'
    >>> session_log([told], "ai-trader", signature="a")
    b'{"signature": "a", "new_messages": [{"role": "user", "content": "Begin."}]}\n'
    """
    lines = []
    for each in messages:
        told: dict[str, Any] = {"role": each.role, "content": each.content}
        if each.unresolved:
            told["unresolved_numbers"] = list(each.unresolved)
        if form == "ai-trader":
            told = {"signature": signature, "new_messages": told if each.of_step else [told]}
        lines.append(json.dumps(told, ensure_ascii=False) + "\n")
    return "".join(lines).encode("utf-8", "backslashreplace")
