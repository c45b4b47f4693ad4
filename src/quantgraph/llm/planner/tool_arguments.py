"""The request as arguments of tools and schemas, and as the answer of the reflection."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from quantgraph._util.traditional import simplified
from quantgraph.errors import BadWindow
from quantgraph.llm.planner import replies
from quantgraph.llm.planner.codegen import write_code
from quantgraph.llm.planner.dates import malformed_dates, without_dates
from quantgraph.llm.planner.normalisation import clean_words, normalise
from quantgraph.llm.planner.request import Missing, ParsedRequest, RequestContext, read_request
from quantgraph.llm.planner.watched_security import watched_of


def _with_codes(text: str, names: Mapping[str, str]) -> str:
    """The text with codes in place of names, so that it reads the same without them."""
    if any(name in simplified(text) and name not in text for name in names):
        text = simplified(text)
    for name in sorted(names, key=len, reverse=True):
        if name:
            text = re.sub(re.escape(name), f" {names[name]} ", text, flags=re.IGNORECASE)
    return text.strip()


def _understood(request: ParsedRequest) -> dict[str, Any]:
    """What is watched and traded, the spans, the rule's clauses, the trade plan, and what is not as said."""
    watch, trade = ",".join(request.watch), ",".join(request.trade)
    whole = ",".join(request.symbols)
    open_ = [{"words": clause.words, "became": "", "status": "not_done"} for clause in request.open]
    settled = [
        {"words": note.words, "became": note.became.text(request.language), "status": note.status}
        for note in request.clauses
    ]
    return {
        "watch": "" if watch == trade else watch,
        "trade": "" if trade == whole else trade,
        "windows": [list(span) for span in request.windows],
        "entry": request.entry,
        "exit": request.exit,
        "plan": dict(request.plan),
        "clauses": [*settled, *open_],
    }


def _needs_answer(request: ParsedRequest) -> bool:
    """Whether a part is unclear. The host asks itself about several spans, and about clauses that nothing executes."""
    said = {"plan", *(["window"] if request.windows else [])}
    return not said.issuperset(request.missing)


def reflection_answer(
    request: ParsedRequest, text: str, context: RequestContext, facts: Mapping[str, Any], errors: str
) -> dict[str, Any]:
    """The reflection's decision: the request as read, the question, and the next action.

    ``facts`` is the context of the prompt, ``errors`` the errors of earlier steps.
    """
    unclear = request.missing[:1] if _needs_answer(request) else ()
    asked = unclear[0] if unclear else None
    query = replies.next_question(request, context.examples) if unclear else None
    start, end = request.windows[0] if request.windows else (request.start, request.end)
    if asked is not None:
        action = "clarify"
    elif facts.get("signal_ready") is True and not errors:
        action = "validate"
    elif request.intent != "data_fetch" and facts.get("data_ready") is True:
        action = "signal_generate"
    else:
        action = "data_fetch"
    return {
        "analysis": replies.analysis(request, errors),
        "task_type": request.intent,
        "next_action": action,
        "user_intent": {
            "type": request.intent,
            "params": {
                "ts_code": ",".join(request.symbols),
                "start_date": start or "",
                "end_date": end or "",
                "strategy_desc": _with_codes(text, context.names) if request.strategy else "",
                "required_indicators": list(request.fields),
                **_understood(request),
            },
            "needs_clarification": asked is not None,
        },
        "clarification_question": query,
        "reasoning": replies.introduction(request.language),
        "unread": list(request.unread),
    }


def malformed_date_answer(
    error: BadWindow, text: str, context: RequestContext, facts: Mapping[str, Any], errors: str
) -> dict[str, Any]:
    """The decision on a request without its malformed dates, which are then missing."""
    lines = [normalise(line) for line in text.splitlines()]
    dates = tuple(dict.fromkeys(found for line in lines for found in malformed_dates(line)))
    rest = [without_dates(line) for line in lines]
    request = read_request("\n".join(rest), context)
    missing: tuple[Missing, ...] = tuple(dict.fromkeys((*request.missing[:1], "window", *request.missing)))
    if "symbols" not in request.missing:
        missing = ("window", *(part for part in request.missing if part != "window"))
    unread = (*dates, *request.unread)
    request = replace(request, start=None, end=None, missing=missing, unread=unread)
    found = reflection_answer(request, "\n".join(map(clean_words, rest)), context, facts, errors)
    if missing[0] == "window":
        found["clarification_question"] = replies.refused_date(error.message, request.language)
    return found


CODE_TOOL = "python_repl"
"""The tool whose ``query`` is code."""

Tool = Mapping[str, Any]
"""A bound tool in OpenAI's form, the part under ``function``."""


def tool_parameters(tool: Tool) -> dict[str, Any]:
    """Parameters of a tool by name."""
    properties = (tool.get("parameters") or {}).get("properties")
    return properties if isinstance(properties, dict) else {}


def request_facts(request: ParsedRequest, text: str, examples: Sequence[str] = ()) -> dict[str, Any]:
    """The request by the argument names that a schema may use; empty values for unread parts.

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
        "clarification_question": replies.next_question(request, examples),
        "query": _source(request),
    }


def _source(request: ParsedRequest) -> str:
    if request.strategy is None:
        return ""
    return write_code(request.strategy, watched_of(request.watch, request.trade)).source


def _typed(value: Any, schema: Mapping[str, Any]) -> Any:
    """A text as a list, or a list as a text, as the schema needs."""
    kind = schema.get("type")
    if kind == "array" and isinstance(value, str):
        return [part for part in value.split(",") if part]
    if kind == "string" and isinstance(value, list):
        return ",".join(value)
    return value


def fill_arguments(tool: Tool, facts: Mapping[str, Any], forced: bool) -> dict[str, Any] | None:
    """Arguments of a tool from the facts; None if a required one was not read."""
    properties = tool_parameters(tool)
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


def dictated_arguments(tool: Tool, text: str) -> dict[str, Any] | None:
    """Arguments of a tool call that a text dictates, each value behind its name; None unless complete.

    >>> report = {"name": "report", "parameters": {"properties": {"word": {}, "count": {}}}}
    >>> dictated_arguments(report, 'Call the tool report with the word "ready" and the count 7.')
    {'word': 'ready', 'count': 7}
    """
    properties = tool_parameters(tool)
    if not re.search(rf"\bcall (?:the )?(?:tool )?{re.escape(str(tool.get('name')))}\b", text, re.IGNORECASE):
        return None
    said = {key: re.search(rf'\b{re.escape(key)}\b[\s:=]*(?:"([^"]*)"|(-?\d+))', text) for key in properties}
    args = {key: int(match[2]) if match[2] else match[1] for key, match in said.items() if match}
    return args if args and set(args) == set(properties) else None
