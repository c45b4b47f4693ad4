"""The folder of a run: ``run.json``, the lock, and a recorded run that is shipped.

``run.json`` is written before the first step and never changed after. A folder in the making is locked by its
process. Process ids are used again, but a lock ends with its process: the next start beside it removes the
folder of a start that was killed.

The market is synthetic, and no language model decided: a script plays the replies as models make them, with
dead ends, refused orders and a server that fails. ``scripts/make_example_run.py`` makes the run anew.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from langchain_core.messages import HumanMessage
from sqlalchemy.engine import make_url

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.files import MANIFEST_FILE, MOST_JSON, read_stored, stored_file, write_atomic
from quantgraph._util.packages import package_versions
from quantgraph._util.values import json_of
from quantgraph.errors import BadFile, BadOption
from quantgraph.runs._identity import Identity, with_setting_values
from quantgraph.runs._specification import RunSpec
from quantgraph.runtime import run_database_path
from quantgraph.runtime.graph_state import changed
from quantgraph.settings import Settings
from quantgraph.state import DataState

if os.name == "posix":
    import fcntl


_FORMAT = 6
_PREFIX = ".start-"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_DAY = 86_400.0


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What is known of a run before it begins; ``started`` is ISO 8601, UTC."""

    run_id: str
    started: str
    spec: RunSpec
    source: Mapping[str, Any]
    budgets: Mapping[str, str | None]
    ledger: str | None
    decider: str | None
    versions: Mapping[str, str]
    identity: Identity
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def graph_input(self) -> Mapping[str, Any]:
        """The initial state of the run's graph."""
        message = HumanMessage(self.spec.question, id=content_hash(f"{self.run_id}|0"))
        own = self.spec.as_json()["own"]
        return changed(
            {}, {"messages": [message], "given": self.spec.constraints, "own": own, "run_id": self.run_id}
        )

    @property
    def other_versions(self) -> str:
        """Which versions of Python and the libraries have changed, as a sentence; empty if none has.

        Other versions do not make a run invalid, but may explain a different outcome.
        """
        now = library_versions(tuple(self.identity.configuration.get("settings.sandbox_packages", ())))
        changed = [
            f"{name} {old} -> {now.get(name, 'none')}"
            for name, old in self.versions.items()
            if now.get(name) != old
        ]
        return f"begun with other versions: {', '.join(changed)}" if changed else ""

    def recorded_settings(self, settings: Settings) -> Settings:
        """``settings`` with those that are part of the identity as they were recorded."""
        return with_setting_values(settings, self.identity.configuration)

    def write(self, folder: Path) -> None:
        """Write ``run.json`` into the run's folder."""
        stored = {
            "format": _FORMAT,
            **vars(self),
            "spec": self.spec.as_json(),
            "identity": {"hash": self.identity.hash, **vars(self.identity)},
        }
        if not self.labels:
            del stored["labels"]
        text = json.dumps(stored, ensure_ascii=False, indent=1, allow_nan=False)
        write_atomic(folder / MANIFEST_FILE, f"{text}\n".encode())


def read_manifest(folder: Path) -> Manifest:
    """Read ``run.json`` of a run's folder.

    Raises
    ------
    BadFile
        If it is missing, damaged, or of another format.
    """
    path = folder / MANIFEST_FILE
    try:
        stored = json_of(read_stored(folder, MANIFEST_FILE, MOST_JSON) or "")
        _check_format(path, stored)
        identity = {name: value for name, value in stored["identity"].items() if name != "hash"}
        return Manifest(
            **{**stored, "spec": RunSpec.from_json(stored["spec"]), "identity": Identity(**identity)}
        )
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, BadFile):
            raise
        reason = " ".join(str(error).split())
        raise BadFile(f"{path} does not say what run this is: {type(error).__name__}: {reason}") from error


def _check_format(path: Path, stored: dict[str, Any]) -> None:
    number = stored.pop("format")
    if number != _FORMAT:
        writer = stored.get("versions", {}).get("quantgraph", "version unknown")
        raise BadFile(
            f"{path} has format {number}, and this quantgraph reads format {_FORMAT} only; resume or replay "
            f"the run with the quantgraph that wrote it ({writer}), or begin a new run",
            file=str(path),
        )


def existing_ledger(manifest: Manifest, folder: Path, named: str | Path | None = None) -> str | Path:
    """Place of a run's ledger and record for who reads: in its folder, or what the caller named.

    Raises
    ------
    BadFile
        If the file is missing or empty, or not a regular one of the folder.
    BadOption
        If ``run.json`` tells another place: a folder may be a stranger's, and leads nowhere else.
    """
    if named is not None:
        return named
    if manifest.ledger:
        raise BadOption(
            f"the ledger of run {manifest.run_id} is at {manifest.ledger}, outside of its folder, and is "
            f"read only if you name it: --ledger, or ledger= in Python, or Ledger(URL)",
            parameter="ledger",
        )
    own = run_database_path(folder, manifest.run_id).name  # a copy may have any name
    stored_file(folder, own)
    return check_ledger_file(folder / own, manifest.run_id)


def check_ledger_file(place: str | Path, run_id: str) -> str | Path:
    """Return a ledger's place; BadFile if it is a missing or empty file: opening it would make one."""
    if "://" not in str(place) and not (Path(place).is_file() and Path(place).stat().st_size):
        raise BadFile(f"{place} is missing or empty, the ledger of run {run_id}", path=str(place))
    return place


