"""What a reply is: tool calls, native or written as text, or an answer; or what is wrong with it.

What a model writes behind a call is not read: it has not seen the result, so it makes one up.
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
from quantgraph.llm.capabilities.modes import ReplyForm
from quantgraph.llm.capabilities.text_tool_call import (
    TextToolCall,
    ToolSpec,
    calls_in_json,
    calls_in_markup,
    read_args,
    tools_by_name,
)
from quantgraph.llm.model_json import finish_reason, is_cut_off
from quantgraph.llm.repair import normalise_nulls
from quantgraph.llm.structured import JsonCandidate, find_json, reply_text, without_thoughts

__all__ = ["ParsedReply", "parse_reply"]

_LIKE_A_CALL = re.compile(r"(\[\s*)?\{\s*[\"'](tool|name|function|tool_calls)[\"']\s*:")


@dataclass(frozen=True, kw_only=True)
class ParsedReply:
    """Calls to make, or a text.

    Attributes
    ----------
    text
        The final text, or what was said before the calls; None leaves the content as it is.
    fault
        Why the reply can be neither carried out nor taken for an answer; the model is told so.
    """

    calls: tuple[ToolCall, ...] = ()
    text: str | None = None
    fault: str | None = None


def parse_reply(message: AIMessage, wanted: ReplyForm, *, native: bool, turn: int) -> ParsedReply:
    """Read a reply.

    Parameters
    ----------
    native
        Whether tools were offered as tools. A call that is written as text all the same counts, if it is in
        the markup of calls, or a JSON object with exactly a bound tool's name and its arguments.
    turn
        Place of the reply in the conversation; ids of calls are made from it, so that they repeat.

    Notes
    -----
    A call of a tool that is not bound is a call too where it cannot be anything else: whoever runs the tools
    tells the model so.
    """
    if not wanted.tools:
        return ParsedReply()
    own, text = _native(message), without_thoughts(reply_text(message.content))
    said, answer = (own, None) if own else _written(text, wanted, native=native, cut_off=is_cut_off(message))
    if fault := next((one.fault for one in said if one.fault), None):
        return ParsedReply(fault=fault)
    if not said:
        missing = "no tool was called, and one has to be" if wanted.forced else None
        return ParsedReply(text=answer, fault=missing)
    ids = [call["id"] for call in [*message.tool_calls, *message.invalid_tool_calls]] or [None] * len(said)
    given = Counter(ids)  # an id that two calls have names neither
    calls = tuple(
        _made(one, wanted, id_ if id_ and given[id_] == 1 else _id(one, turn, place))
        for place, (one, id_) in enumerate(zip(said, ids, strict=True))
    )
    if own:
        return ParsedReply(calls=calls)
    before = text[: said[0].begin].rstrip()
    return ParsedReply(calls=calls, text=before.removesuffix("```json").removesuffix("```").rstrip())


def _written(
    text: str, wanted: ReplyForm, *, native: bool, cut_off: bool
) -> tuple[list[TextToolCall], str | None]:
    """Calls that stand in a text, or what it is as an answer (None: as it is)."""
    said = calls_in_markup(text, wanted.tools, cut_off=cut_off)
    if said:
        return said, None
    found = find_json(text, cut_off=cut_off)
    said = list(_calls_among(found, tools_by_name(wanted.tools), native=native, text=text))
    return said, None if native else _answer(found, text)


def _native(message: AIMessage) -> list[TextToolCall]:
    """The message's own calls; when it was cut off, that is in the last of them, however it was parsed."""
    said = [TextToolCall(name=call["name"], begin=0, args=call["args"]) for call in message.tool_calls]
    said += [_almost(call, cut_off=is_cut_off(message)) for call in message.invalid_tool_calls]
    if said and is_cut_off(message):
        last = said[-1]
        said[-1] = TextToolCall(
            name=last.name, begin=0, fault=f"the call of {last.name} was cut off ({finish_reason(message)})"
        )
    return said


def _almost(call: InvalidToolCall, *, cut_off: bool) -> TextToolCall:
    return read_args(call["name"] or "", call["args"] or "", 0, cut_off=cut_off)


def _calls_among(
    found: Sequence[JsonCandidate], known: dict[str, ToolSpec], *, native: bool, text: str
) -> Iterator[TextToolCall]:
    """The calls up to the first piece of JSON that is none."""
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


def _made(one: TextToolCall, wanted: ReplyForm, id_: str) -> ToolCall:
    tool = tools_by_name(wanted.tools).get(one.name, {})
    return tool_call(name=one.name, args=normalise_nulls(one.args, tool.get("parameters", {})), id=id_)


def _id(one: TextToolCall, turn: int, place: int) -> str:
    return f"call_{content_hash(canonical_json([turn, place, one.name, one.args]))[:24]}"
