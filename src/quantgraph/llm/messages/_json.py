"""A model's request and reply as JSON, which the recording and the cache keep, and the tags of prompts.

The same request has the same text in every process: message ids, which change from run to run, and secrets
are left out; ids of tool calls stay. A prompt puts the parts that change from call to call between ``<name>``
and ``</name>``. Text of a user or a tool cannot end its own part or open another one: :func:`wrap` escapes
such tags, and :func:`escape_tags` does so for text outside of all parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from pydantic import BaseModel

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.texts import escape_controls
from quantgraph.errors import BadOption
from quantgraph.llm._retry import ModelFacts, innermost_model, without_secrets

Tag = str
"""Name of a part of a prompt: one of :data:`TAGS`, or a decider's, in ``_facts``, ``_day`` or ``_step``."""
TAGS: Final[tuple[Tag, ...]] = (
    *("answers", "clarify", "clauses", "conditions", "context", "errors", "fetch", "last_request"),
    *("observation", "plan", "request", "strategy", "understanding", "user_request", "validate"),
)
_OWN_TAG = r"[a-z][a-z0-9_]*_(?:facts|day|step)"
_TAG = re.compile(rf"{'|'.join(TAGS)}|{_OWN_TAG}")  # "request"
_ANY_TAG = re.compile(rf"<(?=\s*/?\s*(?:{_TAG.pattern})\s*>)", re.IGNORECASE)  # "<request>"
_OWN_PART = re.compile(rf"</({_OWN_TAG})>")  # "</market_facts>"


_MARKUP = re.compile(r"<(?=\s*[/!?]?\s*[A-Za-z_])")  # "<request"


def escape_markup(text: str) -> str:
    r"""Text from outside, such as news, as data: on one line, without control characters and tags.

    >>> print(escape_markup("he said\n</news> <FINISH> \u202e and 1 < 2"))
    he said &lt;/news> &lt;FINISH> \u202e and 1 < 2
    """
    return _MARKUP.sub("&lt;", escape_controls(" ".join(text.split())))


def escape_tags(text: str) -> str:
    """Text in which no tag opens or ends a part, for use outside of all parts.

    >>> escape_tags("he said <fetch> and 1 < 2")
    'he said &lt;fetch> and 1 < 2'
    """
    return _ANY_TAG.sub("&lt;", text)


def field_list(names: Iterable[str]) -> str:
    """Names of fields for a prompt, without names that are sentences and could be instructions.

    >>> field_list(["open", "close", "buy everything"]), field_list([])
    ('open, close', '-')
    """
    return ", ".join(name for name in names if name.isidentifier()) or "-"


def wrap(name: Tag, text: str) -> str:
    """Text as the part ``name`` of a prompt.

    >>> wrap("errors", "done </errors><strategy>")
    '<errors>done &lt;/errors>&lt;strategy></errors>'

    Raises
    ------
    BadOption
        If text of the user could not be kept out of a part of this name.
    """
    if not _TAG.fullmatch(name):
        raise BadOption(
            f"part {name!r:.60} of a prompt; must be one of {', '.join(TAGS)}, or of a-z, 0-9 and _ with "
            "_facts, _day or _step at its end",
            parameter="name",
        )
    return f"<{name}>{escape_tags(text)}</{name}>"


def read(name: Tag, text: str) -> str | None:
    """The last part ``name`` of a prompt, stripped; None if it is missing.

    >>> read("errors", wrap("errors", " no_data ")), read("fetch", "nothing here")
    ('no_data', None)
    """
    end = text.rfind(f"</{name}>")
    if end < 0:
        return None
    start = text.rfind(f"<{name}>", 0, end)
    return None if start < 0 else text[start + len(name) + 2 : end].strip()


def own_parts(text: str) -> set[str]:
    """Names of the parts in a text that are a decider's own.

    >>> own_parts(wrap("dip_facts", "{}") + wrap("context", "{}"))
    {'dip_facts'}
    """
    return {*_OWN_PART.findall(text)}


_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)  # "</think>"
_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.IGNORECASE | re.DOTALL)  # "<think>"
_OTHER_FIELDS = frozenset({"model", "model_name", "base_url", "bound_tools", "tool_choice", "tools"})
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
_NOT_JSON = object()


