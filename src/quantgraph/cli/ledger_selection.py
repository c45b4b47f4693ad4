"""Selecting the run and the ledger of a ``quantgraph ledger`` command, and reporting its errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from quantgraph.cli.console import FAILED, WRONG_USAGE, echo
from quantgraph.errors import BadFile, BadOption, LedgerConflict, QuantGraphError

if TYPE_CHECKING:
    from quantgraph.broker.ledger import Ledger


_FILE = "ledger.sqlite"
_MAX_NAMES = 20


@contextmanager
def open_ledger(
    run: str | None, where: str | None, *, may_be_empty: bool = False
) -> Iterator[tuple[Ledger, str, str | Path]]:
    """Open a ledger: it, the run's name and the ledger's place. An error ends the command in one line.

    Parameters
    ----------
    may_be_empty
        Whether to accept a run with a folder whose ledger has no line yet.
    """
    from quantgraph.broker.ledger import Ledger

    try:
        place, name = _place(run, where)
        with Ledger(place) as book:
            name = name or (_name_in(run_folder_of(run, place)) if may_be_empty and not book.runs() else None)
            yield book, name or _only_run(book), place
    except LedgerConflict as error:
        echo(f"{error.line}; run 'quantgraph ledger check'", err=True)
        raise typer.Exit(FAILED) from None
    except (QuantGraphError, OSError) as error:
        line = error.line if isinstance(error, QuantGraphError) else f"bad_file: {error}"
        echo(line, err=True)
        raise typer.Exit(WRONG_USAGE) from None


def missing_end(book: Ledger, run_id: str, place: str | Path) -> str | None:
    """Compare a ledger with the ``result.json`` beside it; the contradiction, or None.

    Raises
    ------
    BadFile
        If the file is not a result.
    """
    path = Path(place).with_name("result.json")
    if not path.is_file():
        return None
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        if (result["run_id"], result["ended_because"]) != (run_id, "done") or result["account"] is None:
            return None
        last, value = str(result["equity"]["sessions"][-1]), float(result["account"]["final_value"])
    except (OSError, KeyError, IndexError, TypeError, ValueError) as error:
        raise BadFile(f"{path} is not a result of a run: {type(error).__name__}: {error}") from error
    ends = ("", 0.0)
    if book.has_run(run_id) and len(days := book.days(run_id)):
        ends = (f"{days.index[-1]:%Y%m%d}", float(days["value"].iloc[-1]))
    if ends == (last, value):
        return None
    stands = f"on {ends[0]} with {ends[1]:,.2f}" if ends[0] else "before its first session"
    why = "one of them was changed" if ends[0] >= last else "lines at the end are missing"
    return f"run {run_id!r}: {path} ends on {last} with {value:,.2f}, the ledger {stands}: {why}"


def run_folder_of(run: str | None, place: str | Path) -> Path | None:
    """The folder of a run: ``run`` itself, or that of its ledger; None if it has none."""
    from quantgraph.runs.folder import MANIFEST_FILE
    from quantgraph.settings import load_settings

    named = () if run is None else (Path(run), load_settings().runs_dir / run)
    beside = () if "://" in str(place) else (Path(place).parent,)
    return next(
        (folder for folder in (*named, *beside) if (folder / MANIFEST_FILE).is_file()), *beside or (None,)
    )


def _name_in(folder: Path | None) -> str | None:
    """Name of the run in a folder; None if there is none."""
    from quantgraph.runs.folder import MANIFEST_FILE, read_manifest

    return read_manifest(folder).run_id if folder and (folder / MANIFEST_FILE).is_file() else None


def _place(run: str | None, where: str | None) -> tuple[str | Path, str | None]:
    """Place of the ledger, and the run's name if it was given."""
    from quantgraph.settings import load_settings

    if where is not None:
        if "://" not in where and not Path(where).is_file():
            raise BadOption(f"--ledger {where} is not a file", parameter="ledger")
        return where, None if run is None else Path(run).name
    runs_dir = load_settings().runs_dir
    if run is None:
        return latest_ledger(runs_dir), None
    for place in (Path(run), Path(run) / _FILE, runs_dir / run / _FILE):
        if place.is_file():
            return place, None
    inside = [path.parent.name for path in Path(run).glob(f"*/{_FILE}")]
    if inside:
        raise BadOption(f"RUN={run!r} is a folder of runs; take one of {_joined(inside)}", parameter="run")
    places = " or in ".join(map(str, dict.fromkeys((Path(run), runs_dir / run))))
    raise BadOption(f"RUN={run!r} has no ledger: there is no {_FILE} in {places}", parameter="run")


def latest_ledger(runs_dir: Path) -> Path:
    """The ledger that was written last, for a command without RUN.

    Raises
    ------
    BadOption
        If there is none.
    """
    ledgers = sorted(runs_dir.glob(f"*/{_FILE}"), key=lambda path: path.stat().st_mtime)
    if not ledgers:
        raise BadOption(f"RUN is missing, and {runs_dir} has no run to take", parameter="run")
    return ledgers[-1]


def _only_run(book: Ledger) -> str:
    runs = book.runs()
    if not runs:
        raise BadOption("the ledger holds no run", parameter="run")
    if len(runs) > 1:
        raise BadOption(
            f"the ledger holds several runs: {_joined(runs)}; give one as RUN, and the ledger by --ledger",
            parameter="run",
        )
    return runs[0]


def _joined(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(sorted(names)[:_MAX_NAMES]) + more
