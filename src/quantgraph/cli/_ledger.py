"""``quantgraph ledger show|check|export|verify``: ledgers of runs, and AI-Trader's position files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantgraph._util.files import stored_file
from quantgraph._util.packages import wing
from quantgraph._util.texts import SOURCES
from quantgraph.cli._console import (
    FAILED,
    WRONG_USAGE,
    AsJson,
    SafeConsole,
    echo,
    echo_json,
    plural,
    print_status,
    usage_errors,
)
from quantgraph.errors import BadFile, BadOption, LedgerConflict, QuantGraphError

if TYPE_CHECKING:
    from quantgraph.broker.ledger import Ledger


_FILE = "ledger.sqlite"
_DAMAGES = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""What reading a file raises whose content was changed."""
_MAX_NAMES = 20


@contextmanager
def reporting_damage(*folders: str | Path) -> Iterator[None]:
    """Report run folders with unusable files as damaged."""
    try:
        yield
    except QuantGraphError:
        raise
    except _DAMAGES as error:
        places = " or ".join(map(str, folders))
        raise BadFile(
            f"{places} is damaged, or lacks a part: {type(error).__name__}: {error}; "
            "'quantgraph verify RUN' names each file that is not as the run left it"
        ) from error


@contextmanager
def open_ledger(
    run: str | None, where: str | None, out: Path | None = None, *, may_be_empty: bool = False
) -> Iterator[tuple[Ledger, str, str | Path]]:
    """Open a ledger: it, the run's name and the ledger's place. An error ends the command in one line."""
    try:
        place, name = _place(run, where, out)
        from quantgraph.broker.ledger import Ledger

        with reporting_damage(place), Ledger(place, read_only=True) as book:
            name = name or (_name_in(run_folder_of(run, place)) if may_be_empty and not book.runs() else None)
            yield book, name or _only_run(book), place
    except LedgerConflict as error:
        echo(f"{error.line}; run 'quantgraph ledger check'", err=True)
        raise typer.Exit(FAILED) from None
    except (QuantGraphError, OSError) as error:
        echo(error.line if isinstance(error, QuantGraphError) else f"bad_file: {error}", err=True)
        raise typer.Exit(WRONG_USAGE) from None


def missing_end(book: Ledger, run_id: str, place: str | Path) -> str | None:
    """Compare a ledger with the ``result.json`` beside it; the contradiction, or None."""
    from quantgraph.runs import read_result

    path = Path(place).with_name("result.json")
    result = read_result(path.parent)
    if result is None:
        return None
    try:
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
    """The folder of a run: ``run`` itself, or its ledger's; None if it has none."""
    from quantgraph._util.files import MANIFEST_FILE
    from quantgraph.settings import load_settings

    named = () if run is None else (Path(run), load_settings().runs_dir / run)
    beside = () if "://" in str(place) else (Path(place).parent,)
    return next(
        (folder for folder in (*named, *beside) if (folder / MANIFEST_FILE).is_file()), *beside or (None,)
    )


def _name_in(folder: Path | None) -> str | None:
    """Name of the run in a folder; None if there is none."""
    from quantgraph._util.files import MANIFEST_FILE
    from quantgraph.runs.folder import read_manifest

    return read_manifest(folder).run_id if folder and (folder / MANIFEST_FILE).is_file() else None


def _place(run: str | None, where: str | None, out: Path | None) -> tuple[str | Path, str | None]:
    """Place of the ledger, and the run's name, if any."""
    from quantgraph.settings import load_settings

    if where is not None:
        if "://" not in where and not Path(where).is_file():
            raise BadOption(f"--ledger {where} is not a file", parameter="ledger")
        return where, None if run is None else Path(run).name
    runs_dir = out or load_settings().runs_dir
    if run is None:
        return latest_run(_FILE, runs_dir, _holds_a_run) / _FILE, None
    if Path(run).is_file():
        return Path(run), None
    for folder in (Path(run), runs_dir / run):
        if place := stored_file(folder, _FILE):
            return place, None
    inside = [path.parent.name for path in Path(run).glob(f"*/{_FILE}")]
    if inside:
        raise BadOption(f"RUN={run!r} is a folder of runs; take one of {join_names(inside)}", parameter="run")
    places = " or in ".join(map(str, dict.fromkeys((Path(run), runs_dir / run))))
    raise BadOption(f"RUN={run!r} has no ledger: there is no {_FILE} in {places}", parameter="run")


