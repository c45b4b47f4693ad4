"""``quantgraph ledger``: ledgers of other programs, held against prices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from quantgraph.cli.console import SafeConsole, echo, echo_json
from quantgraph.errors import BadFile, QuantGraphError

if TYPE_CHECKING:
    from quantgraph.interop.ai_trader import Verification

__all__ = ["MISMATCHES", "WRONG_USAGE", "app", "counted"]

MISMATCHES, WRONG_USAGE = 1, 2
_SHOWN = 50

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look into ledgers and check them.")


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="AI-Trader's position.jsonl.")],
    prices: Annotated[Path, typer.Option(help="Daily bars, unadjusted: CSV, Parquet, JSON or a folder.")],
    market: Annotated[Literal["cn", "us"], typer.Option(help="cn: lots of 100 and T+1. us: whole shares.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else to stdout.")
    ] = False,
) -> None:
    """Replay a position.jsonl against prices.

    Exit status 0: every record follows from the one before. 1: some do not. 2: nothing could be checked.
    """
    from quantgraph.data.files import FileSource
    from quantgraph.interop.ai_trader import verify_positions
    from quantgraph.settings import load_settings

    try:
        found = verify_positions(file, FileSource(prices, max_file_mb=load_settings().max_file_mb), market)
        if found.records == 1 and not found.mismatches:
            raise BadFile(f"{file}: nothing could be checked, there is no record after the first")
    except QuantGraphError as error:
        echo(error.line, err=True)
        raise typer.Exit(WRONG_USAGE) from None
    if as_json:
        echo_json(found.as_dict())
    else:
        _show(file, found)
    if found.mismatches:
        raise typer.Exit(MISMATCHES)


def counted(number: int, thing: str) -> str:
    """Say how many there are: ``1 record``, ``2 records``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def _show(file: Path, found: Verification) -> None:
    from rich.table import Table

    console = SafeConsole()
    value, gain, fall = (
        "unknown" if number is None else shown.format(number)
        for number, shown in (
            (found.final_value, "{:,.2f}"),
            (found.total_return, "{:+.2%}"),
            (found.max_drawdown, "{:.2%}"),
        )
    )
    console.print(
        f"{file.name}: {counted(found.records, 'record')}, {found.first_date} to {found.last_date}, "
        f"{counted(found.sessions, 'session')}, mismatches: {len(found.mismatches)}",
        soft_wrap=True,
    )
    carried = f", {counted(found.carried, 'close')} carried" if found.carried else ""
    console.print(f"final value {value}, return {gain}, max drawdown {fall}{carried}")
    if not found.mismatches:
        return
    table = Table("line", "id", "date", "what does not follow")
    for each in found.mismatches[:_SHOWN]:
        table.add_row(str(each.line), "" if each.id is None else str(each.id), each.date, each.message)
    console.print(table)
    if len(found.mismatches) > _SHOWN:
        console.print(f"and {len(found.mismatches) - _SHOWN} more; --json has all")
