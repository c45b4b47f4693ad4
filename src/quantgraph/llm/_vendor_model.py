"""``ChatOpenAI`` for the servers that keep its protocol almost.

LangChain drops the fields of a reply that OpenAI does not have; DeepSeek and others want them back with the
reply. Arguments of a call that a server sends as an object, or encodes twice, are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from openai.types.chat.chat_completion_chunk import ChoiceDelta

from quantgraph.llm.messages import vendor_fields
from quantgraph.settings import SystemRole


class VendorChatOpenAI(ChatOpenAI):
    """A model whose server's own fields go back to it with its replies, streamed or not."""

    system_role: SystemRole = "system"

    def _create_chat_result(self, response: Any, generation_info: Any = None) -> Any:
        messages = [choice.message for choice in getattr(response, "choices", None) or ()]
        for message in messages:
            with suppress(AttributeError, TypeError):  # of another shape: the client says so
                for call in message.tool_calls or ():
                    call.function.arguments = _arguments_text(call.function.arguments)
        result = super()._create_chat_result(response, generation_info)
        for message, made in zip(messages, result.generations, strict=False):
            _keep(message.model_extra or {}, made.message)
        return result

    def _convert_chunk_to_generation_chunk(self, chunk: Any, *options: Any) -> Any:
        delta = next((choice.get("delta") for choice in chunk.get("choices") or ()), None) or {}
        with suppress(AttributeError, KeyError, TypeError):
            for call in delta.get("tool_calls") or ():
                call["function"]["arguments"] = _arguments_text(call["function"].get("arguments"))
        made = super()._convert_chunk_to_generation_chunk(chunk, *options)
        if made is not None:
            known = ChoiceDelta.model_fields
            _keep({name: value for name, value in delta.items() if name not in known}, made.message)
        return made

    def _get_request_payload(self, input_: Any, **options: Any) -> dict[str, Any]:
        messages = self._convert_input(input_).to_messages()
        if self.system_role == "user":
            messages = _without_system(messages)
        payload = super()._get_request_payload(messages, **options)
        for message, sent in zip(messages, payload.get("messages", ()), strict=False):
            if isinstance(message, AIMessage):
                sent |= {**vendor_fields(message), **sent}
        return payload


# A tracer, a profile and a request's identity know the model as what it is.
VendorChatOpenAI.__name__ = ChatOpenAI.__name__


def _keep(fields: Mapping[str, Any], message: BaseMessage) -> None:
    message.additional_kwargs |= {name: value for name, value in fields.items() if value is not None}


def _arguments_text(arguments: Any) -> Any:
    """A call's arguments as JSON text, where a server sent an object, or text encoded twice."""
    if isinstance(arguments, Mapping):
        return json.dumps(arguments)
    try:
        inner = json.loads(arguments)
    except (TypeError, ValueError, RecursionError):
        return arguments
    return inner if isinstance(inner, str) else arguments


def _without_system(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The conversation with each system prompt at the head of the user's next message."""
    kept, prompts = list[BaseMessage](), list[str]()
    for message in messages:
        if isinstance(message, SystemMessage):
            prompts.append(str(message.text))
        elif isinstance(message, HumanMessage) and prompts:
            kept.append(HumanMessage("\n\n".join([*prompts, str(message.text)])))
            prompts = []
        else:
            kept.append(message)
    return [*kept, HumanMessage("\n\n".join(prompts))] if prompts else kept
