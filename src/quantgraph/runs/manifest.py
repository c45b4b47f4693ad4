"""``run.json``: what a run is, written before its first step and never changed after."""

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

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.files import write_atomic
from quantgraph.errors import BadFile, BadOption
from quantgraph.nodes.trading_resources import run_database_path
from quantgraph.runs.identity import IDENTITY_SETTINGS, Identity
from quantgraph.runs.specification import RunSpec
from quantgraph.settings import Settings

__all__ = [
    "MANIFEST_FILE",
    "Manifest",
    "existing_ledger",
    "find_run_folder",
    "ledger_location",
    "library_versions",
    "read_manifest",
]

MANIFEST_FILE = "run.json"
_FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What is known of a run before it begins.

    Attributes
    ----------
    run_id
        Its name; all other names in the run derive from it.
    started
        When, ISO 8601, UTC.
    spec
        Its arguments.
    source
        ``name``, ``synthetic`` and ``open``, see :func:`~quantgraph.runs.specification.source_json`.
    budgets
        ``budget`` and ``session_budget`` of the settings.
    ledger
        URL of its database without the password; None for the file in its folder.
    versions
        Of Python and of the libraries that matter.
    identity
        What must be the same when the run is resumed.
    """

    run_id: str
    started: str
    spec: RunSpec
    source: Mapping[str, Any]
    budgets: Mapping[str, str | None]
    ledger: str | None
    versions: Mapping[str, str]
    identity: Identity

    @property
    def graph_input(self) -> Mapping[str, Any]:
        """The initial state of the run's graph."""
        return {
            "messages": [HumanMessage(self.spec.question, id=content_hash(f"{self.run_id}|0"))],
            "given": self.spec.given,
            "run_id": self.run_id,
        }

    @property
    def other_versions(self) -> str:
        """Which versions of Python and the libraries have changed, as a sentence; empty if none has.

        Other versions do not make a run invalid, but may explain a different outcome.
        """
        now = library_versions()
        changed = [
            f"{name} {old} -> {now.get(name, 'none')}"
            for name, old in self.versions.items()
            if now.get(name) != old
        ]
        return f"begun with other versions: {', '.join(changed)}" if changed else ""

    def recorded_settings(self, settings: Settings) -> Settings:
        """``settings`` with those that are part of the identity as they were recorded."""
        recorded = {name: self.identity.configuration[f"settings.{name}"] for name in IDENTITY_SETTINGS}
        return settings.model_copy(update=recorded)

    def write(self, folder: Path) -> None:
        """Write ``run.json`` into the run's folder."""
        stored = {
            "format": _FORMAT,
            **vars(self),
            "spec": self.spec.as_json(),
            "identity": {"hash": self.identity.hash, **vars(self.identity)},
        }
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
        stored = json.loads(path.read_text(encoding="utf-8"))
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


def find_run_folder(run: str | Path, runs_dir: Path) -> Path:
    """The folder of a run, given as a path or as the run's name.

    Raises
    ------
    BadOption
        If there is no such run.
    """
    places = dict.fromkeys((Path(run), runs_dir / run))  # an absolute path is one place
    for folder in places:
        if (folder / MANIFEST_FILE).is_file():
            return folder
    message = f"RUN={str(run)!r}: there is no {MANIFEST_FILE} in {' or in '.join(map(str, places))}"
    if any((folder / "ledger.sqlite").is_file() for folder in places):
        message += "; a run of your own graph is resumed and replayed with that graph, see docs/embedding.md"
    raise BadOption(message, parameter="run")


def existing_ledger(manifest: Manifest, folder: Path) -> str | Path:
    """Place of a run's ledger and record, checked: opening a missing file would create an empty one.

    Raises
    ------
    BadFile
        If it is a file that is missing or empty.
    """
    place = manifest.ledger or run_database_path(folder.parent, folder.name)
    if "://" not in str(place) and not (Path(place).is_file() and Path(place).stat().st_size):
        raise BadFile(f"{place} is missing or empty, the ledger of run {manifest.run_id}", path=str(place))
    return place


def ledger_location(ledger: str | Path | None) -> str | None:
    """Place of a ledger of the caller's as text without a password."""
    if isinstance(ledger, str) and "://" in ledger:
        return make_url(ledger).difference_update_query(["password"]).render_as_string(hide_password=True)
    return None if ledger is None else str(Path(ledger).absolute())


@cache
def library_versions() -> dict[str, str]:
    """Versions of Python and of the libraries that matter."""
    names = ("quantgraph", "langgraph", "langchain-core", "langchain-openai", "pandas", "numpy", "TA-Lib")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
