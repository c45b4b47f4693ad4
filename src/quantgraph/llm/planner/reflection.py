"""The decision on a request: what the reflection of the graph is answered with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quantgraph.errors import BadWindow
from quantgraph.llm.planner import replies
from quantgraph.llm.planner.dates import malformed_dates, without_dates
from quantgraph.llm.planner.request import Context, Missing, Request, read_request
from quantgraph.llm.planner.wording import cleaned, normalise

__all__ = ["reflection", "refused_window"]


def _with_codes(text: str, names: Mapping[str, str]) -> str:
    """The text with names as codes, so that it reads the same where the names are not known."""
    for name in sorted(names, key=len, reverse=True):
        if name:
            text = re.sub(re.escape(name), f" {names[name]} ", text, flags=re.IGNORECASE)
    return text.strip()


def reflection(
    request: Request, text: str, context: Context, facts: Mapping[str, Any], errors: str
) -> dict[str, Any]:
    """What was read, what is asked, and what comes next, as the object that the reflection answers with.

    ``facts`` is the context of the prompt, ``errors`` what failed before; ``unread`` lists the words that
    found no place.
    """
    asked = request.missing[0] if request.missing else None
    query = replies.asked(request, context.examples)
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
                "start_date": request.start or "",
                "end_date": request.end or "",
                "strategy_desc": _with_codes(text, context.names) if request.strategy else "",
                "required_indicators": list(request.fields),
            },
            "needs_clarification": asked is not None,
        },
        "clarification_question": query,
        "reasoning": replies.introduction(request.language),
        "unread": list(request.unread),
    }


def refused_window(
    error: BadWindow, text: str, context: Context, facts: Mapping[str, Any], errors: str
) -> dict[str, Any]:
    """The decision on what is left without the malformed date; the date is asked for in its turn."""
    lines = [normalise(line) for line in text.splitlines()]
    dates = tuple(dict.fromkeys(found for line in lines for found in malformed_dates(line)))
    rest = [without_dates(line) for line in lines]
    request = read_request("\n".join(rest), context)
    missing: tuple[Missing, ...] = tuple(dict.fromkeys((*request.missing[:1], "window", *request.missing)))
    if "symbols" not in request.missing:
        missing = ("window", *(part for part in request.missing if part != "window"))
    unread = (*dates, *request.unread)
    request = replace(request, start=None, end=None, missing=missing, unread=unread)
    found = reflection(request, "\n".join(map(cleaned, rest)), context, facts, errors)
    if missing[0] == "window":
        found["clarification_question"] = replies.refused_date(error.message, request.language)
    return found
