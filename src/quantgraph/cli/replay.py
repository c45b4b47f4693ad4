"""``quantgraph replay``: a run once more from its record, or another one that branches off it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quantgraph.cli.console import echo, echo_json
from quantgraph.cli.run_command import FAILED, WRONG_USAGE, print_error, print_status, run_and_show
from quantgraph.errors import BadOption, QuantGraphError

if TYPE_CHECKING:
    from quantgraph.runs.replay import ReplayResult

__all__ = ["replay"]


def replay(  # noqa: PLR0917 - typer reads options from the parameters
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="A run's folder, or its name in --out. Default: the latest there."
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--from", metavar="SESSION", help="Begin a new run that is live from this session on."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="With --from: the model that is asked then, if the run asks any.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the runs. Default: the settings' runs_dir.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Keep what is made anew here. A new run is put beside the old one by default."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else to stdout.")
    ] = False,
    headless: Annotated[bool, typer.Option(help="With --from: ask nothing, a question ends it.")] = False,
    debug: Annotated[bool, typer.Option(help="Show a traceback when something goes wrong.")] = False,
) -> None:
    """Run a run again from its record, without model, source or network, and compare what comes out.

    Exit status 0: ledger, signal, strategy and result are the same. 1: they are not, and the first difference
    is shown. 2: there is no such run.
    """
    from quantgraph.cli.ledger_selection import latest_ledger
    from quantgraph.recording.no_network import no_network
    from quantgraph.runs.manifest import find_run_folder, read_manifest
    from quantgraph.runs.replay import replay as again
    from quantgraph.settings import load_settings

    try:
        runs_dir = out or load_settings().runs_dir
        folder = find_run_folder(run or latest_ledger(runs_dir).parent, runs_dir)
        if session is None:
            if model is not None:
                raise BadOption("--model without --from: a replay asks no model", parameter="model")
            with no_network(everywhere=True):
                replayed = again(folder, out=keep)
        else:
            question = read_manifest(folder).spec.question
    except QuantGraphError as error:
        print_error(error, debug=debug)
        raise typer.Exit(WRONG_USAGE) from None
    if session is not None:
        work = partial(_branch, folder, session, model=model, out=keep)
        run_and_show(question, work, as_json=as_json, headless=headless, debug=debug)
        return
    if as_json:
        echo_json(_told(replayed))
    else:
        _show(replayed)
    if not replayed.identical:
        raise typer.Exit(FAILED)


def _branch(folder: Path, session: str, *, model: str | None, **options: Any) -> dict[str, Any]:
    """Begin the new run; a model that nothing in it asked is told of."""
    from quantgraph.market.moment import session_of
    from quantgraph.runs.branch import replay_from

    result = replay_from(folder, session, model=model, **options)
    first = f"{session_of(session):%Y%m%d}"
    if model is not None and not any((row["session"] or "") >= first for row in result["usage"]):
        print_status(f"--model {model} changed nothing: this run asks no model from {first} on")
    return result


def _told(replayed: ReplayResult) -> dict[str, object]:
    divergence = replayed.divergence
    return {
        "run_id": replayed.run_id,
        "identical": replayed.identical,
        "differences": [vars(difference) for difference in replayed.differences],
        "diff": divergence.data.get("diff", "") if divergence else "",
        "changed_code": list(replayed.changed_code),
        "other_versions": replayed.other_versions,
        "folder": replayed.folder and str(replayed.folder),
        "result": dict(replayed.result),
    }


def _show(replayed: ReplayResult) -> None:
    if replayed.identical:
        echo(f"{replayed.run_id}: identical (ledger, signal, strategy, result)")
    for difference in replayed.differences:
        echo(f"{replayed.run_id}: {difference.line}")
    if replayed.divergence:
        echo(replayed.divergence.data.get("diff", ""))
    if replayed.changed_code:
        names = ", ".join(replayed.changed_code[:5]) + (" ..." if len(replayed.changed_code) > 5 else "")
        print_status(f"made with another quantgraph: {names}")
    if replayed.other_versions and not replayed.divergence:  # which says it itself
        print_status(replayed.other_versions)
