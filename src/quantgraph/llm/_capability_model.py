"""A chat model that calls tools natively, whatever the inner model can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import add_usage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableBinding
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr, SkipValidation

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import BadOption, ModelOutputInvalid
from quantgraph.llm._cache import cached_attempt, drop_replies
from quantgraph.llm._capability_modes import MODES, CapabilityMode, ReplyForm, as_text, is_refused
from quantgraph.llm._capability_replies import ParsedReply, parse_reply
from quantgraph.llm._retry import classify_error, innermost_model, model_facts
from quantgraph.llm.messages._json import reply_text, without_thoughts
from quantgraph.recording import Key
from quantgraph.recording.scope import Scope, current_scope, recorded


class CapabilityCache:
    """The mode of one model, shared by all bound copies of it. Thread-safe.

    Each run begins in mode ``native``, or in ``text`` if the model does not implement ``bind_tools``. Nothing
    of a run is kept here: that it has stepped down is a fact of its record, and holds from its place in the
    run on, so that a resumed run and a replay take the same step.
    """

    def __init__(self, model: BaseChatModel, mode: CapabilityMode | None) -> None:
        core = innermost_model(model)
        facts = model_facts(core)
        binds_tools = type(core).bind_tools is not BaseChatModel.bind_tools
        self.is_fixed = mode is not None
        self._first: CapabilityMode = mode or ("native" if binds_tools else "text")
        role = getattr(model, "role", None)
        self._refusal = {"refused": "tools", "base_url": facts.base_url, "model": facts.name, "role": role}
        self._digest = content_hash(canonical_json(self._refusal))
        self._outside_of_runs = self._first

    def mode(self) -> CapabilityMode:
        """The mode at the current place of a run, or outside of runs."""
        scope = current_scope()
        if scope is None:
            return self._outside_of_runs
        can_step_down = self._first == "native" and not self.is_fixed
        return "text" if can_step_down and self._has_stepped_down(scope) else self._first

    def step_down(self) -> None:
        """Go on in mode ``text``: the server offers its model no tools."""
        scope = current_scope()
        if scope is None:
            self._outside_of_runs = "text"
            return
        scope.recording.memory[self._digest] = True
        recorded("fact", self._refusal, lambda: True)

    def _has_stepped_down(self, scope: Scope) -> bool:
        """Whether the step precedes this place: at its path, in an earlier node, or in an earlier session."""
        path, calls = scope.place()
        if any(number <= calls for number in scope.recording.numbers(Key(path, 0, "fact", self._digest))):
            return True
        fact = scope.recording.last("fact", self._digest)
        if fact is None:  # of a run that keeps no record
            return self._digest in scope.recording.memory
        if fact.session and scope.session:
            return fact.session < scope.session
        return fact.key.seq <= scope.before.get(fact.key.path, 0)


_OPTIONAL_CHOICES = (None, "auto", "none", False)
_INHERITED = ("name", "callbacks", "tags", "metadata", "verbose", "profile")
"""Fields taken from the inner model: callers see one model run, that of the wrapper."""


class CapabilityChatModel(BaseChatModel):
    """A model with native tool calls; inside it asks in the mode that the inner model supports.

    In mode ``native`` the inner model is offered the tools. If its server refuses them, or a reply shows
    that the model was not offered any, the run goes on in mode ``text``: the prompt describes the tools, and
    a JSON object in the reply calls one.

    Parameters
    ----------
    mode
        ``"auto"``, or a mode that is never left.

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
    bound_tools: tuple[dict[str, Any], ...] = ()
    bound_options: Mapping[str, Any] = {}

    _capabilities: CapabilityCache = PrivateAttr()

    def __init__(
        self,
        inner: BaseChatModel,
        *,
        mode: CapabilityMode | Literal["auto"] = "auto",
        **fields: Any,
    ) -> None:
        if mode not in ("auto", *MODES):
            raise BadOption(f"mode={mode!r}; valid are auto, {', '.join(MODES)}", option="mode")
        inherited = {name: getattr(inner, name) for name in _INHERITED}
        super().__init__(inner=inner, cache=False, **{**inherited, **fields})
        self._capabilities = CapabilityCache(inner, None if mode == "auto" else mode)

    @property
    def _llm_type(self) -> str:
        return "quantgraph-capabilities"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return self.inner._get_ls_params(stop=stop, **kwargs)  # noqa: SLF001 - what tracers show

    @property
    def mode(self) -> CapabilityMode:
        """The mode of the current run."""
        return self._capabilities.mode()

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
        form = _reply_form(self.bound_tools, self.bound_options.get("tool_choice"))
        options = {**kwargs, "run_manager": run_manager} | ({"stop": stop} if stop else {})
        with cached_attempt() as replies:
            message, parsed = self._ask(messages, form, options)
            if parsed.fault:
                drop_replies(replies)
        if parsed.without_tools and not self._capabilities.is_fixed:
            self._capabilities.step_down()
        if parsed.fault:
            usage = message.usage_metadata
            message, parsed = self._ask([*messages, *_repair_request(message, parsed.fault)], form, options)
            message = message.model_copy(update={"usage_metadata": add_usage(usage, message.usage_metadata)})
        return ChatResult(generations=[ChatGeneration(message=_with_parsed_calls(message, parsed))])

    def _ask(
        self, messages: list[BaseMessage], form: ReplyForm, options: dict[str, Any]
    ) -> tuple[AIMessage, ParsedReply]:
        """One reply, in mode ``text`` if the server refuses tools."""
        is_plain = not form.tools and not any(isinstance(message, ToolMessage) for message in messages)
        mode = first = (
            "native" if is_plain else self._capabilities.mode()
        )  # a plain conversation has one form
        while True:
            model, sent, given = self._request(mode, messages, form, options)
            try:
                # As langchain-core's own ``invoke`` does, without a second model run beside the caller's.
                message = _reply_message(model._generate_with_cache(sent, **given))  # noqa: SLF001
                parsed = parse_reply(message, form, mode=mode, turn=len(messages))
            except Exception as error:
                if reason := _unusable_reason(error, self.inner):
                    message, parsed = AIMessage(""), ParsedReply(fault=reason)
                elif mode == "native" and not self._capabilities.is_fixed and is_refused(error, self.inner):
                    mode = "text"
                    continue
                else:
                    raise
            if mode != first:
                self._capabilities.step_down()  # only now: nothing may have answered
            return message, parsed

    def _request(
        self, mode: CapabilityMode, messages: list[BaseMessage], form: ReplyForm, options: dict[str, Any]
    ) -> tuple[Any, list[BaseMessage], dict[str, Any]]:
        """The model, the messages and the options of one request in a mode."""
        if mode == "text":  # what is JSON between programs is not streamed
            return self.inner, as_text(messages, form), {**options, "run_manager": None}
        model: Any = self.inner
        if self.bound_tools:
            model = model.bind_tools(list(self.bound_tools), **self.bound_options)
            if isinstance(model, RunnableBinding):
                return model.bound, messages, {**model.kwargs, **options}
        return model, messages, options


def _reply_form(specs: Sequence[Mapping[str, Any]], choice: Any) -> ReplyForm:
    """The form that a tool choice leaves: ``any``, ``required``, True and a tool's name force a call."""
    tools = tuple(spec["function"] for spec in specs if "function" in spec and choice != "none")
    name = choice.get("function", {}).get("name") if isinstance(choice, Mapping) else choice
    chosen = tuple(tool for tool in tools if tool["name"] == name)
    forced = bool(tools) and choice not in _OPTIONAL_CHOICES
    return ReplyForm(tools=chosen or tools, forced=forced)


def _unusable_reason(error: Exception, model: BaseChatModel) -> str | None:
    """Why a reply is unusable (truncated, withheld), if the client reports it by an exception."""
    if isinstance(error, ModelOutputInvalid):
        return error.message
    fault = classify_error(error, model_facts(model))
    return f"it {fault.reason}" if fault and fault.kind is ModelOutputInvalid else None


def _reply_message(result: ChatResult) -> AIMessage:
    """The reply of a model; an empty one if there is none."""
    message = result.generations[0].message if result.generations else AIMessage("")
    return message if isinstance(message, AIMessage) else AIMessage(message.content)


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
