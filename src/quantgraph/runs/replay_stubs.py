"""What a replay has in place of a model, a source and a process for code: nobody is there to be asked."""

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
from quantgraph.runs.options import RunSpec
from quantgraph.sandbox import CodeResult
from quantgraph.sandbox.wire import Frames
from quantgraph.settings import ROLES, Role
from quantgraph.runtime.questions import OnClarify

__all__ = ["DatedReplaySource", "ReplayCodeRunner", "ReplaySource", "recorded_on_clarify", "replay_models"]


class _NoModel(BaseChatModel):
    model_name: str
    base_url: str | None = None

    @property
    def _llm_type(self) -> str:
        return "quantgraph-recorded"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        _nobody(f"model {self.model_name}, with {len(messages)} messages")


class _NoModelWithTools(_NoModel):
    def bind_tools(self, *_: Any, **__: Any) -> Runnable[LanguageModelInput, AIMessage]:
        return self


class _NoServer(_NoModelWithTools):
    openai_api_base: str


def replay_models(entries: Iterable[Entry], rung: str) -> dict[Role, BaseChatModel]:
    """A model for each role that bears the name and the address of the recorded one, and is never called.

    What it can do is what it was used for: who chooses between tools and text by the kind of a model chooses
    as it did then. Where ``rung``, of the run's settings, is not ``auto``, none was probed.
    """
    asked: dict[str, list[dict[str, Any]]] = {role: [] for role in ROLES}
    probed: dict[str, str] = {}
    for entry in entries:
        request = json.loads(entry.request)
        if entry.key.kind == "model":
            asked.setdefault(entry.facts.get("role", ""), []).append(request)
        elif entry.key.kind == "fact" and "rung_of" in request:
            probed[request["rung_of"]["model"]] = request["rung_of"]["base_url"]
    return {role: _of(asked[role], probed, fixed=rung != "auto") for role in ROLES}


def _of(requests: Sequence[Mapping[str, Any]], probed: Mapping[str, str], *, fixed: bool) -> BaseChatModel:
    if not requests:
        return _NoModelWithTools(model_name="nobody")
    name, url = requests[0]["model"], requests[0]["base_url"]
    if name in probed or (fixed and url and any(request["schema"] for request in requests)):
        return _NoServer(model_name=name, openai_api_base=probed.get(name, url))
    kind = _NoModelWithTools if any(request["tools"] for request in requests) else _NoModel
    return kind(model_name=name, base_url=url)


class ReplaySource:
    """A source that is never asked.

    Parameters
    ----------
    name, synthetic
        Those of the recorded run's.
    """

    def __init__(self, name: str, *, synthetic: bool) -> None:
        self.name = name
        self.synthetic = synthetic

    def _ask(self, *_: Any, **__: Any) -> Any:
        _nobody(f"the source {self.name}")

    sessions = symbols = names = members = bars = indicators = index_bars = _ask


class DatedReplaySource(ReplaySource):
    """In place of a source with lists by day."""

    symbols_on = names_on = ReplaySource._ask  # noqa: SLF001 - its base is of this module


class ReplayCodeRunner:
    """A runner that runs nothing."""

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:  # noqa: ARG002
        """Refuse."""
        _nobody(f"a process for {len(cells)} cells of code")


def recorded_on_clarify(options: RunSpec, entries: Iterable[Entry]) -> OnClarify:
    """Who answers: nobody in place of a function, else as it was.

    Whoever resumes a run may have let himself be asked where it was begun with the defaults.
    """
    if options.on_clarify == "function":
        return _no_answer
    said = any(entry.key.kind == "answer" and entry.facts.get("role") != "default" for entry in entries)
    return "ask" if said else options.on_clarify


def _no_answer(question: Mapping[str, Any]) -> str:
    _nobody(f"a person: {question['question']}")


def _nobody(asked: str) -> NoReturn:
    raise RunDiverged(f"a replay asked {asked}, and everything that is asked has to be in the record")
