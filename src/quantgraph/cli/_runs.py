"""``quantgraph runs``, ``show`` and ``compare``: what the folder of runs holds."""

from __future__ import annotations

import datetime as dt
import os
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer
from rich.cells import cell_len

from quantgraph._util.texts import Language, Note, language_of, say, short_line
from quantgraph.cli._console import (
    FAILED,
    AsJson,
    Debug,
    SafeConsole,
    echo,
    echo_json,
    literal,
    locale_language,
    print_status,
    quick_imports,
    usage_errors,
)
from quantgraph.cli._ledger import LedgerPlace, RunsFolder, check_parts, recorded_folder, reporting_damage
from quantgraph.cli._run import DeciderPlace, RecordedRun, ShowCode, complete_run, decider_of, print_end
from quantgraph.errors import BadOption, QuantGraphError

if TYPE_CHECKING:
    import pandas as pd

    from quantgraph.broker import Decider
    from quantgraph.runs import RunResult


_SENTENCE = 300
"""Characters of a sentence in the list."""
_HEADINGS = (
    Note(zh="开始", en="started"),
    Note(zh="结束", en="ended"),
    Note(zh="收益", en="return"),
    Note(zh="最大回撤", en="drawdown"),
    Note(zh="由谁决定", en="decided by"),
    Note(zh="文件夹", en="folder"),
)
_NUMBERS = {2, 3}
_UNENDED = ("failed", "running", "unreadable")
"""What stands for an end of a run that has none."""


_PAGE = "Page"
Lang = Annotated[
    Literal["zh", "en"] | None, typer.Option(help="Language. Default: the sentence's.", rich_help_panel=_PAGE)
]
Inline = Annotated[
    bool,
    typer.Option("--inline", help="One file with all in it, to send to somebody.", rich_help_panel=_PAGE),
]
ToFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write to this file, with all in it.", rich_help_panel=_PAGE),
]
OpenIt = Annotated[bool, typer.Option("--open", help="Open the page in a browser.", rich_help_panel=_PAGE)]


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
    page: Annotated[
        bool, typer.Option("--page", help="Write the page of all runs, index.html.", rich_help_panel="Page")
    ] = False,
    open_it: OpenIt = False,
    lang: Lang = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List runs, newest first: when, how it ended, return, drawdown, who decided, folder, sentence."""
    with usage_errors(debug=debug):
        _check_ended(ended)
        with quick_imports():
            from quantgraph.runs import list_runs
            from quantgraph.settings import load_settings

        place = out or load_settings().runs_dir
        table = list_runs(out)
        if page or open_it:
            from quantgraph.runs import write_index

            _show_page(write_index(place, language=lang or locale_language()), lang, open_it=open_it)
            return
        kept = _select(table, ended=ended, since=since, decider=decider, contains=contains)
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


def _check_ended(ended: str | None) -> None:
    from quantgraph.runtime.graph_state import EndedBecause

    ends = (*get_args(EndedBecause), *_UNENDED)
    if ended is not None and ended not in ends:
        valid = ", ".join(ends)
        raise BadOption(f"--ended {ended} is not an end of a run; must be one of {valid}", parameter="ended")


def _select(
    table: pd.DataFrame, *, ended: str | None, since: str | None, decider: str | None, contains: str | None
) -> pd.DataFrame:
    """The rows that fit the options."""
    from quantgraph.market import session_of

    if ended is not None:
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
            _pad(cell, width, right=column in _NUMBERS)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        echo("  ".join(padded).rstrip())
        if number:
            row = rows[number - 1]
            echo(f"    {short_line(row['sentence'] or row['error'], _SENTENCE)}")
            if row["sentence"] and row["error"].startswith("bad_file: "):
                echo(f"    {short_line(row['error'], _SENTENCE)}")


def _facts(row: Mapping[str, Any]) -> list[str]:
    started = row["started"] and dt.datetime.fromisoformat(row["started"]).astimezone()
    numbers = ["" if row[name] is None else f"{row[name]:.2%}" for name in ("return", "max_drawdown")]
    when = f"{started:%Y-%m-%d %H:%M}" if started else ""
    return [when, short_line(row["ended"]), *numbers, short_line(row["decider"]), row["folder"]]


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def show(  # noqa: PLR0917 - typer reads options from the parameters
    run: RecordedRun = None,
    open_it: OpenIt = False,
    to: ToFile = None,
    inline: Inline = False,
    lang: Lang = None,
    code: ShowCode = False,
    timings: Annotated[
        bool, typer.Option("--timings", help="Seconds of each part of the run instead of its result.")
    ] = False,
    ledger: LedgerPlace = None,
    out: RunsFolder = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show a run's result again and where its page is; of one that is not done, why and what to do next.

    Nothing is written but the page that an option asks for.
    """
    with usage_errors(debug=debug):
        folder = recorded_folder(run, out)
        with quick_imports():
            from quantgraph.runs import PAGE_FILE, open_run

        with reporting_damage(folder):
            result = open_run(folder.absolute(), ledger=ledger)
            if as_json:
                echo_json(dict(result))
            elif timings:
                _print_timings(result)
            else:
                _show(result, code=code)
            if result["state"] == "ended" and not (as_json or timings):
                written = folder / PAGE_FILE
                again = lang or inline or to or (open_it and not written.is_file())
                options: dict[str, Any] = {"lang": lang, "inline": inline, "to": to, "ledger": ledger}
                _show_page(_write_page([folder], **options) if again else written, lang, open_it=open_it)
            if changed := result.changed_file:
                print_status(f"{changed} (quantgraph verify {folder})")


