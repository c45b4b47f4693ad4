"""``quantgraph resume``: go on with a run that was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from quantgraph.cli.run_command import WRONG_USAGE, print_error, print_status, run_and_show
from quantgraph.errors import QuantGraphError

__all__ = ["resume"]


def resume(  # noqa: PLR0917 - typer reads options from the parameters
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="A run's folder, or its name in --out. Default: the latest there."
        ),
    ] = None,
    answer: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The answer to the question that the run waits for.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the runs. Default: the settings' runs_dir.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model's name, where it was given with --model.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Other limits than before, like calls=100,money=2.5.")
    ] = None,
    session_budget: Annotated[str | None, typer.Option(help="The same for each session.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON object and nothing else to stdout.")
    ] = False,
    headless: Annotated[bool, typer.Option(help="Ask nothing: a question ends it again.")] = False,
    debug: Annotated[bool, typer.Option(help="Show a traceback when something goes wrong.")] = False,
) -> None:
    """Go on with a run that was stopped, was killed, waits for an answer, or ran out of something.

    What was answered before is not asked again, no model call that had returned is made again, and no session
    is traded twice. It has to be the same configuration, graph, data and code.
    """
    from quantgraph.cli.ledger_selection import latest_ledger
    from quantgraph.runs import resume_run
    from quantgraph.runs.manifest import find_run_folder, read_manifest
    from quantgraph.runs.result import read_result
    from quantgraph.settings import load_settings

    given = {"budget": budget, "session_budget": session_budget}
    try:
        settings = load_settings(**{name: text for name, text in given.items() if text})
        runs_dir = out or settings.runs_dir
        folder = find_run_folder(run or latest_ledger(runs_dir).parent, runs_dir)
        manifest, before = read_manifest(folder), read_result(folder) or {}
    except QuantGraphError as error:
        print_error(error, debug=debug)
        raise typer.Exit(WRONG_USAGE) from None
    if before.get("ended_because") == "done":
        print_status(f"run {manifest.run_id} is done{' and takes no answer' if answer is not None else ''}")
        answer = None

    def work(**options: Any) -> dict[str, Any]:
        result = resume_run(folder, model=model, settings=settings, **options)
        if manifest.other_versions:
            print_status(manifest.other_versions)
        return result

    run_and_show(
        manifest.spec.question,
        work,
        as_json=as_json,
        headless=headless,
        debug=debug,
        first_answer=answer,
    )
