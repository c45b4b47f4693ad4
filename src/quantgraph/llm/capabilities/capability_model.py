"""A chat model that calls tools natively, whatever the model inside can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
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
    ReplyForm,
    is_refused,
    response_format,
    send_request,
)
from quantgraph.llm.capabilities.parse_reply import ParsedReply, parse_reply
from quantgraph.llm.faults import classify_error, model_facts
from quantgraph.llm.structured import reply_text, without_thoughts

__all__ = ["CapabilityChatModel"]

_FREE = (None, "auto", "none", False)
_TAKEN_OVER = ("name", "callbacks", "tags", "metadata", "verbose", "profile")
"""Fields of the inner model: one model run is seen from outside, and that is ours."""


class CapabilityChatModel(BaseChatModel):
    """To its user a model that calls tools natively; inside it asks on the rung that the inner model can do.

    Calls that the model writes as text are calls all the same, see
    :mod:`~quantgraph.llm.capabilities.parse_reply`. A reply whose call cannot be read, or that was cut off in
    one, gets one question that says so. After that it is handed on as a text without calls.

    Parameters
    ----------
    inner
        The model.
    rung
        ``auto`` finds out, see :class:`~quantgraph.llm.capabilities.capability_cache.CapabilityCache`.
    answer
        What the final answer has to be; on the rung ``json_schema`` the server holds it to that. Whoever asks
        reads it with :func:`~quantgraph.llm.capabilities.ask_json`.
    cache_dir
        Where rungs are remembered; None is the settings' folder.

    Raises
    ------
    BadOption
        If there is no such rung.

    Notes
    -----
    On the rung ``native`` a schema of the answer is sent only where no tool is bound: many servers refuse
    both together, or stop calling tools. A server that refuses it alone is not sent it again.

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

    _footing: CapabilityCache = PrivateAttr()

    def __init__(
        self,
        inner: BaseChatModel,
        *,
        rung: CapabilityMode | Literal["auto"] = "auto",
        answer: type[BaseModel] | None = None,
        cache_dir: Path | None = None,
        **fields: Any,
    ) -> None:
        if rung not in ("auto", *MODES):
            raise BadOption(f"rung={rung!r}; valid are auto, {', '.join(MODES)}", option="rung")
        taken_over = {name: getattr(inner, name) for name in _TAKEN_OVER}
        super().__init__(inner=inner, answer=answer, cache=False, **{**taken_over, **fields})
        self._footing = CapabilityCache(inner, None if rung == "auto" else rung, cache_dir)

    @property
    def _llm_type(self) -> str:
        return "quantgraph-ladder"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return self.inner._get_ls_params(stop=stop, **kwargs)  # noqa: SLF001 - what tracers show

    @property
    def rung(self) -> CapabilityMode:
        """The rung it stands on; asking for it may probe the model."""
        return self._footing.standing().rung

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """A copy that may call these tools, whether or not the inner model can bind any."""
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
        wanted = _wanted(self.bound_tools, self.bound_options.get("tool_choice"), self.answer)
        options = {**kwargs, "run_manager": run_manager} | ({"stop": stop} if stop else {})
        with cached_attempt() as replies:
            message, reading = self._ask(messages, wanted, options)
            if reading.fault:
                drop_replies(replies)
        if reading.fault:
            usage = message.usage_metadata
            message, reading = self._ask([*messages, *_complaint(message, reading.fault)], wanted, options)
            message = message.model_copy(update={"usage_metadata": add_usage(usage, message.usage_metadata)})
        return ChatResult(generations=[ChatGeneration(message=_as_read(message, reading))])

    def _ask(
        self, messages: list[BaseMessage], wanted: ReplyForm, options: dict[str, Any]
    ) -> tuple[AIMessage, ParsedReply]:
        """One answer, from a lower rung if the server refuses this one."""
        rung, *lower = self._rungs_for(messages, wanted)
        refused: list[CapabilityMode] = []
        while True:
            try:
                answer = self._read_on(rung, messages, wanted, options)
            except Exception as error:
                if not lower or not is_refused(error, self.inner):
                    raise
                refused.append(rung)
                rung = lower.pop(0)
            else:
                if refused:
                    self._footing.step_down(refused, rung)
                return answer

    def _read_on(
        self, rung: CapabilityMode, messages: list[BaseMessage], wanted: ReplyForm, options: dict[str, Any]
    ) -> tuple[AIMessage, ParsedReply]:
        try:
            message = self._ask_on(rung, messages, wanted, options)
        except Exception as error:
            if reason := _withheld(error, self.inner):
                return AIMessage(""), ParsedReply(fault=reason)
            raise
        return message, parse_reply(message, wanted, native=rung == "native", turn=len(messages))

    def _rungs_for(self, messages: list[BaseMessage], wanted: ReplyForm) -> tuple[CapabilityMode, ...]:
        """Plain talk is the same on every rung and needs no probe."""
        talk = wanted.free and not any(isinstance(message, ToolMessage) for message in messages)
        return ("native",) if talk else self._footing.rungs()

    def _ask_on(
        self, rung: CapabilityMode, messages: list[BaseMessage], wanted: ReplyForm, options: dict[str, Any]
    ) -> AIMessage:
        if rung != "native":
            return send_request(rung, self.inner, messages, wanted, **options)
        asks_form = wanted.answer is not None and not self.bound_tools
        refused = False
        if asks_form and self._footing.standing().takes_formats:
            try:
                return send_request(
                    rung, self.inner, messages, wanted, **response_format(wanted, "json_schema"), **options
                )
            except Exception as error:
                if not is_refused(error, self.inner):
                    raise
                refused = True
        bound = {"tools": list(self.bound_tools), **self.bound_options} if self.bound_tools else None
        message = send_request(rung, self.inner, messages, wanted, bound=bound, **options)
        if refused:
            self._footing.without_formats()
        return message


def _wanted(specs: Sequence[Mapping[str, Any]], choice: Any, answer: type[BaseModel] | None) -> ReplyForm:
    """What a choice of tools leaves to a reply: ``any``, ``required``, True and a tool's name insist."""
    tools = tuple(spec["function"] for spec in specs if "function" in spec and choice != "none")
    name = choice.get("function", {}).get("name") if isinstance(choice, Mapping) else choice
    chosen = tuple(tool for tool in tools if tool["name"] == name)
    return ReplyForm(tools=chosen or tools, answer=answer, forced=bool(tools) and choice not in _FREE)


def _withheld(error: Exception, model: BaseChatModel) -> str | None:
    """Why an answer cannot be used (cut off, withheld), where the client says so by an exception."""
    if isinstance(error, ModelOutputInvalid):
        return error.message
    fault = classify_error(error, model_facts(model))
    return f"it {fault.reason}" if fault and fault.kind is ModelOutputInvalid else None


def _complaint(message: AIMessage, fault: str) -> list[BaseMessage]:
    """The one question that names a fault, behind what was said."""
    said = without_thoughts(reply_text(message.content))
    question = f"Your last reply could not be used: {fault}. Send it again, whole and valid."
    return [*([AIMessage(said)] if said else []), HumanMessage(question)]


def _as_read(message: AIMessage, reading: ParsedReply) -> AIMessage:
    if not reading.calls and reading.text is None and reading.fault is None:
        return message
    raw = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
    return message.model_copy(
        update={
            "content": message.content if reading.text is None else reading.text,
            "tool_calls": list(reading.calls),
            "invalid_tool_calls": [],
            "additional_kwargs": raw,
        }
    )
