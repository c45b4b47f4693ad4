"""The research server: its runs, and one client over stdio or several over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

from quantgraph.errors import BadOption
from quantgraph.integrations.mcp._client_decider import McpAccess
from quantgraph.integrations.mcp._research import Research
from quantgraph.integrations.mcp._research_runs import ResearchRuns
from quantgraph.integrations.mcp._research_tools import INSTRUCTIONS
from quantgraph.integrations.mcp._server import bound_socket, serving_http, with_token
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings

_MAX_BODY = 1024 * 1024
"""Bytes of a request over HTTP: code of the largest size, written as JSON."""


def serve_research(
    access: McpAccess,
    *,
    source: str | None = None,
    out: Path | None = None,
    most_runs: int = 2,
    disk_mb: int = 2_000,
    tell: Callable[[str], None] = lambda _line: None,
    leave: Callable[[], None] = lambda: None,
) -> None:
    """Serve research to MCP clients until the one over stdio leaves, or the process is told to stop.

    Parameters
    ----------
    source
        What all runs read, see :class:`~quantgraph.runtime.Resources`; clients cannot choose another.
    out
        Parent of the runs' folders. Default: ``runs_dir`` of the settings.
    most_runs
        Runs and audits at once.
    disk_mb
        Megabytes that the folder may have when a run begins.
    tell
        Called with the configuration of a client over HTTP, one line of JSON.
    leave
        Called at the end if code of a run or an audit cannot be stopped: its thread would hold the process.

    Raises
    ------
    BadOption
        If the settings accept less than full isolation of code, or a port is in use.
    NotConfigured
        If the extra ``mcp`` is not installed.
    """
    import anyio

    from quantgraph.tools.mcp import http_app, make_server, serve_stdio

    settings = load_settings(**({"data_source": source} if source else {}))
    if settings.code_isolation != "full":
        raise BadOption(
            f"code_isolation={settings.code_isolation}: code of an MCP client runs with full isolation alone",
            parameter="code_isolation",
        )
    folder = Path(out or settings.runs_dir)
    runs = ResearchRuns(folder, Resources(settings=settings), most=most_runs, most_mb=disk_mb)
    named = settings.data_source if access.stdio else Path(settings.data_source).name
    research = Research(runs, source=named, shows_places=access.stdio is not None)
    server = make_server(research, instructions=INSTRUCTIONS, texts=research.texts)
    try:
        if access.stdio is not None:
            anyio.run(serve_stdio, server, *access.stdio)
            return
        with bound_socket(access.port or 0, "port") as listening:
            app = with_token(http_app(server, max_body=_MAX_BODY), access.token, "research")
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            with serving_http([(app, listening)]):
                headers = {"Authorization": f"Bearer {access.token}"}
                tell(
                    json.dumps(
                        {"mcpServers": {"quantgraph": {"type": "http", "url": url, "headers": headers}}}
                    )
                )
                threading.Event().wait()
    finally:
        if not runs.close():
            leave()
