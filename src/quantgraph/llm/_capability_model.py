"""The capability mode of a model: fixed, or probed at first use, and recorded in the run.

A chat model that calls tools natively, whatever the inner model can do.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import BadOption, ModelOutputInvalid
from quantgraph.llm._cache import cached_attempt, drop_replies
from quantgraph.llm._capability_modes import (
    MODES,
    CapabilityMode,
    ModeRequest,
    ReplyForm,
    build_mode_request,
    is_bad_request,
    is_refused,
    reply_message,
)
from quantgraph.llm._capability_replies import ParsedReply, parse_reply
from quantgraph.llm._retry import classify_error, innermost_model, model_facts
from quantgraph.llm.messages._json import reply_text, without_thoughts
from quantgraph.recording import Key
from quantgraph.recording.scope import Scope, current_scope, in_scope, recorded

RECORDING_PATH = "ladder"
"""Path of the modes in a run's recording; the calls of a probe have the path ``ladder/probe``."""

_RESPONSE_FORMAT = "response_format"
_RUNS_KEPT = 256

_FOUND: dict[tuple[str, str], CapabilityMode] = {}
"""Modes that this process has found, by base URL and model."""

_PROBE_ARGS = {"word": "ready", "count": 7}
_PROBE_TOOL = {
    "name": "report",
    "description": "Report a word and a count.",
    "parameters": {
        "type": "object",
        "properties": {"word": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["word", "count"],
    },
}
_PROBE_FORM = ReplyForm(tools=(_PROBE_TOOL,))
_PROBE_BINDING = {"tools": [{"type": "function", "function": _PROBE_TOOL}]}
_PROBE_QUESTION = 'Call the tool report with the word "ready" and the count 7. Do nothing else.'
_PROBE_MAX_TOKENS = 1024  # an answer has thirty; the rest is for a model that thinks first


@dataclass
class ActiveMode:
    """The mode of a model in one run, or outside of runs."""

    mode: CapabilityMode
    supports_response_format: bool
    """False if the model has no server, or its server has refused ``response_format``."""


class CapabilityCache:
    """The mode of one model by run, shared by all bound copies of it. Thread-safe.

    Notes
    -----
    A model with a base URL, such as ``ChatOpenAI``, is probed once a process. Any other model has the mode
    ``native`` if it implements ``bind_tools``, else ``text``. In a run the mode of a probed model is a
    recorded fact: a replay needs no probe, and a resumed run goes on in its mode. What a run learns in use of
    a model without a base URL holds for that run alone, so that a replay of the next run starts as it did.
    """

    def __init__(self, model: BaseChatModel, mode: CapabilityMode | None) -> None:
        core = innermost_model(model)
        facts = model_facts(core)
        binds_tools = type(core).bind_tools is not BaseChatModel.bind_tools
        self._model = model
        self._role = getattr(model, "role", None)
        self._name = facts.name
        self._url = facts.base_url if hasattr(core, "openai_api_base") else None
        self._is_fixed = mode is not None
        self._initial = mode or (None if self._url else "native" if binds_tools else "text")
        self._active: dict[str | None, ActiveMode] = {}
        self._lock = threading.RLock()  # one probe, however many threads ask first

    def active(self) -> ActiveMode:
        """The active mode of this run."""
        scope = current_scope()
        run_id = scope.recording.run_id if scope else None
        with self._lock:
            if run_id not in self._active:
                self._active[run_id] = self._begin(scope)
                if len(self._active) > _RUNS_KEPT:
                    del self._active[next(iter(self._active))]
            return self._active[run_id]

    def modes(self) -> tuple[CapabilityMode, ...]:
        """The active mode, and behind it the lower modes for a server that refuses it."""
        mode = self.active().mode
        return (mode,) if self._is_fixed else MODES[MODES.index(mode) :]

    def step_down(self, refused: Sequence[CapabilityMode], mode: CapabilityMode) -> None:
        """Make a mode active that has just answered, after the server refused the modes above it."""
        with self._lock:
            active = self.active()
            active.mode = max(active.mode, mode, key=MODES.index)  # another thread may be further down
            if self._url is not None:
                _FOUND[self._url, self._name] = active.mode
        for one in refused:
            recorded("fact", self._refusal(one), lambda: mode)

    def refuse_response_format(self) -> None:
        """Send ``response_format`` no more in this run: the server answered once it was left out."""
        self.active().supports_response_format = False
        recorded("fact", self._refusal(_RESPONSE_FORMAT), lambda: True)

    def _begin(self, scope: Scope | None) -> ActiveMode:
        mode = self._initial or (self._find_in_run(scope) if scope else self._find())
        if scope is None:
            return ActiveMode(mode, supports_response_format=self._url is not None)
        while mode != MODES[-1] and self._was_refused(mode, scope):
            mode = MODES[MODES.index(mode) + 1]
        supported = self._url is not None and not self._was_refused(_RESPONSE_FORMAT, scope)
        return ActiveMode(mode, supports_response_format=supported)

    def _refusal(self, what: str) -> dict[str, Any]:
        return {"refused": what, "base_url": self._url, "model": self._name, "role": self._role}

    def _was_refused(self, what: str, scope: Scope) -> bool:
        """Whether the refusal precedes the state from which the current node has begun."""
        fact = scope.recording.last("fact", content_hash(canonical_json(self._refusal(what))))
        return fact is not None and fact.key.seq <= scope.before.get(fact.key.path, 0)

    def _find_in_run(self, scope: Scope) -> CapabilityMode:
        request = canonical_json({"rung_of": {"base_url": self._url, "model": self._name}})
        # Calls of a probe have numbers of their own: a replay makes none, and counts the others as they were.
        with in_scope(Scope(recording=scope.recording, path=f"{RECORDING_PATH}/probe")):
            key = Key(RECORDING_PATH, 0, "fact", content_hash(request))
            return scope.recording.once(key, request, self._find)

    def _find(self) -> CapabilityMode:
        key = (self._url or "", self._name)
        mode = _FOUND.get(key) or probe_mode(self._model)
        if mode is None:
            return MODES[-1]
        _FOUND[key] = mode
        return mode


def probe_mode(model: BaseChatModel) -> CapabilityMode | None:
    """Find the highest mode in which a model calls a tool, with one or two small requests.

    The lowest mode is not tried: every model serves it.
    """
    understood = False
    for mode in MODES[:-1]:
        try:
            request = build_mode_request(
                mode,
                model,
                [HumanMessage(_PROBE_QUESTION)],
                _PROBE_FORM,
                bound=_PROBE_BINDING,
                max_tokens=_PROBE_MAX_TOKENS,
            )
            message = reply_message(request.model._generate_with_cache(request.messages, **request.options))  # noqa: SLF001
        except ModelOutputInvalid:
            understood = True
            continue
        except Exception as error:
            understood = understood or is_refused(error, model)
            if is_refused(error, model) or is_bad_request(error, model):
                continue
            raise
        understood = True
        if _is_right_call(message, mode):
            return mode
    return MODES[-1] if understood else None


def _is_right_call(message: AIMessage, mode: CapabilityMode) -> bool:
    """Whether the reply calls the tool as the mode has it: as a tool, or as nothing but JSON."""
    if mode == "native":
        calls: Any = message.tool_calls
    else:
        try:
            json.loads(str(message.text))
        except ValueError:
            return False
        calls = parse_reply(message, _PROBE_FORM, native=False, turn=0).calls
    return [(call["name"], _as_texts(call["args"])) for call in calls] == [("report", _as_texts(_PROBE_ARGS))]


def _as_texts(args: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in args.items()}


_OPTIONAL_CHOICES = (None, "auto", "none", False)
_INHERITED = ("name", "callbacks", "tags", "metadata", "verbose", "profile")
"""Fields taken from the inner model: callers see one model run, that of the wrapper."""


class CapabilityChatModel(BaseChatModel):
    """A model with native tool calls; inside it asks in the mode that the inner model supports.

    Tool calls that the model writes as text become tool calls, see
    :mod:`~quantgraph.llm._capability_replies`.

    Parameters
    ----------
    answer
        Schema of the final answer; in mode ``json_schema`` the server enforces it. Read the answer with
        :func:`~quantgraph.llm.messages.ask_json`.

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
