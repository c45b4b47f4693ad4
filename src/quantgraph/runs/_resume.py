"""Resuming a run where it stopped, or up to a later end: ``resume_run``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from langgraph.checkpoint.base import BaseCheckpointSaver

from quantgraph._util.files import find_run_folder
from quantgraph._util.texts import Note, short_line
from quantgraph.agents import as_decider
from quantgraph.broker import Decider
from quantgraph.broker.ledger import Ledger
from quantgraph.data import SourceLike
from quantgraph.errors import BadOption, UnknownQuestion
from quantgraph.llm import Model
from quantgraph.market import session_of
from quantgraph.recording import Recorder
from quantgraph.runs._execute import check_resources, execute_run, opened_run, thread_question, thread_state
from quantgraph.runs._identity import (
    check_identity,
    grown_identity,
    identity_of,
    recorded_decider,
    recorded_on_clarify,
)
from quantgraph.runs._outputs import (
    can_be_resumed,
    initial_result,
    questions_used_up,
    read_result,
    recorded_folder_of,
    write_result,
)
from quantgraph.runs._own import Strategy, keep_own_signal, with_own_signal
from quantgraph.runs._result import RunResult
from quantgraph.runs._specification import RunSpec, open_for, recorded_source_name, with_recorded_tables
from quantgraph.runs.folder._folder import (
    Manifest,
    check_ledger_file,
    lock_folder,
    read_manifest,
    recorded_ledger,
)
from quantgraph.runtime import Resources, merge_resources, run_database_path
from quantgraph.runtime.dialogue import Answer, OnClarify, answer_in_text, check_answers_question
from quantgraph.runtime.graph_state import Clarification, request_of
from quantgraph.settings import load_settings
from quantgraph.subgraphs.signal import MAX_CLARIFICATIONS

_GOES_ON = {None, "done"}
"""``ended_because`` of a thread that is driven on from its checkpoint."""


def resume_run(
    run: str | Path,
    *,
    answer: str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    end: str = "",
    strategy: Strategy | None = None,
    source: SourceLike | None = None,
    decider: Decider | str | None = None,
    model: Model | None = None,
    trust: bool = False,
    resources: Resources | None = None,
) -> RunResult:
    """Continue a run where it stopped, in this process or another, or up to a later end.

    A run that was killed or cancelled continues from its last checkpoint. Without one it is begun anew, as is
    one that ended because of a model, the data, a budget or the time; recorded replies and answers are then
    used again: no model call is paid for twice, and no session is traded twice.

    Parameters
    ----------
    run
        A run's folder, or its name in ``runs_dir`` of the settings.
    answer
        The answer to the question that the run waits for, or that it ended for: a text, or
        ``{"answer": text, "id": id}``, which only the question with this id takes, or decisions of a chat
        page. Later questions go to ``answer`` of the resources.
    end
        Another last day, not before the last session that was traded: sessions are appended to the same
        ledger, also of a run that was done. The data may have grown since; what was known of them at the
        last session must be as it was.
    strategy
        With ``end``, of a run of a signal of one's own: the same function or file, or a longer frame.
    source, decider, model
        Objects of your own, which ``run.json`` cannot hold: those that the run was begun with. A decider of a
        file must be named again: nothing that a folder names is run.
    trust
        Whether the folder is yours, though it was moved or is another user's.
    resources
        Settings, whose budgets may differ from the recorded ones; without budgets the recorded ones hold.
        Ledger and checkpointer that the run was begun with: without the saver the run is begun anew; the
        ledger's URL is in ``run.json`` unless it has a password. A function as ``on_clarify`` must be passed
        again.

    Returns
    -------
    RunResult
        As :func:`run_strategy` does. A run that is done, or would only end as it did, is left alone: its
        result is returned.

    Raises
    ------
    RunMismatch
        If configuration, graph, data or code are not those that it was begun with; the message shows the
        difference.
    LedgerConflict
        If ``end`` is given and the data of the past have changed; names the first change.
    BadOption
        If there is no such run, it runs in another process, its folder is not where or whose it was, an
        object must be passed again, ``end`` is before the last session, or there is an answer and the run may
        ask no more questions.
    UnknownQuestion
        If there is an answer, and the run waits for none, or for that to another question; the answer is
        kept nowhere.
    BadFile
        If a file of the run cannot be read, its ledger is missing, or a line of its record was changed.
    StorageUnavailable
        As from :func:`run_strategy`.
    """
    resources = merge_resources(resources, source=source, decider=as_decider(decider), model=model)
    check_resources(resources)
    settings = resources.settings or load_settings()
    folder = find_run_folder(run, settings.runs_dir)
    manifest = read_manifest(folder)
    resources = replace(resources, settings=with_recorded_tables(settings, manifest.source))
    with lock_folder(folder, f"run {folder.name}"):
        before = read_result(folder) or {"ended_because": None}
        answers = answer is not None or resources.answer is not None
        if questions_used_up(before) and answers:
            raise BadOption(
                f"the {MAX_CLARIFICATIONS} questions of run {manifest.run_id} are used up, and it takes no "
                "answer; begin a new run with the whole sentence",
                parameter="answer",
            )
        if not end and not can_be_resumed(before):
            return RunResult(before, resources.ledger_place)
        if not trust:
            _check_own(folder, manifest.run_id)
        resources = _resources_to_resume(manifest, folder, before, resources, answers=answers)
        if end:
            manifest = replace(manifest, spec=_spec_to(end, manifest, before, strategy, resources))
        with opened_run(manifest.spec, manifest.run_id, folder, resources) as opened:
            now = identity_of(manifest.spec, opened.graph, opened.resources)
            then = grown_identity(manifest.identity, now) if end else manifest.identity
            check_identity(manifest.run_id, then, now, also=manifest.other_versions)
            if end:
                manifest = replace(manifest, identity=now)
                opened.resources.recorder.of(manifest.run_id).mark_restart(grown=True)
                write_result(folder, initial_result(manifest, folder))  # it is not done, if killed after this
                if strategy is not None and manifest.spec.own is not None:
                    keep_own_signal(manifest.spec.own, folder)
                manifest.write(folder)
            thread, task = last_thread(opened.graph.checkpointer, manifest.run_id), None
            work = opened
            if answer is not None:
                waiting = None if thread is None else thread_question(opened.graph, thread)
                asked = waiting or before.get("asked") or before.get("open_question")
                reply = _answer_once(answer, asked, resources.answer, manifest.run_id)
                work = replace(opened, resources=replace(opened.resources, answer=reply))
            state = {} if thread is None else thread_state(opened.graph, thread)
            grows = bool(end) or request_of(state)["given"].get("end_date", "") != manifest.spec.end
            if thread is None or grows or state.get("ended_because") not in _GOES_ON:
                task, thread = manifest.graph_input, _next_thread(manifest.run_id, thread)
                opened.resources.recorder.of(manifest.run_id).mark_restart()
            result = execute_run(manifest, folder, work, task=task, thread=thread)
            return RunResult(result, resources.ledger_place if manifest.ledger else None)


def _spec_to(
    end: str, manifest: Manifest, before: Mapping[str, Any], strategy: Strategy | None, resources: Resources
) -> RunSpec:
    """The specification with another end, and a signal of one's own computed up to it."""
    start = manifest.spec.start or (before.get("window") or {}).get("start") or ""
    spec, run_id = replace(manifest.spec, start=start, end=end), manifest.run_id
    place = resources.ledger_place
    if place is not None and ("://" in str(place) or Path(place).is_file()):
        with Ledger(place) as ledger:
            last = ledger.last_session(run_id) if ledger.has_run(run_id) else None
        if last is not None and session_of(end, name="end") < last:
            raise BadOption(
                f"end={end}: run {run_id} has traded up to {last:%Y%m%d}; give that day or a later one",
                parameter="end",
            )
    if (spec.own is None) != (strategy is None):
        fault = "is one of a signal of your own: give strategy= again, with rows" if spec.own else ""
        raise BadOption(
            f"run {run_id} {fault or 'has no signal of your own: give end= without strategy='} up to {end}",
            parameter="strategy",
        )
    if spec.own is None or strategy is None:
        return spec
    params = spec.own.params if spec.own.kind == "function" else {}
    return replace(spec, own=with_own_signal(spec, strategy, resources, params).own)


