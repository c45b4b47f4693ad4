"""Tool calls that a model wrote as text: in the markup of chat templates, or as JSON.

The spelling of each markup is that of its vendor's chat template, as the parsers of vLLM and SGLang read it.

Parse a reply into tool calls (native or written as text), an answer, or a fault.

Text behind a call is ignored: the model has not seen the result, so it makes one up.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from langchain_core.messages import AIMessage, InvalidToolCall
from langchain_core.messages.tool import ToolCall, tool_call

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.llm._capability_modes import ReplyForm, ToolSpec
from quantgraph.llm.messages._json import finish_reason, is_cut_off, reply_text, without_thoughts
from quantgraph.llm.messages._structured import JsonCandidate, find_json, normalise_nulls

_NAMES = ("tool", "name", "function")
_ARGS = ("args", "arguments", "parameters")
_OF_A_CALL = frozenset({*_NAMES, *_ARGS, "id", "type"})
_OF_A_MESSAGE = frozenset({"role", "content", "tool_calls"})

_DSML = re.compile(r"<(/?)\s*[｜|]\s*DSML\s*[｜|]\s*")  # DeepSeek V3.2: before each of the tags below


def _token(word: str) -> str:
    return rf"<[｜|]tool[▁_]{word}[｜|]>"


_NAME: Final = r"(?P<name>[\w.-]{1,100}+)"
_HEADER: Final = r"[^<]{0,40}+<\|(?:channel|constrain)\|>"
_FORMS: Final[tuple[tuple[str, str, str], ...]] = (
    ("Llama, Qwen-Coder", r"<function=(?P<name>[^<>\s]++)\s*+>", "</function>"),
    ("DeepSeek V3.2, MiniMax", r"<invoke\s+name=[\"']?(?P<name>[^\"'<>]++)[\"']?\s*+>", "</invoke>"),
    ("Hermes, Qwen", r"<tool_call>(?=\s*+[{\[])", "</tool_call>"),
    ("GLM", rf"<tool_call>\s*+{_NAME}\s*+(?=<arg_key>|</tool_call>)", "</tool_call>"),
    (
        "DeepSeek V3, V3.1",
        rf"{_token('call[▁_]begin')}\s*+(?:function{_token('sep')})?{_NAME}(?:{_token('sep')}|\s)",
        _token("call[▁_]end"),
    ),
    (
        "Kimi K2",
        rf"{_token('call_begin')}\s*+(?:functions\.)?{_NAME}(?::\d+)?\s*+{_token('call_argument_begin')}",
        _token("call_end"),
    ),
    ("Mistral", r"\[TOOL_CALLS\](?=\s*+(?:\[\s*+)?\{)", r"(?=\[TOOL_CALLS\])|</s>"),
    (
        "Mistral since v11",
        rf"\[TOOL_CALLS\]\s*+{_NAME}(?:\[CALL_ID\]\w{{1,100}}+)?(?:\[ARGS\])?(?=\s*+\{{)",
        r"(?=\[TOOL_CALLS\])|</s>",
    ),
    (
        "gpt-oss",
        rf"(?:<\|channel\|>\w{{1,20}}+\s++)?\bto=functions\.{_NAME}(?:{_HEADER}){{0,2}}[^<]{{0,40}}+<\|message\|>",
        r"<\|(?:call|end|return|start)\|>",
    ),
)
"""Vendor, opening and closing of a call. Where the opening does not name the tool, the JSON does."""


_CALL = re.compile(
    "|".join(
        rf"{opening.replace('<name>', f'<name{n}>')}(?P<body{n}>.*?)(?:{closing}|\Z)"
        for n, (_, opening, closing) in enumerate(_FORMS)
    ),
    re.DOTALL,
)
_WRAPPER = re.compile(
    rf"<tool_calls?>|<function_calls>|{_token('calls?[▁_](?:section[▁_])?begin')}|<\|(?:start|channel)\|>"
)
_PARAMETER = re.compile(
    r"<parameter(?:=(?P<short>[^<>\s]++)|\s+name=[\"']?(?P<name>[^\"'<>\s]++)[\"']?)(?P<more>[^<>]*+)>"
    r"|<arg_key>\s*+(?P<key>[^<>]{1,200}+)</arg_key>\s*+<arg_value>"
)
_IN_PARAMETERS = re.compile(r"<(?:parameter|arg_key)\b")
_IN_JSON = re.compile(r"\s*+(?:\{|```)")
_STRING = re.compile(r"string\s*=\s*[\"']?true")


@dataclass(frozen=True, kw_only=True)
class TextToolCall:
    """A call and its place in the text; ``fault`` says why it cannot be made."""

    name: str
    begin: int
    args: dict[str, Any] = field(default_factory=dict)
    fault: str | None = None


def tools_by_name(tools: Sequence[ToolSpec]) -> dict[str, ToolSpec]:
    """Map tools by name."""
    return {str(tool["name"]): tool for tool in tools}


def read_args(name: str, text: str, begin: int, *, cut_off: bool) -> TextToolCall:
    """A call whose arguments are a JSON object in ``text``, bare or fenced; empty text means no arguments."""
    if not text.strip() and not cut_off:
        return TextToolCall(name=name, begin=begin)
    found = find_json(text, cut_off=cut_off)
    if len(found) == 1 and isinstance(found[0].value, dict):
        return TextToolCall(name=name, begin=begin, args=found[0].value)
    problem = next((one.problem for one in found if one.problem), None)
    shown = json.dumps(" ".join(text.split())[:60], ensure_ascii=False)
    fault = f"the arguments of the call of {name} are not one JSON object: {problem or shown}"
    return TextToolCall(name=name, begin=begin, fault=fault)


def calls_in_json(value: object, begin: int, *, marked: bool = False) -> list[TextToolCall]:
    """The calls in a JSON value: one, a list of them, or a message's ``tool_calls``; else empty."""
    if isinstance(value, dict) and "tool_calls" in value and value.keys() <= _OF_A_MESSAGE:
        value = value["tool_calls"]
    calls = [_call_of(one, begin, marked=marked) for one in (value if isinstance(value, list) else [value])]
    whole = [call for call in calls if call is not None]
    return whole if len(whole) == len(calls) else []


