"""The live objects that a graph or a run works with: made once, and passed on whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.runtime import RunControl

from quantgraph.broker import Decider, ModelDecider
from quantgraph.broker.ledger import Ledger, Opening
from quantgraph.data import MarketDataSource, SourceLike, open_source
from quantgraph.errors import BadOption
from quantgraph.judgement import TRIES_FILE
from quantgraph.llm import Model
from quantgraph.recording import Budget, Recorder, recorded_source
from quantgraph.runtime._prompts import Prompts
from quantgraph.runtime.dialogue._events import RunEvent
from quantgraph.runtime.dialogue._forms import QuestionForm
from quantgraph.runtime.dialogue._questions import Answer, OnClarify
from quantgraph.sandbox import CodeRunner
from quantgraph.settings import Settings, check_role, load_settings
from quantgraph.state import GLOBAL_DATA_STATE, DataState
from quantgraph.tools import code_runner

_RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")  # "20240102-093000-0a1b2c"


@dataclass(frozen=True, kw_only=True)
class Resources(Prompts):
    """Live objects of a graph or a run; each has a default.

    Attributes
    ----------
    settings
        Default: the environment's.
    source
        ``sample`` (synthetic), ``tushare``, ``baostock``, ``qlib:FOLDER``, a file or folder, or a source
        of your own. Default: the settings'.
    model
        A chat model, a model's name, or a mapping of role to either. Default: the model of the settings; with
        no key set, the keyless planner.
    prompts
        By node of the signal subgraph a text with the placeholders of ours, or a function of ours.
    decider
        Turns signals into orders. Default: :class:`~quantgraph.agents.SignalRule`.
    store
        Store that data and signals are published to. Default: ``GLOBAL_DATA_STATE``. A run has its own.
    runner
        Runs generated code. Default: a child process with a time and a memory limit.
    ledger
        A ledger, or the file or database URL of one. Default: ``<runs_dir>/<run_id>/ledger.sqlite``.
    recorder
        Records model calls, tool results and answers. Default: in the ledger's database; without a ledger a
        signal subgraph records nothing. A run has its own.
    checkpointer
        Where the graph's checkpoints go. Default: nowhere; a run's go to SQLite in its folder.
    on_clarify
        Who answers questions: ``ask`` interrupts the graph with a question (the host needs a checkpointer),
        ``default`` takes the documented default, ``fail`` ends with ``needs_answer``. A function gets
        the :class:`~quantgraph.runtime.endings.Clarification` and returns the answer; it runs up to
        three times until the answer is valid. Defaults taken and answers of a function are listed in
        ``assumptions``. Default: ``ask``; of a run, what its :class:`~quantgraph.runs.RunSpec` says.
    questions
        How an interrupt shows a question: ``quantgraph``, as a ``Clarification``, or ``hitl``, as LangChain's
        human-in-the-loop middleware does, for chat pages. Default: ``quantgraph``.
    confirm
        Whether the understanding of the sentence is a question, before data are fetched and anything is
        traded. A run declined there ends as ``cancelled``.
    split
        For a run: the date whose two sides are judged.
    tries
        A file that counts how often a rule was tried; ``tries`` of the settings goes before it. Default:
        ``tries.jsonl`` in the folder of the runs; none beside a ledger of your own.
    answer
        For a run: a function of each question; the run waits for its answer, and stops to be resumed at
        None.
    opening
        For a run: enters in its ledger what its account did before, as fills of another program.
    watch
        For a run: a function of each event.
    control
        For a run: ``control.request_drain()`` stops it at its next step; with
        :data:`~quantgraph.llm.AT_ONCE` as its reason, also during a model call.
    """

    settings: Settings | None = None
    source: SourceLike | None = None
    model: Model | None = None
    decider: Decider | None = None
    store: DataState | None = None
    runner: CodeRunner | None = None
    ledger: Ledger | str | Path | None = None
    recorder: Recorder | None = None
    checkpointer: BaseCheckpointSaver[Any] | None = None
    on_clarify: OnClarify | None = None
    questions: QuestionForm | None = None
    confirm: bool = False
    split: str = ""
    tries: Path | None = None
    answer: Answer | None = None
    opening: Opening | None = None
    watch: Callable[[RunEvent], None] | None = None
    control: RunControl | None = None

    @property
    def ledger_place(self) -> str | Path | None:
        """File or database URL of the ledger; None without one."""
        return self.ledger.where if isinstance(self.ledger, Ledger) else self.ledger


@dataclass(frozen=True, kw_only=True)
class OpenResources(Resources):
    """Resources with their defaults filled in, as nodes use them; see :func:`open_resources`."""

    settings: Settings
    source: MarketDataSource
    store: DataState
    runner: CodeRunner
    ledger: Ledger | None
    recorder: Recorder
    on_clarify: OnClarify
    questions: QuestionForm

    @property
    def asks_a_page(self) -> bool:
        """Whether a chat page asks: it shows a question only if the assistant spoke last."""
        return (self.on_clarify, self.questions) == ("ask", "hitl")

    @property
    def makes_signal(self) -> bool:
        """Whether the decider trades a signal; else a run needs data alone."""
        return self.decider is None or self.decider.uses_signal


def merge_resources(resources: Resources | None, **options: Any) -> Resources:
    """Add options that stand beside resources; None adds nothing.

    Raises
    ------
    BadOption
        If one is in the resources already.
    """
    resources = resources or Resources()
    added = {name: value for name, value in options.items() if value is not None}
    for name in added:
        if getattr(resources, name) is not None:
            raise BadOption(f"{name}= and resources.{name} are both set; set one", parameter=name)
    return replace(resources, **added)


def open_resources(resources: Resources | None = None, *, in_run_folders: bool = False) -> OpenResources:
    """Fill in the defaults; open resources are returned as they are.

    Parameters
    ----------
    in_run_folders
        Whether runs without a ledger are recorded in ``<runs_dir>/<run_id>/ledger.sqlite``, or not at all.

    Raises
    ------
    BadOption
        If the source, the ledger or ``on_clarify`` is not valid.
    """
    if isinstance(resources, OpenResources):
        return resources
    resources = resources or Resources()
    settings, on_clarify = resources.settings or load_settings(), resources.on_clarify or "ask"
    if on_clarify not in ("ask", "default", "fail") and not callable(on_clarify):
        raise BadOption(f"on_clarify must be ask, default, fail or a function, not {on_clarify!r}")
    questions = resources.questions or "quantgraph"
    if questions not in get_args(QuestionForm):
        raise BadOption(f"questions must be quantgraph or hitl, not {questions!r}", parameter="questions")
    if resources.confirm and on_clarify in ("default", "fail"):
        raise BadOption(
            "confirm=True asks before anything is traded; on_clarify must be ask or a function, not "
            f"{on_clarify}",
            parameter="confirm",
        )
    ledger = _open_ledger(resources.ledger)
    in_folder = partial(run_database_path, settings.runs_dir) if in_run_folders else None
    recorder = resources.recorder or Recorder(ledger.where if ledger else in_folder)
    recorder.limit(Budget.parse(settings.budget), Budget.parse(settings.session_budget))
    filled = {
        "settings": settings,
        "source": recorded_source(open_source(resources.source, settings=settings)),
        "store": resources.store or GLOBAL_DATA_STATE,
        "runner": resources.runner or code_runner(settings),
        "ledger": ledger,
        "recorder": recorder,
        "on_clarify": on_clarify,
        "questions": questions,
        "tries": settings.tries
        or resources.tries
        or (settings.runs_dir / TRIES_FILE if in_run_folders and ledger is None else None),
    }
    kept = {field.name: getattr(resources, field.name) for field in fields(resources)}
    return OpenResources(**kept | filled)


def settings_of(decider: Decider, role: str, settings: Settings) -> Settings:
    """Return the settings of the model of one of a decider's roles: what it fixes wins."""
    return settings.with_model(check_role(role), ModelDecider.of(decider).model_settings.get(role, {}))


def run_database_path(runs_dir: Path, run_id: str) -> Path:
    """Return the path of the file that holds a run's ledger and recording.

    Raises
    ------
    BadOption
        If the run id is not valid as a folder's name.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise BadOption(
            f"run_id must be at most 200 letters, digits, '-', '_' and '.' (not first), not {run_id!r}",
            parameter="run_id",
        )
    return runs_dir / run_id / "ledger.sqlite"


def _open_ledger(ledger: Ledger | str | Path | None) -> Ledger | None:
    if not isinstance(ledger, Ledger | str | Path | None):
        raise BadOption(
            f"ledger must be a Ledger, or the file or database URL of one, not {ledger!r}", parameter="ledger"
        )
    return Ledger(ledger) if isinstance(ledger, str | Path) else ledger