def recorded_ledger(manifest: Manifest) -> str | None:
    """Place of a ledger of the caller's, None for the file in the run's folder."""
    if manifest.ledger and ":***@" in manifest.ledger:
        raise BadOption(
            f"the ledger of run {manifest.run_id} is at {manifest.ledger}; give its URL in resources=, "
            f"or read Ledger(URL).orders({manifest.run_id!r})",
            parameter="ledger",
        )
    return manifest.ledger


def stored_data(folder: Path) -> DataState:
    """The data of a run, to be read; BadFile if something else has their name."""
    place = folder / "data"
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        raise BadFile(f"{place} is not read: it must be a folder", path=str(place))
    return DataState(place, read_only=True)


def ledger_location(ledger: str | Path | None) -> str | None:
    """Place of a ledger of the caller's as text without a password."""
    if isinstance(ledger, str) and "://" in ledger:
        return make_url(ledger).difference_update_query(["password"]).render_as_string(hide_password=True)
    return None if ledger is None else str(Path(ledger).absolute())


@cache
def library_versions(packages: tuple[str, ...] = ()) -> dict[str, str]:
    """Versions of Python and of the libraries that matter, without those that are not installed.

    ``packages`` are those that generated code may import; what they require is included.
    """
    names = ("quantgraph", "langgraph", "langchain-core", "langchain-openai", "pandas", "numpy", "TA-Lib")
    ours = {"python": platform.python_version()}
    for name in names:
        with suppress(PackageNotFoundError):  # the demo's environment has not all of them
            ours[name] = version(name)
    return package_versions(packages) | ours


def make_run_folder(folder: Path) -> None:
    """Make the folder of a new run."""
    with _folder_errors(folder):
        folder.mkdir(parents=True)


@contextmanager
def staged_run_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder that becomes ``folder`` at the end, or is removed if there is an error.

    Folders that killed starts left beside it are removed.
    """
    with ExitStack() as stack:
        with _folder_errors(folder):
            if not folder.parent.exists():
                folder.parent.mkdir(parents=True, exist_ok=True)
            staged = stack.enter_context(_staging_folder(folder.parent)) / folder.name
            staged.mkdir()
        yield staged
        with _folder_errors(folder):
            staged.rename(folder)


@contextmanager
def lock_folder(folder: Path, what: str) -> Iterator[None]:
    """Make a folder and lock it; the lock ends with this process at the latest.

    Raises
    ------
    BadOption
        If it is locked already, ``what`` is what goes on there; or if it cannot be made.
    """
    with ExitStack() as stack:
        with _folder_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if os.name == "posix":
                try:
                    stack.callback(os.close, _lock(folder))
                except BlockingIOError as error:
                    raise BadOption(f"{what} is going on in another process", parameter="run") from error
        yield


@contextmanager
def _folder_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadOption(
            f"out={str(folder.parent)!r} cannot hold a run: {error.strerror}: {folder}"
        ) from error


@contextmanager
def _staging_folder(parent: Path) -> Iterator[Path]:
    """A hidden, locked folder that is removed at the end."""
    _remove_killed_starts(parent)
    place, lock = _make_locked(parent)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)  # the next start tries again
        if lock is not None:
            os.close(lock)


def _make_locked(parent: Path) -> tuple[Path, int | None]:
    """A new folder and the file descriptor of its lock."""
    while True:
        place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{_machine()}-", dir=parent))
        if os.name != "posix":
            return place, None
        # Before the lock another start may have taken the folder for one of a killed start.
        with suppress(FileNotFoundError, BlockingIOError):
            lock = _lock(place)
            if place.exists():
                return place, lock
            os.close(lock)


def _remove_killed_starts(parent: Path) -> None:
    if os.name != "posix":
        return
    ours = f"{_PREFIX}{_machine()}-"
    for place in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # locked, already removed, or without permission
            # Locks of another machine may not be visible here; no start takes a day.
            if not place.name.startswith(ours) and time.time() - place.stat().st_mtime < _DAY:
                continue
            lock = _lock(place, required=True)
            try:
                shutil.rmtree(place, ignore_errors=True)
            finally:
                os.close(lock)


def _lock(place: Path, *, required: bool = False) -> int:
    """Lock a folder; return the file descriptor of the lock."""
    lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if required or isinstance(error, BlockingIOError):
            os.close(lock)
            raise
    return lock


@cache
def _machine() -> str:
    """Eight digits that identify this boot of this machine, or the machine where its boot id is unknown."""
    try:
        name = _BOOT_ID.read_text()
    except OSError:
        name = platform.node()
    return content_hash(name)[:8]


_ARCHIVE = files("quantgraph.runs") / "trader_month.zip"


def example_run_name() -> str:
    """Return the name of the recorded run, which is its folder's."""
    with _archive() as archive:
        return str(json.loads(archive.read(MANIFEST_FILE))["run_id"])


def unpack_example_run(folder: str | Path) -> Path:
    """Unpack the recorded run below ``folder``, in a folder of the run's name, and return that.

    It is a run like any other: it can be shown and replayed without a key.

    Raises
    ------
    BadOption
        If there is such a folder already, or it cannot be made.
    """
    target = Path(folder) / example_run_name()
    with _archive() as archive, staged_run_folder(target) as staged:
        archive.extractall(staged)
    return target


def _archive() -> ZipFile:
    return ZipFile(BytesIO(_ARCHIVE.read_bytes()))