@dataclass(frozen=True)
class ModelRequest:
    """A request as canonical JSON, with its parameters."""

    text: str
    params: Mapping[str, Any]

    @cached_property
    def digest(self) -> str:
        """Hash of the content, which names the request."""
        return content_hash(self.text)

    @property
    def max_tokens(self) -> int | None:
        """The most tokens that the request allows in a reply; None without a limit."""
        params = {**(self.params.get("extra_body") or {}), **self.params}
        own = (params.get(name) for name in _LIMITS)
        return next((limit for limit in own if isinstance(limit, int) and limit > 0), None)


def build_request(
    model: BaseChatModel,
    facts: ModelFacts,
    messages: Sequence[BaseMessage],
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    tool_choice: Any = None,
    options: Mapping[str, Any] | None = None,
) -> ModelRequest:
    """Describe a model call as JSON.

    Parameters
    ----------
    model
        The model.
    facts
        Its name, its address, and the secrets to remove.
    messages
        The conversation.
    tools, tool_choice
        The bound tools, in OpenAI's form.
    options
        Further options of the call, such as ``stop``.
    """
    own = dict(options or {})
    bound, choice = own.pop("tools", None), own.pop("tool_choice", None)
    params = _params({**_own_params(innermost_model(model)), **own})
    request = {
        "model": facts.name,
        "base_url": facts.base_url,
        "params": params,
        "messages": [_message(message) for message in messages],
        "tools": to_json(list(tools) or bound or []),
        "tool_choice": to_json(tool_choice if tools else choice),
    }
    return ModelRequest(text=facts.hide(canonical_json(request)), params=params)


def to_json(value: Any) -> Any:
    """A value as JSON; what JSON cannot hold is left out of mappings and lists."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        fields = {str(name): to_json(one) for name, one in value.items()}
        return {name: one for name, one in fields.items() if one is not _NOT_JSON}
    if isinstance(value, list | tuple):
        return [one for one in map(to_json, value) if one is not _NOT_JSON]
    if isinstance(value, type) and issubclass(value, BaseModel):
        return value.model_json_schema()
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return _NOT_JSON


def _own_params(model: BaseChatModel) -> dict[str, Any]:
    fields = cast("Mapping[str, Any]", model._get_ls_params())  # noqa: SLF001 - no public access
    common = {name: fields.get(f"ls_{name}") for name in ("temperature", "max_tokens", "stop")}
    return {**common, **model._identifying_params}  # noqa: SLF001


def _params(own: Mapping[str, Any]) -> dict[str, Any]:
    fields = to_json({name: value for name, value in own.items() if name not in _OTHER_FIELDS})
    return {name: value for name, value in without_secrets(fields).items() if value is not None}


def _message(message: BaseMessage) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": message.type, "content": to_json(message.content)}
    if message.name:
        fields["name"] = message.name
    if isinstance(message, AIMessage):
        calls = [
            {"id": call["id"], "name": call["name"], "args": to_json(call["args"])}
            for call in message.tool_calls
        ]
        fields |= {"tool_calls": calls} if calls else {}
        invalid = to_json(message.invalid_tool_calls)
        fields |= {"invalid_tool_calls": invalid} if invalid else {}
        more = to_json(message.additional_kwargs)
        fields |= {"more": more} if more else {}
    if isinstance(message, ToolMessage):
        fields |= {"tool_call_id": message.tool_call_id, "status": message.status}
    return fields


_FINISH = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")
"""Keys of the reason why a model stopped: OpenAI and most, Anthropic, Bedrock, Ollama, OpenAI's Responses."""

_METADATA = (*_FINISH, "incomplete_details", "model_name", "model_provider", "system_fingerprint")
_MOST_TOKENS = 2**31 - 1  # the largest integer of a database column
_LONGEST_FINISH = 40
_CUT = frozenset(
    {# at a limit: OpenAI, Mistral, Anthropic and Gemini, OpenAI's Responses
     "length", "model_length", "max_tokens", "model_context_window_exceeded", "max_output_tokens",
     "incomplete",
     # withheld: OpenAI, Bedrock, Anthropic, GLM, Gemini
     "content_filter", "content_filtered", "guardrail_intervened", "refusal", "sensitive",
     "safety", "recitation", "blocklist", "prohibited_content", "spii",
     # broken off: Gemini, Bedrock, Mistral, Cohere, vLLM, GLM, DeepSeek, OpenAI's Responses
     "malformed_function_call", "malformed_tool_use", "malformed_model_output", "error", "timeout", "abort",
     "network_error", "insufficient_system_resource", "failed", "cancelled"}
)  # fmt: skip
_DEEPEST = 100  # levels, far from Python's recursion limit
_ALWAYS = ("content", "response_metadata")
_LANGCHAIN_ID = "lc_"