def latest_run(
    has: str, runs_dir: Path | None = None, fits: Callable[[Path], bool] = lambda _file: True
) -> Path:
    """The run with the latest fitting file of this name, for a command without RUN; says which."""
    from quantgraph.settings import load_settings

    place = runs_dir or load_settings().runs_dir
    files = sorted(place.glob(f"*/{has}"), key=lambda path: path.stat().st_mtime, reverse=True)
    found = next(filter(fits, files), None) or next(iter(files), None)
    if found is None:
        raise BadOption(f"RUN is missing, and {place} has no run with a {has} to take", parameter="run")
    print_status(f"run {found.parent.name}, the latest in {place}")
    return found.parent


def _result_beside(file: Path) -> dict[str, Any]:
    """The result in the folder of a file; empty if it cannot be read."""
    from quantgraph.runs import read_result

    try:
        return read_result(file.parent) or {}
    except (QuantGraphError, OSError):
        return {}


def _holds_a_run(file: Path) -> bool:
    """Whether a ledger has traded sessions; a run that waits for an answer has an empty one."""
    result = _result_beside(file)
    return not result or bool(result.get("account"))


def can_go_on(file: Path) -> bool:
    """Whether a run has not ended as done."""
    return _result_beside(file).get("ended_because") != "done"


def recorded_folder(
    run: str | None, out: Path | None, fits: Callable[[Path], bool] = lambda _file: True
) -> Path:
    """The folder of a run that is named in the folder of runs; of the latest that fits without a name."""
    from quantgraph._util.files import MANIFEST_FILE, find_run_folder
    from quantgraph.settings import load_settings

    runs_dir = out or load_settings().runs_dir
    return latest_run(MANIFEST_FILE, runs_dir, fits) if run is None else find_run_folder(run, runs_dir)


def _only_run(book: Ledger) -> str:
    runs = book.runs()
    if not runs:
        raise BadOption("the ledger holds no run", parameter="run")
    if len(runs) > 1:
        raise BadOption(
            f"the ledger holds several runs: {join_names(runs)}; give one as RUN, and the ledger by --ledger",
            parameter="run",
        )
    return runs[0]


def join_names(names: Iterable[str]) -> str:
    """The first twenty of some names, each once and sorted, and how many more there are."""
    known = sorted(set(names))
    more = f" and {len(known) - _MAX_NAMES} more" if len(known) > _MAX_NAMES else ""
    return (", ".join(known[:_MAX_NAMES]) or "none") + more


app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look into ledgers and check them.")

RunsFolder = Annotated[
    Path | None, typer.Option("--out", help="Folder of the runs. Default: the settings' runs_dir.")
]
RunName = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]", help="A run's folder, its ledger file, or its name. Default: the latest run."
    ),
]
LedgerPlace = Annotated[
    str | None,
    typer.Option("--ledger", help="A ledger file or database URL that has the run. Default: the run's own."),
]
_NOTES_WIDTH = 500
_COLUMNS = {
    "quantity": ("shares", 0, 9),
    "average_cost": ("cost", 2, 4),
    "mark": ("mark", 2, 4),
    "value": ("value", 2, 2),
    "unrealised": ("profit", 2, 2),
    "entered": ("entered", 0, 0),
    "sessions": ("held", 0, 0),
}
"""Heading, minimal and maximal decimals of each column of positions."""


class ExportFormat(StrEnum):
    """What an export holds: the whole journal, the fills, the rejections, the notes, AI-Trader's records."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    REJECTIONS = "rejections"
    NOTES = "notes"
    POSITIONS = "positions"


_ENDINGS = {
    ExportFormat.JSONL: ".jsonl",
    ExportFormat.CSV: ".csv",
    ExportFormat.PARQUET: ".parquet",
    ExportFormat.REJECTIONS: "-rejections.csv",
    ExportFormat.NOTES: "-notes.jsonl",
    ExportFormat.POSITIONS: "-position.jsonl",
}
"""What follows the run's name in the default file of an export."""


@app.command()
def show(
    run: RunName = None, ledger: LedgerPlace = None, out: RunsFolder = None, as_json: AsJson = False
) -> None:
    """Show where a run stands: cash, holdings, cost, profit."""
    with open_ledger(run, ledger, out=out) as (book, run_id, _):
        book.check(run_id)
        summary = _summary(book, run_id)
    if as_json:
        echo_json(summary)
    else:
        _print_summary(summary)


