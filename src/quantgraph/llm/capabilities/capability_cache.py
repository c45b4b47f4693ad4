"""The capability mode of a model: fixed, or probed at first use, and recorded in the run."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import ModelOutputInvalid
from quantgraph.llm.capabilities.modes import (
    MODES,
    CapabilityMode,
    ReplyForm,
    build_mode_request,
    is_bad_request,
    is_refused,
    reply_message,
)
from quantgraph.llm.capabilities.parse_reply import parse_reply
from quantgraph.llm.faults import innermost_model, model_facts
from quantgraph.recording import Key, Scope, current_scope, in_scope, recorded

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

    Parameters
    ----------
    model
        The inner model.
    mode
        A fixed mode, which is neither probed nor left; None finds the mode.

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
        """The active mode of this run.

        Raises
        ------
        QuantGraphError
            The error of a probe: the server is down, the key is refused, or a budget is used up.
        """
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

    The lowest mode is not tried: every model serves it. None means that the server refused every request
    without a reason: the cause may be another than the mode.

    Raises
    ------
    QuantGraphError
        The error of a server that is down or refuses the key.
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
