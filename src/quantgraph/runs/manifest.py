"""``run.json``: what a run is, written into its folder before anything is asked, never changed after."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from sqlalchemy.engine import make_url

from quantgraph._util.files import write_atomic
from quantgraph.errors import BadFile, BadOption
from quantgraph.nodes.trading_resources import run_database_path
from quantgraph.recording import digest
from quantgraph.runs.identity import IDENTITY_SETTINGS, Identity
from quantgraph.runs.options import RunSpec
from quantgraph.settings import Settings

__all__ = [
    "MANIFEST_FILE",
    "Manifest",
    "existing_ledger",
    "ledger_location",
    "read_manifest",
    "find_run_folder",
    "library_versions",
]

MANIFEST_FILE = "run.json"
_FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What can be said of a run before it begins.

    Attributes
    ----------
    run_id
        Its name; all other names in it are made of this one.
    started
        When, ISO 8601, UTC.
    options
        What was asked for.
    source
        ``name``, ``synthetic`` and ``open``, see :func:`~quantgraph.runs.source_spec.source_json`.
    budgets
        ``budget`` and ``session_budget`` as the settings had them.
    ledger
        URL of the database that it was put into, without its password; None for the file in its folder.
    versions
        Of Python and of the libraries that matter.
    identity
        What may not change on its way.
    """

    run_id: str
    started: str
    options: RunSpec
    source: Mapping[str, Any]
    budgets: Mapping[str, str | None]
    ledger: str | None
    versions: Mapping[str, str]
    identity: Identity

    @property
    def task(self) -> Mapping[str, Any]:
        """What the graph of the run is begun with."""
        return {
            "messages": [HumanMessage(self.options.question, id=digest(f"{self.run_id}|0"))],
            "given": self.options.given,
            "run_id": self.run_id,
        }

    @property
    def other_versions(self) -> str:
        """What of Python and the libraries is another now, told in words; empty if nothing is.

        No reason to refuse a run, but perhaps the reason why it comes out otherwise.
        """
        now = library_versions()
        changed = [
            f"{name} {old} -> {now.get(name, 'none')}"
            for name, old in self.versions.items()
            if now.get(name) != old
        ]
        return f"begun with other versions: {', '.join(changed)}" if changed else ""

    def as_then(self, settings: Settings) -> Settings:
        """Settings with those that matter as the run had them."""
        then = {name: self.identity.configuration[f"settings.{name}"] for name in IDENTITY_SETTINGS}
        return settings.model_copy(update=then)

    def write(self, folder: Path) -> None:
        """Write it into the run's folder."""
        told = {
            "format": _FORMAT,
            **vars(self),
            "options": self.options.as_json(),
            "identity": {"hash": self.identity.hash, **vars(self.identity)},
        }
        text = json.dumps(told, ensure_ascii=False, indent=1, allow_nan=False)
        write_atomic(folder / MANIFEST_FILE, f"{text}\n".encode())


def read_manifest(folder: Path) -> Manifest:
    """Read it again.

    Raises
    ------
    BadFile
        If it is not there, or not one that this version writes.
    """
    path = folder / MANIFEST_FILE
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        _check_format(path, told)
        identity = {name: value for name, value in told["identity"].items() if name != "hash"}
        return Manifest(
            **{**told, "options": RunSpec.from_json(told["options"]), "identity": Identity(**identity)}
        )
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"{path} does not say what run this is: {type(error).__name__}: {error}") from error


def _check_format(path: Path, stored: dict[str, Any]) -> None:
    number = stored.pop("format")
    if number != _FORMAT:
        writer = stored.get("versions", {}).get("quantgraph", "version unknown")
        raise BadFile(
            f"{path} has format {number}, and this quantgraph reads format {_FORMAT} only; resume or replay "
            f"the run with the quantgraph that wrote it ({writer}), or begin a new run",
            file=str(path),
        )


def find_run_folder(run: str | Path, runs_dir: Path) -> Path:
    """The folder of a run, given by itself or by the run's name.

    Raises
    ------
    BadOption
        If there is no run.
    """
    places = dict.fromkeys((Path(run), runs_dir / run))  # an absolute path is one place
    for folder in places:
        if (folder / MANIFEST_FILE).is_file():
            return folder
    told = f"RUN={str(run)!r}: there is no {MANIFEST_FILE} in {' or in '.join(map(str, places))}"
    if any((folder / "ledger.sqlite").is_file() for folder in places):
        told += "; a run of your own graph is resumed and replayed with that graph, see docs/embedding.md"
    raise BadOption(told, parameter="run")


def existing_ledger(manifest: Manifest, folder: Path) -> str | Path:
    """Where a run's ledger and record are; opening a file that is not there would make an empty one.

    Raises
    ------
    BadFile
        If it is a file, and is missing or empty.
    """
    where = manifest.ledger or run_database_path(folder.parent, folder.name)
    if "://" not in str(where) and not (Path(where).is_file() and Path(where).stat().st_size):
        raise BadFile(f"{where} is missing or empty, the ledger of run {manifest.run_id}", path=str(where))
    return where


def ledger_location(ledger: str | Path | None) -> str | None:
    """Where a ledger of the caller's is, in a form that may be written down."""
    if isinstance(ledger, str) and "://" in ledger:
        return make_url(ledger).difference_update_query(["password"]).render_as_string(hide_password=True)
    return None if ledger is None else str(Path(ledger).absolute())


@cache
def library_versions() -> dict[str, str]:
    """Of Python and of the libraries that matter."""
    names = ("quantgraph", "langgraph", "langchain-core", "langchain-openai", "pandas", "numpy", "TA-Lib")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
