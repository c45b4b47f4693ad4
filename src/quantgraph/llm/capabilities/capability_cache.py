"""The rung that a model stands on: given, or remembered, or found out at first use; and known to the run."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.texts import escape_controls
from quantgraph.errors import ModelOutputInvalid
from quantgraph.llm.capabilities.modes import (
    MODES,
    CapabilityMode,
    ReplyForm,
    is_bad_request,
    is_refused,
    next_lower,
    send_request,
)
from quantgraph.llm.capabilities.parse_reply import parse_reply
from quantgraph.llm.faults import innermost_model, model_facts
from quantgraph.recording import Key, Scope, current_scope, in_scope, recorded
from quantgraph.settings import load_settings

__all__ = ["PROBE_VERSION", "ActiveMode", "CapabilityCache", "load_mode", "probe_mode", "store_mode"]

PROBE_VERSION = 1
"""Of the probe: what another one found out is not believed."""

_log = logging.getLogger(__name__)


def load_mode(folder: Path, base_url: str, model: str) -> CapabilityMode | None:
    """The rung of a model; None if it is not known. A file that cannot be read counts as none."""
    try:
        found = json.loads(_path(folder, base_url, model).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    known = isinstance(found, dict) and found.get("version") == PROBE_VERSION and found.get("rung") in MODES
    return found["rung"] if known else None


def store_mode(folder: Path, base_url: str, model: str, rung: CapabilityMode) -> None:
    """Write a rung down; where that cannot be done, the log says so and the model is probed again."""
    path = _path(folder, base_url, model)
    text = canonical_json({"version": PROBE_VERSION, "base_url": base_url, "model": model, "rung": rung})
    unfinished = path.with_name(f"{path.name}.{uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        text = f"the rung of model {model} cannot be kept in {path.parent}: {error}"
        _log.warning("%s", escape_controls(text))


def _path(folder: Path, base_url: str, model: str) -> Path:
    return folder / "rungs" / f"{content_hash(canonical_json([base_url, model]))}.json"


_ARGS = {"word": "ready", "count": 7}
_TOOL = {
    "name": "report",
    "description": "Report a word and a count.",
    "parameters": {
        "type": "object",
        "properties": {"word": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["word", "count"],
    },
}
_QUESTION = 'Call the tool report with the word "ready" and the count 7. Do nothing else.'
_MOST_TOKENS = 1024  # an answer has thirty; the rest is for a model that thinks first


_WANTED = ReplyForm(tools=(_TOOL,))
_BOUND = {"tools": [{"type": "function", "function": _TOOL}]}


def probe_mode(model: BaseChatModel) -> tuple[CapabilityMode, bool]:
    """Find the highest rung on which a model calls a tool, and whether it is worth remembering.

    The lowest rung is not tried: it is what remains. It is not remembered when the server refused every
    request without naming a reason, which may be another than we think.

    Raises
    ------
    QuantGraphError
        What the model's server answers when it is down, or when the key is wrong.
    """
    understood = False
    for rung in MODES[:-1]:
        try:
            message = send_request(
                rung, model, [HumanMessage(_QUESTION)], _WANTED, bound=_BOUND, max_tokens=_MOST_TOKENS
            )
        except ModelOutputInvalid:
            understood = True
            continue
        except Exception as error:
            if is_refused(error, model):
                understood = True
            elif not is_bad_request(error, model):
                raise
            continue
        understood = True
        if _is_right(message, rung):
            return rung, True
    return MODES[-1], understood


def _is_right(message: AIMessage, rung: CapabilityMode) -> bool:
    """Whether the tool was called as the rung has it: as a tool, or by a reply that is only JSON."""
    if rung == "native":
        calls: Any = message.tool_calls
    else:
        try:
            json.loads(str(message.text))
        except ValueError:
            return False
        calls = parse_reply(message, _WANTED, native=False, turn=0).calls
    return [(call["name"], _plain(call["args"])) for call in calls] == [(_TOOL["name"], _plain(_ARGS))]


def _plain(args: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in args.items()}


RECORDING_PATH = "ladder"
"""Where in a recording the rungs of a run's models stand; ``ladder/probe`` is what the probes asked."""

_FORMATS = "response_format"
_RUNS_KEPT = 256


@dataclass
class ActiveMode:
    """Where a model stands in one run, or outside of any."""

    rung: CapabilityMode
    takes_formats: bool
    """Whether the server may know ``response_format``, as far as it has not refused it here."""


