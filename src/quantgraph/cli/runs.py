"""``quantgraph ledger show|export|check``: our own ledgers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quantgraph.cli.ledger import MISMATCHES, WRONG_USAGE, app
from quantgraph.errors import BadOption, LedgerConflict, QuantGraphError

if TYPE_CHECKING:
    from quantgraph.broker.ledger import Ledger

__all__ = ["app", "check", "export", "show"]

Run = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="A run's folder, or its name. Default: the latest run.")
]
Where = Annotated[
    str | None,
    typer.Option("--ledger", help="A ledger file or database URL that has the run. Default: the run's own."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else to stdout.")]


_COLUMNS = {
    "quantity": "shares",
    "average_cost": "cost",
    "mark": "mark",
    "value": "value",
    "unrealised": "profit",
    "entered": "entered",
    "sessions": "sessions",
}


class Format(StrEnum):
    """What an export holds: the whole journal, the fills, or AI-Trader's records."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    POSITIONS = "positions"


@app.command()
def show(run: Run = None, ledger: Where = None, as_json: AsJson = False) -> None:
    """Show where a run stands: cash, holdings, cost, profit."""
    with _opened(run, ledger) as (book, run_id):
        told = _standing(book, run_id)
    if as_json:
        typer.echo(json.dumps(told, ensure_ascii=False, allow_nan=False))
    else:
        _print(told)


@app.command()
def check(run: Run = None, ledger: Where = None, as_json: AsJson = False) -> None:
    """Follow the chain of a run and replay every session. Exit status 1: something does not follow."""
    with _opened(run, ledger) as (book, run_id):
        try:
            book.check(run_id)
            problem = None
        except LedgerConflict as error:
            problem = error.message
        told = {"run_id": run_id, "sound": problem is None, "problem": problem}
        told["lines"] = sum(1 for _ in book.journal(run_id))
    if as_json:
        typer.echo(json.dumps(told, ensure_ascii=False))
    elif problem is None:
        typer.echo(f"{run_id}: {told['lines']} lines, each follows from the one before")
    if problem is not None:
        typer.echo(f"ledger_conflict: {problem}", err=True)
        raise typer.Exit(MISMATCHES)


@app.command()
def export(
    to: Annotated[Path, typer.Option("--to", help="The file to write.")],
    run: Run = None,
    form: Annotated[
        Format,
        typer.Option("--format", help="jsonl: the journal. csv, parquet: fills. positions: AI-Trader's."),
    ] = Format.JSONL,
    ledger: Where = None,
) -> None:
    """Write the journal, the fills, or AI-Trader's records of a run to a file."""
    from quantgraph.broker.fills_file import write_fills
    from quantgraph.broker.position_file import write_positions

    with _opened(run, ledger) as (book, run_id):
        if form is Format.JSONL:
            to.write_text("".join(_line(row) for row in book.journal(run_id)), encoding="utf-8")
        elif form is Format.POSITIONS:
            write_positions(to, _records(book, run_id))
        else:
            write_fills(to, book.fills(run_id))
    typer.echo(str(to))


@contextmanager
def _opened(run: str | None, where: str | None) -> Iterator[tuple[Ledger, str]]:
    from quantgraph.broker.ledger import Ledger

    try:
        place, run_id = _place(run, where)
        with Ledger(place) as book:
            book.cash(run_id)
            yield book, run_id
    except (QuantGraphError, OSError) as error:
        line = error.line if isinstance(error, QuantGraphError) else f"bad_file: {error}"
        typer.echo(line, err=True)
        raise typer.Exit(WRONG_USAGE) from None


def _place(run: str | None, where: str | None) -> tuple[str | Path, str]:
    from quantgraph.settings import load_settings

    runs_dir = load_settings().runs_dir
    if run is None:
        made = sorted(runs_dir.glob("*/ledger.sqlite"), key=lambda path: path.stat().st_mtime)
        if not made or where is not None:
            raise BadOption(f"RUN is missing, and {runs_dir} has no run to take", parameter="run")
        return made[-1], made[-1].parent.name
    if where is not None:
        if "://" not in where and not Path(where).is_file():
            raise BadOption(f"--ledger {where} is no file", parameter="ledger")
        return where, Path(run).name
    folders = [Path(run), runs_dir / run]
    found = next((folder for folder in folders if (folder / "ledger.sqlite").is_file()), None)
    if found is None:
        raise BadOption(
            f"RUN={run!r} has no ledger: there is no ledger.sqlite in {folders[0]} or in {folders[1]}",
            parameter="run",
        )
    return found / "ledger.sqlite", found.resolve().name


def _standing(book: Ledger, run_id: str) -> dict[str, Any]:
    days, held = book.days(run_id), book.positions(run_id)
    account, meta = book.account(run_id), book.meta(run_id)
    return {
        "run_id": run_id,
        "initial_cash": str(book.cash(run_id)),
        "sessions": len(days),
        "first": f"{days.index[0]:%Y-%m-%d}" if len(days) else None,
        "last": f"{days.index[-1]:%Y-%m-%d}" if len(days) else None,
        "decider": meta.get("decider"),
        "rules": meta.get("rules"),
        "cash": str(account.cash),
        "owed": str(account.owed),
        "value": float(days["value"].iloc[-1]) if len(days) else float(account.cash),
        "fills": int(days["fills"].sum()) if len(days) else 0,
        "rejections": int(days["rejections"].sum()) if len(days) else 0,
        "realised": round(float(days["realised"].sum()), 2) if len(days) else 0.0,
        "dividends": round(float(days["dividends"].sum()), 2) if len(days) else 0.0,
        "positions": held.reset_index().to_dict("records"),
    }


def _print(told: dict[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(
        f"{told['run_id']}: {told['sessions']} sessions, {told['first']} to {told['last']}, "
        f"{told['fills']} fills, {told['rejections']} rejections",
        soft_wrap=True,
    )
    console.print(
        f"value {told['value']:,.2f}, cash {told['cash']}, dividends on their way {told['owed']}, "
        f"realised {told['realised']:,.2f}, dividends earned {told['dividends']:,.2f}",
        soft_wrap=True,
    )
    if not told["positions"]:
        return
    table = Table(box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("ts_code", no_wrap=True)
    for heading in _COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for row in told["positions"]:
        table.add_row(row["ts_code"], *(_cell(row[name]) for name in _COLUMNS))
    console.print(table)


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"


def _records(book: Ledger, run_id: str) -> list[Any]:
    from quantgraph.broker.position_file import PositionFill, records_of

    sessions = [f"{day:%Y-%m-%d}" for day in book.sessions(run_id)]
    if not sessions:
        raise BadOption(f"run {run_id!r} has no session yet: there is nothing to export", parameter="run")
    results = list(book.results(run_id))
    made = [fill for result in results for fill in result.fills]
    if any(result.events for result in results) or any(fill.quantity % 1 for fill in made):
        raise BadOption(
            f"run {run_id!r} has dividends, splits or fractions of shares, which AI-Trader's records cannot "
            "hold; use --format jsonl",
            parameter="format",
        )
    fills = [
        PositionFill(
            date=f"{fill.session:%Y-%m-%d}",
            side=fill.side,
            symbol=fill.order.symbol,
            amount=int(fill.quantity),
            price=float(fill.price),
            costs={"total_cost": float(fill.cost)} if fill.cost else None,
        )
        for fill in made
    ]
    symbols = sorted({fill.order.symbol for fill in made})
    return list(records_of(sessions[0], float(book.cash(run_id)), symbols, fills, sessions=sessions))