def _check_own(folder: Path, run_id: str) -> None:
    """See that a folder is where it was and this user's: what it says is bought, written and connected to."""
    was, now = recorded_folder_of(folder), str(folder.absolute())
    fault = ""
    if not was or Path(was).resolve() != folder.resolve():
        fault = f"was in {was or 'a place that it does not say'}, and is in {now} now"
    elif hasattr(os, "getuid") and folder.stat().st_uid != os.getuid():
        fault = f"is in {now}, which belongs to user {folder.stat().st_uid}"
    if fault:
        raise BadOption(
            f"run {run_id} {fault}: only a folder of your own is resumed, because its files say what is "
            "called and written; if it is, add --trust, or trust=True in Python",
            parameter="run",
        )


def _resources_to_resume(
    manifest: Manifest, folder: Path, before: Mapping[str, Any], resources: Resources, *, answers: bool
) -> Resources:
    """What a run was begun with, where it is not passed again."""
    settings = resources.settings or load_settings()
    limits = {name: getattr(settings, name) or limit for name, limit in manifest.budgets.items()}
    source = recorded_source_name(manifest.source) if resources.source is None else resources.source
    place = resources.ledger_place or recorded_ledger(manifest)
    place = place or run_database_path(folder.parent, folder.name)
    if "run_id" in before and resources.ledger is None:
        check_ledger_file(place, manifest.run_id)  # with an empty one every call would be paid for again
    asks_now = before["ended_because"] == "needs_answer" and answers
    return replace(
        resources,
        settings=settings.model_copy(update=limits),
        source=open_for(manifest.spec, source, settings),
        ledger=place,
        decider=resources.decider or recorded_decider(manifest.identity, manifest.decider),
        on_clarify=resources.on_clarify or ("ask" if asks_now else _on_clarify(manifest, place)),
    )


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
    recorder = Recorder(place, read_only=True)
    try:
        return recorded_on_clarify(manifest.spec, recorder.of(manifest.run_id).entries())
    finally:
        recorder.close(manifest.run_id)


def _answer_once(
    answer: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    asked: Mapping[str, Any] | None,
    later: Answer | None,
    run_id: str,
) -> Answer:
    """Answer the question that is open now, once; later ones by a function."""
    if asked is None:
        raise UnknownQuestion(
            f"run {run_id} waits for no answer now; resume it without one, and answer what it asks",
            question=None,
        )
    read = answer_in_text(cast("Clarification", asked), check_answers_question(answer, asked))
    if not isinstance(read, str):
        fault = read.en if isinstance(read, Note) else f"answer has {short_line(answer, 80)}"
        raise BadOption(f"{fault}; it must be a text, have answer and id, or decisions", parameter="answer")
    left = [read]

    def reply(question: Mapping[str, Any]) -> str | None:
        if left and question["id"] == asked["id"]:
            return left.pop()
        return later(question) if later else None

    return reply
