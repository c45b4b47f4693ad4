"""A chat model that knows the right answer and gives another one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call
from pydantic import Field, PrivateAttr

from quantgraph.llm.planner import KeylessPlanner
from quantgraph.testing.models.scripted import Answer, CallLog, RecordedCall, ScriptedChatModel

__all__ = [
    "FaultContext",
    "FaultyChatModel",
    "Spoil",
    "Tool",
    "call",
    "example_call",
    "leaves",
    "parameters",
    "rebuilt",
    "rewritten",
    "with_text",
]

Tool = Mapping[str, Any]

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_EXAMPLES: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def call(name: str, args: dict[str, Any], number: int) -> AIMessage:
    """An answer that is one tool call."""
    return AIMessage("", tool_calls=[tool_call(name=name, args=args, id=f"call_{number}")])


def example_call(tool: Tool, number: int, text: str = "1") -> AIMessage:
    """A call of a bound tool with arguments of the right types; every text is ``text``."""
    args = {name: _EXAMPLES.get(str(about.get("type")), text) for name, about in parameters(tool).items()}
    return call(str(tool["name"]), args, number)


def parameters(tool: Tool) -> Mapping[str, Any]:
    """What a bound tool takes: JSON schemas by name."""
    found: Mapping[str, Any] = tool.get("parameters", {}).get("properties", {})
    return found


def leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """A JSON value with every text, number, truth value and null changed."""
    if isinstance(value, dict):
        return {key: leaves(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [leaves(item, change) for item in value]
    return change(value)


def rebuilt(right: AIMessage, change: Callable[[Any], Any]) -> AIMessage:
    """The answer with the JSON object of its text, and the arguments of its calls, changed as values."""
    text = str(right.text)
    found = _OBJECT.search(text)
    try:
        value = json.loads(found.group()) if found else None
    except ValueError:
        value = None
    if found and value is not None:
        made = json.dumps(change(value), ensure_ascii=False, indent=2)
        text = text[: found.start()] + made + text[found.end() :]
    calls = [{**one, "args": change(one["args"])} for one in right.tool_calls]
    return AIMessage(text, tool_calls=calls)


def rewritten(right: AIMessage, change: Callable[[str], str], **about: Any) -> AIMessage:
    """The answer with its text, and the arguments of its calls, changed as texts: no JSON any more.

    ``about`` is its ``response_metadata``.
    """
    broken = [
        invalid_tool_call(
            name=one["name"],
            args=change(json.dumps(one["args"], ensure_ascii=False)),
            id=one["id"],
            error="not JSON",
        )
        for one in right.tool_calls
    ]
    return AIMessage(change(str(right.text)), invalid_tool_calls=broken, response_metadata=about)


def with_text(right: AIMessage, write: Callable[[str, dict[str, Any]], str]) -> AIMessage:
    """The answer with its tool calls written into the text, each by ``write(name, arguments)``."""
    written = [write(one["name"], one["args"]) for one in right.tool_calls]
    return AIMessage("\n".join([str(right.text), *written]).strip())


@dataclass(frozen=True, kw_only=True)
class FaultContext:
    """One question to a spoiled model.

    Attributes
    ----------
    number
        Of the call, from 1.
    messages
        The conversation.
    tools
        The bound tools, in OpenAI's form.
    right
        What the model within answers.
    """

    number: int
    messages: tuple[BaseMessage, ...]
    tools: tuple[Mapping[str, Any], ...]
    right: AIMessage


Spoil = Callable[[FaultContext], Answer]


class FaultyChatModel(ScriptedChatModel):
    """Chat model whose every answer is a good model's, spoiled. The same calls give the same answers.

    Parameters
    ----------
    spoil
        Makes the answer of what was asked: a text, an ``AIMessage``, or an exception to raise.
    inner
        Who knows the right answer. Default: the keyless planner.

    Examples
    --------
    >>> model = FaultyChatModel(lambda asked: asked.right.text.upper(), model_name="shouts")
    >>> "NOT A LANGUAGE MODEL" in model.invoke("who are you?").text, len(model.calls)
    (True, 1)
    """

    inner: BaseChatModel = Field(default_factory=KeylessPlanner)

    _spoil: Spoil = PrivateAttr()

    def __init__(self, spoil: Spoil, **fields: Any) -> None:
        super().__init__(**fields)
        self._spoil = spoil
        self._tape = CallLog(self._answer)

    def _answer(self, call: RecordedCall) -> Answer:
        asked = FaultContext(
            number=call.number,
            messages=call.messages,
            tools=tuple(tool["function"] for tool in call.tools),
            right=self._right(call.messages, call.tools, call.tool_choice),
        )
        return self._spoil(asked)

    def _right(
        self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]], choice: str | None
    ) -> AIMessage:
        model = self.inner.bind_tools(tools, tool_choice=choice) if tools else self.inner
        return model.invoke(list(messages))
