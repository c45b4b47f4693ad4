"""Beginning a run in a folder of its own: it is not seen before it says what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quantgraph.runs.execute import execute_run, initial_result
from quantgraph.runs.driver import Driver
from quantgraph.runs.folder import staged_run_folder, lock_run, write_result
from quantgraph.runs.identity import identity_of
from quantgraph.runs.manifest import Manifest, ledger_location, library_versions
from quantgraph.runs.resources import Resources, open_run
from quantgraph.runs.options import RunSpec
from quantgraph.llm.models import Model

__all__ = ["start_run"]


def start_run(
    options: RunSpec,
    folder: Path,
    handles: Resources,
    driver: Driver,
    *,
    source: Mapping[str, Any],
    model: Model | None,
    fill: Callable[[Path], None] | None = None,
) -> dict[str, Any]:
    """Make the folder of a run, which gives it its name, and carry it on to its end.

    Killed at any instant, the folder is there with ``run.json`` and ``result.json``, or is not there.

    Parameters
    ----------
    source
        See :func:`~quantgraph.runs.source_spec.source_json`.
    model
        The one that the run is known by: whoever resumes it gives this one.
    fill
        Called with the folder before anybody sees it.

    Returns
    -------
    dict
        As :func:`~quantgraph.runs.run_strategy` does.
    """
    run_id, settings = folder.name, handles.settings
    with staged_run_folder(folder) as made:
        if fill is not None:
            fill(made)
        with open_run(options, run_id, made, handles) as opened:
            identity = identity_of(options, opened.graph, replace(handles, model=model))
        manifest = Manifest(
            run_id=run_id,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            options=options,
            source=source,
            budgets={"budget": settings.budget, "session_budget": settings.session_budget},
            ledger=ledger_location(handles.ledger),
            versions=library_versions(),
            identity=identity,
        )
        manifest.write(made)
        write_result(made, initial_result(manifest, folder))
    with lock_run(folder), open_run(options, run_id, folder, handles) as opened:
        return execute_run(manifest, folder, opened, driver, handles.source, manifest.task, run_id)
