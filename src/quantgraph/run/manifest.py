"""``run.json``: what a run is, written into its folder before anything is asked, never changed after."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from quantgraph.errors import BadFile, BadOption
from quantgraph.nodes.desk import database
from quantgraph.recording import digest
from quantgraph.run.identity import Identity
from quantgraph.run.options import Options

__all__ = [
    "FILE",
    "Manifest",
    "ledger_of",
    "ledger_place",
    "read_manifest",
    "run_folder",
    "versions",
    "write_whole",
]

FILE = "run.json"
_FORMAT = 1


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
        ``name``, ``synthetic`` and ``open``, see :func:`~quantgraph.run.sources.source_json`.
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
    options: Options
    source: Mapping[str, Any]
    budgets: Mapping[str, str | None]
    ledger: str | None
    versions: Mapping[str, str]
    identity: Identity

    @property
    def message_id(self) -> str:
        """Id of the message that the run begins with."""
        return digest(f"{self.run_id}|0")

    def write(self, folder: Path) -> None:
        """Write it into the run's folder."""
        told = {
            "format": _FORMAT,
            **vars(self),
            "options": self.options.as_json(),
            "identity": {"hash": self.identity.hash, **vars(self.identity)},
        }
        text = json.dumps(told, ensure_ascii=False, indent=1, allow_nan=False)
        write_whole(folder / FILE, text + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a file so that there is the whole of it, or what was there before."""
    half = path.with_name(f"{path.name}.new")
    half.write_text(text, encoding="utf-8")
    half.replace(path)


def read_manifest(folder: Path) -> Manifest:
    """Read it again.

    Raises
    ------
    BadFile
        If it is not there, or not one that this version writes.
    """
    path = folder / FILE
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told.pop("format") != _FORMAT:
            raise BadFile(f"{path} was written by another version of quantgraph", file=str(path))
        identity = {name: value for name, value in told["identity"].items() if name != "hash"}
        return Manifest(
            **{**told, "options": Options.from_json(told["options"]), "identity": Identity(**identity)}
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"{path} does not say what run this is: {type(error).__name__}: {error}") from error


def run_folder(run: str | Path, runs_dir: Path) -> Path:
    """The folder of a run, given by itself or by the run's name.

    Raises
    ------
    BadOption
        If there is no run.
    """
    places = dict.fromkeys((Path(run), runs_dir / run))  # an absolute path is one place
    for folder in places:
        if (folder / FILE).is_file():
            return folder
    told = " or in ".join(map(str, places))
    raise BadOption(f"RUN={str(run)!r}: there is no {FILE} in {told}", parameter="run")


def ledger_of(manifest: Manifest, folder: Path) -> str | Path:
    """Where a run's ledger and record are; opening a file that is not there would make an empty one.

    Raises
    ------
    BadFile
        If it is a file, and is missing.
    """
    where = manifest.ledger or database(folder.parent, folder.name)
    if "://" not in str(where) and not Path(where).is_file():
        raise BadFile(f"{where} is missing, the ledger of run {manifest.run_id}", path=str(where))
    return where


def ledger_place(ledger: str | Path | None) -> str | None:
    """Where a ledger of the caller's is, in a form that may be written down."""
    if isinstance(ledger, str) and "://" in ledger:
        return make_url(ledger).difference_update_query(["password"]).render_as_string(hide_password=True)
    return None if ledger is None else str(Path(ledger).absolute())


def versions() -> dict[str, str]:
    """Of Python and of the libraries that matter."""
    names = ("quantgraph", "langgraph", "langchain-core", "pandas", "numpy", "TA-Lib")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
