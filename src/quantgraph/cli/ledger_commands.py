"""``quantgraph ledger show|export|check``: our own ledgers."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quantgraph.cli.console import SafeConsole, echo, echo_json
from quantgraph.cli.ledger_selection import missing_end, open_ledger, run_folder_of
from quantgraph.cli.ledger_verify import MISMATCHES, app, counted
from quantgraph.errors import BadFile, BadOption, LedgerConflict

if TYPE_CHECKING:
    from quantgraph.broker.ledger import Ledger

__all__ = ["app", "check", "export", "show"]

Run = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]", help="A run's folder, its ledger file, or its name. Default: the latest run."
    ),
]
Where = Annotated[
    str | None,
    typer.Option("--ledger", help="A ledger file or database URL that has the run. Default: the run's own."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else to stdout.")]


_COLUMNS = {
    "quantity": ("shares", 0, 9),
    "average_cost": ("cost", 2, 4),
    "mark": ("mark", 2, 4),
    "value": ("value", 2, 2),
    "unrealised": ("profit", 2, 2),
    "entered": ("entered", 0, 0),
    "sessions": ("held", 0, 0),
}
"""Heading, least and most decimals."""


class Format(StrEnum):
    """What an export holds: the whole journal, the fills, the rejections, or AI-Trader's records."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    REJECTIONS = "rejections"
    POSITIONS = "positions"


@app.command()
def show(run: Run = None, ledger: Where = None, as_json: AsJson = False) -> None:
    """Show where a run stands: cash, holdings, cost, profit."""
    with open_ledger(run, ledger) as (book, run_id, _):
        book.check(run_id)
        told = _standing(book, run_id)
    if as_json:
        echo_json(told)
    else:
        _print(told)


@app.command()
def check(run: Run = None, ledger: Where = None, as_json: AsJson = False) -> None:
    """Follow the chain of a run, replay every session, and read every file that the run keeps.

    Exit status 1: something does not follow, or a file is not as the run left it.
    """
    from quantgraph.runs.integrity import check_run_folder
    from quantgraph.runs.manifest import ledger_location

    with open_ledger(run, ledger, begun=True) as (book, run_id, place):
        kept = check_run_folder(run_folder_of(run, place), place)
        lines, problems = None, [fault.line for fault in kept.faults]
        try:
            lines = book.check(run_id) if book.runs() else 0
            problem = missing_end(book, run_id, place)
        except LedgerConflict as error:
            problem = f"{ledger_location(place)}: {error.message}"
        except BadFile:
            if not problems:
                raise
            problem = None  # the result cannot be read: that was said already
        if problem is not None:
            problems.insert(0, f"ledger_conflict: {problem}")
    if as_json:
        problem = problem or next(iter(problems), None)
        told = {"run_id": run_id, "sound": not problems, "problem": problem, "lines": lines}
        echo_json(told | {"files": kept.files, "problems": problems})
    elif not problems:
        files = f"; {counted(kept.files, 'file')} as the run left them"
        follow = f"{lines:,} lines, each follows from the one before" if lines else "no line yet"
        echo(f"{run_id}: {follow}{files}")
    for line in problems:
        echo(line, err=True)
    if problems:
        raise typer.Exit(MISMATCHES)


@app.command()
def export(
    to: Annotated[Path, typer.Option("--to", help="The file to write.")],
    run: Run = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="jsonl: the journal. csv, parquet: fills. rejections: refused orders and why, as .csv or "
            ".parquet. positions: AI-Trader's.",
        ),
    ] = Format.JSONL,
    ledger: Where = None,
) -> None:
    """Write the journal, the fills, the rejections, or AI-Trader's records of a run to a file."""
    from quantgraph.broker.ledger import write_fills, write_rejections
    from quantgraph.interop.ai_trader import write_positions

    with open_ledger(run, ledger) as (book, run_id, _):
        if to.is_dir() or not to.parent.is_dir():
            what = f"{to} is a folder" if to.is_dir() else f"there is no folder {to.parent}"
            raise BadOption(f"--to {to}: {what}; a file in a folder that exists is wanted", parameter="to")
        book.check(run_id)
        if form is Format.JSONL:
            to.write_text("".join(_line(row) for row in book.journal(run_id)), encoding="utf-8")
        elif form is Format.POSITIONS:
            write_positions(to, _records(book, run_id))
        elif form is Format.REJECTIONS:
            write_rejections(to, book.rejections(run_id))
        else:
            write_fills(to, book.fills(run_id))
    echo(str(to))


def _standing(book: Ledger, run_id: str) -> dict[str, Any]:
    from quantgraph.report.order_statistics import rejection_counts

    days, held = book.days(run_id), book.positions(run_id)
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
        "rejections_by_reason": rejection_counts(book.orders(run_id)),
        "realised": round(float(days["realised"].sum()), 2) if len(days) else 0.0,
        "dividends": round(float(days["dividends"].sum()), 2) if len(days) else 0.0,
        "positions": held.reset_index().to_dict("records"),
    }


def _print(told: dict[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from quantgraph.report.order_statistics import format_counts

    console = SafeConsole()
    if not told["sessions"]:
        console.print(f"{told['run_id']}: no session yet, cash {told['cash']:,.2f}", soft_wrap=True)
        return
    why = f" ({format_counts(told['rejections_by_reason'])})" if told["rejections"] else ""
    console.print(
        f"{told['run_id']}: {counted(told['sessions'], 'session')}, {told['first']} to {told['last']}, "
        f"{counted(told['fills'], 'fill')}, {counted(told['rejections'], 'rejection')}{why}",
        soft_wrap=True,
    )
    console.print(
        f"value {told['value']:,.2f}, cash {told['cash']:,.2f}, dividends on their way {told['owed']:,.2f}, "
        f"realised {told['realised']:,.2f}, dividends earned {told['dividends']:,.2f}",
        soft_wrap=True,
    )
    if not told["positions"]:
        return
    table = Table(box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("ts_code", no_wrap=True)
    for heading, _, _ in _COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for row in told["positions"]:
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


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"


def _records(book: Ledger, run_id: str) -> list[Any]:
    from quantgraph.interop.ai_trader import PositionFill, records_of

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
