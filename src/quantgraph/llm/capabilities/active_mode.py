"""The rung that a model stands on: given, or remembered, or found out at first use; and known to the run."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.llm.capabilities.capability_cache import recall, remember
from quantgraph.llm.capabilities.modes import RUNGS, Rung, below
from quantgraph.llm.capabilities.probe import probe
from quantgraph.llm.faults import core_of, facts_of
from quantgraph.recording import Key, Scope, current_scope, in_scope, recorded
from quantgraph.settings import load_settings

__all__ = ["Footing", "Standing"]

PATH = "ladder"
"""Where in a recording the rungs of a run's models stand; ``ladder/probe`` is what the probes asked."""

_FORMATS = "response_format"
_RUNS_KEPT = 256


@dataclass
class Standing:
    """Where a model stands in one run, or outside of any."""

    rung: Rung
    takes_formats: bool
    """Whether the server may know ``response_format``, as far as it has not refused it here."""


class Footing:
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

    def __init__(self, model: BaseChatModel, rung: Rung | None, cache_dir: Path | None) -> None:
        core = core_of(model)
        facts = facts_of(core)
        binds = type(core).bind_tools is not BaseChatModel.bind_tools
        self._model = model
        self._role = getattr(model, "role", None)  # each has a footing of its own
        self._cache_dir = cache_dir
        self._name = facts.name
        self._url = facts.base_url if hasattr(core, "openai_api_base") else None
        self._stays = rung is not None
        self._known: Rung | None = rung or (None if self._url else "native" if binds else "text")
        self._standings: dict[str | None, Standing] = {}
        self._lock = threading.RLock()  # one probe, however many threads ask first

    def standing(self) -> Standing:
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
                while scope and (lower := below(rung)) and self._was_refused(rung, scope):
                    rung = lower
                formats = self._url is not None and not (scope and self._was_refused(_FORMATS, scope))
                self._standings[run_id] = Standing(rung, takes_formats=formats)
                if len(self._standings) > _RUNS_KEPT:
                    del self._standings[next(iter(self._standings))]
            return self._standings[run_id]

    def rungs(self) -> tuple[Rung, ...]:
        """Those that may be asked on: where it stands, and below it in case the server refuses that one."""
        standing = self.standing().rung
        return (standing,) if self._stays else RUNGS[RUNGS.index(standing) :]

    def step_down(self, refused: Sequence[Rung], rung: Rung) -> None:
        """Stand on a rung that has just answered, where those above it were refused, and remember it."""
        with self._lock:
            standing = self.standing()
            standing.rung = max(standing.rung, rung, key=RUNGS.index)  # another thread may be further down
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

    def _find_in(self, scope: Scope) -> Rung:
        request = canonical_json({"rung_of": {"base_url": self._url, "model": self._name}})
        # Calls of a probe have numbers of their own: a replay makes none, and counts the others as they were.
        aside = Scope(recording=scope.recording, path=f"{PATH}/probe")
        with in_scope(aside):
            return scope.recording.once(Key(PATH, 0, "fact", content_hash(request)), request, self._find)

    def _find(self) -> Rung:
        rung = recall(self._folder(), self._url or "", self._name)
        if rung is None:
            rung, sure = probe(self._model)
            if sure:
                self._keep(rung)
        return rung

    def _keep(self, rung: Rung) -> None:
        if self._url is not None:
            remember(self._folder(), self._url, self._name, rung)

    def _folder(self) -> Path:
        return self._cache_dir or load_settings().cache_dir
