"""A tool call that a model wrote as text, and the reading of its arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quantgraph.llm.structured import objects_in

__all__ = ["Spec", "Spoken", "by_name", "calls_of", "read_args"]

_NAMES = ("tool", "name", "function")
_ARGS = ("args", "arguments", "parameters")
_OF_A_CALL = frozenset({*_NAMES, *_ARGS, "id", "type"})
_OF_A_MESSAGE = frozenset({"role", "content", "tool_calls"})

Spec = Mapping[str, Any]
"""A tool as under ``function`` of OpenAI's form: ``name``, ``description``, ``parameters``."""


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """One call, and where in the text it begins; ``fault`` says why it cannot be made."""

    name: str
    begin: int
    args: dict[str, Any] = field(default_factory=dict)
    fault: str | None = None


def by_name(tools: Sequence[Spec]) -> dict[str, Spec]:
    """The tools by their names."""
    return {str(tool["name"]): tool for tool in tools}


def read_args(name: str, text: str, begin: int, *, cut_off: bool) -> Spoken:
    """A call whose arguments are a JSON object in ``text``, bare or in a fence; nothing is no arguments."""
    if not text.strip() and not cut_off:
        return Spoken(name=name, begin=begin)
    found = objects_in(text, cut_off=cut_off)
    if len(found) == 1 and isinstance(found[0].value, dict):
        return Spoken(name=name, begin=begin, args=found[0].value)
    problem = next((one.problem for one in found if one.problem), None)
    shown = json.dumps(" ".join(text.split())[:60], ensure_ascii=False)
    fault = f"the arguments of the call of {name} are not one JSON object: {problem or shown}"
    return Spoken(name=name, begin=begin, fault=fault)


def calls_of(value: object, begin: int, *, marked: bool = False) -> list[Spoken]:
    """The calls that a JSON value is: one, a list of them, or a message's ``tool_calls``; none if it is more.

    Parameters
    ----------
    marked
        Whether its place says that it is a call: then it may leave out arguments, and say more.
    """
    if isinstance(value, dict) and "tool_calls" in value and value.keys() <= _OF_A_MESSAGE:
        value = value["tool_calls"]
    calls = [_call_of(one, begin, marked=marked) for one in (value if isinstance(value, list) else [value])]
    whole = [call for call in calls if call is not None]
    return whole if len(whole) == len(calls) else []


def _call_of(value: Any, begin: int, *, marked: bool) -> Spoken | None:
    """An object as a call: a name and arguments and nothing else, or OpenAI's form around them."""
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
    return Spoken(name=name, begin=begin, args=args)
