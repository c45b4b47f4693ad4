"""A tool call that a model wrote as text, and the reading of its arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quantgraph.llm.structured import objects_in

__all__ = ["Spec", "Spoken", "by_name", "read_args"]

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
