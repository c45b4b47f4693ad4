"""How a model that knows no tools is told of them, and the form that its server is asked to hold it to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.utils.json_schema import dereference_refs
from pydantic import BaseModel

from quantgraph.llm.capabilities.modes import Rung

__all__ = ["Wanted", "answer_schema", "format_of", "note_of"]

Spec = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a reply may be.

    Attributes
    ----------
    tools
        Those offered: ``name``, ``description`` and ``parameters``, as under ``function`` of OpenAI's form.
    answer
        What the final answer has to be; None is any text.
    forced
        Whether a tool has to be called.
    """

    tools: tuple[Spec, ...] = ()
    answer: type[BaseModel] | None = None
    forced: bool = False

    @property
    def free(self) -> bool:
        """Whether any text will do."""
        return not self.tools and self.answer is None


def note_of(wanted: Wanted, rung: Rung) -> str:
    """What the model is told of tools and of the form of its reply; empty when any text will do."""
    if wanted.free:
        return ""
    block = "one ```json block with exactly one JSON object" if rung == "text" else "exactly one JSON object"
    lines = ["# Form of your reply", f"A program reads your reply: it has to be {block}, and nothing else."]
    if wanted.tools:
        lines += [
            'To call a tool: {"tool": "its name", "args": {its arguments}}. One call a reply; its result is '
            "in the next message. Never write a result yourself.",
        ]
    if not wanted.forced:
        lines.append(f"{'To finish' if wanted.tools else 'It is'}: {_ending(wanted, rung)}")
    for tool in wanted.tools:
        lines.append(
            f"## Tool {tool['name']}\n{tool.get('description', '')}\nargs: {_json(_parameters(tool))}"
        )
    return "\n".join(lines)


def format_of(wanted: Wanted, rung: Rung) -> dict[str, Any]:
    """Options of the request that hold the reply to its form; none on the rung ``text``."""
    if wanted.free or rung == "text":
        return {}
    if rung == "json_mode":
        return {"response_format": {"type": "json_object"}}
    options = [_call_schema(tool) for tool in wanted.tools]
    if not wanted.forced:
        options.append(
            _object({"answer": {"type": "string"}}) if wanted.answer is None else answer_schema(wanted.answer)
        )
    schema = options[0] if len(options) == 1 else {"anyOf": options}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}}


def answer_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """JSON schema of an answer, without references; no field may be left out, so that none is forgotten."""
    schema = dereference_refs(answer.model_json_schema())
    closed: dict[str, Any] = _closed({key: value for key, value in schema.items() if key != "$defs"})
    return closed


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict):
        result |= {"required": list(schema["properties"]), "additionalProperties": False}
    return result


def _ending(wanted: Wanted, rung: Rung) -> str:
    if wanted.answer is None:
        return '{"answer": "your final text"}'
    if rung == "json_schema":  # the server has the schema
        return "the JSON object that the task asks for"
    return f"the JSON object that the task asks for; its schema: {_json(answer_schema(wanted.answer))}"


def _call_schema(tool: Spec) -> dict[str, Any]:
    return _object({"tool": {"type": "string", "const": tool["name"]}, "args": _parameters(tool)})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    required: Sequence[str] = list(properties)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _parameters(tool: Spec) -> dict[str, Any]:
    return dict(tool.get("parameters") or {"type": "object", "properties": {}})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
