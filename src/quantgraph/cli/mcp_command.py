"""``quantgraph mcp``: a run that a client of an MCP server trades."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantgraph.cli.console import AsJson, Debug, print_status, protocol_streams, usage_errors
from quantgraph.cli.run_command import RecordedRun, RunsFolder, execute_and_show
from quantgraph.errors import BadFile, BadOption

if TYPE_CHECKING:
    from quantgraph.runs.mcp_run import McpAccess
    from quantgraph.runtime import Resources


TOKEN_VARIABLE = "QUANTGRAPH_MCP_TOKEN"  # noqa: S105 - the name of a variable


def mcp(  # noqa: PLR0917 - typer reads options from the parameters
    run: RecordedRun = None,
    new: Annotated[
        str | None, typer.Option("--new", metavar="SENTENCE", help="Start a run: universe and dates, a rule.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="With --new: as of 'quantgraph run'.")] = None,
    start: Annotated[str | None, typer.Option(help="With --new: first date, YYYYMMDD.")] = None,
    end: Annotated[str | None, typer.Option(help="With --new: last date, YYYYMMDD.")] = None,
    symbols: Annotated[str | None, typer.Option(help="With --new: codes, joined by commas.")] = None,
    cash: Annotated[float | None, typer.Option(help="With --new: initial cash. Default: 1000000.")] = None,
    market: Annotated[
        Literal["cn", "us"] | None, typer.Option(help="With --new: rules and fees. Default: by the codes.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Who reads the sentence: a model's name, or keyless.")
    ] = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve HTTP on this machine alone, in place of stdio.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of --http; 0 takes a free one.")] = 0,
    services: Annotated[
        bool,
        typer.Option("--services", help="Serve math, search, trade and price, each on a port."),
    ] = False,
    service_ports: Annotated[
        str, typer.Option(metavar="PORTS", help="Ports of --services.")
    ] = "19000,19001,19002,19003",
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the token of HTTP. Default: {TOKEN_VARIABLE}, else a random one."),
    ] = None,
    out: RunsFolder = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Serve a run to an MCP client, which trades it day by day; a stopped run goes on where it was.

    Over stdio nothing but the protocol is written to stdout. The client's configuration is printed on stderr.
    """
    with usage_errors(debug=debug):
        import quantgraph.mcp.mcp_package as _package  # noqa: F401 - tells at once if the extra is missing

        if new is not None and run is not None:
            raise BadOption("RUN and --new are both given; give one of them", parameter="new")
        own = {
            "source": source,
            "start": start,
            "end": end,
            "symbols": symbols,
            "cash": cash,
            "market": market,
        }
        own |= {"model": model}
        work, question = _begun(new, own, out) if new is not None else _resumed(run, own, out)
        ports = _ports(service_ports) if services else None
        token = _token(token_file)
        access = _access(http, port, ports, token)
    execute_and_show(
        question,
        lambda live: work(access, live),
        as_json=as_json,
        headless=True,
        debug=debug,
    )


def _access(http: bool, port: int, services: tuple[int, ...] | None, token: str | None) -> McpAccess:
    from quantgraph.runs.mcp_run import McpAccess

    if not http and services is None:
        return McpAccess(stdio=protocol_streams())
    access = McpAccess(port=port if http else None, services=services)
    return replace(access, token=token) if token else access


def _begun(new: str, own: dict[str, Any], out: Path | None) -> tuple[Any, str]:
    from quantgraph.broker.account import Account
    from quantgraph.market.rulebook import Rulebook
    from quantgraph.runs import RunSpec
    from quantgraph.runs.mcp_run import start_mcp_run

    if not new.strip():
        raise BadOption("--new is empty; name symbols and dates", parameter="new")
    rules = None
    if own["market"] is not None:
        rules = Rulebook.us() if own["market"] == "us" else Rulebook.mainland()
    codes = [code for code in (own["symbols"] or "").replace("，", ",").split(",") if code.strip()]
    spec = RunSpec(
        question=new,
        symbols=tuple(codes),
        start=own["start"] or "",
        end=own["end"] or "",
        cash=Account.opening(1_000_000 if own["cash"] is None else own["cash"]).cash,
        rules=rules,
    )

    def work(access: McpAccess, live: Resources) -> dict[str, Any]:
        given = replace(live, source=own["source"], model=own["model"])
        return start_mcp_run(spec, access, resources=given, out=out, tell=print_status)

    return work, new


def _resumed(run: str | None, own: dict[str, Any], out: Path | None) -> tuple[Any, str]:
    from quantgraph.cli.ledger_selection import latest_ledger
    from quantgraph.runs.folder import find_run_folder, read_manifest
    from quantgraph.runs.mcp_run import resume_mcp_run
    from quantgraph.runs.outputs import read_result
    from quantgraph.settings import load_settings

    for name, value in own.items():
        if value is not None and name != "model":
            raise BadOption(f"--{name} belongs to --new; a run keeps what it was begun with", parameter=name)
    runs_dir = out or load_settings().runs_dir
    folder = find_run_folder(run or latest_ledger(runs_dir).parent, runs_dir)
    manifest = read_manifest(folder)
    if manifest.decider != "mcp_client":
        raise BadOption(
            f"run {manifest.run_id} is decided by {manifest.decider or 'its signal'}, not by an MCP client; "
            f"start one with: quantgraph mcp --new SENTENCE",
            parameter="run",
        )
    if (read_result(folder) or {}).get("ended_because") == "done":
        raise BadOption(f"run {manifest.run_id} is done; start another with --new", parameter="run")

    def work(access: McpAccess, live: Resources) -> dict[str, Any]:
        given = replace(live, model=own["model"])
        return resume_mcp_run(folder, access, resources=given, tell=print_status)

    return work, manifest.spec.question


def _ports(text: str) -> tuple[int, ...]:
    from quantgraph.runs.mcp_run import SERVICE_PORTS

    parts = [part.strip() for part in text.split(",")]
    if len(parts) != len(SERVICE_PORTS) or not all(part.isascii() and part.isdigit() for part in parts):
        raise BadOption(
            f"--service-ports {text!r:.60}; must be {len(SERVICE_PORTS)} ports, like 19000,19001,19002,19003",
            parameter="service_ports",
        )
    return tuple(int(part) for part in parts)


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise BadFile(f"{file} cannot be read as a token: {error}", file=str(file)) from None