@app.command()
def check(
    run: RunName = None, ledger: LedgerPlace = None, out: RunsFolder = None, as_json: AsJson = False
) -> None:
    """Check a run: the hash chain of its ledger, a replay of every session, and every file of the run.

    Exit status 1: a line does not follow from the one before, or a file is not as the run left it.
    """
    checked = check_parts(run, ledger, out)
    if as_json:
        echo_json(checked.as_json())
    elif not checked.problems:
        echo(f"{checked.run_id}: {checked.chain}; {checked.checksums}")
    for line in checked.problems:
        echo(line, err=True)
    if checked.problems:
        raise typer.Exit(FAILED)


@dataclass(kw_only=True)
class CheckedRun:
    """What was found of a run's files and of the lines of its ledger."""

    run_id: str
    files: int
    lines: int | None = None
    problem: str | None = None
    """Of the ledger."""
    problems: list[str] = field(default_factory=list)

    @property
    def chain(self) -> str:
        """The lines of a sound ledger in words."""
        return f"{self.lines:,} lines, each follows from the one before" if self.lines else "no line yet"

    @property
    def checksums(self) -> str:
        """The files of a sound run in words."""
        return f"{plural(self.files, 'file')} as the run left them"

    def as_json(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        problem = self.problem or next(iter(self.problems), None)
        ledger_part = {"run_id": self.run_id, "sound": not self.problems, "problem": problem}
        return ledger_part | {"lines": self.lines, "files": self.files, "problems": self.problems}


def check_parts(run: str | None, ledger: str | None, out: Path | None) -> CheckedRun:
    """Check the files of a run, and the chain of its ledger."""
    with open_ledger(run, ledger, out=out, may_be_empty=True) as (book, run_id, place):
        from quantgraph.runs.folder import ledger_location
        from quantgraph.runs.verification import check_run_folder

        report = check_run_folder(run_folder_of(run, place), place)
        checked = CheckedRun(run_id=run_id, files=report.files)
        checked.problems = [fault.line for fault in report.faults]
        try:
            checked.lines = book.check(run_id) if book.runs() else 0
            checked.problem = missing_end(book, run_id, place)
        except LedgerConflict as error:
            checked.problem = f"{ledger_location(place)}: {error.message}"
        except BadFile:
            if not checked.problems:
                raise  # else the faults include the unreadable result
        if checked.problem is not None:
            checked.problems.insert(0, f"ledger_conflict: {checked.problem}")
    return checked


@app.command()
def export(
    run: RunName = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE",
            help="The file to write, in the place of one that is there. Default: one named after the run in "
            "the current folder, which must not exist.",
        ),
    ] = None,
    form: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            help="jsonl: the journal. csv, parquet: fills. rejections: refused orders and why, as .csv or "
            ".parquet. notes: the decisions' notes, a JSON line a session. positions: AI-Trader's.",
        ),
    ] = ExportFormat.JSONL,
    ledger: LedgerPlace = None,
    out: RunsFolder = None,
) -> None:
    """Write the journal, the fills, the rejections, the notes, or AI-Trader's records of a run to a file."""
    from quantgraph.broker.ledger import write_fills, write_rejections

    with open_ledger(run, ledger, out=out) as (book, run_id, _):
        to = _export_file(to, run_id, form)
        replaced = to.exists()
        book.check(run_id)
        if form is ExportFormat.JSONL:
            to.write_text("".join(_json_line(row) for row in book.journal(run_id)), encoding="utf-8")
        elif form is ExportFormat.POSITIONS:
            wing("ai_trader").export_positions(to, book, run_id)
        elif form is ExportFormat.NOTES:
            rows = (
                {"session": f"{day:%Y-%m-%d}", "notes": notes} for day, notes in book.notes(run_id).items()
            )
            to.write_text("".join(map(_json_line, rows)), encoding="utf-8")
        elif form is ExportFormat.REJECTIONS:
            write_rejections(to, book.rejection_records(run_id))
        else:
            write_fills(to, book.fill_records(run_id))
    if replaced:
        print_status(f"{to} was there and is replaced")
    echo(str(to))


