"""Going on with a run: ``resume_run``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.runtime import RunControl

from quantgraph.broker.decider import Decider
from quantgraph.data import MarketDataSource, open_source
from quantgraph.errors import BadOption
from quantgraph.nodes.trading_resources import run_database_path
from quantgraph.recording import Recorder
from quantgraph.runs.replay_stubs import recorded_on_clarify
from quantgraph.runs.execute import execute_run
from quantgraph.runs.checkpoints import last_thread, next_thread
from quantgraph.runs.decider import recorded_decider
from quantgraph.runs.driver import Answer, Driver, RunEvent, state_of
from quantgraph.runs.folder import lock_run, read_result
from quantgraph.runs.identity import check_same, identity_of
from quantgraph.runs.manifest import Manifest, existing_ledger, read_manifest, find_run_folder
from quantgraph.runs.resources import Resources, open_run
from quantgraph.runs.source_spec import recorded_source_name
from quantgraph.settings import Settings, load_settings
from quantgraph.llm.models import Model
from quantgraph.runtime.questions import OnClarify
from quantgraph.subgraphs.signal.state_updates import MAX_CLARIFICATIONS

__all__ = ["questions_used_up", "resume_run"]

_FINAL = frozenset({"done", "max_retries", "repeated_error", "no_progress", "causality_failed"})
"""How a run ends that would end so again."""


def resume_run(
    run: str | Path,
    *,
    answer: str | Answer | None = None,
    on_clarify: OnClarify | None = None,
    model: Model | None = None,
    source: str | Path | MarketDataSource | None = None,
    decider: Decider | None = None,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    ledger: str | Path | None = None,
    runs_dir: str | Path | None = None,
    watch: Callable[[RunEvent], None] | None = None,
    control: RunControl | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Go on with a run where it stopped, in this process or another, as if it had never stopped.

    A run that was killed or cancelled goes on from its last checkpoint; without one it is begun anew, as is
    one that ended because of a model, the data, a budget or the time. What was answered before is then served
    from its record: what was paid for is not paid for again, and no session is traded twice.

    Parameters
    ----------
    run
        A run's folder, or its name in ``runs_dir``.
    answer
        The answer to the question that the run waits for, or that it ended for; or a function that is called
        with each question.
    on_clarify
        As in :func:`run_strategy`. Default: as the run was begun; a function has to be given again.
    model, source, decider
        Models that are objects, a source and a decider of your own: ``run.json`` cannot hold them. They have
        to be the ones that the run was begun with.
    checkpointer, ledger
        Those that the run was begun with; a saver that is not given is not missed, and the URL of the ledger
        is known unless it has a password.
    settings
        Their budgets may be others than before, ``load_settings(budget="calls=100")``. Where they have none,
        those hold that the run was begun with.

    Returns
    -------
    dict
        As :func:`run_strategy` does. A run that is done is left alone, and so is one that would only end as
        it did: its result is returned.

    Raises
    ------
    RunMismatch
        If configuration, graph, data or code are not those that it was begun with; the message shows the
        difference.
    BadOption
        If there is no such run, or it is going on in another process, or an object has to be given again, or
        there is an answer and the run may ask no more questions.
    BadFile
        If a file of the run cannot be read, its ledger is missing, or a line of its record was changed.
    StorageUnavailable
        As from :func:`run_strategy`.
    """
    settings = settings or load_settings()
    folder = find_run_folder(run, Path(runs_dir or settings.runs_dir))
    manifest = read_manifest(folder)
    limits = {name: getattr(settings, name) or limit for name, limit in manifest.budgets.items()}
    settings = settings.model_copy(update=limits)
    with lock_run(folder):
        before = read_result(folder) or {"ended_because": None}
        if questions_used_up(before) and answer is not None:
            told = f"the {MAX_CLARIFICATIONS} questions of run {manifest.run_id} are used up, and it takes no"
            raise BadOption(f"{told} answer; begin a new run with the whole sentence", parameter="answer")
        if before["ended_because"] in _FINAL or questions_used_up(before):
            return before
        market = open_source(source or recorded_source_name(manifest.source), settings=settings)
        where = ledger or _place(manifest) or run_database_path(folder.parent, folder.name)
        if "run_id" in before and ledger is None:
            existing_ledger(manifest, folder)  # with an empty one everything would be paid for again
        unanswered = before["ended_because"] == "needs_answer" and answer is not None
        handles = Resources(
            settings=settings,
            source=market,
            model=model,
            on_clarify=on_clarify or ("ask" if unanswered else _who(manifest, where)),
            checkpointer=checkpointer,
            ledger=where,
            decider=decider or recorded_decider(manifest.identity.configuration),
        )
        driver = Driver(answer=_answers(answer), watch=watch, control=control)
        with open_run(manifest.options, manifest.run_id, folder, handles) as opened:
            now = identity_of(manifest.options, opened.graph, handles)
            check_same(manifest.run_id, manifest.identity, now, also=manifest.other_versions)
            thread = last_thread(opened.saver, manifest.run_id)
            task = None
            if thread is None or state_of(opened.graph, thread).get("ended_because") not in {None, "done"}:
                task, thread = manifest.task, next_thread(manifest.run_id, thread)
                opened.recorder.of(manifest.run_id).mark_restart()
            return execute_run(manifest, folder, opened, driver, market, task, thread)


def questions_used_up(result: Mapping[str, Any]) -> bool:
    """Whether a run ended for want of an answer once all questions that it may ask were answered."""
    answered = sum(line.startswith("clarified: ") for line in result.get("history", ()))
    waits = "asked" in result
    return result["ended_because"] == "needs_answer" and not waits and answered >= MAX_CLARIFICATIONS


def _who(manifest: Manifest, where: str | Path) -> OnClarify:
    """Who answers, as before: a person, once he did."""
    if manifest.options.on_clarify == "function":
        told = f"run {manifest.run_id} was begun with a function as on_clarify; give it again"
        raise BadOption(told, parameter="on_clarify")
    recorder = Recorder(where)
    try:
        return recorded_on_clarify(manifest.options, recorder.of(manifest.run_id).entries())
    finally:
        recorder.close(manifest.run_id)


def _place(manifest: Manifest) -> str | None:
    if manifest.ledger and ":***@" in manifest.ledger:
        told = f"the ledger of run {manifest.run_id} is at {manifest.ledger}; give its URL as ledger="
        raise BadOption(told, parameter="ledger")
    return manifest.ledger


def _answers(answer: str | Answer | None) -> Answer:
    if callable(answer):
        return answer
    left = [] if answer is None else [answer]
    return lambda _asked: left.pop() if left else None
