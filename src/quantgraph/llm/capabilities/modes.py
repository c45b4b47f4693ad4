"""The rungs, from what a model can do best down to what every model can, and when a server refuses one."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final, Literal, get_args

from langchain_core.language_models import BaseChatModel

from quantgraph.errors import QuantGraphError
from quantgraph.llm.faults import facts_of, read_fault

__all__ = ["RUNGS", "Rung", "below", "is_bad_request", "is_refused"]

Rung = Literal["native", "json_schema", "json_mode", "text"]
"""``native``: tools are tools. Below it they are described in the prompt and called by a JSON object, which
the server holds to a schema (``json_schema``), to JSON (``json_mode``), or to nothing (``text``)."""

RUNGS: Final[tuple[Rung, ...]] = get_args(Rung)

_REFUSALS = frozenset({
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.NOT_FOUND,  # OpenRouter: no endpoint with tools
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.NOT_IMPLEMENTED,
})  # fmt: skip
_FEATURE = re.compile(r"tool|function|response_format|json|schema|grammar|structured output", re.IGNORECASE)
_SENT = re.compile(
    r"\b(tools?|tool_choice|function.call(s|ing)|response_format|json_schema|json_object|grammar)\b",
    re.IGNORECASE,
)
_NOT_TAKEN = re.compile(
    r"unsupported|not (\w+ )?(support|implemented|enabled|allowed|permitted)|requires?\b|(should|must) be\b",
    re.IGNORECASE,
)
_LENGTH = re.compile(r"context (length|window)|maximum context|too (long|many tokens)", re.IGNORECASE)


def below(rung: Rung) -> Rung | None:
    """The next rung down; None below the last."""
    place = RUNGS.index(rung) + 1
    return RUNGS[place] if place < len(RUNGS) else None


def is_bad_request(error: Exception, model: BaseChatModel) -> bool:
    """Whether a server refuses the request for what it asks, and need not say what that is."""
    return _said(error, model)[0] in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


def is_refused(error: Exception, model: BaseChatModel) -> bool:
    """Whether a server says that it knows no tools, or not this response format.

    Notes
    -----
    A 500 is a server's own trouble, which passes, unless its text names what was sent and that this is not
    taken: llama.cpp without ``--jinja`` says "tools param requires --jinja flag", and "Unsupported param:
    tools" before that; llama-cpp-python gives its own validation of ``response_format`` as one.
    """
    status, text = _said(error, model)
    if _LENGTH.search(text):
        return False
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return bool(_SENT.search(text) and _NOT_TAKEN.search(text))
    return status in _REFUSALS and bool(_FEATURE.search(text))


def _said(error: Exception, model: BaseChatModel) -> tuple[int | None, str]:
    if isinstance(error, QuantGraphError):
        return error.data.get("status"), error.message.replace(str(error.data.get("model")), "")
    fault = read_fault(error, facts_of(model))
    return (fault.status, fault.reason) if fault else (None, "")
