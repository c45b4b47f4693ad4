"""What a model is asked, as one JSON text: the same request has the same text, in every process.

Message ids, which change from run to run, are left out; ids of tool calls stay. Secrets are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from pydantic import BaseModel

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.llm.faults import ModelFacts, core_of
from quantgraph.llm.redaction import shown

__all__ = ["Request", "plain", "request_of"]

_SAID_ELSEWHERE = frozenset({"model", "model_name", "base_url", "bound_tools", "tool_choice", "tools"})
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
_NOTHING = object()


@dataclass(frozen=True)
class Request:
    """A request: its canonical JSON, and what is read off it."""

    text: str
    params: Mapping[str, Any]

    @cached_property
    def digest(self) -> str:
        """Name of the request by its content."""
        return content_hash(self.text)

    @property
    def max_tokens(self) -> int | None:
        """The longest reply that it allows; None if it sets no limit."""
        given = (self.params.get(name) for name in _LIMITS)
        return next((limit for limit in given if isinstance(limit, int) and limit > 0), None)


def request_of(
    model: BaseChatModel,
    facts: ModelFacts,
    messages: Sequence[BaseMessage],
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    tool_choice: Any = None,
    schema: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Request:
    """Write down what a model is asked.

    Parameters
    ----------
    model
        The model itself.
    facts
        Its name, its address, and the secrets that may stand nowhere.
    messages
        The conversation.
    tools, tool_choice
        What was bound to it, tools as OpenAI describes them.
    schema
        What the reply has to be, if ``response_format`` does not say it.
    options
        What else the call is given, ``stop`` and ``response_format`` among it.
    """
    given = dict(options or {})
    schema = plain(given.pop("response_format", None)) or schema
    bound, choice = given.pop("tools", None), given.pop("tool_choice", None)
    params = _params({**_own(core_of(model)), **given})
    request = {
        "model": facts.name,
        "base_url": facts.base_url,
        "params": params,
        "messages": [_message(message) for message in messages],
        "tools": plain(list(tools) or bound or []),
        "tool_choice": plain(tool_choice if tools else choice),
        "schema": None if schema is _NOTHING else plain(schema),
    }
    return Request(text=facts.hide(canonical_json(request)), params=params)


def plain(value: Any) -> Any:
    """A value as JSON; what is none is left out of mappings and lists."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        told = {str(name): plain(one) for name, one in value.items()}
        return {name: one for name, one in told.items() if one is not _NOTHING}
    if isinstance(value, list | tuple):
        return [one for one in map(plain, value) if one is not _NOTHING]
    if isinstance(value, type) and issubclass(value, BaseModel):
        return value.model_json_schema()
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return _NOTHING


def _own(model: BaseChatModel) -> dict[str, Any]:
    told = cast("Mapping[str, Any]", model._get_ls_params())  # noqa: SLF001 - there is no public way
    common = {name: told.get(f"ls_{name}") for name in ("temperature", "max_tokens", "stop")}
    return {**common, **model._identifying_params}  # noqa: SLF001


def _params(given: Mapping[str, Any]) -> dict[str, Any]:
    told = plain({name: value for name, value in given.items() if name not in _SAID_ELSEWHERE})
    return {name: value for name, value in shown(told).items() if value is not None}


def _message(message: BaseMessage) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.type, "content": plain(message.content)}
    if message.name:
        told["name"] = message.name
    if isinstance(message, AIMessage):
        calls = [
            {"id": call["id"], "name": call["name"], "args": plain(call["args"])}
            for call in message.tool_calls
        ]
        told |= {"tool_calls": calls} if calls else {}
        unread = plain(message.invalid_tool_calls)
        told |= {"invalid_tool_calls": unread} if unread else {}
        more = plain(message.additional_kwargs)
        told |= {"more": more} if more else {}
    if isinstance(message, ToolMessage):
        told |= {"tool_call_id": message.tool_call_id, "status": message.status}
    return told
