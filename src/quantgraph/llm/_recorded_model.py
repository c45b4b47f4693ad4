"""A wrapper around any chat model: the one place that calls models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, GenerationChunk
from langchain_core.runnables import Runnable, RunnableBinding
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr, SkipValidation

from quantgraph._util.files import new_run_id
from quantgraph.errors import BadOption
from quantgraph.llm._model_call import PRICES, ModelCall, Price, ReplyCache, price_of
from quantgraph.llm._retry import CallPolicy, MissingMessage, model_facts, run_in_thread
from quantgraph.llm.messages._json import build_request, is_too_deep
from quantgraph.recording import Recording
from quantgraph.recording.scope import Scope, current_scope

_LANGCHAIN_ID = "lc_"


class TokenCallbacks(CallbackManagerForLLMRun):
    """Callbacks of one attempt, which give each token the id of its message.

    The id tells LangGraph that a message has been streamed, and a display that the tokens of a broken attempt
    and those of the next belong to different messages.
    """

    message_id: str
    abandoned = False
    """Set when the call is abandoned: the next token then ends the stream."""

    @classmethod
    def of(cls, manager: Any, message_id: str) -> Self | None:
        """The callbacks of a manager under the same run; None without a manager."""
        if manager is None:
            return None
        made = cls(
            run_id=manager.run_id,
            handlers=manager.handlers,
            inheritable_handlers=manager.inheritable_handlers,
            parent_run_id=manager.parent_run_id,
            tags=manager.tags,
            inheritable_tags=manager.inheritable_tags,
            metadata=manager.metadata,
            inheritable_metadata=manager.inheritable_metadata,
        )
        made.message_id = message_id
        return made

    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        **kwargs: Any,
    ) -> None:
        """Give the token's chunk the id, unless the server gave it one, and tell of it."""
        if self.abandoned:
            raise TimeoutError("the model call was abandoned")
        if isinstance(chunk, ChatGenerationChunk):
            own = chunk.message.id
            if own is None or own.startswith(_LANGCHAIN_ID):
                chunk.message.id = self.message_id
        super().on_llm_new_token(token, chunk=chunk, **kwargs)


_POLL_SECONDS = 0.005
_NODE_SECONDS = 600.0


class RecordedChatModel(BaseChatModel):
    """A chat model whose calls are recorded, counted, kept within the budget, and retried where that helps.

    In a run (see :class:`~quantgraph.recording.scope.Scope`) recorded replies are served without a call
    of the inner model. After ``node_seconds`` of work a node sends no call and waits for none.
    ``stream()`` returns a reply in one piece, since pieces of a broken stream could not be taken back before
    a retry. Callbacks, and so LangGraph's ``messages`` stream, see each token as it comes; the tokens of
    another attempt have another message id.
    """

    inner: SkipValidation[BaseChatModel] = Field(repr=False)
    role: str = "model"
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: Any = None
    node_seconds: float = _NODE_SECONDS
    _policy: CallPolicy = PrivateAttr()
    _prices: Mapping[str, Price] = PrivateAttr()
    _replies: ReplyCache | None = PrivateAttr()

    def __init__(
        self,
        inner: BaseChatModel,
        *,
        role: str = "model",
        policy: CallPolicy | None = None,
        prices: Mapping[str, Price] = PRICES,
        cache: ReplyCache | None = None,
        node_seconds: float = _NODE_SECONDS,
    ) -> None:
        taken_over = ("name", "callbacks", "tags", "metadata", "verbose", "profile")
        super().__init__(
            inner=inner,
            role=role,
            node_seconds=node_seconds,
            cache=False,  # LangChain's cache would answer without a record
            **{field: getattr(inner, field) for field in taken_over},
        )
        self.name = inner.get_name()
        self._policy = policy or CallPolicy()
        self._prices = prices
        self._replies = cache

    @property
    def _llm_type(self) -> str:
        return "quantgraph-recorded"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return self.inner._get_ls_params(stop=stop, **kwargs)  # noqa: SLF001 - what tracers show

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The inner model's binding, recorded."""
        bound = self.inner.bind_tools(tools, tool_choice=tool_choice, **kwargs)
        schemas = tuple(convert_to_openai_tool(tool) for tool in tools)
        return self._around(bound, tools=schemas, tool_choice=tool_choice)

    def _around(self, bound: Any, **update: Any) -> Runnable[Any, Any]:
        """The same runnable with this wrapper around the model in it."""
        if isinstance(bound, BaseChatModel):
            return self.model_copy(update={"inner": bound, **update})
        if isinstance(bound, RunnableBinding):
            return bound.model_copy(update={"bound": self._around(bound.bound, **update)})
        raise BadOption(
            f"model: {type(self.inner).__name__} binds tools as a {type(bound).__name__}, whose calls cannot "
            "be recorded; it must be a chat model or a binding of one",
            option="model",
        )

    def _call(
        self, messages: list[BaseMessage], stop: list[str] | None, options: Mapping[str, Any]
    ) -> ModelCall:
        options_sent = {**options, "stop": stop} if stop else options
        facts = model_facts(self.inner, options_sent)
        return ModelCall(
            request=build_request(
                self.inner,
                facts,
                messages,
                tools=self.tools,
                tool_choice=self.tool_choice,
                options=options_sent,
            ),
            facts=facts,
            role=self.role,
            scope=current_scope() or Scope(recording=Recording(new_run_id()), path=self.role),
            price=price_of(facts.name, self._prices),
            cache=self._replies,
            node_seconds=self.node_seconds,
        )

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        call = self._call(messages, stop, kwargs)
        recorded = call.recorded_reply()
        if recorded is not None:
            return _result(recorded)

        try:
            for attempt in self._policy.attempts(facts=call.facts, what=self.role, check=call.check):
                with attempt:
                    while not call.reserve():
                        time.sleep(_POLL_SECONDS)
                    manager = TokenCallbacks.of(run_manager, call.message_id())
                    # Not invoke(), which would call back twice.
                    send = partial(self.inner._generate_with_cache, messages, stop, manager, **kwargs)  # noqa: SLF001
                    with _counting_failure(call, manager):
                        message = _message(run_in_thread(send, call.check_in_flight))
                    answer = call.on_reply(message)
        except BaseException as problem:
            call.on_end(problem)
            raise
        return _result(answer)


@contextmanager
def _counting_failure(call: ModelCall, manager: TokenCallbacks | None = None) -> Iterator[None]:
    """Count an attempt without a reply; its later tokens go nowhere."""
    try:
        yield
    except BaseException as error:
        if manager is not None:
            manager.abandoned = True
        call.on_failure(error)
        raise


def _message(result: ChatResult) -> AIMessage:
    """The reply as an ``AIMessage``; some servers send another role."""
    if not result.generations:
        raise MissingMessage("no message in it")
    message = result.generations[0].message
    if is_too_deep([message.content, message.additional_kwargs, getattr(message, "tool_calls", [])]):
        raise MissingMessage("nested too deeply")
    if isinstance(message, AIMessage):
        return message
    return AIMessage(message.content, response_metadata=message.response_metadata)


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])
