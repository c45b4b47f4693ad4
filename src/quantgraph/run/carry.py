"""Carrying a run on to its end, or as far as it gets, and saying in its folder what it came to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langgraph.errors import GraphDrained

from quantgraph.data import MarketDataSource
from quantgraph.errors import QuantGraphError
from quantgraph.recording import Scope, in_scope, recorded_answer
from quantgraph.recording.source import recorded_source
from quantgraph.run.drive import Driver, state_of
from quantgraph.run.folder import write_result
from quantgraph.run.manifest import Manifest
from quantgraph.run.opened import OpenRun
from quantgraph.run.outcome import outcome, saved

__all__ = ["carry"]


def carry(  # noqa: PLR0917 - one call, in order
    manifest: Manifest,
    folder: Path,
    opened: OpenRun,
    driver: Driver,
    source: MarketDataSource,
    task: Mapping[str, Any] | None,
    thread: str,
) -> dict[str, Any]:
    """Drive the graph of a run; what was answered before is not asked again.

    Parameters
    ----------
    task, thread
        See :meth:`~quantgraph.run.drive.Driver.drive`.

    Returns
    -------
    dict
        What stands in ``result.json`` then.
    """
    recording, ask = opened.recorder.of(manifest.run_id), driver.answer
    driver.answer = lambda asked: recorded_answer(recording, asked["id"]) or ask(asked)
    result = _head(manifest, folder)
    write_result(folder, result)
    stopped: dict[str, Any] = {}
    try:
        asked = driver.drive(opened.graph, task, thread)
        if asked is not None:
            line = f"needs_answer: {asked['reason']}"
            stopped = {"ended_because": "needs_answer", "error": line, "asked": dict(asked)}
    except (KeyboardInterrupt, EOFError, GraphDrained):
        line = f"cancelled: the run was stopped before its end; 'quantgraph resume {folder}' goes on with it"
        stopped = {"ended_because": "cancelled", "error": line}
    except QuantGraphError as error:
        stopped = {"ended_because": "failed", "error": error.line}
    except Exception as error:
        line = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        write_result(folder, result | {"ended_because": "failed", "error": line})
        raise
    state = state_of(opened.graph, thread)
    with in_scope(Scope(recording=recording, path="outcome")):  # what the nodes were told, nothing newer
        result |= outcome(state, recorded_source(source))
    result |= saved(folder, manifest.options.question, state, opened.store)
    result |= {"usage": recording.usage(), "cached": recording.cached(), "seconds": driver.took} | stopped
    write_result(folder, result)
    return result


def _head(manifest: Manifest, folder: Path) -> dict[str, Any]:
    return {
        "run_id": manifest.run_id,
        "run_dir": str(folder),
        "ended_because": "running",
        "question": manifest.options.question,
        "source": {name: manifest.source[name] for name in ("name", "synthetic")},
        "started": manifest.started,
        "versions": dict(manifest.versions),
    }
