"""Stand-ins of a replay for models, source, code process and person: an error, or the recorded reply."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable

from quantgraph.errors import RunDiverged
from quantgraph.recording import Entry
from quantgraph.runs.specification import RunSpec
from quantgraph.runtime.questions import OnClarify
from quantgraph.sandbox import CodeResult
from quantgraph.sandbox.wire import Frames
from quantgraph.settings import ROLES, Role

__all__ = ["DatedReplaySource", "ReplayCodeRunner", "ReplaySource", "recorded_on_clarify", "replay_models"]


class _Model(BaseChatModel):
    model_name: str
    base_url: str | None = None

    @property
    def _llm_type(self) -> str:
        return "quantgraph-recorded"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        _not_recorded(f"model {self.model_name}, with {len(messages)} messages")


class _ToolModel(_Model):
    def bind_tools(self, *_: Any, **__: Any) -> Runnable[LanguageModelInput, AIMessage]:
        return self


class _ServerModel(_ToolModel):
    openai_api_base: str


def replay_models(entries: Iterable[Entry], rung: str) -> dict[Role, BaseChatModel]:
    """A model for each role with the name and the address of the recorded one, which must not be called.

    Its kind is that of the recorded use, so that the choice between tools and text comes out as it did.
    Unless ``rung``, of the run's settings, is ``auto``, no model was probed.
    """
    requests: dict[str, list[dict[str, Any]]] = {role: [] for role in ROLES}
    probed: dict[str, str] = {}
    for entry in entries:
        request = json.loads(entry.request)
        if entry.key.kind == "model":
            requests.setdefault(entry.facts.get("role", ""), []).append(request)
        elif entry.key.kind == "fact" and "rung_of" in request:
            probed[request["rung_of"]["model"]] = request["rung_of"]["base_url"]
    return {role: _model_of(requests[role], probed, fixed=rung != "auto") for role in ROLES}


def _model_of(
    requests: Sequence[Mapping[str, Any]], probed: Mapping[str, str], *, fixed: bool
) -> BaseChatModel:
    if not requests:
        return _ToolModel(model_name="nobody")
    name, url = requests[0]["model"], requests[0]["base_url"]
    if name in probed or (fixed and url and any(request["schema"] for request in requests)):
        return _ServerModel(model_name=name, openai_api_base=probed.get(name, url))
    kind = _ToolModel if any(request["tools"] for request in requests) else _Model
    return kind(model_name=name, base_url=url)


class ReplaySource:
    """A source that must not be called.

    Parameters
    ----------
    name, synthetic
        Those of the recorded source.
    """

    def __init__(self, name: str, *, synthetic: bool) -> None:
        self.name = name
        self.synthetic = synthetic

    def _call(self, *_: Any, **__: Any) -> Any:
        _not_recorded(f"the source {self.name}")

    sessions = symbols = names = members = bars = indicators = index_bars = _call


class DatedReplaySource(ReplaySource):
    """A source with lists by date that must not be called."""

    symbols_on = names_on = ReplaySource._call  # noqa: SLF001 - its base is of this module


class ReplayCodeRunner:
    """A code runner that must not be called."""

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:  # noqa: ARG002
        """Raise ``RunDiverged``."""
        _not_recorded(f"a process for {len(cells)} cells of code")


def recorded_on_clarify(spec: RunSpec, entries: Iterable[Entry]) -> OnClarify:
    """How questions are answered: as recorded; a stub stands in for a function.

    A run that was begun with the defaults may have been resumed with a person who answers.
    """
    if spec.on_clarify == "function":
        return _no_answer
    answered = any(entry.key.kind == "answer" and entry.facts.get("role") != "default" for entry in entries)
    return "ask" if answered else spec.on_clarify


def _no_answer(question: Mapping[str, Any]) -> str:
    _not_recorded(f"a person: {question['question']}")


def _not_recorded(request: str) -> NoReturn:
    raise RunDiverged(f"a replay called {request}; every request of a replay must be in its record")
