"""Where the calls of an MCP client meet a run: they wait in one line, and the run takes them one by one.

MCP servers over HTTP on this machine: sockets on loopback, a token, and a thread that serves them.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from quantgraph._util.canonical_json import canonical_json
from quantgraph.errors import BadOption, StorageUnavailable
from quantgraph.llm.messages import typed_args
from quantgraph.tools import refusal
from quantgraph.tools.mcp import CLIENT_TOOLS, Progress, ServedTool, served_tool

LONGEST_ARGUMENTS: Final = 20_000
"""Characters of a call's arguments, as JSON."""
_MOST_WAITING = 100
_CHECK_SECONDS = 0.05


class ClientHandler:
    """Hands the calls of a client, from the threads of a server, to the thread of a run, in their order.

    A call that arrives before a day is open, or while a day is being committed, waits.
    """

    def __init__(self) -> None:
        # The lock guards the line and what is under way, which the server's threads and the run share.
        self._changed = threading.Condition()
        self._line: deque[tuple[dict[str, Any], Future[Any]]] = deque()
        self._under_way: Future[Any] | None = None
        self._closed: dict[str, Any] | None = None

    @property
    def tools(self) -> Mapping[str, ServedTool]:
        """The tools of a client."""
        return {name: served_tool(name) for name in CLIENT_TOOLS}

    def call(
        self,
        name: str,
        args: Mapping[str, Any],
        progress: Progress | None = None,  # noqa: ARG002 - none is made
    ) -> Any:
        """Wait until the run has carried a call out, and return its answer."""
        try:
            args = typed_args(args, served_tool(name).parameters)
            length = len(canonical_json(args, allow_nan=False))
        except BadOption as error:
            return refusal(error.code, f"{name}: {error.message}")
        except (TypeError, ValueError, RecursionError):
            return refusal("bad_option", f"the arguments of {name} are not JSON with finite numbers")
        if length > LONGEST_ARGUMENTS:
            return refusal(
                "bad_option",
                f"the arguments of {name} have {length:,} characters; must be at most {LONGEST_ARGUMENTS:,}",
            )
        answer: Future[Any] = Future()
        with self._changed:
            if self._closed is not None:
                return self._closed
            if len(self._line) >= _MOST_WAITING:
                return refusal("rate_limited", f"{_MOST_WAITING} calls wait already; wait for their answers")
            self._line.append(({"tool": name, "args": dict(args)}, answer))
            self._changed.notify_all()
        return answer.result()

    def next_call(self, check: Callable[[], None]) -> dict[str, Any]:
        """Wait for the next call; ``check`` raises what ends the wait."""
        with self._changed:
            while not self._line:
                check()
                self._changed.wait(_CHECK_SECONDS)
            call, self._under_way = self._line.popleft()
            return call

    def answer(self, answer: Any) -> None:
        """Answer the call that was taken last; one that came from a record has no waiting client."""
        with self._changed:
            waiting, self._under_way = self._under_way, None
        if waiting is not None:
            waiting.set_result(answer)

    def close(self, answer: Mapping[str, Any], *, last: Any = None) -> None:
        """Answer the calls that wait, and all later ones, by one answer.

        Parameters
        ----------
        last
            The answer of the call that was taken and not answered, if it is another.
        """
        with self._changed:
            self._closed = dict(answer)
            line, self._line = list(self._line), deque()
        self.answer(last or self._closed)
        for _, waiting in line:
            waiting.set_result(self._closed)


RUN_HEADER: Final = b"x-run-id"
_HOST = "127.0.0.1"
_START_SECONDS, _STOP_SECONDS = 10.0, 5.0
_LEAST_TOKEN = 16


def bound_socket(port: int, option: str) -> socket.socket:
    """Return a socket on loopback at a port; 0 takes a free one."""
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
    """Let only requests with a run's token through, and none of another run or from another origin."""
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
        tokens = [value for name, value in headers if name == b"authorization"]
        runs = {value for name, value in headers if name == RUN_HEADER}
        origins = {value for name, value in headers if name == b"origin"}
        own = {f"http://{host}:{scope['server'][1]}".encode() for host in (_HOST, "localhost")}
        if len(tokens) != 1 or not _bears(tokens[0], token):
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
    scheme, _, sent = value.partition(b" ")
    return scheme.lower() == b"bearer" and secrets.compare_digest(sent.strip(b" "), token.encode())


async def _refuse(send: Any, status: int, line: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": line.encode()})


@contextmanager
def serving_http(apps: Sequence[tuple[Any, socket.socket]]) -> Iterator[None]:
    """Serve ASGI apps on their sockets, each in a thread, while the block runs.

    Requests under way are answered before the end.
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
