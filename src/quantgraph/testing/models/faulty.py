"""A chat model that knows the right answer and gives another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import Field, PrivateAttr

from quantgraph.llm.planner import KeylessPlanner
from quantgraph.testing.models.scripted import Answer, RecordedCall, ScriptedChatModel, Tape

__all__ = ["Asked", "Spoil", "SpoiledChatModel"]


@dataclass(frozen=True, kw_only=True)
class Asked:
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


Spoil = Callable[[Asked], Answer]


class SpoiledChatModel(ScriptedChatModel):
    """Chat model whose every answer is a good model's, spoiled. The same calls give the same answers.

    Parameters
    ----------
    spoil
        Makes the answer of what was asked: a text, an ``AIMessage``, or an exception to raise.
    inner
        Who knows the right answer. Default: the keyless planner.

    Examples
    --------
    >>> model = SpoiledChatModel(lambda asked: asked.right.text.upper(), model_name="shouts")
    >>> "NOT A LANGUAGE MODEL" in model.invoke("who are you?").text, len(model.calls)
    (True, 1)
    """

    inner: BaseChatModel = Field(default_factory=KeylessPlanner)

    _spoil: Spoil = PrivateAttr()

    def __init__(self, spoil: Spoil, **fields: Any) -> None:
        super().__init__(**fields)
        self._spoil = spoil
        self._tape = Tape(self._answer)

    def _answer(self, call: RecordedCall) -> Answer:
        asked = Asked(
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
