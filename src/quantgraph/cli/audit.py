"""``quantgraph audit``: whether a strategy's file is causal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quantgraph.cli.console import echo, echo_json
from quantgraph.errors import QuantGraphError

__all__ = ["audit"]

NOT_CAUSAL, WRONG_USAGE = 1, 2


def audit(  # noqa: PLR0917 - typer reads options from the parameters
    strategy: Annotated[
        Path, typer.Argument(metavar="STRATEGY.py", help="A strategy as a run saves it, or a run's folder.")
    ],
    source: Annotated[
        str | None, typer.Option(help="sample, tushare, or a file or folder. Default: the settings'.")
    ] = None,
    symbols: Annotated[
        str | None, typer.Option(help="Codes, names or an index code, joined by commas. Default: all.")
    ] = None,
    start: Annotated[str | None, typer.Option(help="First date, YYYYMMDD. Default: the source's.")] = None,
    end: Annotated[str | None, typer.Option(help="Last date, YYYYMMDD. Default: the source's.")] = None,
    exhaustive: Annotated[bool, typer.Option(help="Prove every session, however long it takes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as one JSON object.")] = False,
) -> None:
    """Prove that each row of a strategy's signal uses only what was known by then, or show where not.

    Exit status: 0 causal, 1 not causal or undecided, 2 the strategy or the data cannot be used.
    """
    from quantgraph._util.texts import language_of
    from quantgraph.runs.strategy_file import audit_strategy, read_strategy

    try:
        verdict = audit_strategy(
            strategy,
            source=source,
            symbols=[symbols] if symbols else [],
            start=start,
            end=end,
            exhaustive=exhaustive or "auto",
        )
        language = language_of(read_strategy(strategy).about)
    except QuantGraphError as error:
        echo(error.line, err=True)
        raise typer.Exit(WRONG_USAGE) from None
    if as_json:
        echo_json(verdict.as_json())
    else:
        echo(verdict.text(language))
    if not verdict.causal:
        raise typer.Exit(NOT_CAUSAL)
