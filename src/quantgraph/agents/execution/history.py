"""The history of an execution: a record of each step, and the bounded conversation that a model is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from quantgraph._util.canonical_json import canonical_json
from quantgraph.agents.execution.step_action import Action
from quantgraph.llm.model_json import is_too_deep, reply_text, to_json
from quantgraph.llm.tags import escape_tags, read, wrap
from quantgraph.tools.plain_json import shortened

LONGEST_RESULT: Final = 12_000
"""Characters of one result, as JSON, in the conversation."""

LONGEST_CONVERSATION: Final = 60_000
"""Characters of the whole conversation."""

_OLD_RESULT, _OLD_REPLY = 400, 400  # characters of what is shortened for room


def record_of(action: Action, result: Any, timestamp: str) -> dict[str, Any]:
    """Record of a step.

    A call of a tool and an observation have a ``result``; a calculation and a decision only if there is one.

    Parameters
    ----------
    timestamp
        The simulated moment, in ISO format.
    """
    record: dict[str, Any] = {"step": action.step, "type": action.type, "reasoning": action.reasoning}
    if action.action is not None:
        record |= action.action.model_dump()
    if action.type == "calculation":
        record["intermediate_result"] = action.intermediate_result
    kept = action.result if result is None else result
    if kept is not None or action.type in ("tool_call", "observation"):
        record["result"] = kept
    return {**record, "timestamp": timestamp}


def bounded(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """A conversation of at most :data:`LONGEST_CONVERSATION` characters, where that is possible.

    Older results are shortened first, the oldest before the others, then older replies. The first message and
    the last result stay as they are.
    """
    kept = list(messages)
    over = sum(map(_length, kept)) - LONGEST_CONVERSATION
    answers = [place for place, each in enumerate(kept) if place and not isinstance(each, AIMessage)]
    replies = [place for place, each in enumerate(kept) if isinstance(each, AIMessage)]
    last = next((place for place in reversed(answers) if read("observation", kept[place].text)), 0)
    for place in [*(each for each in answers if each != last), *replies]:
        if over <= 0:
            break
        before = kept[place]
        after = _short_reply(before) if isinstance(before, AIMessage) else _short_answer(before)
        kept[place] = after
        over += _length(after) - _length(before)
    return kept


def short_args(args: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """Arguments of a call as plain JSON of at most so many characters."""
    short = shortened("…" if is_too_deep(args) else to_json(args), limit)
    return short if isinstance(short, dict) else {"…": short}


def _length(message: AnyMessage) -> int:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return len(reply_text(message.content)) + sum(
        len(canonical_json(each["args"], sort_keys=False)) for each in calls
    )


def _short_answer(message: AnyMessage) -> AnyMessage:
    """Return an answer with its result shortened; other text stays."""
    text = message.text
    told = read("observation", text)
    if told is None or not isinstance(message, HumanMessage | ToolMessage):
        return message
    observation = json.loads(told)
    observation["result"] = shortened(observation["result"], _OLD_RESULT)
    after = text[text.rindex("</observation>") + len("</observation>") :]
    return message.model_copy(
        update={"content": wrap("observation", canonical_json(observation, sort_keys=False)) + after}
    )


def _short_reply(message: AIMessage) -> AIMessage:
    """Return the beginning of a reply; long arguments of its calls are left out."""
    text = reply_text(message.content)
    if len(text) > _OLD_REPLY:
        text = f"{escape_tags(text[:_OLD_REPLY])}…"
    calls = [{**each, "args": short_args(each["args"], _OLD_REPLY)} for each in message.tool_calls]
    return message.model_copy(update={"content": text, "tool_calls": calls})
