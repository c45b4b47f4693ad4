"""A chat model that changes the correct reply of another one, and helpers that change replies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call
from pydantic import Field, PrivateAttr

from quantgraph.llm import KeylessPlanner
from quantgraph.testing._scripted import Answer, CallLog, RecordedCall, ScriptedChatModel

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_EXAMPLES: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


@dataclass(frozen=True, kw_only=True)
class FaultContext:
    """One call of a faulty model, with the correct reply."""

    number: int
    messages: tuple[BaseMessage, ...]
    tools: tuple[Mapping[str, Any], ...]
    correct: AIMessage


ReplyFault = Callable[[FaultContext], Answer]


class FaultyChatModel(ScriptedChatModel):
    """Chat model that replies with a fault instead of a correct reply. Deterministic.

    Parameters
    ----------
    fault
        Makes the reply: a text, an ``AIMessage``, or an exception to raise.
    inner
        Model that gives the correct reply. Default: the keyless planner.

    Examples
    --------
    >>> model = FaultyChatModel(lambda context: context.correct.text.upper(), model_name="shouts")
    >>> "NOT A LANGUAGE MODEL" in model.invoke("who are you?").text, len(model.calls)
    (True, 1)
    """

    inner: BaseChatModel = Field(default_factory=KeylessPlanner)

    _fault: ReplyFault = PrivateAttr()

    def __init__(self, fault: ReplyFault, **fields: Any) -> None:
        super().__init__(**fields)
        self._fault = fault
        self._log = CallLog(self._answer)

    def _answer(self, call: RecordedCall) -> Answer:
        model = self.inner.bind_tools(call.tools, tool_choice=call.tool_choice) if call.tools else self.inner
        context = FaultContext(
            number=call.number,
            messages=call.messages,
            tools=tuple(tool["function"] for tool in call.tools),
            correct=model.invoke(list(call.messages)),
        )
        return self._fault(context)


def call_message(name: str, args: dict[str, Any], number: int) -> AIMessage:
    """Message with one tool call."""
    return AIMessage("", tool_calls=[tool_call(name=name, args=args, id=f"call_{number}")])


def example_call(tool: Mapping[str, Any], number: int, text: str = "1") -> AIMessage:
    """Call of a bound tool with arguments of the right types; every text is ``text``."""
    schemas = tool_parameters(tool)
    args = {name: _EXAMPLES.get(str(schema.get("type")), text) for name, schema in schemas.items()}
    return call_message(str(tool["name"]), args, number)


def tool_parameters(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """JSON schemas of a bound tool's parameters by name."""
    properties: Mapping[str, Any] = tool.get("parameters", {}).get("properties", {})
    return properties


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """JSON value with every text, number, truth value and null changed."""
    if isinstance(value, dict):
        return {key: map_leaves(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [map_leaves(item, change) for item in value]
    return change(value)


def edit_json(message: AIMessage, change: Callable[[Any], Any]) -> AIMessage:
    """Change the JSON object in the text, and the arguments of the tool calls, as values."""
    text = str(message.text)
    found = _OBJECT.search(text)
    try:
        value = json.loads(found.group()) if found else None
    except ValueError:
        value = None
    if found and value is not None:
        changed = json.dumps(change(value), ensure_ascii=False, indent=2)
        text = text[: found.start()] + changed + text[found.end() :]
    calls = [{**call, "args": change(call["args"])} for call in message.tool_calls]
    return AIMessage(text, tool_calls=calls)


def edit_text(message: AIMessage, change: Callable[[str], str], **metadata: Any) -> AIMessage:
    """Change the text, and the arguments of the tool calls, as texts: they are no longer JSON.

    ``metadata`` is the ``response_metadata`` of the result.
    """
    broken = [
        invalid_tool_call(
            name=call["name"],
            args=change(json.dumps(call["args"], ensure_ascii=False)),
            id=call["id"],
            error="not JSON",
        )
        for call in message.tool_calls
    ]
    return AIMessage(change(str(message.text)), invalid_tool_calls=broken, response_metadata=metadata)


def calls_as_text(message: AIMessage, write: Callable[[str, dict[str, Any]], str]) -> AIMessage:
    """Move tool calls into the text, each as ``write(name, arguments)``."""
    written = [write(call["name"], call["args"]) for call in message.tool_calls]
    return AIMessage("\n".join([str(message.text), *written]).strip())
