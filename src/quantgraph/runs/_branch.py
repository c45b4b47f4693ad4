"""Branching a run: recorded up to a session, live from it on."""

from __future__ import annotations

import os
import shutil
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.files import new_run_id
from quantgraph.agents import given_decider
from quantgraph.broker import Decider
from quantgraph.broker.ledger import Ledger
from quantgraph.data import SourceLike
from quantgraph.errors import BadWindow, RunDiverged
from quantgraph.llm import Model
from quantgraph.market import session_of
from quantgraph.recording import Entry, Recorder
from quantgraph.runs._execute import check_resources, execute_run
from quantgraph.runs._identity import check_same_decider, recorded_decider
from quantgraph.runs._replay import recorded_on_clarify, replay_models
from quantgraph.runs._result import RunResult
from quantgraph.runs._specification import recorded_source_name
from quantgraph.runs._start import begun_run
from quantgraph.runs.folder._folder import Manifest, existing_ledger, find_run_folder, read_manifest
from quantgraph.runtime import Resources, merge_resources, run_database_path
from quantgraph.settings import ROLES, Role, load_settings


def replay_from(
    run: str | Path,
    session: object,
    *,
    model: Model | None = None,
    decider: Decider | str | None = None,
    source: SourceLike | None = None,
    out: str | Path | None = None,
    resources: Resources | None = None,
) -> RunResult:
    """Begin a new run that repeats a recorded one up to a session and is live from it on.

    The new run has a folder, ledger and record of its own, which include what it repeats: it can be resumed
    and replayed like any run. Model calls before the session are served from the record at no cost: they are
    neither in ``usage`` nor taken from a budget.

    Parameters
    ----------
    run
        A run's folder, or its name in ``runs_dir`` of the settings.
    session
        The first live session.
    model
        Called from that session on, wherever the graph calls a model. Default: the settings' models.
    decider
        Default: the run's, if ``run.json`` tells how to make it; else it must be given. Before the session
        its models are not called, if they are the context's or wrapped in a
        :class:`~quantgraph.llm._recorded_model.RecordedChatModel`, whichever model that wraps.
    source
        One of your own, if the run was begun with one.
    out
        Parent of the new run's folder. Default: that of the recorded one.
    resources
        As in :func:`~quantgraph.runs.run_strategy`, but ``ledger`` is that of the recorded run, if its
        password is not in ``run.json``.

    Returns
    -------
    RunResult
        As :func:`~quantgraph.runs.run_strategy` does.

    Raises
    ------
    BadWindow
        If the run did not trade the session; the message names the nearest ones.
    BadFile
        If the run's ledger is missing.
    RunMismatch
        If the run was begun with a decider of your own, and none is given.
    RunDiverged
        If the sessions before it differ from the recorded ones.
    """
    given = merge_resources(resources, model=model, decider=given_decider(decider), source=source)
    check_resources(given)
    settings = given.settings or load_settings()
    folder = find_run_folder(run, settings.runs_dir)
    recorded = read_manifest(folder)
    place = given.ledger_place or existing_ledger(recorded, folder)
    first = _traded_session(place, recorded.run_id, session)
    decider = given.decider
    if decider is None:
        decider = recorded_decider(recorded.identity, recorded.decider)
        check_same_decider(recorded.run_id, recorded.identity, decider)
    settings = recorded.recorded_settings(settings)
    spec = replace(recorded.spec, branch_of=recorded.run_id, branch_from=first)
    if spec.on_clarify == "function":
        spec = replace(spec, on_clarify="ask")  # the function's answers are in the record
    if given.on_clarify is not None:
        spec = replace(spec, on_clarify="function" if callable(given.on_clarify) else given.on_clarify)
    new_folder = Path(out or folder.parent) / new_run_id()
    recorder = Recorder(place)
    entries = [entry for entry in recorder.of(recorded.run_id).entries() if (entry.session or "") < first]
    recorder.close(recorded.run_id)
    given = replace(
        given,
        settings=settings,
        source=recorded_source_name(recorded.source) if given.source is None else given.source,
        decider=decider,
        on_clarify=given.on_clarify or recorded_on_clarify(spec, entries),
        ledger=None,
    )
    models, prepare = _models(entries, given.model), partial(_copy_record, folder, entries)
    with begun_run(spec, new_folder, given, models=models, prepare=prepare) as (begun, opened):
        result = execute_run(begun, new_folder, opened, task=begun.graph_input, thread=begun.run_id)
    _check_repeated(place, recorded, new_folder, first)
    return RunResult(result)


def _traded_session(place: str | Path, run_id: str, session: object) -> str:
    """The session as ``YYYYMMDD``, checked to be one that the run traded."""
    with Ledger(place) as book:
        traded = [f"{day:%Y%m%d}" for day in (book.sessions(run_id) if book.has_run(run_id) else [])]
    first = f"{session_of(session):%Y%m%d}"
    if first not in traded:
        span = f"{traded[0]} to {traded[-1]}" if traded else "none"
        position = bisect(traded, first)
        near = " and ".join(traded[max(position - 1, 0) : position + 1])
        raise BadWindow(
            f"from={first} is not a session that run {run_id} traded; it traded {span}"
            + (f"; next to it {near}" if near else ""),
            session=first,
        )
    return first


def _copy_record(folder: Path, entries: Sequence[Entry], new_folder: Path) -> None:
    """Copy data and record entries into the new run's folder; they took no time in the new run."""
    if (folder / "data").is_dir():
        shutil.copytree(folder / "data", new_folder / "data", copy_function=_link)
    recorder = Recorder(run_database_path(new_folder.parent, new_folder.name))
    for entry in entries:
        facts = {name: fact for name, fact in entry.facts.items() if name != "seconds"}
        recorder.of(new_folder.name).add(replace(entry, facts=facts))
    recorder.close(new_folder.name)


def _link(source: str, target: str) -> None:
    """Share a file that is never written again; copy it across disks."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _models(entries: Sequence[Entry], model: Model | None) -> dict[Role, Any]:
    """Models by role; a stub for the roles that were called before the first session."""
    before = {entry.facts.get("role") for entry in entries if entry.session is None}
    stubs = {role: stub for role, stub in replay_models(entries).items() if role in before}
    if model is None or isinstance(model, Mapping):
        return {**(model or {}), **stubs}
    return {**dict.fromkeys(ROLES, model), **stubs}


def _check_repeated(place: str | Path, recorded: Manifest, new_folder: Path, first: str) -> None:
    """See that the repeated sessions, as far as the branch got, are those of the recorded run."""
    old = _journal_before(place, recorded.run_id, first)
    new = _journal_before(run_database_path(new_folder.parent, new_folder.name), new_folder.name, first)
    for line, expected in zip(new, old, strict=False):
        if line != expected:
            also = recorded.other_versions
            raise RunDiverged(
                f"run {new_folder.name}: session {line[0]} differs from the one that run {recorded.run_id} "
                f"recorded: {line[1]} {line[2]} instead of {expected[1]} {expected[2]}"
                + (f"; {also}" if also else ""),
                path="ledger",
                session=line[0],
            )


def _journal_before(place: str | Path, run_id: str, first: str) -> list[tuple[str, str, str]]:
    with Ledger(place) as book:
        return [
            (line["session"], line["kind"], canonical_json(line["body"]))
            for line in (book.journal(run_id) if book.has_run(run_id) else ())
            if line["session"] and line["session"].replace("-", "") < first
        ]