class CapabilityCache:
    """Shared by a ladder and all its bound copies. Safe to use from several threads.

    Parameters
    ----------
    model
        The inner model.
    rung
        None, or the rung that was asked for: it is neither probed nor left.
    cache_dir
        Where rungs are remembered; None is the settings' folder.

    Notes
    -----
    Probed is what has a base URL, as ``ChatOpenAI`` has. Any other model is taken at its word: ``native`` if
    it implements ``bind_tools``, else ``text``. In a run the rung of a probed model is a recorded fact, so a
    replay needs no probe and a resumed run goes on as it began. What a run learns of its model in use holds
    for that run; the next one is told by the memory alone, or its replay would not know what it knew.
    """

    def __init__(self, model: BaseChatModel, rung: CapabilityMode | None, cache_dir: Path | None) -> None:
        core = innermost_model(model)
        facts = model_facts(core)
        binds = type(core).bind_tools is not BaseChatModel.bind_tools
        self._model = model
        self._role = getattr(model, "role", None)  # each has a footing of its own
        self._cache_dir = cache_dir
        self._name = facts.name
        self._url = facts.base_url if hasattr(core, "openai_api_base") else None
        self._stays = rung is not None
        self._known: CapabilityMode | None = rung or (None if self._url else "native" if binds else "text")
        self._standings: dict[str | None, ActiveMode] = {}
        self._lock = threading.RLock()  # one probe, however many threads ask first

    def standing(self) -> ActiveMode:
        """Where it stands now.

        Raises
        ------
        QuantGraphError
            What a probe could not get past: the server is down, the key is wrong, a budget is used up.
        """
        scope = current_scope()
        run_id = scope.recording.run_id if scope else None
        with self._lock:
            if run_id not in self._standings:
                rung = self._known or (self._find_in(scope) if scope else self._find())
                while scope and (lower := next_lower(rung)) and self._was_refused(rung, scope):
                    rung = lower
                formats = self._url is not None and not (scope and self._was_refused(_FORMATS, scope))
                self._standings[run_id] = ActiveMode(rung, takes_formats=formats)
                if len(self._standings) > _RUNS_KEPT:
                    del self._standings[next(iter(self._standings))]
            return self._standings[run_id]

    def rungs(self) -> tuple[CapabilityMode, ...]:
        """Those that may be asked on: where it stands, and below it in case the server refuses that one."""
        standing = self.standing().rung
        return (standing,) if self._stays else MODES[MODES.index(standing) :]

    def step_down(self, refused: Sequence[CapabilityMode], rung: CapabilityMode) -> None:
        """Stand on a rung that has just answered, where those above it were refused, and remember it."""
        with self._lock:
            standing = self.standing()
            standing.rung = max(standing.rung, rung, key=MODES.index)  # another thread may be further down
            self._keep(standing.rung)
        for one in refused:
            recorded("fact", self._refusal(one), lambda: rung)

    def without_formats(self) -> None:
        """The server answered once ``response_format`` was left out: it is not sent again in this run."""
        self.standing().takes_formats = False
        recorded("fact", self._refusal(_FORMATS), lambda: True)

    def _refusal(self, what: str) -> dict[str, Any]:
        return {"refused": what, "base_url": self._url, "model": self._name, "role": self._role}

    def _was_refused(self, what: str, scope: Scope) -> bool:
        """Whether it was before the state that the node that runs has begun from."""
        fact = scope.recording.last("fact", content_hash(canonical_json(self._refusal(what))))
        return fact is not None and fact.key.seq <= scope.before.get(fact.key.path, 0)

    def _find_in(self, scope: Scope) -> CapabilityMode:
        request = canonical_json({"rung_of": {"base_url": self._url, "model": self._name}})
        # Calls of a probe have numbers of their own: a replay makes none, and counts the others as they were.
        aside = Scope(recording=scope.recording, path=f"{RECORDING_PATH}/probe")
        with in_scope(aside):
            key = Key(RECORDING_PATH, 0, "fact", content_hash(request))
            return scope.recording.once(key, request, self._find)

    def _find(self) -> CapabilityMode:
        rung = load_mode(self._folder(), self._url or "", self._name)
        if rung is None:
            rung, sure = probe_mode(self._model)
            if sure:
                self._keep(rung)
        return rung

    def _keep(self, rung: CapabilityMode) -> None:
        if self._url is not None:
            store_mode(self._folder(), self._url, self._name, rung)

    def _folder(self) -> Path:
        return self._cache_dir or load_settings().cache_dir
