"""The conversation of a trader's day: bounded, and read as AI-Trader's helpers read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from quantgraph._util.canonical_json import canonical_json
from quantgraph.errors import BadOption
from quantgraph.llm.model_json import reply_text, without_thoughts
from quantgraph.llm.tags import escape_tags

LEAST_WINDOW: Final = 4_000
"""Characters of the smallest window."""

_OLD = 200
"""Characters that an old message keeps."""
_LONGEST_TEXT = 20_000


def extract_conversation(
    response: Mapping[str, Any] | Sequence[AnyMessage], output_type: Literal["final", "all"] = "final"
) -> Any:
    """Return the model's last text, or all messages, of an agent's response.

    Parameters
    ----------
    response
        Messages, or a graph's state with ``messages`` or ``conversation``.
    output_type
        ``final``: the text of the last reply that has one, "" without one. ``all``: the messages.

    Raises
    ------
    BadOption
        If ``output_type`` is another one.
    """
    messages = _messages(response)
    if output_type == "all":
        return list(messages)
    if output_type != "final":
        raise BadOption(f"output_type={output_type!r:.40}; valid are final, all", parameter="output_type")
    texts = (clean_text(each) for each in reversed(messages) if isinstance(each, AIMessage))
    return next(filter(None, texts), "")


def extract_tool_messages(response: Mapping[str, Any] | Sequence[AnyMessage]) -> list[ToolMessage]:
    """Return the answers of tools in an agent's response, in order."""
    return [each for each in _messages(response) if isinstance(each, ToolMessage)]


def clean_text(reply: AIMessage) -> str:
    """Return the text of a reply without its thinking, storable, and of a bounded length."""
    text = without_thoughts(reply_text(reply.content)).encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def bounded_window(messages: Sequence[AnyMessage], limit: int) -> list[AnyMessage]:
    """Return a conversation of at most so many characters, where that is possible.

    The first two messages, which are the day, and what follows the last reply stay whole. Before them the
    oldest are shortened first: results of tools, then the model's own words and the arguments of its calls.
    """
    kept = list(messages)
    over = sum(map(_length, kept)) - limit
    last = max((place for place, each in enumerate(kept) if isinstance(each, AIMessage)), default=len(kept))
    old = range(2, last)
    answers = [place for place in old if not isinstance(kept[place], AIMessage)]
    replies = [place for place in old if isinstance(kept[place], AIMessage)]
    for place in [*answers, *replies]:
        if over <= 0:
            break
        before = kept[place]
        kept[place] = _short(before)
        over += _length(kept[place]) - _length(before)
    return kept


def _messages(response: Mapping[str, Any] | Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    if not isinstance(response, Mapping):
        return response
    found: Iterable[AnyMessage] = response.get("messages") or response.get("conversation") or ()
    return list(found)


def _length(message: AnyMessage) -> int:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return len(message.text) + sum(len(canonical_json(each["args"])) for each in calls)


def _short(message: AnyMessage) -> AnyMessage:
    text = str(message.text)
    if len(text) > _OLD:
        text = escape_tags(f"{text[:_OLD]}… ({len(text) - _OLD} characters left out)")
    if isinstance(message, AIMessage):
        calls = [
            {**each, "args": each["args"] if len(canonical_json(each["args"])) <= _OLD else {"…": "left out"}}
            for each in message.tool_calls
        ]
        return AIMessage(text, tool_calls=calls)
    if isinstance(message, ToolMessage):
        return ToolMessage(text, tool_call_id=message.tool_call_id)
    return HumanMessage(text)
