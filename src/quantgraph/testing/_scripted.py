"""A chat model that plays a script, for tests of nodes, agents and graphs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from quantgraph.testing._openai import pieces

Answer = str | AIMessage | Exception
Step = Answer | Callable[[list[BaseMessage]], Answer]


class ScriptExhausted(AssertionError):
    """A model got more calls than its script has answers."""


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    """One call of a model; ``number`` counts from 1."""

    number: int
    messages: tuple[BaseMessage, ...]
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str | None = None
    stop: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


class CallLog:
    """Calls of a model and of its bound copies, all answered by one function."""

    def __init__(self, answer: Callable[[RecordedCall], Answer]) -> None:
        self._answer = answer
        self._lock = threading.Lock()  # guards _calls: parallel nodes call the same model
        self._calls: list[RecordedCall] = []

    def answer(self, call: RecordedCall) -> AIMessage:
        """Number, keep and answer a call."""
        with self._lock:
            call = replace(call, number=len(self._calls) + 1)
            self._calls.append(call)
        answer = self._answer(call)  # outside the lock: a function may itself call the model
        if isinstance(answer, Exception):
            raise answer
        return AIMessage(answer) if isinstance(answer, str) else answer.model_copy(deep=True)

    def calls(self) -> tuple[RecordedCall, ...]:
        """All calls so far."""
        with self._lock:
            return tuple(self._calls)


class ScriptedChatModel(BaseChatModel):
    """Chat model that gives prepared answers. Thread-safe.

    Parameters
    ----------
    script
        Answers in order, one a call: a text, an ``AIMessage``, an exception to raise, or a function of
        the messages that returns one of these; or one such function for all calls.

    Raises
    ------
    ScriptExhausted
        On the call after the last answer.

    Examples
    --------
    >>> model = ScriptedChatModel(["Hello.", lambda messages: f"You said {messages[-1].text}."])
    >>> model.invoke("Hi").text, model.invoke("bye").text
    ('Hello.', 'You said bye.')
    >>> len(model.calls), model.remaining
    (2, 0)
    """

    model_name: str = "scripted"
    bound_tools: tuple[dict[str, Any], ...] = ()
    bound_choice: str | None = None

    _log: CallLog = PrivateAttr()
    _length: int = PrivateAttr(default=0)

    def __init__(
        self, script: Iterable[Step] | Callable[[list[BaseMessage]], Answer] = (), **fields: Any
    ) -> None:
        super().__init__(**fields)
        if callable(script):
            self._log = CallLog(lambda call: script(list(call.messages)))
        else:
            steps = list(script)
            self._log, self._length = CallLog(lambda call: _step(steps, call)), len(steps)

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        """All calls so far, of bound copies, too."""
        return self._log.calls()

    @property
    def remaining(self) -> int:
        """Number of unused answers."""
        return max(self._length - len(self.calls), 0)

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,  # noqa: ARG002 - strict, ls_structured_output_format: a script ignores them
    ) -> ScriptedChatModel:
        """Copy with bound tools that plays the same script."""
        described = tuple(convert_to_openai_tool(tool) for tool in tools)
        return self.model_copy(update={"bound_tools": described, "bound_choice": tool_choice})

    @property
    def _llm_type(self) -> str:
        return "quantgraph-scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._play(messages, stop, kwargs))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for message in _chunks(self._play(messages, stop, kwargs)):
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _play(
        self, messages: list[BaseMessage], stop: list[str] | None, options: Mapping[str, Any]
    ) -> AIMessage:
        return self._log.answer(
            RecordedCall(
                number=0,
                messages=tuple(messages),
                tools=self.bound_tools,
                tool_choice=self.bound_choice,
                stop=tuple(stop or ()),
                options=dict(options),
            )
        )


def _step(steps: Sequence[Step], call: RecordedCall) -> Answer:
    if call.number > len(steps):
        last = str(call.messages[-1].text)[:80] if call.messages else ""
        raise ScriptExhausted(
            f"the script has {len(steps)} answer{'s' * (len(steps) != 1)}; this is call {call.number}, "
            f"and its last message is {last!r}"
        )
    step = steps[call.number - 1]
    return step if isinstance(step, str | AIMessage | Exception) else step(list(call.messages))


def _chunks(message: AIMessage) -> Iterator[AIMessageChunk]:
    """Split a message into chunks whose sum is the message."""
    if isinstance(message.content, str):
        for piece in pieces(message.content):
            yield AIMessageChunk(content=piece, id=message.id)
    else:
        yield AIMessageChunk(content=message.content, id=message.id)
    written = [(call["name"], call["id"], json.dumps(call["args"])) for call in message.tool_calls]
    written += [(call["name"] or "", call["id"], call["args"] or "") for call in message.invalid_tool_calls]
    for index, (name, call_id, arguments) in enumerate(written):
        yield _call_chunk(message.id, index, name=name, call_id=call_id)
        for piece in pieces(arguments):
            yield _call_chunk(message.id, index, arguments=piece)
    yield AIMessageChunk(
        content="",
        id=message.id,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        chunk_position="last",
    )


def _call_chunk(
    message_id: str | None,
    index: int,
    *,
    name: str | None = None,
    call_id: str | None = None,
    arguments: str = "",
) -> AIMessageChunk:
    part = tool_call_chunk(name=name, args=arguments, id=call_id, index=index)
    return AIMessageChunk(content="", id=message_id, tool_call_chunks=[part])