def verify(  # noqa: PLR0917 - typer reads options from the parameters
    run: RecordedRun = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A page of it. Default: the one in its folder.")
    ] = None,
    decider: DeciderPlace = None,
    ledger: LedgerPlace = None,
    out: RunsFolder = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check all of a run: its files' checksums, its ledger's chain, its page, and a replay.

    The folder may be a stranger's: nothing of it is run, nothing is written, and no address is opened. Exit
    status 1: something is not as the run left it; each such thing is named.
    """
    with usage_errors(debug=debug):
        folder = page.parent if run is None and page is not None else recorded_folder(run, out)
        made = decider_of(decider)
    checked = check_parts(str(folder), ledger, out)
    shown, problems = _page_part(folder, page, ledger)
    replayed, more = _replay_part(folder, made, ledger)
    problems = [*checked.problems, *problems, *more]
    if as_json:
        echo_json({**checked.as_json(), "sound": not problems, "problems": problems, "page": shown})
    else:
        chain = "" if checked.problem else checked.chain
        files = "" if checked.problems else checked.checksums
        parts = {"checksums": files, "chain": chain, "page": shown, "replay": replayed}
        for name, text in parts.items():
            echo(f"{checked.run_id}: {name}: {text or 'not as the run left it'}")
    for line in problems:
        echo(line, err=True)
    if problems:
        raise typer.Exit(FAILED)


def _page_part(folder: Path, page: Path | None, ledger: str | None) -> tuple[str, list[str]]:
    """What a page is in words, empty if it is not the folder's, and why."""
    from quantgraph.runs import PAGE_FILE, verify_page

    file = page.resolve() if page else folder / PAGE_FILE
    if page is None and not os.path.lexists(file):
        return "there is none", []
    try:
        with reporting_damage(folder):
            checked = verify_page(file, folder, ledger=ledger)
    except QuantGraphError as error:
        return "", [error.line]
    return ("what the folder gives", []) if checked.ok else ("", [f"bad_file: {file}: {checked.reason}"])


def _replay_part(folder: Path, decider: Decider | None, ledger: str | None) -> tuple[str, list[str]]:
    """What a replay gave in words, empty if it differs, and the differences."""
    from quantgraph.recording import no_network
    from quantgraph.runs import replay
    from quantgraph.runtime import Resources

    try:
        with no_network(everywhere=True), reporting_damage(folder):
            replayed = replay(folder, decider=decider, resources=Resources(ledger=ledger))
    except QuantGraphError as error:
        return "", [error.line]
    differences = [f"run_diverged: {difference.line}" for difference in replayed.differences]
    return ("" if differences else "identical"), differences


def _write_page(
    folders: Sequence[Path],
    *,
    lang: Language | None,
    inline: bool,
    to: Path | None,
    ledger: str | None = None,
) -> Path:
    from quantgraph.runs import write_page

    return write_page(folders, language=lang, inline=inline, to=to, ledger=ledger)


def _show_page(page: Path, lang: Language | None, *, open_it: bool) -> None:
    """Say where a page is, and open it."""
    if not page.is_file():
        print_status(f"{page.name} is not written; --lang zh, --lang en or --open writes it")
        return
    echo(f"{say(lang or locale_language(), zh='页面', en='page')}: {page}")
    if open_it and not webbrowser.open(page.resolve().as_uri()):
        print_status(f"no browser could be started: open {page}")


_PARTS = (
    ("读句子", "read", ("reflection", "clarify")),
    ("取数据", "fetch", ("data_fetch",)),
    ("代码", "code", ("signal_generate",)),
    ("证明", "proof", ("validate",)),
    ("交易与账本", "trade, ledger", ("daily_loop", "decision")),
    ("结果", "result", ("report",)),
)
"""Of a run's time: names, and the nodes of the graph."""


def _print_timings(result: RunResult) -> None:
    """Print the seconds of each part, and why compiled code has not traded all sessions."""
    language, seconds = language_of(result["question"]), result.get("seconds") or {}
    for zh, en, nodes in _PARTS:
        taken = [seconds[node] for node in nodes if node in seconds]
        if taken:
            echo(f"{_pad(say(language, zh=zh, en=en), 16, right=False)}{sum(taken):8.2f} s")
    if why := result.get("order_by_order"):
        echo(say(language, zh=f"逐单成交：{why}", en=f"traded order by order: {why}"))


def _show(result: RunResult, *, code: bool) -> None:
    from quantgraph.cli._display import show_result

    if result["state"] == "ended":
        show_result(result, with_code=code)
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


def compare(  # noqa: PLR0917 - typer reads options from the parameters
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN RUN …", help="Folders, or names in --out.", autocompletion=complete_run),
    ],
    open_it: OpenIt = False,
    to: ToFile = None,
    inline: Inline = False,
    lang: Lang = None,
    out: RunsFolder = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Compare runs: their numbers, and what differs in requests and parameters; write the page."""
    with usage_errors(debug=debug):
        folders = [recorded_folder(run, out).absolute() for run in runs]
        with quick_imports():
            import pandas as pd

            from quantgraph.runs import compare as compare_runs

        with reporting_damage(*folders):
            found = compare_runs(*folders)
            if as_json:
                numbers = found.numbers.astype(object).where(found.numbers.notna(), None)
                differences = found.differences.to_dict("index")
                echo_json(
                    {
                        "note": found.note,
                        "runs": dict(found.runs),
                        "numbers": numbers.to_dict("index"),
                        "differences": differences,
                    }
                )
                return
            page = _write_page(folders, lang=lang, inline=inline, to=to)
        with pd.option_context("display.unicode.east_asian_width", True):
            echo(str(found))
        _show_page(page, lang, open_it=open_it)