def _export_file(to: Path | None, run_id: str, form: ExportFormat) -> Path:
    """The file of ``--to``, checked, or the default, which replaces none."""
    if to is None:
        file = Path(f"{Path(run_id).name}{_ENDINGS[form]}")
        if file.exists():
            raise BadOption(
                f"{file} exists already; --to FILE names another, or the same to replace it", parameter="to"
            )
        return file
    if to.is_dir() or not to.parent.is_dir():
        what = f"{to} is a folder" if to.is_dir() else f"there is no folder {to.parent}"
        raise BadOption(f"--to {to}: {what}; must be a file in an existing folder", parameter="to")
    return to


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="AI-Trader's position.jsonl.")],
    source: Annotated[str, typer.Option("--source", "--prices", help=f"{SOURCES}; bars are unadjusted.")],
    market: Annotated[
        Literal["cn", "us"] | None,
        typer.Option(help="cn: lots of 100 and T+1. us: whole shares. Default: the market of the codes."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay a position.jsonl against prices.

    Exit status 0: every record follows from the one before. 1: some do not. 2: nothing could be checked.
    """
    with usage_errors():
        found = wing("ai_trader").verify_positions(file, source, market)
        if found.records == 1 and not found.mismatches:
            raise BadFile(f"{file}: nothing could be checked, there is no record after the first")
    if as_json:
        echo_json(found.as_dict())
    else:
        echo("\n".join([f"{file.name}: {found.lines[0]}", *found.lines[1:]]))
    if found.mismatches:
        raise typer.Exit(FAILED)


def _summary(book: Ledger, run_id: str) -> dict[str, Any]:
    from quantgraph.report.metrics import rejection_counts

    days, held, notes = book.days(run_id), book.positions(run_id), book.notes(run_id)
    account, meta = book.account(run_id), book.meta(run_id)
    return {
        "run_id": run_id,
        "initial_cash": float(book.cash(run_id)),
        "sessions": len(days),
        "first": f"{days.index[0]:%Y-%m-%d}" if len(days) else None,
        "last": f"{days.index[-1]:%Y-%m-%d}" if len(days) else None,
        "decider": meta.get("decider"),
        "rules": meta.get("rules"),
        "cash": float(account.cash),
        "owed": float(account.owed),
        "value": float(days["value"].iloc[-1]) if len(days) else float(account.cash),
        "fills": int(days["fills"].sum()) if len(days) else 0,
        "rejections": int(days["rejections"].sum()) if len(days) else 0,
        "rejections_by_reason": rejection_counts(book.statement(run_id).orders),
        "realised": round(float(days["realised"].sum()), 2) if len(days) else 0.0,
        "dividends": round(float(days["dividends"].sum()), 2) if len(days) else 0.0,
        "notes": {f"{day:%Y-%m-%d}": note for day, note in notes.items()},
        "positions": held.assign(entered=held["entered"].dt.strftime("%Y-%m-%d"))
        .reset_index()
        .to_dict("records"),
    }


def _print_summary(run: dict[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from quantgraph.report import format_counts

    console = SafeConsole()
    if not run["sessions"]:
        console.print(f"{run['run_id']}: no session yet, cash {run['cash']:,.2f}", soft_wrap=True)
        return
    why = f" ({format_counts(run['rejections_by_reason'])})" if run["rejections"] else ""
    console.print(
        f"{run['run_id']}: {plural(run['sessions'], 'session')}, {run['first']} to {run['last']}, "
        f"{plural(run['fills'], 'fill')}, {plural(run['rejections'], 'rejection')}{why}",
        soft_wrap=True,
    )
    console.print(
        f"value {run['value']:,.2f}, cash {run['cash']:,.2f}, dividends on their way {run['owed']:,.2f}, "
        f"realised {run['realised']:,.2f}, dividends earned {run['dividends']:,.2f}",
        soft_wrap=True,
    )
    for session, notes in list(run["notes"].items())[-1:]:
        console.print(
            f"notes of {session}: {json.dumps(notes, ensure_ascii=False)[:_NOTES_WIDTH]}", soft_wrap=True
        )
    if not run["positions"]:
        return
    table = Table(box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("ts_code", no_wrap=True)
    for heading, _, _ in _COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for row in run["positions"]:
        table.add_row(
            row["ts_code"], *(_cell(row[name], least, most) for name, (_, least, most) in _COLUMNS.items())
        )
    console.print(table)


def _cell(value: object, least: int, most: int) -> str:
    if not isinstance(value, float):
        return str(value)
    whole, _, decimals = f"{value:,.{most}f}".partition(".")
    decimals = decimals.rstrip("0").ljust(least, "0")
    return f"{whole}.{decimals}" if decimals else whole


def _json_line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"
