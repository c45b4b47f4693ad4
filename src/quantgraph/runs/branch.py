"""Branching off a run: recorded up to a session, live from it on."""

from __future__ import annotations

import os
import shutil
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from langgraph.runtime import RunControl

from quantgraph._util.run_id import new_run_id
from quantgraph.broker.decider import Decider
from quantgraph.broker.ledger import Ledger
from quantgraph.data import MarketDataSource, open_source
from quantgraph.errors import BadWindow, RunDiverged
from quantgraph.market.moment import session_of
from quantgraph.nodes.trading_resources import run_database_path
from quantgraph.recording import Entry, Recorder, canonical
from quantgraph.runs.replay_stubs import recorded_on_clarify, replay_models
from quantgraph.runs.begin import start_run
from quantgraph.runs.decider import recorded_decider
from quantgraph.runs.driver import Answer, Driver, RunEvent
from quantgraph.runs.identity import check_decider
from quantgraph.runs.manifest import Manifest, existing_ledger, read_manifest, find_run_folder
from quantgraph.runs.resources import Resources
from quantgraph.runs.source_spec import recorded_source_name
from quantgraph.settings import ROLES, Role, Settings, load_settings
from quantgraph.llm.models import Model

__all__ = ["replay_from"]


def replay_from(
    run: str | Path,
    session: object,
    *,
    model: Model | None = None,
    decider: Decider | None = None,
    source: str | Path | MarketDataSource | None = None,
    answer: Answer | None = None,
    watch: Callable[[RunEvent], None] | None = None,
    control: RunControl | None = None,
    ledger: str | Path | None = None,
    runs_dir: str | Path | None = None,
    out: str | Path | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Begin a run that is the recorded one up to a session, and goes its own way from it on.

    The new run has a folder, a ledger and a record of its own, with all that it took from the other: it can
    be resumed and replayed like any run. What was asked before the session is served and costs
    nothing: it is neither in ``usage`` nor taken from a budget.

    Parameters
    ----------
    run
        A run's folder, or its name in ``runs_dir``.
    session
        The first one that is live.
    model
        Who is asked from then on, as far as the graph asks models then. Default: what the settings say.
    decider
        Who decides. Default: the run's :class:`~quantgraph.agents.SignalRule`; one of your own has to be
        given. Before the session its models are not asked, if they are a
        :class:`~quantgraph.llm.recorded_model.RecordedChatModel`, whichever model that is put around.
    source
        One of your own, if the run was begun with one.
    answer, watch, control
        As in :func:`~quantgraph.runs.run_strategy`.
    ledger
        File or database URL of the recorded run's ledger, if its password is not in ``run.json``.
    out
        Where the new run gets its folder. Default: beside the recorded one.

    Returns
    -------
    dict
        As :func:`~quantgraph.runs.run_strategy` does.

    Raises
    ------
    BadWindow
        If the run did not trade the session; the message names those next to it.
    BadFile
        If the run's ledger is missing.
    RunMismatch
        If the run was begun with a decider of your own, and none is given.
    RunDiverged
        If the sessions before it do not come out as they were recorded.
    """
    settings = settings or load_settings()
    folder = find_run_folder(run, Path(runs_dir or settings.runs_dir))
    before = read_manifest(folder)
    where = ledger or existing_ledger(before, folder)
    first = _session(where, before.run_id, session)
    if decider is None:
        decider = recorded_decider(before.identity.configuration)
        check_decider(before.run_id, before.identity, decider)
    settings = before.as_then(settings)
    market = open_source(recorded_source_name(before.source) if source is None else source, settings=settings)
    options = replace(before.options, branch_of=before.run_id, branch_from=first)
    if options.on_clarify == "function":
        options = replace(options, on_clarify="ask")  # what it answered is in the record
    made = Path(out or folder.parent) / new_run_id()
    driver = Driver(answer=answer, watch=watch, control=control)
    recorder = Recorder(where)
    entries = [entry for entry in recorder.of(before.run_id).entries() if (entry.session or "") < first]
    recorder.close(before.run_id)
    handles = Resources(
        settings=settings,
        source=market,
        model=_models(entries, model, settings.model_rung),
        on_clarify=recorded_on_clarify(options, entries),
        decider=decider,
    )
    copy = partial(_copy, folder, entries)
    result = start_run(options, made, handles, driver, source=before.source, model=model, fill=copy)
    _check_before(where, before, made, first)
    return result


def _session(where: str | Path, run_id: str, session: object) -> str:
    with Ledger(where) as book:
        traded = [f"{day:%Y%m%d}" for day in (book.sessions(run_id) if run_id in book.runs() else [])]
    first = f"{session_of(session):%Y%m%d}"
    if first not in traded:
        span = f"{traded[0]} to {traded[-1]}" if traded else "none"
        place = bisect(traded, first)
        near = " and ".join(traded[max(place - 1, 0) : place + 1])
        raise BadWindow(
            f"from={first} is no session that run {run_id} traded; it traded {span}"
            + (f"; next to it {near}" if near else ""),
            session=first,
        )
    return first


def _link(source: str, target: str) -> None:
    """Share a file, which nobody ever writes to again; across disks it is copied."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _copy(folder: Path, entries: Sequence[Entry], made: Path) -> None:
    """Put into the new run's folder what it has from the other: nothing was sent for it here."""
    if (folder / "data").is_dir():
        shutil.copytree(folder / "data", made / "data", copy_function=_link)
    recorder = Recorder(run_database_path(made.parent, made.name))
    for entry in entries:
        facts = {name: fact for name, fact in entry.facts.items() if name != "seconds"}
        recorder.of(made.name).add(replace(entry, facts=facts))
    recorder.close(made.name)


def _models(entries: Sequence[Entry], model: Model | None, rung: str) -> dict[Role, Any]:
    """Nobody for the roles that were asked before the first session: they have had their say."""
    asked = {entry.facts.get("role") for entry in entries if entry.session is None}
    kept = {role: silent for role, silent in replay_models(entries, rung).items() if role in asked}
    if model is None or isinstance(model, Mapping):
        return {**(model or {}), **kept}
    return {**dict.fromkeys(ROLES, model), **kept}


def _check_before(where: str | Path, before: Manifest, made: Path, first: str) -> None:
    """See that the branch begins where it says, as far as it got."""
    runs = ((where, before.run_id), (run_database_path(made.parent, made.name), made.name))
    there, here = (_lines_before(book, run_id, first) for book, run_id in runs)
    for line, recorded in zip(here, there, strict=False):
        if line != recorded:
            also = before.other_versions
            raise RunDiverged(
                f"run {made.name}: session {line[0]} is not what run {before.run_id} recorded: {line[1]} "
                f"{line[2]} instead of {recorded[1]} {recorded[2]}" + (f"; {also}" if also else ""),
                path="ledger",
                session=line[0],
            )


def _lines_before(where: str | Path, run_id: str, first: str) -> list[tuple[str, str, str]]:
    with Ledger(where) as book:
        return [
            (line["session"], line["kind"], canonical(line["body"]))
            for line in (book.journal(run_id) if run_id in book.runs() else ())
            if line["session"] and line["session"].replace("-", "") < first
        ]
