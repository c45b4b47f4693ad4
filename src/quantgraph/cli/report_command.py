"""``quantgraph report``: the page of a run, or of several beside each other, written again or verified."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated, Literal

import typer

from quantgraph.cli.console import FAILED, Debug, echo, print_status, usage_errors
from quantgraph.cli.run_command import RunsFolder, complete_run, whole_folders
from quantgraph.errors import BadOption


def report(  # noqa: PLR0917 - typer reads options from the parameters
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN …]",
            help="Folders of runs, or their names in --out; several are compared.",
            autocompletion=complete_run,
        ),
    ] = None,
    lang: Annotated[
        Literal["zh", "en"] | None, typer.Option(help="Language. Default: the sentence's.")
    ] = None,
    inline: Annotated[bool, typer.Option(help="One file with all in it, to send to somebody.")] = False,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write to this file, with all in it.")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    verify: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Check that a page is what its folder, or RUN, gives."),
    ] = None,
    out: RunsFolder = None,
    debug: Debug = False,
) -> None:
    """Write the page of a run again, or compare runs; nothing is run, and equal folders give equal bytes.

    Exit status of --verify: 0 if the page is the folder's, 1 if not.
    """
    from quantgraph.cli.ledger_selection import latest_ledger
    from quantgraph.runs.folder import find_run_folder
    from quantgraph.runs.run_page import verify_page, write_page
    from quantgraph.settings import load_settings

    with usage_errors(debug=debug):
        if verify is not None:
            if len(runs or ()) > 1:
                raise BadOption("--verify with several runs; a page is that of one", parameter="verify")
            place = find_run_folder(runs[0], out or load_settings().runs_dir) if runs else verify.parent
            with whole_folders(place):
                checked = verify_page(verify, place)
            sound = "the page is what the folder gives, the ledger is sound"
            echo(f"{checked.run_id}: {checked.reason or sound}")
            if not checked.ok:
                raise typer.Exit(FAILED)
            return
        runs_dir = out or load_settings().runs_dir
        named = runs or [str(latest_ledger(runs_dir).parent)]
        folders = [find_run_folder(run, runs_dir) for run in named]
        with whole_folders(*folders):
            page = write_page(folders, language=lang, inline=inline, to=to)
    echo(str(page))
    if open_it and not webbrowser.open(page.resolve().as_uri()):
        print_status(f"no browser could be started: open {page}")
