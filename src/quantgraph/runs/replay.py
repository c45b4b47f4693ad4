"""Replaying a run: everything that was asked is answered by its record, and what comes out is compared."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from quantgraph.broker.decider import Decider
from quantgraph.broker.ledger import Ledger
from quantgraph.errors import BadFile, QuantGraphError, RunDiverged, StorageUnavailable, UnknownCommit
from quantgraph.llm.capabilities.capability_cache import RECORDING_PATH as LADDER
from quantgraph.nodes.trading_resources import run_database_path
from quantgraph.recording import Entry, Recorder, Recording, digest
from quantgraph.recording.no_network import no_network
from quantgraph.runs.replay_stubs import DatedReplaySource, ReplayCodeRunner, ReplaySource, recorded_on_clarify, replay_models
from quantgraph.runs.execute import execute_run
from quantgraph.runs.compare import (
    ReplayDifference,
    compare_ledgers,
    compare_results,
    compare_signals,
    compare_strategies,
    without_places,
)
from quantgraph.runs.decider import recorded_decider
from quantgraph.runs.driver import Driver, state_of
from quantgraph.runs.folder import make_run_folder, read_result
from quantgraph.runs.identity import check_decider, code_files
from quantgraph.runs.manifest import Manifest, existing_ledger, read_manifest, find_run_folder
from quantgraph.runs.resources import Resources, open_run
from quantgraph.runs.outcome import save_outputs
from quantgraph.settings import Settings, load_settings
from quantgraph.state import DataState

__all__ = ["ReplayResult", "recorded_commits", "replay"]

_UNFINISHED = frozenset({None, "cancelled"})
"""Why a run ended that did not come to an end of its own: it is held against as much of its replay."""

_REFS = ("ref", "data_ref", "signal_ref")
"""Under which names tools and checks told of commits."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ReplayResult:
    """What a replay came to.

    Attributes
    ----------
    run_id
        The run's, and its replay's.
    differences
        What is not as it was recorded, the first of each kind; none for a run that replays.
    divergence
        The first question that is not in the record, with a diff; None if all are.
    changed_code
        Files of this package that are not those the run was made with. It is replayed all the same: what
        differs then may be their doing.
    other_versions
        What of Python and the libraries is another than then, in words; empty if nothing is.
    result
        As :func:`~quantgraph.runs.run_strategy` gives it, made anew; without paths if nothing was kept.
    folder
        Where ledger, signal, strategy and result were made anew; None if they were not kept.
    """

    run_id: str
    differences: tuple[ReplayDifference, ...]
    divergence: RunDiverged | None
    changed_code: tuple[str, ...]
    other_versions: str
    result: Mapping[str, Any]
    folder: Path | None

    @property
    def identical(self) -> bool:
        """Whether ledger, signal, strategy and result are those of the run, and nothing else was asked."""
        return not self.differences

    def __repr__(self) -> str:
        """In a line, with the first difference."""
        told = [f"run_id={self.run_id!r}", f"identical={self.identical}"]
        told += [f"differences={len(self.differences)}: {each.line[:200]}" for each in self.differences[:1]]
        return f"Replayed({', '.join(told)})"


def replay(
    run: str | Path,
    *,
    decider: Decider | None = None,
    ledger: str | Path | None = None,
    runs_dir: str | Path | None = None,
    out: str | Path | None = None,
    settings: Settings | None = None,
) -> ReplayResult:
    """Run a run again from its record alone, and compare what comes out with what came out then.

    No model, source or code process is there, no key is needed, and this context reaches no network. The
    trades are made anew by the run's decider. A run that was stopped is replayed as far as it got.

    Parameters
    ----------
    run
        A run's folder, or its name in ``runs_dir``.
    decider
        The one that the run was begun with, if it was another than :class:`~quantgraph.agents.SignalRule`,
        which is made again with its options.
    ledger
        File or database URL of ledger and record, if its password is not in ``run.json``.
    out
        A folder to keep what is made anew, in a folder of the run's name. Default: nothing is kept.

    Raises
    ------
    BadOption
        If there is no such run, or ``out`` has one of its name.
    BadFile
        If ``run.json`` or ``result.json`` cannot be read, the ledger or the data of the run are missing, or
        the data were changed.
    RunMismatch
        If the decider is not the one that the run was begun with.
    """
    settings = settings or load_settings()
    folder = find_run_folder(run, Path(runs_dir or settings.runs_dir))
    manifest, before = read_manifest(folder), read_result(folder) or {"ended_because": None}
    where = ledger or existing_ledger(manifest, folder)
    if before.get("strategy") and not (folder / "data").is_dir():
        raise BadFile(f"{folder / 'data'} is missing, the data of run {manifest.run_id}", path=str(folder))
    decider = decider or recorded_decider(manifest.identity.configuration)
    check_decider(manifest.run_id, manifest.identity, decider)
    recorder = Recorder(where, mode="replay")
    recording = recorder.of(manifest.run_id)
    with closing(recording), _place(manifest, out) as made:
        entries = list(recording.entries())
        handles = replace(
            _handles(manifest, entries, settings),
            recorder=recorder,
            decider=decider,
            store=DataState(folder / "data", read_only=True),
        )
        with no_network():
            result = _again(manifest, made, handles, failed=before.get("state") == "failed")
        divergence = _divergence(manifest, recording, before)
        differences = [*_in_the_record(recording, entries, divergence)]
        if divergence is None:
            differences += _compare(manifest, before, result, there=folder, here=made, where=where)
        if differences:
            _check_data(folder / "data", entries)
    now = replace(manifest.identity, code=code_files())
    return ReplayResult(
        run_id=manifest.run_id,
        differences=tuple(differences),
        divergence=divergence,
        changed_code=tuple(each.name for each in manifest.identity.differences(now)),
        other_versions=manifest.other_versions,
        result=without_places(result) if out is None else result,
        folder=made if out is not None else None,
    )


