"""A run that a client trades over MCP: the run in one thread, its servers in others."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TextIO

from langgraph.runtime import RunControl

from quantgraph.integrations.mcp._client_decider import McpClient
from quantgraph.integrations.mcp._server import ClientDesk
from quantgraph.runs import RunResult, RunSpec, prepare_run, resume_run, start_run
from quantgraph.runtime import Resources
from quantgraph.runtime.dialogue import RunEvent
from quantgraph.tools import refusal
from quantgraph.tools.mcp import SERVICES

SERVICE_PORTS: Final = (19_000, 19_001, 19_002, 19_003)
"""Ports of AI-Trader's services math, search, trade and price."""

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class McpAccess:
    """How a client reaches a run.

    Attributes
    ----------
    stdio
        Two streams of lines, in and out; None for none.
    port
        A port of loopback for HTTP; 0 takes a free one, None is none.
    services
        Ports of the services math, search, trade and price; None for none.
    token
        What requests over HTTP must bear.
    """

    stdio: tuple[TextIO, TextIO] | None = None
    port: int | None = None
    services: tuple[int, ...] | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)


def start_mcp_run(
    question: str | RunSpec,
    access: McpAccess,
    *,
    resources: Resources | None = None,
    out: str | Path | None = None,
    tell: Tell = lambda _line: None,
) -> RunResult:
    """Start a run whose sessions a client trades, and return its result when it ends.

    Parameters
    ----------
    tell
        Called with the configuration of a client, one line of JSON, once the run has its folder.

    Raises
    ------
    BadOption
        If an argument is not valid or a port is in use; nothing is written then.
    NotConfigured
        If the extra ``mcp`` is not installed.
    """
    desk = ClientDesk()
    decider = McpClient(desk)
    given = _with_control(replace(resources or Resources(), decider=decider))
    spec, folder, live = prepare_run(question, given, out=out)
    with _serving(desk, access, folder, live) as (told, wait):
        live = _telling_first(live, lambda: tell(told))
        return wait(decider, lambda: start_run(spec, folder, live))


def resume_mcp_run(
    folder: Path, access: McpAccess, *, resources: Resources | None = None, tell: Tell = lambda _line: None
) -> RunResult:
    """Go on with a run that :func:`start_mcp_run` began, at the call after the last recorded one.

    Raises
    ------
    RunMismatch
        If the run has another decider.
    BadOption, NotConfigured
        As :func:`start_mcp_run`, or if the run goes on in another process.
    """
    desk = ClientDesk()
    decider = McpClient(desk)
    live = _with_control(replace(resources or Resources(), decider=decider))
    with _serving(desk, access, folder, live) as (told, wait):
        live = _telling_first(live, lambda: tell(told))
        return wait(decider, lambda: resume_run(folder, resources=live))


def _with_control(given: Resources) -> Resources:
    return given if given.control else replace(given, control=RunControl())


def _telling_first(given: Resources, tell: Callable[[], None]) -> Resources:
    """Return the resources of a run that tells at its first event: then it is there, and nobody else's."""
    left, outer = [tell], given.watch or (lambda _event: None)

    def watch(event: RunEvent) -> None:
        if left:
            left.pop()()
        outer(event)

    return replace(given, watch=watch)


Wait = Callable[[McpClient, Callable[[], RunResult]], RunResult]


@contextmanager
def _serving(
    desk: ClientDesk, access: McpAccess, folder: Path, live: Resources
) -> Iterator[tuple[str, Wait]]:
    """Serve a desk while the block runs; it is given a client's configuration, and what runs the run."""
    from quantgraph.integrations.mcp._server import bound_socket, serving_http, with_token
    from quantgraph.tools.mcp import http_app, make_server

    wanted: list[tuple[str, tuple[str, ...] | None, int, str]] = []
    if access.port is not None:
        wanted.append(("quantgraph", None, access.port, "port"))
    for name, port in zip(SERVICES, access.services or (), strict=False):
        wanted.append((name, SERVICES[name], port, "service_ports"))
    control = live.control or RunControl()
    with ExitStack() as stack:
        apps, urls = [], {}
        for name, tools, port, option in wanted:
            listening = stack.enter_context(bound_socket(port, option))
            server = http_app(make_server(desk, name=name, only=tools))
            apps.append((with_token(server, access.token, folder.name), listening))
            urls[name] = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        stack.enter_context(serving_http(apps))
        lines = _stdio_thread(desk, access.stdio, control) if access.stdio else None
        told = json.dumps(_configuration(urls, access.token, folder))

        def wait(decider: McpClient, run: Callable[[], RunResult]) -> RunResult:
            is_done, why = False, "the run was stopped; 'quantgraph mcp RUN' goes on with it"
            try:
                result = run()
                is_done = result["ended_because"] == "done"
                why = "the run is done" if is_done else result.get("error") or why
            finally:
                code = "no_progress" if is_done else "not_configured"
                decider.close_desk(refusal(code, why), is_done=is_done)
            while is_done and lines and lines.is_alive() and not control.drain_requested:
                lines.join(0.1)  # the client reads its last answers and leaves
            return result

        yield told, wait


def _stdio_thread(desk: ClientDesk, streams: tuple[TextIO, TextIO], control: RunControl) -> threading.Thread:
    """Serve two streams in a thread; the run stops when the client leaves."""
    import anyio

    from quantgraph.tools.mcp import make_server, serve_stdio

    def serve() -> None:
        try:
            anyio.run(serve_stdio, make_server(desk), *streams)
        finally:
            control.request_drain("the client left")

    thread = threading.Thread(target=serve, name="mcp stdio", daemon=True)
    thread.start()
    return thread


def _configuration(urls: Mapping[str, str], token: str, folder: Path) -> dict[str, Any]:
    """What a client's configuration file has, in the form that most clients read."""
    headers = {"Authorization": f"Bearer {token}"}
    servers: dict[str, Any] = {
        name: {"type": "http", "url": url, "headers": headers} for name, url in urls.items()
    }
    own = {"quantgraph": {"command": "quantgraph", "args": ["mcp", str(folder.absolute())]}}
    return {"mcpServers": servers or own}
