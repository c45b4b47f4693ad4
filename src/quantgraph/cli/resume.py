"""``quantgraph resume``: continue a run that was stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quantgraph.cli.console import AsJson, Debug, print_status, usage_errors
from quantgraph.cli.run_command import DeciderPlace, RecordedRun, RunsFolder, decider_of, execute_and_show

if TYPE_CHECKING:
    from quantgraph.runtime import Resources


def resume(  # noqa: PLR0917 - typer reads options from the parameters
    run: RecordedRun = None,
    answer: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The answer to the question that the run waits for.")
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The id of the question that --answer is for; no other takes it."),
    ] = None,
    out: RunsFolder = None,
    decider: DeciderPlace = None,
    model: Annotated[
        str | None, typer.Option(help="The model's name, where it was given with --model.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Other limits than before, like calls=100,money=2.5.")
    ] = None,
    session_budget: Annotated[str | None, typer.Option(help="The same for each session.")] = None,
    as_json: AsJson = False,
    headless: Annotated[bool, typer.Option(help="Ask nothing: a question ends it again.")] = False,
    debug: Debug = False,
) -> None:
    """Continue a run that was stopped, was killed, waits for an answer, or ran out of something.

    What was answered before is not asked again, no model call that had returned is made again, and no session
    is traded twice. Configuration, graph, data and code must be the same.
    """
    from quantgraph.cli.ledger_selection import latest_ledger
    from quantgraph.errors import BadOption
    from quantgraph.runs import resume_run
    from quantgraph.runs.folder import find_run_folder, read_manifest
    from quantgraph.runs.outputs import read_result
    from quantgraph.settings import load_settings

    budgets = {"budget": budget, "session_budget": session_budget}
    with usage_errors(debug=debug):
        if question is not None and answer is None:
            raise BadOption("--question needs --answer TEXT", parameter="question")
        settings = load_settings(**{name: text for name, text in budgets.items() if text})
        runs_dir = out or settings.runs_dir
        folder = find_run_folder(run or latest_ledger(runs_dir).parent, runs_dir)
        manifest, before = read_manifest(folder), read_result(folder) or {}
        made = decider_of(decider)
    if before.get("ended_because") == "done":
        print_status(f"run {manifest.run_id} is done{' and takes no answer' if answer is not None else ''}")
        answer = None

    given = answer if answer is None or question is None else {"answer": answer, "id": question}

    def work(live: Resources) -> dict[str, Any]:
        resources = replace(live, settings=settings)
        result = resume_run(folder, answer=given, decider=made, model=model, resources=resources)
        if manifest.other_versions:
            print_status(manifest.other_versions)
        return result

    execute_and_show(
        manifest.spec.question,
        work,
        as_json=as_json,
        headless=headless,
        debug=debug,
    )