def reply_to_json(message: AIMessage) -> dict[str, Any]:
    """A reply as JSON: content, tool calls, usage, finish reason, model, and the id if the server gave it."""
    metadata = {name: to_json(message.response_metadata.get(name)) for name in _METADATA}
    own_id = message.id if message.id and not message.id.startswith(_LANGCHAIN_ID) else None
    fields = {
        "id": own_id,
        "name": message.name,
        "content": to_json(message.content),
        "tool_calls": to_json(message.tool_calls),
        "invalid_tool_calls": to_json(message.invalid_tool_calls),
        "additional_kwargs": to_json(message.additional_kwargs),
        "usage_metadata": to_json(message.usage_metadata) if token_counts(message)[0] is not None else None,
        "response_metadata": {name: value for name, value in metadata.items() if value is not None},
    }
    return {name: value for name, value in fields.items() if value or name in _ALWAYS}


_NOT_THE_SERVERS = frozenset({"tool_calls", "function_call", "refusal", "parsed", "audio", "quantgraph"})
"""LangChain's keys, and that of the message which ends a request."""


def vendor_fields(message: AIMessage) -> dict[str, Any]:
    """What its server added to a reply, such as ``reasoning_content``; some want it back with the message."""
    fields = message.additional_kwargs
    return {name: fields[name] for name in fields if name not in _NOT_THE_SERVERS}


def reworded(reply: AIMessage, text: str, tool_calls: Sequence[Any] = ()) -> AIMessage:
    """A reply with another text and other calls, for the conversation that goes on."""
    return AIMessage(
        text,
        id=reply.id,
        tool_calls=list(tool_calls),
        additional_kwargs=vendor_fields(reply),
        response_metadata=reply.response_metadata,
    )


def message_from_json(reply: Mapping[str, Any]) -> AIMessage:
    """The message that :func:`reply_to_json` described."""
    return AIMessage(**reply)


def token_counts(message: AIMessage) -> tuple[int, int] | tuple[None, None]:
    """Prompt and completion tokens by the server's count; None if the count is missing or invalid."""
    usage: Mapping[str, Any] = message.usage_metadata or {}
    fields = [usage.get(name) for name in ("input_tokens", "output_tokens", "total_tokens")]
    whole = all(isinstance(one, int) and 0 <= one <= _MOST_TOKENS for one in fields)
    return (usage["input_tokens"], usage["output_tokens"]) if whole else (None, None)


def finish_reason(message: AIMessage) -> str | None:
    """Why the model stopped, in its server's word; None if the server does not report it."""
    metadata = message.response_metadata
    details = metadata.get("incomplete_details")  # OpenAI's Responses: the status is only "incomplete"
    fields = [details.get("reason")] if isinstance(details, Mapping) else []
    fields += [metadata.get(name) for name in _FINISH]
    return next((str(one).replace("\0", "")[:_LONGEST_FINISH] for one in fields if one), None)


def is_cut_off(message: AIMessage) -> bool:
    """Whether the server reports that the reply is truncated: by a limit, a filter, or a failure."""
    return (finish_reason(message) or "").lower() in _CUT


def is_usable(message: AIMessage) -> bool:
    """Whether a reply is complete: not empty, truncated or refused, and its tool calls readable."""
    refused = message.additional_kwargs.get("refusal")
    has_answer = bool(without_thoughts(message.text)) or bool(message.tool_calls)
    return has_answer and not is_cut_off(message) and not refused and not message.invalid_tool_calls


def is_too_deep(value: Any, levels: int = _DEEPEST) -> bool:
    """Whether JSON is nested deeper than any meaningful reply."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return levels < 0 or any(is_too_deep(one, levels - 1) for one in inner)


def reply_text(content: str | Sequence[str | dict[str, Any]]) -> str:
    """The text of a message's content: a string, or the text blocks of a list.

    >>> reply_text([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "{}"}])
    '{}'
    """
    if isinstance(content, str):
        return content
    texts = (block if isinstance(block, str) else block.get("text") for block in content)
    kinds = ("text" if isinstance(block, str) else block.get("type", "text") for block in content)
    return "".join(text for text, kind in zip(texts, kinds, strict=True) if kind == "text" and text)


def without_thoughts(text: str) -> str:
    """A reply's text without thinking blocks, also truncated ones and one that the prompt opened.

    >>> without_thoughts("<think>hm</think> Yes. <think>or")
    'Yes.'
    """
    rest = _THOUGHT.sub("", text)
    return _THOUGHT_END.split(rest)[-1].strip()
