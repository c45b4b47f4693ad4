"""Requests, replies and faults of the OpenAI-compatible stub, and their JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

FaultKind = Literal["status", "hang", "malformed", "truncated", "disconnect", "empty_choices"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]
FINISH_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)

_CHARACTERS_PER_TOKEN = 4  # a rough count, the same at every run


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """One request. Headers hold the key and are left out of ``repr``."""

    number: int
    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(repr=False)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, as OpenAI's message objects."""
        return list(self.body.get("messages", []))

    @property
    def model(self) -> str:
        """Name of the requested model."""
        return str(self.body.get("model", ""))

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The bound tools, as OpenAI's tool objects."""
        return list(self.body.get("tools") or [])

    @property
    def stream(self) -> bool:
        """Whether the reply must be streamed."""
        return bool(self.body.get("stream"))


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A valid reply: text, tool calls, or both.

    Parameters
    ----------
    content
        Text of the message.
    tool_calls
        Pairs of tool name and arguments (a text is sent as it is); the stub adds ids.
    reasoning
        Thoughts beside the text, sent as ``reasoning_content``.
    answer
        A structured answer. Its form follows the request: JSON text if there is a ``response_format``, else
        a call of the forced (or only) tool, else JSON text.
    finish_reason
        None means ``tool_calls`` or ``stop``, as fits; ``length`` means that the text is cut off.
    usage
        Prompt and completion tokens; None means a quarter of the characters.
    """

    content: str = ""
    tool_calls: tuple[tuple[str, Mapping[str, Any] | str], ...] = ()
    reasoning: str = ""
    answer: Mapping[str, Any] | None = None
    finish_reason: FinishReason | None = None
    usage: tuple[int, int] | None = None

    @classmethod
    def text(cls, content: str) -> Reply:
        """Reply with text."""
        return cls(content=content)

    @classmethod
    def call(cls, name: str, **arguments: Any) -> Reply:
        """Reply with one tool call."""
        return cls(tool_calls=((name, arguments),))

    @classmethod
    def structured(cls, answer: Mapping[str, Any]) -> Reply:
        """Reply with an object in the form that the request demands."""
        return cls(answer=answer)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Misbehaviour instead of a reply. Made by the class methods."""

    kind: FaultKind
    status: int = 200
    message: str = ""
    code: str | None = None
    retry_after: float | str | None = None
    content: str = ""

    @classmethod
    def http(
        cls,
        status: int,
        message: str = "refused by the stub",
        *,
        code: str | None = None,
        retry_after: float | str | None = None,
    ) -> Fault:
        """HTTP status: 429, 500, 401, ...

        ``code`` is the error code of the body (``insufficient_quota``); ``retry_after`` is the header of
        that name, in seconds or as an HTTP date.
        """
        return cls(kind="status", status=status, message=message, code=code, retry_after=retry_after)

    @classmethod
    def hang(cls) -> Fault:
        """No reply until the stub is closed."""
        return cls(kind="hang")

    @classmethod
    def malformed(cls) -> Fault:
        """Status 200 with a body that is not JSON."""
        return cls(kind="malformed")

    @classmethod
    def truncated(cls, content: str = "half of a sentence") -> Fault:
        """Connection closed in the middle of a valid reply."""
        return cls(kind="truncated", content=content)

    @classmethod
    def disconnect(cls) -> Fault:
        """Connection closed without a reply."""
        return cls(kind="disconnect")

    @classmethod
    def empty_choices(cls) -> Fault:
        """Status 200 with an empty list of choices."""
        return cls(kind="empty_choices")


def completion(reply: Reply, request: ChatRequest) -> dict[str, Any]:
    """Body of ``chat.completion``."""
    message, finish = _message(reply, request)
    return {
        **_head(request, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": _usage(reply, request, message),
    }


def stream_events(reply: Reply, request: ChatRequest) -> Iterator[dict[str, Any]]:
    """Bodies of ``chat.completion.chunk``; the usage chunk, if requested, comes last."""
    message, finish = _message(reply, request)
    head = _head(request, "chat.completion.chunk")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in _pieces(reply.reasoning)]
    deltas += [{"content": piece} for piece in _pieces(message["content"] or "")]
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        opening = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
        deltas.append({"tool_calls": [opening]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in _pieces(function["arguments"])
        ]
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    if (request.body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": _usage(reply, request, message)}


def _pieces(text: str, size: int = 7) -> list[str]:
    """Split a text into the pieces of a stream."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def _head(request: ChatRequest, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{request.number}", "object": kind, "created": 0, "model": request.model}


def _message(reply: Reply, request: ChatRequest) -> tuple[dict[str, Any], str]:
    content, calls = reply.content, list(reply.tool_calls)
    if reply.answer is not None:
        tool = None if request.body.get("response_format") else _expected_tool(request)
        if tool is None:
            content = json.dumps(reply.answer, ensure_ascii=False)
        else:
            calls = [(tool, reply.answer)]
    message: dict[str, Any] = {"role": "assistant", "content": content or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{request.number}_{index}",
                "type": "function",
                "function": {"name": name, "arguments": _arguments(arguments)},
            }
            for index, (name, arguments) in enumerate(calls)
        ]
    elif not content:
        message["content"] = ""
    return message, reply.finish_reason or ("tool_calls" if calls else "stop")


def _arguments(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _expected_tool(request: ChatRequest) -> str | None:
    """Name of the forced tool, or of the only one."""
    choice = request.body.get("tool_choice")
    if isinstance(choice, Mapping):
        return str(choice["function"]["name"])
    names = [str(tool["function"]["name"]) for tool in request.tools]
    return names[0] if len(names) == 1 else None


def _usage(reply: Reply, request: ChatRequest, message: Mapping[str, Any]) -> dict[str, int]:
    prompt, answer = reply.usage or (
        len(json.dumps(request.messages)) // _CHARACTERS_PER_TOKEN,
        len(json.dumps(message)) // _CHARACTERS_PER_TOKEN,
    )
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
