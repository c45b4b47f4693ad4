"""Arguments of tools and schemas from what a sentence says, by the names of the arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from quantgraph.llm.planner import replies
from quantgraph.llm.planner.codegen import write_code
from quantgraph.llm.planner.request import Request

__all__ = ["CODE_TOOL", "Tool", "dictated", "facts_of", "filled", "properties_of"]

CODE_TOOL = "python_repl"
"""The only tool whose ``query`` is code."""

Tool = Mapping[str, Any]
"""A bound tool in OpenAI's form, the part under ``function``."""


def properties_of(tool: Tool) -> dict[str, Any]:
    """Arguments of a tool by name."""
    properties = (tool.get("parameters") or {}).get("properties")
    return properties if isinstance(properties, dict) else {}


def facts_of(request: Request, text: str, examples: Sequence[str] = ()) -> dict[str, Any]:
    """Everything read, by the names that a schema may ask for. Empty where nothing was read.

    ``examples`` are those of the question about the stocks.
    """
    described = text if request.strategy else ""
    return {
        "ts_code": ",".join(request.symbols),
        "ts_codes": list(request.symbols),
        "symbol": ",".join(request.symbols),
        "symbols": list(request.symbols),
        "start_date": request.start or "",
        "start": request.start or "",
        "end_date": request.end or "",
        "end": request.end or "",
        "strategy_desc": described,
        "strategy": described,
        "type": request.intent,
        "task_type": request.intent,
        "intent": request.intent,
        "required_indicators": list(request.fields),
        "fields": ",".join(request.fields),
        "indicators": list(request.fields),
        "language": request.language,
        "missing": list(request.missing),
        "unread": list(request.unread),
        "needs_clarification": bool(request.missing),
        "clarification_question": replies.asked(request, examples),
        "query": write_code(request.strategy).source if request.strategy else "",
    }


def _typed(value: Any, schema: Mapping[str, Any]) -> Any:
    """Text as a list or a list as text, where the schema asks for the other."""
    wanted = schema.get("type")
    if wanted == "array" and isinstance(value, str):
        return [part for part in value.split(",") if part]
    if wanted == "string" and isinstance(value, list):
        return ",".join(value)
    return value


def filled(tool: Tool, facts: Mapping[str, Any], forced: bool) -> dict[str, Any] | None:
    """Arguments of a tool from the facts; None if it requires something that was not read."""
    properties = properties_of(tool)
    required = (tool.get("parameters") or {}).get("required") or []
    if tool.get("name") != CODE_TOOL:
        facts = {key: value for key, value in facts.items() if key != "query"}
    args = {key: _typed(facts[key], schema) for key, schema in properties.items() if key in facts}
    if any(key not in args for key in required):
        return None
    if not forced and any(args[key] in ("", [], None) for key in required):
        return None
    kept = {key: value for key, value in args.items() if key in required or value not in ("", [], None)}
    return kept or None


def dictated(tool: Tool, text: str) -> dict[str, Any] | None:
    """Arguments of a tool that a text says to call, with each value behind its name; None if it says less.

    >>> report = {"name": "report", "parameters": {"properties": {"word": {}, "count": {}}}}
    >>> dictated(report, 'Call the tool report with the word "ready" and the count 7.')
    {'word': 'ready', 'count': 7}
    """
    properties = properties_of(tool)
    if not re.search(rf"\bcall (?:the )?(?:tool )?{re.escape(str(tool.get('name')))}\b", text, re.IGNORECASE):
        return None
    said = {key: re.search(rf'\b{re.escape(key)}\b[\s:=]*(?:"([^"]*)"|(-?\d+))', text) for key in properties}
    args = {key: int(match[2]) if match[2] else match[1] for key, match in said.items() if match}
    return args if args and set(args) == set(properties) else None
