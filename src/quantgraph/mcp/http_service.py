"""MCP servers over HTTP on this machine: sockets on loopback, a token, and a thread that serves them."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from quantgraph.errors import BadOption, StorageUnavailable

RUN_HEADER: Final = b"x-run-id"
_HOST = "127.0.0.1"
_START_SECONDS, _STOP_SECONDS = 10.0, 5.0
_LEAST_TOKEN = 16


def bound_socket(port: int, option: str) -> socket.socket:
    """Return a socket on loopback at a port; 0 takes a free one.

    Raises
    ------
    BadOption
        If the port is not valid or is in use.
    """
    if not 0 <= port <= 65_535:
        raise BadOption(f"{option}={port}; must be a port from 0 (a free one) to 65535", parameter=option)
    # With the protocol named, asyncio sends small packets at once: 5 ms a call in place of 50.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((_HOST, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise BadOption(
            f"{option}={port}: the port cannot be used ({error.strerror}); stop the program there or choose "
            "another",
            parameter=option,
        ) from None
    return listening


def with_token(app: Any, token: str, run_id: str) -> Any:
    """Let only requests with a run's token through, and none of another run or from another origin.

    Raises
    ------
    BadOption
        If the token is shorter than 16 characters or not printable ASCII.
    """
    if len(token) < _LEAST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise BadOption(
            f"the token must have at least {_LEAST_TOKEN} printable ASCII characters without spaces",
            parameter="token",
        )

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = scope["headers"]
        given = [value for name, value in headers if name == b"authorization"]
        runs = {value for name, value in headers if name == RUN_HEADER}
        origins = {value for name, value in headers if name == b"origin"}
        own = {f"http://{host}:{scope['server'][1]}".encode() for host in (_HOST, "localhost")}
        if len(given) != 1 or not _bears(given[0], token):
            await _refuse(send, 401, "unauthorized: this server wants the token of its run")
        elif runs - {run_id.encode()}:
            await _refuse(send, 403, f"forbidden: this server belongs to run {run_id}")
        elif origins - own:
            await _refuse(send, 403, "forbidden: this server answers to pages of its own origin alone")
        else:
            await app(scope, receive, send)

    return guarded


def _bears(value: bytes, token: str) -> bool:
    """Whether a header has the token; the name of its scheme may be in any case (RFC 9110, 11.1)."""
    scheme, _, given = value.partition(b" ")
    return scheme.lower() == b"bearer" and secrets.compare_digest(given.strip(b" "), token.encode())


async def _refuse(send: Any, status: int, line: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": line.encode()})


@contextmanager
def serving_http(apps: Sequence[tuple[Any, socket.socket]]) -> Iterator[None]:
    """Serve ASGI apps on their sockets, each in a thread, while the block runs.

    Requests under way are answered before the end.

    Raises
    ------
    StorageUnavailable
        If a server does not start.
    """
    import uvicorn

    with ExitStack() as stack:
        for app, listening in apps:
            server = uvicorn.Server(
                uvicorn.Config(
                    app,
                    log_config=None,
                    access_log=False,
                    ws="none",
                    lifespan="on",
                    timeout_graceful_shutdown=2,
                    server_header=False,
                )
            )
            stack.callback(listening.close)
            stack.enter_context(_thread_of(server, listening))
        yield


@contextmanager
def _thread_of(server: Any, listening: socket.socket) -> Iterator[None]:
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listening])), name="mcp http", daemon=True
    )
    thread.start()
    waited = threading.Event()
    for _ in range(int(_START_SECONDS / 0.01)):
        if server.started or not thread.is_alive():
            break
        waited.wait(0.01)
    if not server.started:
        raise StorageUnavailable("the MCP server did not start")
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_STOP_SECONDS)
