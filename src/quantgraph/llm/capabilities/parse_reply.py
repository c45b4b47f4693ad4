"""Parse a reply into tool calls (native or written as text), an answer, or a fault.

Text behind a call is ignored: the model has not seen the result, so it makes one up.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, InvalidToolCall
from langchain_core.messages.tool import ToolCall, tool_call

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.llm.capabilities.modes import ReplyForm, ToolSpec
from quantgraph.llm.capabilities.text_tool_call import (
    TextToolCall,
    calls_in_json,
    calls_in_markup,
    read_args,
    tools_by_name,
)
from quantgraph.llm.model_json import finish_reason, is_cut_off, reply_text, without_thoughts
from quantgraph.llm.repair import normalise_nulls
from quantgraph.llm.structured import JsonCandidate, find_json

_LIKE_A_CALL = re.compile(r"(\[\s*)?\{\s*[\"'](tool|name|function|tool_calls)[\"']\s*:")


@dataclass(frozen=True, kw_only=True)
class ParsedReply:
    """Tool calls, or a text.

    Attributes
    ----------
    text
        The final text, or the text before the calls; None leaves the content unchanged.
    fault
        Why the reply is neither a valid call nor an answer; the next question tells the model.
    """

    calls: tuple[ToolCall, ...] = ()
    text: str | None = None
    fault: str | None = None


def parse_reply(message: AIMessage, form: ReplyForm, *, native: bool, turn: int) -> ParsedReply:
    """Parse a reply.

    Parameters
    ----------
    native
        Whether tools were offered as tools. A call written as text is then valid if it is in the markup of
        calls, or a JSON object with exactly a bound tool's name and its arguments.
    turn
        Position of the reply in the conversation; call ids are derived from it, so that they repeat.

    Notes
    -----
    A call of an unbound tool is a call if it cannot be anything else; the agent answers it with an error.
    """
    if not form.tools:
        return ParsedReply()
    own, text = _native_calls(message), without_thoughts(reply_text(message.content))
    found_calls, answer = (
        (own, None) if own else _written_calls(text, form, native=native, cut_off=is_cut_off(message))
    )
    if fault := next((one.fault for one in found_calls if one.fault), None):
        return ParsedReply(fault=fault)
    if not found_calls:
        missing = "no tool was called, but one must be" if form.forced else None
        return ParsedReply(text=answer, fault=missing)
    ids = [call["id"] for call in [*message.tool_calls, *message.invalid_tool_calls]] or [None] * len(
        found_calls
    )
    given = Counter(ids)  # an id that two calls have names neither
    calls = tuple(
        _tool_call(one, form, id_ if id_ and given[id_] == 1 else _call_id(one, turn, place))
        for place, (one, id_) in enumerate(zip(found_calls, ids, strict=True))
    )
    if own:
        return ParsedReply(calls=calls)
    before = text[: found_calls[0].begin].rstrip()
    return ParsedReply(calls=calls, text=before.removesuffix("```json").removesuffix("```").rstrip())


def _written_calls(
    text: str, form: ReplyForm, *, native: bool, cut_off: bool
) -> tuple[list[TextToolCall], str | None]:
    """The calls in a text, or its answer; None means the text itself."""
    found_calls = calls_in_markup(text, form.tools, cut_off=cut_off)
    if found_calls:
        return found_calls, None
    found = find_json(text, cut_off=cut_off)
    found_calls = list(_calls_among(found, tools_by_name(form.tools), native=native, text=text))
    return found_calls, None if native else _answer(found, text)


def _native_calls(message: AIMessage) -> list[TextToolCall]:
    """The message's own calls. If the reply was cut off, its last call is faulty, however it was parsed."""
    found_calls = [TextToolCall(name=call["name"], begin=0, args=call["args"]) for call in message.tool_calls]
    found_calls += [_invalid_call(call, cut_off=is_cut_off(message)) for call in message.invalid_tool_calls]
    if found_calls and is_cut_off(message):
        last = found_calls[-1]
        found_calls[-1] = TextToolCall(
            name=last.name, begin=0, fault=f"the call of {last.name} was cut off ({finish_reason(message)})"
        )
    return found_calls


def _invalid_call(call: InvalidToolCall, *, cut_off: bool) -> TextToolCall:
    return read_args(call["name"] or "", call["args"] or "", 0, cut_off=cut_off)


def _calls_among(
    found: Sequence[JsonCandidate], known: dict[str, ToolSpec], *, native: bool, text: str
) -> Iterator[TextToolCall]:
    """The calls up to the first JSON that is not a call."""
    for one in found:
        if one.value is None:
            if _LIKE_A_CALL.match(text, one.begin):
                yield TextToolCall(
                    name="", begin=one.begin, fault=f"the call of a tool is broken: {one.problem}"
                )
            return
        calls = calls_in_json(one.value, one.begin)
        if not calls or (native and any(call.name not in known for call in calls)):
            return
        yield from calls


def _answer(found: Sequence[JsonCandidate], text: str) -> str:
    """The text of ``{"answer": ...}``; any other reply is the answer itself."""
    value = found[-1].value if found else None
    if isinstance(value, dict) and value.keys() == {"answer"}:
        answer = value["answer"]
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return text


def _tool_call(one: TextToolCall, form: ReplyForm, id_: str) -> ToolCall:
    tool = tools_by_name(form.tools).get(one.name, {})
    return tool_call(name=one.name, args=normalise_nulls(one.args, tool.get("parameters", {})), id=id_)


def _call_id(one: TextToolCall, turn: int, place: int) -> str:
    return f"call_{content_hash(canonical_json([turn, place, one.name, one.args]))[:24]}"
