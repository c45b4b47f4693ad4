"""``quantgraph runs``, ``show`` and ``compare``: what is in the folder of the runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from quantgraph.cli.console import (
    AsJson,
    Debug,
    SafeConsole,
    echo,
    echo_json,
    literal,
    print_status,
    usage_errors,
)
from quantgraph.cli.run_command import RecordedRun, RunsFolder, complete_run
from quantgraph.errors import BadOption

__all__ = ["compare", "runs", "show"]


def runs(  # noqa: PLR0917 - typer reads options from the parameters
    out: RunsFolder = None,
    ended: Annotated[
        str | None, typer.Option(metavar="WHY", help="Only those: done, failed, needs_answer, running, …")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="YYYYMMDD", help="Begun on that day or later.")] = None,
    decider: Annotated[str | None, typer.Option(metavar="NAME", help="Only this decider's.")] = None,
    contains: Annotated[str | None, typer.Option(metavar="TEXT", help="In the sentence.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List runs, newest first: when, sentence, decider, how it ended, return, drawdown, folder."""
    import pandas as pd

    from quantgraph.market.moment import session_of
    from quantgraph.runs import list_runs
    from quantgraph.settings import load_settings

    with usage_errors(debug=debug):
        place = out or load_settings().runs_dir
        table = list_runs(out)
        keep = pd.Series(data=True, index=table.index)
        if ended is not None:
            keep &= table["ended"] == ended
        if since is not None:
            keep &= table["started"] >= session_of(since).tz_localize("UTC")
        if decider is not None:
            keep &= table["decider"] == decider
        if contains is not None:
            keep &= table["sentence"].fillna("").str.contains(contains, regex=False)
        table = table[keep].head(limit)
    rows = [_row(row) for row in table.to_dict("records")]
    if as_json:
        echo_json({"runs": rows})
        return
    if not rows:
        print_status(f"no such run in {place}")
        return
    _print_runs(rows)


def _row(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row as JSON: what is not known is None."""
    known = {name: None if value != value else value for name, value in row.items()}  # noqa: PLR0124 - NaN
    started = known["started"]
    return known | {"started": None if started is None else started.isoformat(timespec="seconds")}


def _print_runs(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("started", "sentence", "decider", "ended", "return", "drawdown"):
        table.add_column(
            name, no_wrap=name != "sentence", justify="right" if name[:2] in {"re", "dr"} else "left"
        )
    table.add_column("run", no_wrap=True)
    for row in rows:
        numbers = ("" if row[name] is None else f"{row[name]:.2%}" for name in ("return", "max_drawdown"))
        when = (row["started"] or "")[:16].replace("T", " ")
        texts = (
            when,
            row["sentence"] or row["error"],
            row["decider"] or "",
            row["ended"],
            *numbers,
            row["run"],
        )
        table.add_row(*map(literal, texts))
    console = SafeConsole()
    console.print(table)


def show(
    run: RecordedRun = None, out: RunsFolder = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Show a run as it was shown at its end; of one that did not come to its end, why and what to do."""
    from quantgraph.cli.display import show_result
    from quantgraph.cli.ledger_selection import latest_ledger
    from quantgraph.runs import open_run
    from quantgraph.runs.folder import find_run_folder
    from quantgraph.settings import load_settings

    with usage_errors(debug=debug):
        runs_dir = out or load_settings().runs_dir
        folder = find_run_folder(run or latest_ledger(runs_dir).parent, runs_dir)
        result = open_run(folder.absolute())
    if as_json:
        echo_json(dict(result))
        return
    if result["state"] == "ended":
        show_result(result)
    else:
        echo(str(result))
    if result["ended_because"] != "done":
        why = result["ended_because"] or result["state"]
        print_status(f"{result.get('error', why)}  [{why}]; quantgraph resume {folder}")


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN RUN …", help="Folders, or names in --out.", autocompletion=complete_run),
    ],
    out: RunsFolder = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Compare runs: their numbers, and what differs in what was said and in parameters."""
    from quantgraph.runs import compare as compare_runs
    from quantgraph.runs.folder import find_run_folder
    from quantgraph.settings import load_settings

    with usage_errors(debug=debug):
        if len(runs) < 2:
            raise BadOption("compare takes two runs or more", parameter="runs")
        runs_dir = out or load_settings().runs_dir
        found = compare_runs(*(find_run_folder(run, runs_dir).absolute() for run in runs))
    if as_json:
        numbers = found.numbers.astype(object).where(found.numbers.notna(), None)
        echo_json({"numbers": numbers.to_dict("index"), "differences": found.differences.to_dict("index")})
    else:
        echo(str(found))
