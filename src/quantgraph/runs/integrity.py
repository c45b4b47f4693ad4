"""Integrity of a run's folder: every file is read once, every fault is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec

from quantgraph._util.canonical_json import content_hash, file_hash
from quantgraph._util.database import open_engine
from quantgraph.errors import BadFile, UnknownCommit
from quantgraph.recording import Entry, Recorder, Recording
from quantgraph.runs.manifest import MANIFEST_FILE, ledger_location, read_manifest
from quantgraph.runs.resources import CHECKPOINTS_FILE
from quantgraph.runs.run_result import (
    CHECKSUMS_FILE,
    RECORD_KEY,
    RESULT_FILE,
    read_checksums,
    read_result,
    rows_checksum,
)
from quantgraph.state import DataState
from quantgraph.state.commits import check_stored_commits

__all__ = ["IntegrityReport", "check_recorded_commits", "check_run_folder"]

_REFS = ("ref", "data_ref", "signal_ref")
"""Keys of tool and check results that name commits."""

P = ParamSpec("P")


@dataclass(frozen=True, kw_only=True)
class IntegrityReport:
    """Outcome of a check.

    Attributes
    ----------
    files
        How many files were read.
    faults
        What differs from what the run wrote, each once.
    """

    files: int
    faults: tuple[BadFile, ...]


def check_run_folder(folder: Path | None, ledger: str | Path) -> IntegrityReport:
    """Check the files of a run's folder, and its record.

    ``result.json``, ``run.json`` and the files that the result names must have the checksums of
    ``checksums.json``, and so must checkpoints and record, as far as they went when the run ended; commits
    and objects of the data must have the content they are named by, and every commit that the run names must
    be there. The ledger's lines are checked by :meth:`~quantgraph.broker.Ledger.check`.

    Parameters
    ----------
    folder
        If it has neither ``run.json`` nor ``checksums.json``, only the ledger's file is read.
    ledger
        File or database URL of ledger and record.

    Raises
    ------
    StorageUnavailable
        If a database cannot be read now.
    """
    own = [] if "://" in str(ledger) else [Path(ledger)]
    files, faults = len(own), [fault for path in own for fault in _faults(_check_database, path)]
    if folder is not None and any((folder / name).is_file() for name in (MANIFEST_FILE, CHECKSUMS_FILE)):
        report = _check_folder(folder, ledger)
        files, faults = files + report.files, [*faults, *report.faults]
    return IntegrityReport(files=files, faults=tuple({fault.message: fault for fault in faults}.values()))


def check_recorded_commits(folder: Path, entries: Iterable[Entry]) -> None:
    """Load each commit that the record names.

    Raises
    ------
    BadFile
        If the data state in ``folder`` lacks one, or its content was changed.
    """
    store = DataState(folder, read_only=True)
    for ref in _recorded_commits(entries):
        try:
            store.snapshot(ref)
        except UnknownCommit as error:
            raise BadFile(f"{folder} has been changed: {error.message}", path=str(folder)) from error


def _recorded_commits(entries: Iterable[Entry]) -> Iterator[str]:
    """Commits in recorded results of tools and checks."""
    for entry in entries:
        outcome = entry.outcome() if entry.reply and entry.key.kind in {"tool", "code"} else None
        for ref in (outcome.get(name) for name in _REFS) if isinstance(outcome, dict) else ():
            if ref:
                yield ref


def _check_folder(folder: Path, ledger: str | Path) -> IntegrityReport:
    """Check everything but the ledger's file."""
    sums: dict[str, Any] = {}
    faults = list(_faults(lambda: sums.update(read_checksums(folder))))
    named = [name for name in sums if name not in {RECORD_KEY, CHECKPOINTS_FILE}]
    faults += [fault for name in named for fault in _faults(_check_file, folder / name, sums[name])]
    faults += _faults(_check_database, folder / CHECKPOINTS_FILE, sums.get(CHECKPOINTS_FILE))
    stored = check_stored_commits(folder / "data")
    faults += stored.faults
    if (folder / MANIFEST_FILE).is_file():  # without it, data and record are those of the replayed run
        faults += _faults(read_manifest, folder)
        faults += _faults(_check_record, folder, ledger, sums.get(RECORD_KEY), stored.commits)
    names = {MANIFEST_FILE, CHECKSUMS_FILE, RESULT_FILE, CHECKPOINTS_FILE, *named}
    files = sum((folder / name).is_file() for name in names)
    return IntegrityReport(files=files + stored.files, faults=tuple(faults))


def _faults(check: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> Iterator[BadFile]:
    try:
        check(*arguments, **named)
    except BadFile as error:
        yield error


def _check_file(path: Path, checksums: str | list[str]) -> None:
    valid = [checksums] if isinstance(checksums, str) else checksums
    if not path.is_file():
        raise BadFile(f"{path} is missing; the run left it there", path=str(path))
    if file_hash(path) not in valid:
        raise BadFile(f"{path} has been changed: its checksum must be {' or '.join(valid)}", path=str(path))


def _check_database(path: Path, checksum: str | None = None) -> None:
    """Check that a SQLite file is not damaged, and its rows against the checksum if there is one."""
    if not path.is_file():
        if checksum is not None:
            raise BadFile(f"{path} is missing; the run left it there", path=str(path))
        return
    engine = open_engine(path)
    try:
        with engine.connect() as connection:
            (report,) = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalars()
    finally:
        engine.dispose()
    if report != "ok":
        raise BadFile(f"{path} is damaged: {' '.join(report.split())}", path=str(path))
    if checksum is not None and rows_checksum(path) != checksum:
        raise BadFile(f"{path} has been changed: the checksum of its rows must be {checksum}", path=str(path))


def _check_record(
    folder: Path, ledger: str | Path, checksum: Mapping[str, Any] | None, stored: frozenset[str]
) -> None:
    """Check the record's lines, and that every commit that the run names is one of the ``stored``."""
    place, result = str(ledger_location(ledger)), read_result(folder) or {}
    try:
        with closing(Recorder(ledger).of(str(result.get("run_id", folder.name)))) as recording:
            _check_lines(recording, checksum)
            named: set[str | None] = {*_recorded_commits(recording.entries())}
    except BadFile as error:
        raise BadFile(f"{place}: {error.message}", path=place) from error
    named |= {result.get("data_ref"), (result.get("strategy") or {}).get("data_ref")}
    for ref in sorted({ref for ref in named if ref} - {DataState().empty} - stored):
        path = folder / "data" / "commits" / f"{ref}.json"
        raise BadFile(f"{path} is missing, a commit that the run names", path=str(path))


def _check_lines(recording: Recording, checksum: Mapping[str, Any] | None) -> None:
    subject = f"the record of run {recording.run_id!r} was changed"
    for number, entry in enumerate(recording.entries(), start=1):
        if content_hash(entry.request) != entry.key.digest:
            raise BadFile(
                f"{subject} at its line {number}: the request must have the hash {entry.key.digest}"
            )
    if checksum is None:
        return
    lines, content = recording.content(checksum["lines"])
    if lines != checksum["lines"]:
        raise BadFile(f"{subject}: {lines} of {checksum['lines']} lines are there")
    if content != checksum["content"]:
        raise BadFile(f"{subject}: its checksum must be {checksum['content']}")
