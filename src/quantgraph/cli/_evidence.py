"""``quantgraph evidence``: the verdict of a run, its card, placebos and room."""

from __future__ import annotations

from typing import Annotated

import typer

from quantgraph.cli._console import AsJson, Debug, echo, echo_json, usage_errors
from quantgraph.cli._ledger import RunName, RunsFolder, recorded_folder


def evidence(  # noqa: PLR0917 - typer reads options from the parameters
    run: RunName = None,
    placebos: Annotated[int, typer.Option(metavar="N", help="How many placebos are traded.")] = 200,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the placebos.")] = 0,
    out: RunsFolder = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show how far a run can be believed: its verdict and card, placebos of its rule, and its room."""
    with usage_errors(debug=debug):
        from quantgraph._util.texts import language_of
        from quantgraph.evidence import evidence as found_of
        from quantgraph.judgement import card_rows
        from quantgraph.runs import open_run

        result = open_run(recorded_folder(run, out))
        found, language = found_of(result, placebos=placebos, seed=seed), language_of(str(result["question"]))
        if as_json:
            echo_json({"judgement": result["judgement"], **found.to_json()})
            return
        echo(result.verdict)
        for label, text in (*card_rows(result["judgement"], language), *found.rows(language)):
            echo(f"{label}: {text}")
