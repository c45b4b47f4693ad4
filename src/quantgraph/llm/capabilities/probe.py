"""What a model can do, found out by asking it: one tiny call for a good one, three for the worst."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage

from quantgraph.errors import ModelOutputInvalid
from quantgraph.llm.capabilities.mode_request import ask_on
from quantgraph.llm.capabilities.modes import RUNGS, Rung, is_bad_request, is_refused
from quantgraph.llm.capabilities.parse_reply import read_reply
from quantgraph.llm.capabilities.protocol import Wanted

__all__ = ["probe"]

_ARGS = {"word": "ready", "count": 7}
_TOOL = {
    "name": "report",
    "description": "Report a word and a count.",
    "parameters": {
        "type": "object",
        "properties": {"word": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["word", "count"],
    },
}
_QUESTION = 'Call the tool report with the word "ready" and the count 7. Do nothing else.'
_MOST_TOKENS = 1024  # an answer has thirty; the rest is for a model that thinks first


_WANTED = Wanted(tools=(_TOOL,))
_BOUND = {"tools": [{"type": "function", "function": _TOOL}]}


def probe(model: BaseChatModel) -> tuple[Rung, bool]:
    """Find the highest rung on which a model calls a tool, and whether it is worth remembering.

    The lowest rung is not tried: it is what remains. It is not remembered when the server refused every
    request without naming a reason, which may be another than we think.

    Raises
    ------
    QuantGraphError
        What the model's server answers when it is down, or when the key is wrong.
    """
    understood = False
    for rung in RUNGS[:-1]:
        try:
            message = ask_on(
                rung, model, [HumanMessage(_QUESTION)], _WANTED, bound=_BOUND, max_tokens=_MOST_TOKENS
            )
        except ModelOutputInvalid:
            understood = True
            continue
        except Exception as error:
            if is_refused(error, model):
                understood = True
            elif not is_bad_request(error, model):
                raise
            continue
        understood = True
        if _is_right(message, rung):
            return rung, True
    return RUNGS[-1], understood


def _is_right(message: AIMessage, rung: Rung) -> bool:
    """Whether the tool was called as the rung has it: as a tool, or by a reply that is only JSON."""
    if rung == "native":
        calls: Any = message.tool_calls
    else:
        try:
            json.loads(str(message.text))
        except ValueError:
            return False
        calls = read_reply(message, _WANTED, native=False, turn=0).calls
    return [(call["name"], _plain(call["args"])) for call in calls] == [(_TOOL["name"], _plain(_ARGS))]


def _plain(args: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in args.items()}
