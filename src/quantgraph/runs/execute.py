"""Carrying a run on to its end, or as far as it gets, and saying in its folder what it came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from langgraph.errors import GraphDrained

from quantgraph.data import MarketDataSource
from quantgraph.errors import QuantGraphError, StorageUnavailable
from quantgraph.recording import Recording, Scope, in_scope, recorded_answer
from quantgraph.recording.recorded_source import recorded_source
from quantgraph.runs.checksums import final_checksums
from quantgraph.runs.driver import Driver, state_of
from quantgraph.runs.folder import write_result
from quantgraph.runs.manifest import Manifest
from quantgraph.runs.resources import OpenRun
from quantgraph.runs.outcome import run_outcome, save_outputs

__all__ = ["execute_run", "initial_result"]


def execute_run(  # noqa: PLR0917 - one call, in order
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
        See :meth:`~quantgraph.runs.driver.Driver.drive`.

    Returns
    -------
    dict
        What stands in ``result.json`` then.

    Raises
    ------
    Exception
        Whatever is no end of a run: a storage that fails (``StorageUnavailable``), a mistake in code of the
        caller's or ours. The folder says ``failed`` then; it is resumed once that is mended. The ``data`` of
        an error of ours has its ``run_id`` and ``run_dir``.
    """
    ask = driver.answer

    def recording() -> Recording:  # a run that pauses closes its own, and goes on with another
        return opened.recorder.of(manifest.run_id)

    driver.answer = lambda asked: recorded_answer(recording(), asked["id"]) or (ask(asked) if ask else None)
    result = initial_result(manifest, folder)
    with _told(folder, dict(result)):
        write_result(folder, result)
        stopped: dict[str, Any] = {}
        try:
            asked = driver.drive(opened.graph, task, thread)
            if asked is not None:
                line = f"needs_answer: {asked['reason']}"
                stopped = {"ended_because": "needs_answer", "error": line, "asked": dict(asked)}
        except (KeyboardInterrupt, EOFError, GraphDrained):
            on = f"'quantgraph resume {folder}' goes on with it"
            line = f"cancelled: the run was stopped before its end; {on}"
            stopped = {"ended_because": "cancelled", "error": line}
        state = state_of(opened.graph, thread)
        with in_scope(Scope(recording=recording(), path="outcome")):  # nothing newer than the nodes
            result |= run_outcome(state, recorded_source(source))
        result |= save_outputs(folder, manifest.options.question, state, opened.store)
        result |= {"usage": recording().usage(), "cached": recording().cached()}
        result |= {"seconds": driver.took} | stopped | {"state": "ended"}
        # A reply that nobody waited for may still come in; the record of a replay is another run's.
        unsettled = result["ended_because"] == "cancelled" or recording().replays
        write_result(folder, result, {} if unsettled else final_checksums(folder, recording()))
    return result


@contextmanager
def _told(folder: Path, begun: Mapping[str, Any]) -> Iterator[None]:
    """What a run fails with is said in its folder, too; where that cannot be, it says ``running``."""
    try:
        yield
    except Exception as error:
        line = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if isinstance(error, QuantGraphError):
            line = error.line
            error.data |= {"run_id": begun["run_id"], "run_dir": begun["run_dir"]}
        with suppress(StorageUnavailable):
            write_result(folder, {**begun, "state": "failed", "error": line})
        raise


def initial_result(manifest: Manifest, folder: Path) -> dict[str, Any]:
    """What can be said of a run before it ended: a result that says ``running``."""
    return {
        "run_id": manifest.run_id,
        "run_dir": str(folder),
        "state": "running",
        "ended_because": None,
        "question": manifest.options.question,
        "source": {name: manifest.source[name] for name in ("name", "synthetic")},
        "started": manifest.started,
        "versions": dict(manifest.versions),
    }
