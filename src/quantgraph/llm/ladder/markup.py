"""Tool calls in the markup that chat templates use, which a server should have read and did not.

Known are ``<tool_call>{json}</tool_call>`` (Hermes, Qwen), ``<function=name>`` with JSON or with
``<parameter=key>`` (Llama, Qwen-Coder), ``<invoke name="name">`` with ``<parameter name="key">``, the same
with DeepSeek's ``｜DSML｜`` before each tag, and DeepSeek's ``<｜tool▁call▁begin｜>`` tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quantgraph.llm.ladder.spoken import Spec, Spoken, by_name, read_args
from quantgraph.llm.structured import objects_in

__all__ = ["calls_in_markup"]

_DSML = re.compile(r"<(/?)\s*[｜|]\s*DSML\s*[｜|]\s*")


def _token(word: str) -> str:
    return rf"<[｜|]tool[▁_]{word}[｜|]>"


_CALL = re.compile(
    r"<function=(?P<function>[^<>\s]++)\s*+>(?P<function_body>.*?)(?P<function_end></function>|\Z)"
    r"|<invoke\s+name=[\"']?(?P<invoke>[^\"'<>]++)[\"']?\s*+>(?P<invoke_body>.*?)(?P<invoke_end></invoke>|\Z)"
    r"|<tool_call>(?=\s*[{\[])(?P<json_body>.*?)(?P<json_end></tool_call>|\Z)"
    rf"|{_token('call[▁_]begin')}(?P<token_body>.*?)(?P<token_end>{_token('call[▁_]end')}|\Z)",
    re.DOTALL,
)
_SEPARATOR = re.compile(_token("sep"))
_PARAMETER = re.compile(
    r"<parameter(?:=(?P<short>[^<>\s]++)|\s+name=[\"']?(?P<name>[^\"'<>\s]++)[\"']?)(?P<more>[^<>]*+)>"
)
_END = "</parameter>"
_STRING = re.compile(r"string\s*=\s*[\"']?true")


def calls_in_markup(text: str, tools: Sequence[Spec], *, cut_off: bool) -> list[Spoken]:
    """All calls of a text, in order, those of unknown tools too.

    A call whose markup is not closed counts if its JSON is whole and the reply was not cut off. ``begin`` is
    the place of the first tag, a wrapper around the calls included, so that the text before it is prose.
    """
    text = _DSML.sub(r"<\1", text)
    known = by_name(tools)
    found = list(_calls(text, known, cut_off=cut_off))
    begin = re.search(rf"<tool_calls?>|<function_calls>|{_token('calls?[▁_]begin')}", text)
    if begin is None:
        return found
    return [Spoken(name=one.name, begin=begin.start(), args=one.args, fault=one.fault) for one in found]


def _calls(text: str, known: Mapping[str, Spec], *, cut_off: bool) -> Iterator[Spoken]:
    for match in _CALL.finditer(text):
        kind = next(
            name for name in ("function", "invoke", "json", "token") if match[f"{name}_body"] is not None
        )
        body, closed, begin = match[f"{kind}_body"], bool(match[f"{kind}_end"]), match.start()
        cut = cut_off and not closed
        if kind == "json":
            yield from _json_calls(body, begin, cut_off=cut)
        elif kind == "token":
            name, args = _parted(body)
            yield read_args(name, args, begin, cut_off=cut)
        else:
            name = match[kind].strip()
            yield _element(name, body, begin, known.get(name, {}), closed=closed, cut_off=cut)


def _json_calls(body: str, begin: int, *, cut_off: bool) -> Iterator[Spoken]:
    for one in objects_in(body, cut_off=cut_off):
        value = one.value
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            args = value.get("arguments", value.get("parameters", {}))
            text = args if isinstance(args, str) else json.dumps(args)
            yield read_args(value["name"], text, begin, cut_off=cut_off)
        else:
            problem = one.problem or 'it has no "name"'
            yield Spoken(name="", begin=begin, fault=f"the call in <tool_call> cannot be read: {problem}")


def _parted(body: str) -> tuple[str, str]:
    """Name and arguments: ``function<sep>name`` and JSON below it in DeepSeek V3, ``name<sep>JSON`` since."""
    parts = _SEPARATOR.split(body)
    if parts[0].strip() == "function" and len(parts) > 1:
        name, _, args = parts[1].strip().partition("\n")
        return name.strip(), args
    return parts[0].strip(), "".join(parts[1:])


def _element(name: str, body: str, begin: int, tool: Spec, *, closed: bool, cut_off: bool) -> Spoken:
    parameters = list(_parameters(body))
    if not parameters and "<parameter" not in body:
        return read_args(name, body, begin, cut_off=cut_off)
    if not closed or body.count("<parameter") > len(parameters):
        return Spoken(name=name, begin=begin, fault=f"the call of {name} is never closed; was it cut off?")
    fields = tool.get("parameters", {}).get("properties", {})
    args: dict[str, Any] = {}
    for tag, value in parameters:
        key = tag["short"] or tag["name"]
        args[key] = _value(value, fields.get(key, {}), is_text=bool(_STRING.search(tag["more"])))
    return Spoken(name=name, begin=begin, args=args)


def _parameters(body: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each opening tag with what stands up to the next closing one."""
    position = 0
    while (tag := _PARAMETER.search(body, position)) and (end := body.find(_END, tag.end())) >= 0:
        yield tag, body[tag.end() : end]
        position = end + len(_END)


def _value(text: str, field: Mapping[str, Any], *, is_text: bool) -> Any:
    """A parameter's value: as written where the tool takes a text, else as JSON if it is."""
    text = text.removeprefix("\n").removesuffix("\n")
    if is_text or field.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
