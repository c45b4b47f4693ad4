"""Whether a run's folder holds what the run put there: every file is read once, every fault is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec

from quantgraph._util.database import open_engine
from quantgraph.state.commits import check_stored_commits
from quantgraph.errors import BadFile
from quantgraph.recording import Recorder, Recording, digest
from quantgraph.runs.checkpoints import CHECKPOINTS_FILE
from quantgraph.runs.checksums import CHECKSUMS_FILE, RECORD_KEY, RESULT_FILE, file_checksum, rows_checksum, read_checksums
from quantgraph.runs.folder import read_result
from quantgraph.runs.manifest import MANIFEST_FILE
from quantgraph.runs.manifest import ledger_location, read_manifest
from quantgraph.runs.replay import recorded_commits
from quantgraph.state import DataState

__all__ = ["IntegrityReport", "check_run_folder"]

P = ParamSpec("P")


@dataclass(frozen=True, kw_only=True)
class IntegrityReport:
    """What was found in a run's folder.

    Attributes
    ----------
    files
        How many files were read.
    faults
        What is not as the run left it, each once.
    """

    files: int
    faults: tuple[BadFile, ...]


def check_run_folder(folder: Path | None, ledger: str | Path) -> IntegrityReport:
    """Read all that a run keeps in its folder, and its record.

    ``result.json``, ``run.json`` and the files that the result names must have the checksums of
    ``checksums.json``, and so must checkpoints and record, as far as they went when the run ended; commits
    and objects of the data must have the content they are named by, and every commit that the run names must
    be there. Of the ledger's lines :meth:`~quantgraph.broker.Ledger.check` tells.

    Parameters
    ----------
    folder
        Where neither ``run.json`` nor ``checksums.json`` is, only the ledger's file is read.
    ledger
        File or database URL of ledger and record.

    Raises
    ------
    StorageUnavailable
        If a database cannot be read now.
    """
    own = [] if "://" in str(ledger) else [Path(ledger)]
    files, faults = len(own), [fault for path in own for fault in _tried(_check_database, path)]
    if folder is not None and any((folder / name).is_file() for name in (MANIFEST_FILE, CHECKSUMS_FILE)):
        kept = _check_kept(folder, ledger)
        files, faults = files + kept.files, [*faults, *kept.faults]
    return IntegrityReport(files=files, faults=tuple({fault.message: fault for fault in faults}.values()))


def _check_kept(folder: Path, ledger: str | Path) -> IntegrityReport:
    """All but the ledger's file."""
    sums: dict[str, Any] = {}
    faults = list(_tried(lambda: sums.update(read_checksums(folder))))
    named = [name for name in sums if name not in {RECORD_KEY, CHECKPOINTS_FILE}]
    faults += [fault for name in named for fault in _tried(_check_file, folder / name, sums[name])]
    faults += _tried(_check_database, folder / CHECKPOINTS_FILE, sums.get(CHECKPOINTS_FILE))
    stored = check_stored_commits(folder / "data")
    faults += stored.faults
    if (folder / MANIFEST_FILE).is_file():  # where it never was, data and record are those of the run replayed
        faults += _tried(read_manifest, folder)
        faults += _tried(_check_record, folder, ledger, sums.get(RECORD_KEY), stored.commits)
    there = sum((folder / name).is_file() for name in {MANIFEST_FILE, CHECKSUMS_FILE, RESULT_FILE, CHECKPOINTS_FILE, *named})
    return IntegrityReport(files=there + stored.files, faults=tuple(faults))


def _tried(check: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> Iterator[BadFile]:
    try:
        check(*arguments, **named)
    except BadFile as error:
        yield error


def _check_file(path: Path, checksums: str | list[str]) -> None:
    valid = [checksums] if isinstance(checksums, str) else checksums
    if not path.is_file():
        raise BadFile(f"{path} is missing; the run left it there", path=str(path))
    if file_checksum(path) not in valid:
        raise BadFile(f"{path} has been changed: its checksum must be {' or '.join(valid)}", path=str(path))


def _check_database(path: Path, checksum: str | None = None) -> None:
    """See that a SQLite file is whole, and has the rows of the checksum if there is one."""
    if not path.is_file():
        if checksum is not None:
            raise BadFile(f"{path} is missing; the run left it there", path=str(path))
        return
    engine = open_engine(path)
    try:
        with engine.connect() as connection:
            (said,) = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalars()
    finally:
        engine.dispose()
    if said != "ok":
        raise BadFile(f"{path} is damaged: {' '.join(said.split())}", path=str(path))
    if checksum is not None and rows_checksum(path) != checksum:
        raise BadFile(f"{path} has been changed: the checksum of its rows must be {checksum}", path=str(path))


def _check_record(
    folder: Path, ledger: str | Path, checksum: Mapping[str, Any] | None, there: frozenset[str]
) -> None:
    """See that the record's lines are those of the run, and that every commit is ``there`` that is named."""
    place, told = str(ledger_location(ledger)), read_result(folder) or {}
    try:
        with closing(Recorder(ledger).of(str(told.get("run_id", folder.name)))) as recording:
            _check_lines(recording, checksum)
            named: set[str | None] = {*recorded_commits(recording.entries())}
    except BadFile as error:
        raise BadFile(f"{place}: {error.message}", path=place) from error
    named |= {told.get("data_ref"), (told.get("strategy") or {}).get("data_ref")}
    for ref in sorted({ref for ref in named if ref} - {DataState().empty} - there):
        path = folder / "data" / "commits" / f"{ref}.json"
        raise BadFile(f"{path} is missing, a commit that the run names", path=str(path))


def _check_lines(recording: Recording, checksum: Mapping[str, Any] | None) -> None:
    where = f"the record of run {recording.run_id!r} was changed"
    for number, entry in enumerate(recording.entries(), start=1):
        if digest(entry.request) != entry.key.digest:
            raise BadFile(f"{where} at its line {number}: the request must have the hash {entry.key.digest}")
    if checksum is None:
        return
    lines, content = recording.content(checksum["lines"])
    if lines != checksum["lines"]:
        raise BadFile(f"{where}: {lines} of {checksum['lines']} lines are there")
    if content != checksum["content"]:
        raise BadFile(f"{where}: its checksum must be {checksum['content']}")
