"""Branching off a run: recorded up to a session, live from it on."""

from __future__ import annotations

import os
import shutil
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langgraph.runtime import RunControl

from quantgraph._run_id import new_run_id
from quantgraph.broker.decider import Decider
from quantgraph.broker.ledger import Ledger
from quantgraph.data import MarketDataSource, open_source
from quantgraph.errors import BadWindow, RunDiverged
from quantgraph.market.moment import session_of
from quantgraph.nodes.desk import database
from quantgraph.recording import Entry, Recorder, canonical
from quantgraph.run.absent import answerer_of, no_models
from quantgraph.run.carry import carry
from quantgraph.run.drive import Answer, Driver, Event
from quantgraph.run.folder import held, make
from quantgraph.run.identity import SETTINGS, identity_of
from quantgraph.run.manifest import ledger_of, read_manifest, run_folder, versions
from quantgraph.run.opened import Handles, begun, open_run
from quantgraph.run.sources import spec_of
from quantgraph.settings import ROLES, Role, Settings, load_settings
from quantgraph.subgraphs.signal.kit import Model

__all__ = ["replay_from"]


def replay_from(
    run: str | Path,
    session: object,
    *,
    model: Model | None = None,
    decider: Decider | None = None,
    source: str | Path | MarketDataSource | None = None,
    answer: Answer | None = None,
    watch: Callable[[Event], None] | None = None,
    control: RunControl | None = None,
    ledger: str | Path | None = None,
    runs_dir: str | Path | None = None,
    out: str | Path | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Begin a run that is the recorded one up to a session, and goes its own way from it on.

    The new run has a folder, a ledger and a record of its own, with all that it took from the other: it can
    be resumed and replayed like any run. What was asked before the session is served and costs nothing.

    Parameters
    ----------
    run
        A run's folder, or its name in ``runs_dir``.
    session
        The first one that is live.
    model
        Who is asked from then on, as far as the graph asks models then. Default: what the settings say.
    decider
        Who decides: before the session its models are not asked, if they are a
        :class:`~quantgraph.llm.recorded.RecordedChatModel`, whichever model that is put around.
    source
        One of your own, if the run was begun with one.
    answer, watch, control
        As in :func:`~quantgraph.run.run_strategy`.
    ledger
        File or database URL of the recorded run's ledger, if its password is not in ``run.json``.
    out
        Where the new run gets its folder. Default: beside the recorded one.

    Returns
    -------
    dict
        As :func:`~quantgraph.run.run_strategy` does.

    Raises
    ------
    BadWindow
        If the run did not trade the session; the message names those next to it.
    BadFile
        If the run's ledger is missing.
    RunDiverged
        If the sessions before it do not come out as they were recorded.
    """
    settings = settings or load_settings()
    folder = run_folder(run, Path(runs_dir or settings.runs_dir))
    before = read_manifest(folder)
    where = ledger or ledger_of(before, folder)
    first = _session(where, before.run_id, session)
    settings = settings.model_copy(
        update={name: before.identity.configuration[f"settings.{name}"] for name in SETTINGS}
    )
    market = open_source(spec_of(before.source) if source is None else source, settings=settings)
    options = replace(before.options, branch_of=before.run_id, branch_from=first)
    run_id = new_run_id()
    made = Path(out or folder.parent) / run_id
    make(made)
    if (folder / "data").is_dir():
        shutil.copytree(folder / "data", made / "data", copy_function=_link)
    recorder = Recorder(where)
    entries = [entry for entry in recorder.of(before.run_id).entries() if (entry.session or "") < first]
    recorder.close(before.run_id)
    _copy(entries, database(made.parent, run_id), run_id)
    handles = Handles(
        settings=settings,
        source=market,
        model=_models(entries, model),
        on_clarify=answerer_of(options, entries),
        decider=decider,
    )
    driver = Driver(answer=answer or (lambda _asked: None), control=control)
    if watch:
        driver.watch = watch
    with open_run(options, run_id, made, handles) as opened:
        manifest = replace(
            before,
            run_id=run_id,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            options=options,
            budgets={"budget": settings.budget, "session_budget": settings.session_budget},
            ledger=None,
            versions=versions(),
            identity=identity_of(
                options,
                graph=opened.graph,
                source=market,
                model=model,
                settings=settings,
                decider=decider,
            ),
        )
        manifest.write(made)
        with held(made):
            result = carry(manifest, made, opened, driver, market, begun(manifest), run_id)
    _check_before(where, before.run_id, made, first)
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


def _copy(entries: Sequence[Entry], where: Path, run_id: str) -> None:
    """Write into the new run's record what it has from the other."""
    recorder = Recorder(where)
    for entry in entries:
        recorder.of(run_id).add(entry)
    recorder.close(run_id)


def _models(entries: Sequence[Entry], model: Model | None) -> dict[Role, Any]:
    """Nobody for the roles that were asked before the first session: they have had their say."""
    asked = {entry.facts.get("role") for entry in entries if entry.session is None}
    kept = {role: silent for role, silent in no_models(entries).items() if role in asked}
    if model is None or isinstance(model, Mapping):
        return {**(model or {}), **kept}
    return {**dict.fromkeys(ROLES, model), **kept}


def _check_before(where: str | Path, run_id: str, made: Path, first: str) -> None:
    """See that the branch begins where it says, as far as it got."""
    with Ledger(where) as old, Ledger(database(made.parent, made.name)) as new:
        there, here = (_lines_before(book, name, first) for book, name in ((old, run_id), (new, made.name)))
    for line, recorded in zip(here, there, strict=False):
        if line != recorded:
            raise RunDiverged(
                f"run {made.name}: session {line[0]} is not what run {run_id} recorded: {line[1]} {line[2]} "
                f"instead of {recorded[1]} {recorded[2]}",
                path="ledger",
                session=line[0],
            )


def _lines_before(book: Ledger, run_id: str, first: str) -> list[tuple[str, str, str]]:
    lines = book.journal(run_id) if run_id in book.runs() else ()
    return [
        (line["session"], line["kind"], canonical(line["body"]))
        for line in lines
        if line["session"] and line["session"].replace("-", "") < first
    ]