@contextmanager
def _place(manifest: Manifest, out: str | Path | None) -> Iterator[Path]:
    """A folder for what is made anew."""
    with tempfile.TemporaryDirectory(prefix="quantgraph-replay-") as scratch:
        made = Path(out or scratch) / manifest.run_id
        make_run_folder(made)
        yield made


def _handles(manifest: Manifest, entries: Sequence[Entry], settings: Settings) -> Resources:
    name, synthetic = manifest.source["name"], manifest.source["synthetic"]
    kind = DatedReplaySource if any(map(_by_day, entries)) else ReplaySource
    nothing = {"budget": None, "session_budget": None, "prices": None, "llm_cache": "off"}
    settings = manifest.as_then(settings).model_copy(update=nothing)
    return Resources(
        settings=settings,
        source=kind(name, synthetic=synthetic),
        model=replay_models(entries, settings.model_rung),
        on_clarify=recorded_on_clarify(manifest.options, entries),
        checkpointer=InMemorySaver(),
        runner=ReplayCodeRunner(),
    )


def _by_day(entry: Entry) -> bool:
    return entry.key.kind == "source" and '"method":"names_on"' in entry.request


def _again(manifest: Manifest, folder: Path, handles: Resources, *, failed: bool) -> dict[str, Any]:
    """The run once more, in its new folder; if it fails now, that is what is compared."""
    with open_run(manifest.options, manifest.run_id, folder, handles) as opened:
        try:
            return execute_run(manifest, folder, opened, Driver(), handles.source, manifest.task, manifest.run_id)
        except Exception as error:
            if isinstance(error, StorageUnavailable) or not (failed or isinstance(error, QuantGraphError)):
                raise
            # One that was stopped goes on from there into what is not recorded: it is compared as it stood.
            save_outputs(folder, manifest.options.question, state_of(opened.graph, manifest.run_id), opened.store)
            return read_result(folder) or {}


def _check_data(folder: Path, entries: Sequence[Entry]) -> None:
    """Whether recorded commits are what they were; if not, nothing else needs an explanation."""
    store = DataState(folder, read_only=True)
    for ref in recorded_commits(entries):
        try:
            store.snapshot(ref)
        except UnknownCommit as error:
            raise BadFile(f"{folder} has been changed: {error.message}", path=str(folder)) from error


def recorded_commits(entries: Iterable[Entry]) -> Iterator[str]:
    """The commits that tools and checks told of."""
    for entry in entries:
        made = entry.outcome() if entry.reply and entry.key.kind in {"tool", "code"} else None
        for ref in (made.get(name) for name in _REFS) if isinstance(made, dict) else ():
            if ref:
                yield ref


def _divergence(manifest: Manifest, recording: Recording, before: Mapping[str, Any]) -> RunDiverged | None:
    """The first question without an answer; of a run that was stopped, unless that is where it was."""
    met = recording.replay_lookup and recording.replay_lookup.divergence
    if not met or (before["ended_because"] in _UNFINISHED and not _unasked(recording)):
        return None
    also = manifest.other_versions
    return RunDiverged(f"{met.message}; {also}", **met.data) if also else met


def _unasked(recording: Recording) -> list[Entry]:
    """What was recorded and not asked for; a probe is not made again where its finding is recorded."""
    left = recording.replay_lookup.unasked() if recording.replay_lookup else []
    return [entry for entry in left if not entry.key.path.startswith(f"{LADDER}/")]


def _in_the_record(
    recording: Recording, entries: Sequence[Entry], divergence: RunDiverged | None
) -> Iterator[ReplayDifference]:
    """Where it and the replay part; else what was left over, and what is no more as it was recorded."""
    if divergence:
        place = f"{divergence.data['path']} number {divergence.data['seq']}"
        yield ReplayDifference(export="record", place=place, replayed=divergence.message)
        return
    for entry in _unasked(recording)[:1]:
        place = f"{entry.key.path} number {entry.key.seq}"
        yield ReplayDifference(
            export="record", place=place, recorded=f"a {entry.key.kind} request: {entry.request[:200]}"
        )
    altered = (entry for entry in entries if digest(entry.request) != entry.key.digest)
    for entry in islice(altered, 1):
        place = f"{entry.key.path} number {entry.key.seq}"
        yield ReplayDifference(
            export="record", place=place, recorded=f"a {entry.key.kind} request that was changed afterwards"
        )


def _compare(
    manifest: Manifest,
    before: Mapping[str, Any],
    result: Mapping[str, Any],
    *,
    there: Path,
    here: Path,
    where: str | Path,
) -> Iterator[ReplayDifference]:
    whole = before["ended_because"] not in _UNFINISHED
    with Ledger(where) as old, Ledger(run_database_path(here.parent, here.name)) as new:
        yield from compare_ledgers(old, new, manifest.run_id, whole=whole)
    if whole or (there / "strategy.py").is_file():
        yield from compare_signals(there / "signal.parquet", here / "signal.parquet")
        yield from compare_strategies(there / "strategy.py", here / "strategy.py")
    if whole:
        yield from compare_results(before, result)