def _call_of(value: Any, begin: int, *, marked: bool) -> TextToolCall | None:
    """An object as a call: only a name and arguments, bare or in OpenAI's form."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not (marked or value.keys() <= _OF_A_CALL):
        return None
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    args: Any = next((value[key] for key in _ARGS if key in value), {} if marked else None)
    if name is None or not isinstance(args, dict | str):
        return None
    if isinstance(args, str):
        return read_args(name, args, begin, cut_off=False)
    return TextToolCall(name=name, begin=begin, args=args)


def calls_in_markup(text: str, tools: Sequence[ToolSpec], *, cut_off: bool) -> list[TextToolCall]:
    """The calls of a text in order, up to and including the first with a fault; unknown tools count.

    A call without its closing tag is valid if its JSON is complete and the reply was not cut off.
    """
    text = _DSML.sub(r"<\1", text)
    found: list[TextToolCall] = []
    for call in _calls(text, tools_by_name(tools), cut_off=cut_off):
        found.append(call)
        if call.fault:
            break
    wrapper = _WRAPPER.search(text, 0, found[0].begin) if found else None
    if wrapper is None:
        return found
    return [replace(one, begin=wrapper.start()) for one in found]


def _calls(text: str, known: Mapping[str, ToolSpec], *, cut_off: bool) -> Iterator[TextToolCall]:
    for match in _CALL.finditer(text):
        form = str(match.lastgroup).removeprefix("body")
        body, closed = match[f"body{form}"], match.end(f"body{form}") < len(text)
        cut = cut_off and not closed
        name = match[f"name{form}"].strip() if f"name{form}" in _CALL.groupindex else None
        if name is None:
            yield from _json_calls(body, match.start(), cut_off=cut)
        elif _is_call(body, closed=closed, known=name in known):
            yield _element(name, body, match.start(), known.get(name, {}), closed=closed, cut_off=cut)


def _is_call(body: str, *, closed: bool, known: bool) -> bool:
    """Whether the text after an opening tag makes it a call, not prose about calls."""
    if _IN_JSON.match(body) or _IN_PARAMETERS.match(body.lstrip()):
        return True
    return known and (closed or not body.strip())


def _json_calls(body: str, begin: int, *, cut_off: bool) -> Iterator[TextToolCall]:
    for place, one in enumerate(find_json(body, cut_off=cut_off)):
        calls = calls_in_json(one.value, begin, marked=True)
        if place and not calls and one.value is not None:
            return
        problem = one.problem or "it names no tool"
        yield from calls or [
            TextToolCall(name="", begin=begin, fault=f"the call of a tool cannot be read: {problem}")
        ]


def _element(
    name: str, body: str, begin: int, tool: ToolSpec, *, closed: bool, cut_off: bool
) -> TextToolCall:
    if _IN_JSON.match(body) or not _IN_PARAMETERS.search(body):
        return read_args(name, body, begin, cut_off=cut_off)
    parameters, rest = _parameters(body)
    if not closed or _IN_PARAMETERS.search(rest):
        return TextToolCall(
            name=name, begin=begin, fault=f"the call of {name} is never closed; was it cut off?"
        )
    fields = tool.get("parameters", {}).get("properties", {})
    args: dict[str, Any] = {}
    for tag, value in parameters:
        key = tag["short"] or tag["name"] or tag["key"].strip()
        args[key] = _value(value, fields.get(key, {}), is_text=bool(_STRING.search(tag["more"] or "")))
    return TextToolCall(name=name, begin=begin, args=args)


def _parameters(body: str) -> tuple[list[tuple[re.Match[str], str]], str]:
    """Each opening tag with its content, and the text outside of parameters."""
    found: list[tuple[re.Match[str], str]] = []
    rest: list[str] = []
    position = 0
    while tag := _PARAMETER.search(body, position):
        closing = "</arg_value>" if tag["key"] else "</parameter>"
        end = body.find(closing, tag.end())
        if end < 0:
            break
        found.append((tag, body[tag.end() : end]))
        rest.append(body[position : tag.start()])
        position = end + len(closing)
    return found, "".join([*rest, body[position:]])


def _value(text: str, field: Mapping[str, Any], *, is_text: bool) -> Any:
    """A parameter's value: text as written if the tool takes text, else parsed as JSON where possible."""
    text = text.removeprefix("\n").removesuffix("\n")
    if is_text or field.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


_LIKE_A_CALL = re.compile(r"(\[\s*)?\{\s*[\"'](tool|name|function|tool_calls)[\"']\s*:")


@dataclass(frozen=True, kw_only=True)
class ParsedReply:
    """Tool calls, or a text."""

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
