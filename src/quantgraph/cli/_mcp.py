"""``quantgraph mcp``: an assistant does research over MCP; ``mcp trade``: a client trades a run."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from quantgraph._util.texts import SOURCES
from quantgraph.cli._console import AsJson, Debug, echo, print_status, protocol_streams, usage_errors
from quantgraph.cli._help import PanelCommand
from quantgraph.cli._ledger import RunsFolder, recorded_folder
from quantgraph.cli._run import RecordedRun, leave_soon, showing_run
from quantgraph.errors import BadFile, BadOption

if TYPE_CHECKING:
    from quantgraph.integrations.mcp import McpAccess
    from quantgraph.runtime import Resources


TOKEN_VARIABLE = "QUANTGRAPH_MCP_TOKEN"  # noqa: S105 - the name of a variable
Http = Annotated[bool, typer.Option("--http", help="Serve HTTP on this machine alone, in place of stdio.")]
Port = Annotated[int, typer.Option(help="Port of --http; 0 takes a free one.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(help=f"File with the token of HTTP. Default: {TOKEN_VARIABLE}, else a random one."),
]


_OF_TRADE = ("--new", "--start", "--end", "--symbols", "--cash", "--market", "--model", "--services")
"""Options of the earlier command, which are those of ``trade``."""


class _McpGroup(TyperGroup):
    """The command and its subcommands; the earlier call, with a run, is refused with its new name."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        own = args[: next((at for at, each in enumerate(args) if each in self.commands), len(args))]
        if earlier := [each for each in own if each.partition("=")[0] in _OF_TRADE]:
            raise BadOption(
                f"a client trades a run with: quantgraph mcp trade, which has {earlier[0]}", parameter="mcp"
            )
        if own and len(own) < len(args):
            raise BadOption(f"{own[0]} stands before {args[len(own)]}; put it behind", parameter="mcp")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            raise BadOption(f"a client trades a run with: quantgraph mcp trade {args[0]}", parameter="run")
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_McpGroup, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def mcp(  # noqa: PLR0917 - typer reads options from the parameters
    context: typer.Context,
    source: Annotated[str | None, typer.Option(help=f"{SOURCES}. Default: the settings'.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the runs. Default: the settings' runs_dir.")
    ] = None,
    http: Http = False,
    port: Port = 0,
    token_file: TokenFile = None,
    most_runs: Annotated[int, typer.Option("--runs", min=1, max=64, help="Runs and audits at once.")] = 2,
    disk_mb: Annotated[
        int, typer.Option(min=1, help="Megabytes that the folder may have when a run begins.")
    ] = 2_000,
    debug: Debug = False,
) -> None:
    """Serve research to an assistant over MCP: it reads, audits, runs, compares and explains strategies.

    Over stdio nothing but the protocol is written to stdout.
    """
    if context.invoked_subcommand is not None:
        return
    with usage_errors(debug=debug):
        from quantgraph.integrations.mcp import serve_research

        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
        access = _access(http, port, None, _token(token_file))
        serve_research(
            access,
            source=source,
            out=out,
            most_runs=most_runs,
            disk_mb=disk_mb,
            tell=print_status,
            leave=leave_soon,
        )


@app.command(cls=PanelCommand)
def export(
    script: Annotated[Path, typer.Argument(metavar="[SCRIPT]", help="The file to write.")] = Path(
        "research.py"
    ),
    out: RunsFolder = None,
) -> None:
    """Write all that clients did in a folder as one Python script, which gives the same ledgers."""
    with usage_errors():
        from quantgraph.integrations.mcp import write_script

        write_script(script, out=out)
        echo(str(script))


@app.command(cls=PanelCommand)
def trade(  # noqa: PLR0917 - typer reads options from the parameters
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
    http: Http = False,
    port: Port = 0,
    services: Annotated[
        bool, typer.Option("--services", help="Serve math, search, trade and price, each on a port.")
    ] = False,
    service_ports: Annotated[
        str, typer.Option(metavar="PORTS", help="Ports of --services.")
    ] = "19000,19001,19002,19003",
    token_file: TokenFile = None,
    out: RunsFolder = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Serve a run to an MCP client, which trades it day by day; a stopped run goes on where it was.

    Over stdio nothing but the protocol is written to stdout.
    """
    with usage_errors(debug=debug):
        from quantgraph.tools.mcp import make_server as _  # noqa: F401 - tells at once if the extra is missing

        if new is not None and run is not None:
            raise BadOption("RUN and --new are both set; set one of them", parameter="new")
        own = {"source": source, "start": start, "end": end, "symbols": symbols, "cash": cash}
        own |= {"market": market, "model": model}
        work, question = _begun(new, own, out) if new is not None else _resume(run, own, out)
        access = _access(http, port, _ports(service_ports) if services else None, _token(token_file))
    with showing_run(question, as_json=as_json, headless=True, debug=debug) as shown:
        shown.result = work(access, shown.live)


def _access(http: bool, port: int, services: tuple[int, ...] | None, token: str | None) -> McpAccess:
    from quantgraph.integrations.mcp import McpAccess

    if not http and services is None:
        return McpAccess(stdio=protocol_streams())
    access = McpAccess(port=port if http else None, services=services)
    return replace(access, token=token) if token else access


def _begun(new: str, own: dict[str, Any], out: Path | None) -> tuple[Any, str]:
    from quantgraph.broker import Account
    from quantgraph.data.symbols import symbol_list
    from quantgraph.integrations.mcp import start_mcp_run
    from quantgraph.market import Rulebook
    from quantgraph.runs import RunSpec

    if not new.strip():
        raise BadOption("--new is empty; name symbols and dates", parameter="new")
    rules = None
    if own["market"] is not None:
        rules = Rulebook.us() if own["market"] == "us" else Rulebook.mainland()
    spec = RunSpec(
        question=new,
        symbols=symbol_list(own["symbols"] or ()),
        start=own["start"] or "",
        end=own["end"] or "",
        cash=Account.opening(1_000_000 if own["cash"] is None else own["cash"]).cash,
        rules=rules,
    )

    def work(access: McpAccess, live: Resources) -> dict[str, Any]:
        resources = replace(live, source=own["source"], model=own["model"])
        return start_mcp_run(spec, access, resources=resources, out=out, tell=print_status)

    return work, new


def _resume(run: str | None, own: dict[str, Any], out: Path | None) -> tuple[Any, str]:
    from quantgraph.integrations.mcp import resume_mcp_run
    from quantgraph.runs import read_result
    from quantgraph.runs.folder import read_manifest

    for name, value in own.items():
        if value is not None and name != "model":
            raise BadOption(f"--{name} belongs to --new; a run keeps what it was begun with", parameter=name)
    folder = recorded_folder(run, out)
    manifest = read_manifest(folder)
    if manifest.decider != "mcp_client":
        raise BadOption(
            f"run {manifest.run_id} is decided by {manifest.decider or 'its signal'}, not by an MCP client; "
            f"start one with: quantgraph mcp trade --new SENTENCE",
            parameter="run",
        )
    if (read_result(folder) or {}).get("ended_because") == "done":
        raise BadOption(f"run {manifest.run_id} is done; start another with --new", parameter="run")

    def work(access: McpAccess, live: Resources) -> dict[str, Any]:
        resources = replace(live, model=own["model"])
        return resume_mcp_run(folder, access, resources=resources, tell=print_status)

    return work, manifest.spec.question


def _ports(text: str) -> tuple[int, ...]:
    from quantgraph.integrations.mcp import SERVICE_PORTS

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
