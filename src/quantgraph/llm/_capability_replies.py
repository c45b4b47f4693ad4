"""Parse a reply into tool calls (of the API, or JSON objects in its text), a text, or a fault.

Text behind a call is ignored: the model has not seen the result, so it makes one up.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, InvalidToolCall
from langchain_core.messages.tool import ToolCall, tool_call

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.llm._capability_modes import CapabilityMode, ReplyForm
from quantgraph.llm.messages._json import finish_reason, is_cut_off, reply_text, without_thoughts
from quantgraph.llm.messages._structured import JsonCandidate, find_json, normalise_nulls

_BROKEN_CALL = re.compile(r"(\[\s*)?\{\s*[\"'](tool|name|function|tool_calls)[\"']\s*:")
_NAMED_CALL = re.compile(
    r"[\"'](?:tool|name|function)[\"']\s*:\s*[\"'](?P<name>[\w.-]+)[\"']\s*,\s*[\"'](?:args|arguments|parameters)[\"']\s*:"
)
_MARKUP = re.compile(
    r"<\W{0,9}(?:DSML\W{1,9})?(?:tool[_▁]calls?|function_calls?|function=|invoke\s)|\[TOOL_CALLS\]|to=functions\."
)
"""Signs of a call in the markup of a chat template, which the model's server should have read."""
_OTHER_FORM = (
    "it writes the call of a tool in a form that is not read; call a tool as the prompt says, by one JSON "
    'object {"tool": "its name", "args": {its arguments}}, or else by a tool call of the API'
)
_NO_CALL = "no tool was called, but one must be"


@dataclass(frozen=True, kw_only=True)
class ParsedReply:
    """Tool calls, or a text, or the fault of a reply that cannot be used."""

    calls: tuple[ToolCall, ...] = ()
    text: str | None = None
    fault: str | None = None
    without_tools: bool = False
    """Whether the reply shows that the server offers its model no tools."""


@dataclass(frozen=True, kw_only=True)
class _Call:
    """A call and its place in the text; ``fault`` says why it cannot be made."""

    name: str
    begin: int = 0
    args: dict[str, Any] = field(default_factory=dict)
    fault: str | None = None


def parse_reply(message: AIMessage, form: ReplyForm, *, mode: CapabilityMode, turn: int) -> ParsedReply:
    """Parse a reply.

    A call of an unbound tool is a call if it cannot be anything else; the agent answers it with an error.

    Parameters
    ----------
    mode
        How tools were offered. In mode ``native`` a call that is written as text is a fault.
    turn
        Number of the messages before, which makes the ids of written calls differ.
    """
    if not form.tools:
        return ParsedReply()
    own, text = _native_calls(message), without_thoughts(reply_text(message.content))
    calls = own or _written_calls(text, form, mode=mode, cut_off=is_cut_off(message))
    fault = next((one.fault for one in calls if one.fault), _NO_CALL if form.forced and not calls else None)
    if fault:
        return ParsedReply(fault=fault, without_tools=mode == "native" and fault == _OTHER_FORM)
    if not calls:
        return ParsedReply()
    ids = [call["id"] for call in [*message.tool_calls, *message.invalid_tool_calls]] or [None] * len(calls)
    given = Counter(ids)  # an id that two calls have names neither
    made = tuple(
        _tool_call(one, form, id_ if id_ and given[id_] == 1 else _call_id(one, turn, place))
        for place, (one, id_) in enumerate(zip(calls, ids, strict=True))
    )
    if own:
        return ParsedReply(calls=made)
    before = text[: calls[0].begin].rstrip()
    return ParsedReply(calls=made, text=before.removesuffix("```json").removesuffix("```").rstrip())


def _native_calls(message: AIMessage) -> list[_Call]:
    """The message's own calls. If the reply was cut off, its last call is faulty, however it was parsed."""
    calls = [_Call(name=call["name"], args=call["args"]) for call in message.tool_calls]
    calls += [_invalid_call(call, cut_off=is_cut_off(message)) for call in message.invalid_tool_calls]
    if calls and is_cut_off(message):
        name = calls[-1].name
        calls[-1] = _Call(name=name, fault=f"the call of {name} was cut off ({finish_reason(message)})")
    return calls


def _invalid_call(call: InvalidToolCall, *, cut_off: bool) -> _Call:
    """A call whose arguments the client could not read as JSON; no text means no arguments."""
    name, text = call["name"] or "", call["args"] or ""
    if not text.strip() and not cut_off:
        return _Call(name=name)
    found = find_json(text, cut_off=cut_off)
    if len(found) == 1 and isinstance(found[0].value, dict):
        return _Call(name=name, args=found[0].value)
    problem = next((one.problem for one in found if one.problem), None)
    shown = json.dumps(" ".join(text.split())[:60], ensure_ascii=False)
    return _Call(
        name=name, fault=f"the arguments of the call of {name} are not one JSON object: {problem or shown}"
    )


def _written_calls(text: str, form: ReplyForm, *, mode: CapabilityMode, cut_off: bool) -> list[_Call]:
    """The calls in a text up to the first JSON that is not a call, or a fault for one in another form."""
    calls = [] if mode == "native" else list(_calls_among(find_json(text, cut_off=cut_off), text))
    if not calls and _is_in_other_form(text, {str(tool["name"]) for tool in form.tools}):
        return [_Call(name="", fault=_OTHER_FORM)]
    return calls


def _calls_among(found: Sequence[JsonCandidate], text: str) -> Iterator[_Call]:
    for one in found:
        value = one.value
        if value is None:
            if _BROKEN_CALL.match(text, one.begin):
                yield _Call(name="", begin=one.begin, fault=f"the call of a tool is broken: {one.problem}")
            return
        if not isinstance(value, dict) or "tool" not in value or not value.keys() <= {"tool", "args"}:
            return
        name, args = value["tool"], value.get("args", {})
        if isinstance(name, str) and isinstance(args, dict):
            yield _Call(name=name, begin=one.begin, args=args)
        else:
            yield _Call(name="", begin=one.begin, fault=_OTHER_FORM)


def _is_in_other_form(text: str, known: set[str]) -> bool:
    """Whether a text names a bound tool and arguments before any whole object, or a tool beside markup."""
    call = _NAMED_CALL.search(text)
    if call is not None and call["name"] in known and "}" not in text[: call.start()]:
        return True
    return bool(_MARKUP.search(text)) and any(name in text for name in known)


def _tool_call(one: _Call, form: ReplyForm, id_: str) -> ToolCall:
    tool = next((tool for tool in form.tools if tool["name"] == one.name), {})
    return tool_call(name=one.name, args=normalise_nulls(one.args, tool.get("parameters", {})), id=id_)


def _call_id(one: _Call, turn: int, place: int) -> str:
    return f"call_{content_hash(canonical_json([turn, place, one.name, one.args]))[:24]}"
