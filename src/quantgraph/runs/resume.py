"""Resuming a run: ``resume_run``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.runtime import RunControl

from quantgraph.broker.decider import Decider
from quantgraph.data import MarketDataSource, open_source
from quantgraph.errors import BadOption
from quantgraph.llm.models import Model
from quantgraph.nodes.trading_resources import run_database_path
from quantgraph.recording import Recorder
from quantgraph.runs.execute import Answer, Driver, RunEvent, execute_run, thread_state
from quantgraph.runs.folder import lock_run
from quantgraph.runs.identity import check_identity, identity_of, recorded_decider
from quantgraph.runs.manifest import Manifest, existing_ledger, find_run_folder, read_manifest
from quantgraph.runs.replay_stubs import recorded_on_clarify
from quantgraph.runs.resources import Resources, open_run
from quantgraph.runs.run_result import read_result
from quantgraph.runs.specification import recorded_source_name
from quantgraph.runtime.questions import OnClarify
from quantgraph.settings import Settings, load_settings
from quantgraph.subgraphs.signal import MAX_CLARIFICATIONS

__all__ = ["last_thread", "questions_used_up", "resume_run"]

_FINAL = frozenset({"done", "max_retries", "repeated_error", "no_progress", "causality_failed"})
"""Ends that a resume would only repeat."""


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
    """Continue a run where it stopped, in this process or another.

    A run that was killed or cancelled continues from its last checkpoint. Without one it is begun anew, as is
    one that ended because of a model, the data, a budget or the time; recorded replies and answers are then
    used again: no model call is paid for twice, and no session is traded twice.

    Parameters
    ----------
    run
        A run's folder, or its name in ``runs_dir``.
    answer
        The answer to the question that the run waits for, or that it ended for; or a function that is called
        with each question.
    on_clarify
        As in :func:`run_strategy`. Default: as the run was begun; a function must be given again.
    model, source, decider
        Objects of your own, which ``run.json`` cannot hold: those that the run was begun with.
    checkpointer, ledger
        Those that the run was begun with. Without the saver the run is begun anew; the ledger's URL is in
        ``run.json`` unless it has a password.
    settings
        Their budgets may differ from the recorded ones, ``load_settings(budget="calls=100")``. Without any,
        the recorded ones hold.

    Returns
    -------
    dict
        As :func:`run_strategy` does. A run that is done, or would only end as it did, is left alone: its
        result is returned.

    Raises
    ------
    RunMismatch
        If configuration, graph, data or code are not those that it was begun with; the message shows the
        difference.
    BadOption
        If there is no such run, it is going on in another process, an object must be given again, or there is
        an answer and the run may ask no more questions.
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
            raise BadOption(
                f"the {MAX_CLARIFICATIONS} questions of run {manifest.run_id} are used up, and it takes no "
                "answer; begin a new run with the whole sentence",
                parameter="answer",
            )
        if before["ended_because"] in _FINAL or questions_used_up(before):
            return before
        market = open_source(source or recorded_source_name(manifest.source), settings=settings)
        place = ledger or _ledger_place(manifest) or run_database_path(folder.parent, folder.name)
        if "run_id" in before and ledger is None:
            existing_ledger(manifest, folder)  # with an empty one every call would be paid for again
        answers_now = before["ended_because"] == "needs_answer" and answer is not None
        resources = Resources(
            settings=settings,
            source=market,
            model=model,
            on_clarify=on_clarify or ("ask" if answers_now else _on_clarify(manifest, place)),
            checkpointer=checkpointer,
            ledger=place,
            decider=decider or recorded_decider(manifest.identity),
        )
        driver = Driver(answer=_answers(answer), watch=watch, control=control)
        with open_run(manifest.spec, manifest.run_id, folder, resources) as opened:
            now = identity_of(manifest.spec, opened.graph, resources)
            check_identity(manifest.run_id, manifest.identity, now, also=manifest.other_versions)
            thread = last_thread(opened.saver, manifest.run_id)
            task = None
            if thread is None or thread_state(opened.graph, thread).get("ended_because") not in {
                None,
                "done",
            }:
                task, thread = manifest.graph_input, _next_thread(manifest.run_id, thread)
                opened.recorder.of(manifest.run_id).mark_restart()
            return execute_run(manifest, folder, opened, driver, market, task, thread)


def questions_used_up(result: Mapping[str, Any]) -> bool:
    """Whether a run ended for want of an answer after it had asked as many questions as it may."""
    answered = sum(line.startswith("clarified: ") for line in result.get("history", ()))
    waits = "asked" in result
    return result["ended_because"] == "needs_answer" and not waits and answered >= MAX_CLARIFICATIONS


def last_thread(saver: BaseCheckpointSaver[Any], run_id: str) -> str | None:
    """The latest thread of a run, None if it has no checkpoint."""
    thread = None
    while _has_checkpoint(saver, following := _next_thread(run_id, thread)):
        thread = following
    return thread


def _next_thread(run_id: str, thread: str | None) -> str:
    """The thread on which a run is begun (anew): ``run``, ``run#2``, ``run#3``."""
    if thread is None:
        return run_id
    number = int(thread.removeprefix(run_id).removeprefix("#") or 1)
    return f"{run_id}#{number + 1}"


def _has_checkpoint(saver: BaseCheckpointSaver[Any], thread: str) -> bool:
    return saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}}) is not None


def _on_clarify(manifest: Manifest, place: str | Path) -> OnClarify:
    """How questions were answered before."""
    if manifest.spec.on_clarify == "function":
        raise BadOption(
            f"run {manifest.run_id} was begun with a function as on_clarify; give it again",
            parameter="on_clarify",
        )
    recorder = Recorder(place)
    try:
        return recorded_on_clarify(manifest.spec, recorder.of(manifest.run_id).entries())
    finally:
        recorder.close(manifest.run_id)


def _ledger_place(manifest: Manifest) -> str | None:
    if manifest.ledger and ":***@" in manifest.ledger:
        raise BadOption(
            f"the ledger of run {manifest.run_id} is at {manifest.ledger}; give its URL as ledger=",
            parameter="ledger",
        )
    return manifest.ledger


def _answers(answer: str | Answer | None) -> Answer:
    if callable(answer):
        return answer
    left = [] if answer is None else [answer]
    return lambda _: left.pop() if left else None
