"""``quantgraph replay``: a run again from its record, or a new run that branches off it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quantgraph.cli.console import FAILED, AsJson, Debug, echo, echo_json, print_status, usage_errors
from quantgraph.cli.run_command import DeciderPlace, RecordedRun, RunsFolder, decider_of, execute_and_show
from quantgraph.errors import BadOption

if TYPE_CHECKING:
    from quantgraph.runs import ReplayResult
    from quantgraph.runtime import Resources


def replay(  # noqa: PLR0917 - typer reads options from the parameters
    run: RecordedRun = None,
    session: Annotated[
        str | None,
        typer.Option("--from", metavar="SESSION", help="Begin a new run that is live from this session on."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="With --from: the model that is asked then, if the run asks any.")
    ] = None,
    out: RunsFolder = None,
    decider: DeciderPlace = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Keep what is made anew here. A new run is put beside the old one by default."),
    ] = None,
    example: Annotated[
        bool,
        typer.Option("--example", help="The run that is shipped; with --out or --from it is unpacked there."),
    ] = False,
    as_json: AsJson = False,
    headless: Annotated[bool, typer.Option(help="With --from: ask nothing, a question ends it.")] = False,
    debug: Debug = False,
) -> None:
    """Run a run again from its record, without model, source or network, and compare what comes out.

    Exit status 0: ledger, signal, strategy and result are the same. 1: they are not, and the first difference
    is shown. 2: there is no such run.
    """
    from quantgraph.cli.ledger_selection import latest_ledger
    from quantgraph.recording.no_network import no_network
    from quantgraph.runs.folder import find_run_folder, read_manifest
    from quantgraph.runs.replay import replay as replay_run
    from quantgraph.settings import load_settings

    with ExitStack() as stack, usage_errors(debug=debug):
        runs_dir = out or load_settings().runs_dir
        if example and run is not None:
            raise BadOption("--example with a run: one of them is replayed", parameter="example")
        if example:
            folder = stack.enter_context(_example(runs_dir if out or session else None))
        else:
            folder = find_run_folder(run or latest_ledger(runs_dir).parent, runs_dir)
        made = decider_of(decider)
        if session is None:
            if model is not None:
                raise BadOption("--model without --from: a replay asks no model", parameter="model")
            with no_network(everywhere=True):
                replayed = replay_run(folder, decider=made, out=keep)
        else:
            question = read_manifest(folder).spec.question
    if session is not None:
        first = session

        def work(live: Resources) -> dict[str, Any]:
            return _branch(folder, first, model=model, decider=made, out=keep, resources=live)

        execute_and_show(question, work, as_json=as_json, headless=headless, debug=debug)
        return
    if as_json:
        echo_json(_as_json(replayed))
    else:
        _show(replayed, tells_code=not (example and replayed.identical))
    if not replayed.identical:
        raise typer.Exit(FAILED)


@contextmanager
def _example(place: Path | None) -> Iterator[Path]:
    """The shipped run: below a folder, where it stays, or in one that is removed."""
    from quantgraph.runs import example_run_name, unpack_example_run

    with tempfile.TemporaryDirectory(prefix="quantgraph-example-") as scratch:
        folder = (place or Path(scratch)) / example_run_name()
        yield folder if folder.is_dir() else unpack_example_run(folder.parent)


def _branch(folder: Path, session: str, *, model: str | None, **options: Any) -> dict[str, Any]:
    """Execute the new run; say so if it did not call ``model``."""
    from quantgraph.market.moment import session_of
    from quantgraph.runs import replay_from

    result = replay_from(folder, session, model=model, **options)
    first = f"{session_of(session):%Y%m%d}"
    if model is not None and not any((row["session"] or "") >= first for row in result["usage"]):
        print_status(f"--model {model} changed nothing: this run asks no model from {first} on")
    return result


def _as_json(replayed: ReplayResult) -> dict[str, object]:
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


def _show(replayed: ReplayResult, *, tells_code: bool) -> None:
    if replayed.identical:
        echo(f"{replayed.run_id}: identical (ledger, execution log, signal, strategy, result)")
    for difference in replayed.differences:
        echo(f"{replayed.run_id}: {difference.line}")
    if replayed.divergence:
        echo(replayed.divergence.data.get("diff", ""))
    if not tells_code:
        return
    if replayed.changed_code:
        names = ", ".join(replayed.changed_code[:5]) + (" ..." if len(replayed.changed_code) > 5 else "")
        print_status(f"made with another quantgraph: {names}")
    if replayed.other_versions and not replayed.divergence:  # whose message includes it
        print_status(replayed.other_versions)
