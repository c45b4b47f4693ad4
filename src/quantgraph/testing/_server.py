"""Base class of the stub servers: HTTP on a free port of this machine, with a log of the requests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from quantgraph.errors import NotConfigured

RequestT = TypeVar("RequestT")


class StubServer(Generic[RequestT]):
    """HTTP server on a free port of 127.0.0.1 while its ``with`` block runs.

    A subclass sets ``handler`` and answers each request in a thread of its own.
    """

    handler: ClassVar[type[StubHandler]]

    def __init__(self) -> None:
        self.closing = threading.Event()
        self._requests: list[RequestT] = []
        self._lock = threading.Lock()  # guards _requests and what subclasses change in handler threads
        self._server: _HTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def requests(self) -> list[RequestT]:
        """Copy of all requests so far, in order of arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def address(self) -> str:
        """``http://127.0.0.1:<port>``."""
        if self._server is None:
            raise NotConfigured(f"the {type(self).__name__} is not running; use it in a with block")
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self.closing.clear()
        self._server = _HTTPServer(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release waiting handlers, close all connections and stop the server. May be called twice."""
        if self._server is None or self._thread is None:
            return
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server = self._thread = None

    def _record(self, make: Callable[[int], RequestT]) -> RequestT:
        """Append a request, made from its number (from 1), to the log."""
        with self._lock:
            request = make(len(self._requests) + 1)
            self._requests.append(request)
        return request


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = False  # closing joins the handlers

    def __init__(self, stub: StubServer[Any]) -> None:
        self.stub = stub
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()  # guards _connections: handler threads close their own
        super().__init__(("127.0.0.1", 0), stub.handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        with self._lock:
            for connection in self._connections:
                _shut_down(connection)
        super().server_close()


class StubHandler(BaseHTTPRequestHandler):
    """Handler of one connection, one request long."""

    server: _HTTPServer
    protocol_version = "HTTP/1.1"  # chunked bodies, so that a client can tell a cut stream from a whole one

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing: requests are in ``StubServer.requests``."""

    def do_POST(self) -> None:
        """Answer a request; a client that has left is ignored."""
        with suppress(ConnectionError, TimeoutError):
            self.respond(self.rfile.read(int(self.headers.get("content-length") or 0)))

    def respond(self, body: bytes) -> None:
        """Answer a request with this body."""
        raise NotImplementedError

    def disconnect(self) -> None:
        """Close the connection without a reply."""
        self.close_connection = True
        _shut_down(self.connection)

    def send_head(self, status: int, headers: dict[str, str]) -> None:
        """Send the status line and the headers; the connection closes after the reply."""
        self.send_response(status)
        for name, value in {**headers, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()

    def send_body(
        self, status: int, body: bytes, *, length: int | None = None, headers: dict[str, str] | None = None
    ) -> None:
        """Send a reply; a ``length`` that is not that of the body makes it look cut.

        ``headers`` may replace the content type, ``application/json``.
        """
        size = len(body) if length is None else length
        default = {"Content-Type": "application/json; charset=utf-8", "Content-Length": str(size)}
        self.send_head(status, default | (headers or {}))
        self.wfile.write(body)


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):  # already closed by the other side
        connection.shutdown(socket.SHUT_RDWR)
