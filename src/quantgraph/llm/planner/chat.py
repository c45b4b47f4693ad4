"""The keyless planner as a chat model.

It is not a language model: it reads a documented family of sentences by fixed rules (see
``docs/keyless-planner.md``), says so when asked, and asks a question about any other sentence. The same
messages give the same answer, down to the ids of tool calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from quantgraph.llm.planner.planner_turn import PlannerTurn, answer_conversation

_MODEL = "quantgraph-keyless-planner"
_NO_TOKENS = UsageMetadata(input_tokens=0, output_tokens=0, total_tokens=0)


class KeylessPlanner(BaseChatModel):
    """A deterministic chat model that needs no key.

    Examples
    --------
    >>> "not a language model" in KeylessPlanner().invoke("who are you?").text
    True
    """

    name: str | None = "keyless planner"
    model_name: str = _MODEL
    bound_tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str | None = None

    @property
    def _llm_type(self) -> str:
        return _MODEL

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": _MODEL, "bound_tools": self.bound_tools, "tool_choice": self.tool_choice}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,  # noqa: ARG002 - the base class passes it
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """A copy that may call these tools; ``tool_choice`` of ``"any"``, ``"required"`` or a name forces a call."""
        specs = tuple(convert_to_openai_tool(tool) for tool in tools)
        return self.model_copy(update={"bound_tools": specs, "tool_choice": tool_choice})

    def _turn(self, messages: Sequence[BaseMessage]) -> PlannerTurn:
        tools = [spec["function"] for spec in self.bound_tools]
        return answer_conversation(messages, tools, forced=self.tool_choice not in (None, "auto", "none"))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class passes it
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the base class passes it
        **kwargs: Any,  # noqa: ARG002 - the base class passes it
    ) -> ChatResult:
        turn = self._turn(messages)
        calls = [] if turn.call is None else [
            tool_call(name=turn.call.name, args=turn.call.args, id=turn.call.id)
        ]  # fmt: skip
        message = AIMessage(
            content=turn.text,
            tool_calls=calls,
            response_metadata={"model_name": _MODEL},
            usage_metadata=_NO_TOKENS,
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class passes it
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ARG002 - the base class passes it
    ) -> Iterator[ChatGenerationChunk]:
        for message in _pieces(self._turn(messages)):
            chunk = ChatGenerationChunk(message=message)
            if run_manager is not None:
                run_manager.on_llm_new_token(message.text, chunk=chunk)
            yield chunk


def _pieces(turn: PlannerTurn) -> Iterator[AIMessageChunk]:
    """The text word by word, then the arguments of a call in two pieces."""
    for word in re.findall(r"\S+\s*|\s+", turn.text):
        yield AIMessageChunk(content=word)
    if turn.call is not None:
        args = json.dumps(turn.call.args, ensure_ascii=False)
        half = len(args) // 2
        first = tool_call_chunk(name=turn.call.name, args=args[:half], id=turn.call.id, index=0)
        yield AIMessageChunk(content="", tool_call_chunks=[first])
        rest = tool_call_chunk(name=None, args=args[half:], id=None, index=0)
        yield AIMessageChunk(content="", tool_call_chunks=[rest])
    yield AIMessageChunk(
        content="",
        response_metadata={"model_name": _MODEL},
        usage_metadata=_NO_TOKENS,
        chunk_position="last",
    )
