"""A chat model that calls tools natively, whatever the inner model can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import add_usage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, PrivateAttr, SkipValidation

from quantgraph.errors import BadOption, ModelOutputInvalid
from quantgraph.llm.cache import cached_attempt, drop_replies
from quantgraph.llm.capabilities.capability_cache import CapabilityCache
from quantgraph.llm.capabilities.modes import (
    MODES,
    CapabilityMode,
    ModeRequest,
    ReplyForm,
    build_mode_request,
    is_refused,
    reply_message,
)
from quantgraph.llm.capabilities.parse_reply import ParsedReply, parse_reply
from quantgraph.llm.faults import classify_error, model_facts
from quantgraph.llm.model_json import reply_text, without_thoughts

_OPTIONAL_CHOICES = (None, "auto", "none", False)
_INHERITED = ("name", "callbacks", "tags", "metadata", "verbose", "profile")
"""Fields taken from the inner model: callers see one model run, that of the wrapper."""


class CapabilityChatModel(BaseChatModel):
    """A model with native tool calls; inside it asks in the mode that the inner model supports.

    Tool calls that the model writes as text become tool calls, see
    :mod:`~quantgraph.llm.capabilities.parse_reply`. A reply with an unreadable or truncated call gets one
    question that names the fault. If the second reply has a fault too, it is returned as text without calls.

    Parameters
    ----------
    inner
        The model.
    mode
        ``auto`` finds the mode, see :class:`~quantgraph.llm.capabilities.capability_cache.CapabilityCache`.
    answer
        Schema of the final answer; in mode ``json_schema`` the server enforces it. Read the answer with
        :func:`~quantgraph.llm.structured.ask_json`.

    Raises
    ------
    BadOption
        If the mode does not exist.

    Notes
    -----
    In mode ``native`` a schema of the answer is sent only if no tool is bound: many servers refuse both
    together, or stop calling tools. A server that refuses the schema alone does not get it again.

    Examples
    --------
    >>> from langchain_core.language_models import FakeListChatModel
    >>> inner = FakeListChatModel(responses=['{"tool": "add", "args": {"a": 1, "b": 2}}'])
    >>> model = CapabilityChatModel(inner)
    >>> def add(a: int, b: int) -> int:
    ...     "Add two numbers."
    >>> model.bind_tools([add]).invoke("What is 1 + 2?").tool_calls[0]["args"]
    {'a': 1, 'b': 2}
    """

    inner: SkipValidation[BaseChatModel]
    answer: type[BaseModel] | None = None
    bound_tools: tuple[dict[str, Any], ...] = ()
    bound_options: Mapping[str, Any] = {}

    _capabilities: CapabilityCache = PrivateAttr()

    def __init__(
        self,
        inner: BaseChatModel,
        *,
        mode: CapabilityMode | Literal["auto"] = "auto",
        answer: type[BaseModel] | None = None,
        **fields: Any,
    ) -> None:
        if mode not in ("auto", *MODES):
            raise BadOption(f"mode={mode!r}; valid are auto, {', '.join(MODES)}", option="mode")
        inherited = {name: getattr(inner, name) for name in _INHERITED}
        super().__init__(inner=inner, answer=answer, cache=False, **{**inherited, **fields})
        self._capabilities = CapabilityCache(inner, None if mode == "auto" else mode)

    @property
    def _llm_type(self) -> str:
        return "quantgraph-capabilities"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return self.inner._get_ls_params(stop=stop, **kwargs)  # noqa: SLF001 - what tracers show

    @property
    def mode(self) -> CapabilityMode:
        """The active mode; reading it may probe the model."""
        return self._capabilities.active().mode

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """A copy that may call these tools, even if the inner model cannot bind tools."""
        kwargs.pop("ls_structured_output_format", None)  # a label for tracers, which no server takes
        specs = tuple(convert_to_openai_tool(tool) for tool in tools)
        options = kwargs if tool_choice is None else {**kwargs, "tool_choice": tool_choice}
        return self.model_copy(update={"bound_tools": specs, "bound_options": options})

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        form = _reply_form(self.bound_tools, self.bound_options.get("tool_choice"), self.answer)
        options = {**kwargs, "run_manager": run_manager} | ({"stop": stop} if stop else {})
        with cached_attempt() as replies:
            message, parsed = self._ask(messages, form, options)
            if parsed.fault:
                drop_replies(replies)
        if parsed.fault:
            usage = message.usage_metadata
            message, parsed = self._ask([*messages, *_repair_request(message, parsed.fault)], form, options)
            message = message.model_copy(update={"usage_metadata": add_usage(usage, message.usage_metadata)})
        return ChatResult(generations=[ChatGeneration(message=_with_parsed_calls(message, parsed))])

    def _ask(
        self, messages: list[BaseMessage], form: ReplyForm, options: dict[str, Any]
    ) -> tuple[AIMessage, ParsedReply]:
        """One reply, by a simpler request if the server refuses the first."""
        request, *simpler = self._requests(messages, form, options)
        refused: list[ModeRequest] = []
        while True:
            try:
                # As langchain-core's own ``invoke`` does, without a second model run beside the caller's.
                result = request.model._generate_with_cache(request.messages, **request.options)  # noqa: SLF001
            except Exception as error:
                if reason := _unusable_reason(error, self.inner):
                    return AIMessage(""), ParsedReply(fault=reason)
                if not simpler or not is_refused(error, self.inner):
                    raise
                refused.append(request)
                request = simpler.pop(0)
            else:
                self._note_refused(refused, request.mode)
                message = reply_message(result)
                native = request.mode == "native"
                return message, parse_reply(message, form, native=native, turn=len(messages))

    def _requests(
        self, messages: list[BaseMessage], form: ReplyForm, options: dict[str, Any]
    ) -> Iterator[ModeRequest]:
        """The requests that a server may understand, the most capable first."""
        is_plain = form.is_free and not any(isinstance(message, ToolMessage) for message in messages)
        bound = {"tools": list(self.bound_tools), **self.bound_options} if self.bound_tools else None
        # A plain conversation is the same in every mode and needs no probe.
        for mode in ("native",) if is_plain else self._capabilities.modes():
            build = partial(build_mode_request, mode, self.inner, messages, form, **options)
            if mode == "native" and form.answer is not None and bound is None:
                if self._capabilities.active().supports_response_format:
                    yield build(has_schema=True)
                yield build()
            else:
                yield build(bound=bound)

    def _note_refused(self, refused: list[ModeRequest], mode: CapabilityMode) -> None:
        if any(request.mode == mode for request in refused):  # with the schema, but not without it
            self._capabilities.refuse_response_format()
        if modes := list(dict.fromkeys(request.mode for request in refused if request.mode != mode)):
            self._capabilities.step_down(modes, mode)


def _reply_form(specs: Sequence[Mapping[str, Any]], choice: Any, answer: type[BaseModel] | None) -> ReplyForm:
    """The form that a tool choice leaves: ``any``, ``required``, True and a tool's name force a call."""
    tools = tuple(spec["function"] for spec in specs if "function" in spec and choice != "none")
    name = choice.get("function", {}).get("name") if isinstance(choice, Mapping) else choice
    chosen = tuple(tool for tool in tools if tool["name"] == name)
    forced = bool(tools) and choice not in _OPTIONAL_CHOICES
    return ReplyForm(tools=chosen or tools, answer=answer, forced=forced)


def _unusable_reason(error: Exception, model: BaseChatModel) -> str | None:
    """Why a reply is unusable (truncated, withheld), if the client reports it by an exception."""
    if isinstance(error, ModelOutputInvalid):
        return error.message
    fault = classify_error(error, model_facts(model))
    return f"it {fault.reason}" if fault and fault.kind is ModelOutputInvalid else None


def _repair_request(message: AIMessage, fault: str) -> list[BaseMessage]:
    """The reply without its thinking, and the question that names its fault."""
    text = without_thoughts(reply_text(message.content))
    question = f"Your last reply could not be used: {fault}. Send it again, whole and valid."
    return [*([AIMessage(text)] if text else []), HumanMessage(question)]


def _with_parsed_calls(message: AIMessage, parsed: ParsedReply) -> AIMessage:
    if not parsed.calls and parsed.text is None and parsed.fault is None:
        return message
    kwargs = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
    return message.model_copy(
        update={
            "content": message.content if parsed.text is None else parsed.text,
            "tool_calls": list(parsed.calls),
            "invalid_tool_calls": [],
            "additional_kwargs": kwargs,
        }
    )
