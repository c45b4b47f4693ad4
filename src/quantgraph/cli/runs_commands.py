"""``quantgraph runs``, ``show`` and ``compare``: what is in the folder of the runs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.cells import cell_len

from quantgraph._util.notebook_html import short_line
from quantgraph._util.texts import Note, language_of, say
from quantgraph.cli.console import (
    AsJson,
    Debug,
    SafeConsole,
    echo,
    echo_json,
    literal,
    locale_language,
    print_status,
    usage_errors,
)
from quantgraph.cli.quick_start import quick_imports
from quantgraph.cli.run_command import RecordedRun, RunsFolder, complete_run, print_end, whole_folders
from quantgraph.errors import BadOption

if TYPE_CHECKING:
    import pandas as pd

    from quantgraph.runs import RunResult


_SENTENCE = 300
"""Characters of a sentence in the list."""
_HEADINGS = (
    Note(zh="开始", en="started"),
    Note(zh="结束", en="ended"),
    Note(zh="收益", en="return"),
    Note(zh="最大回撤", en="drawdown"),
    Note(zh="决策者", en="decider"),
    Note(zh="文件夹", en="folder"),
)
_NUMBERS = {2, 3}
_UNENDED = ("failed", "running", "unreadable")
"""What stands for an end of a run that has none."""


def runs(  # noqa: PLR0917 - typer reads options from the parameters
    out: RunsFolder = None,
    ended: Annotated[
        str | None,
        typer.Option(metavar="WHY", help="Only those that ended so: done, failed, needs_answer, …"),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="YYYYMMDD", help="Begun on that day or later, local time.")
    ] = None,
    decider: Annotated[str | None, typer.Option(metavar="NAME", help="Only this decider's.")] = None,
    contains: Annotated[str | None, typer.Option(metavar="TEXT", help="In the sentence.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List runs, newest first: when, how it ended, return, drawdown, decider, folder, and the sentence."""
    with usage_errors(debug=debug):
        with quick_imports():
            from quantgraph.runs import list_runs
            from quantgraph.settings import load_settings

        place = out or load_settings().runs_dir
        table = list_runs(out)
        kept = _selected(table, ended=ended, since=since, decider=decider, contains=contains)
    rows = [_row(row) for row in kept.head(limit).to_dict("records")]
    if as_json:
        echo_json({"runs": rows})
    elif rows:
        _print_runs(rows)
        if len(kept) > limit:
            print_status(f"{len(kept) - limit:,} more, with --limit")
    else:
        print_status(
            f"none of the {len(table):,} runs in {place} fits" if len(table) else f"no run in {place}"
        )


def _selected(
    table: pd.DataFrame, *, ended: str | None, since: str | None, decider: str | None, contains: str | None
) -> pd.DataFrame:
    """The rows that fit the options.

    Raises
    ------
    BadOption
        If no run can end so.
    BadWindow
        If ``since`` is not a date.
    """
    from quantgraph.market.moment import session_of
    from quantgraph.runtime.state import EndedBecause

    if ended is not None:
        ends = (*get_args(EndedBecause), *_UNENDED)
        if ended not in ends:
            valid = ", ".join(ends)
            raise BadOption(
                f"--ended {ended} is not an end of a run; must be one of {valid}", parameter="ended"
            )
        table = table[table["ended"] == ended]
    if since is not None:
        table = table[table["started"] >= session_of(since, name="since").to_pydatetime().astimezone()]
    if decider is not None:
        table = table[table["decider"] == decider]
    if contains is not None:
        table = table[table["sentence"].str.contains(contains, regex=False)]
    return table


def _row(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row as JSON: what is not known is None."""
    known = {name: None if value != value else value for name, value in row.items()}  # noqa: PLR0124 - NaN
    started = known["started"]
    return known | {"started": None if started is None else started.isoformat(timespec="seconds")}


def _print_runs(rows: Sequence[Mapping[str, Any]]) -> None:
    """Two lines a run, so that neither is cut: facts in columns, then the sentence, or why there is none."""
    language = locale_language()
    lines = [[heading.text(language) for heading in _HEADINGS], *map(_facts, rows)]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    for number, line in enumerate(lines):
        padded = [
            _padded(cell, width, right=column in _NUMBERS)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        echo("  ".join(padded).rstrip())
        if number:
            row = rows[number - 1]
            echo(f"    {short_line(row['sentence'] or row['error'], _SENTENCE)}")


def _facts(row: Mapping[str, Any]) -> list[str]:
    started = row["started"] and dt.datetime.fromisoformat(row["started"]).astimezone()
    numbers = ["" if row[name] is None else f"{row[name]:.2%}" for name in ("return", "max_drawdown")]
    when = f"{started:%Y-%m-%d %H:%M}" if started else ""
    return [when, short_line(row["ended"]), *numbers, short_line(row["decider"]), row["folder"]]


def _padded(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def show(
    run: RecordedRun = None, out: RunsFolder = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Show a run as it was shown at its end; of one that did not come to its end, why and what to do."""
    with usage_errors(debug=debug):
        with quick_imports():
            from quantgraph.cli.ledger_selection import latest_ledger
            from quantgraph.runs import open_run
            from quantgraph.runs.folder import find_run_folder
            from quantgraph.settings import load_settings

        runs_dir = out or load_settings().runs_dir
        folder = find_run_folder(run or latest_ledger(runs_dir).parent, runs_dir)
        result = open_run(folder.absolute())
        if as_json:
            echo_json(dict(result))
            return
        with whole_folders(folder):
            _show(result)


def _show(result: RunResult) -> None:
    from quantgraph.cli.display import show_result

    if result["state"] == "ended":
        show_result(result)
        if result["ended_because"] != "done":
            print_end(result)
        return
    console = SafeConsole()
    folder = result["run_dir"]
    console.print(literal(result["question"]), soft_wrap=True)
    if result["state"] == "failed":
        print_status(f"{result['error']}  [failed, {folder}]")
        print_status(f"quantgraph resume {folder}")
        return
    print_status(
        say(
            language_of(result["question"]),
            zh=f"尚未结束：它还在运行；若它已被杀掉，quantgraph resume {folder} 让它继续",
            en=f"not ended: it is going on; if it was killed, quantgraph resume {folder} goes on with it",
        )
    )


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
    with usage_errors(debug=debug):
        with quick_imports():
            import pandas as pd

            from quantgraph.runs import compare as compare_runs
            from quantgraph.runs.folder import find_run_folder
            from quantgraph.settings import load_settings

        runs_dir = out or load_settings().runs_dir
        folders = [find_run_folder(run, runs_dir).absolute() for run in runs]
        with whole_folders(*folders):
            found = compare_runs(*folders)
    if as_json:
        numbers = found.numbers.astype(object).where(found.numbers.notna(), None)
        echo_json({"numbers": numbers.to_dict("index"), "differences": found.differences.to_dict("index")})
        return
    with pd.option_context("display.unicode.east_asian_width", True):
        echo(str(found))
