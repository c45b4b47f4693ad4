"""An OpenAI-compatible server over real HTTP on loopback, for tests of what talks to a model.

It answers ``POST /v1/chat/completions``, streamed or not, and can misbehave in the ways real servers do.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from quantgraph.errors import NotConfigured
from quantgraph.testing.servers.openai_wire import (
    FINISH_REASONS,
    ChatRequest,
    Fault,
    Reply,
    completion,
    stream_events,
)

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage

    Answer = Reply | Fault | str | AIMessage

__all__ = ["OpenAIStub"]

_Exchange = tuple[ChatRequest, Reply | Fault]
_PATH = "/v1/chat/completions"
_EVENT_STREAM = "text/event-stream"


class OpenAIStub:
    """A scripted chat server. Use it as a context manager.

    Parameters
    ----------
    script
        Answers in order, one a request: a text, a :class:`Reply`, a :class:`Fault` or an ``AIMessage``;
        or a function of the :class:`ChatRequest` that returns one of these, asked for ever (it may be
        called from several threads). A request after the last answer gets HTTP 400 that says so.
    api_key
        When given, a request without ``Authorization: Bearer <api_key>`` gets HTTP 401.

    Attributes
    ----------
    requests
        All requests so far, in order of arrival.
    errors
        Exceptions that the script's function raised; the client got HTTP 500 for them.

    Examples
    --------
    >>> import httpx
    >>> question = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    >>> with OpenAIStub(["Hello."]) as stub:
    ...     reply = httpx.post(f"{stub.base_url}/chat/completions", json=question, trust_env=False)
    >>> reply.json()["choices"][0]["message"]["content"], stub.requests[0].model
    ('Hello.', 'm')
    """

    def __init__(
        self, script: Iterable[Answer] | Callable[[ChatRequest], Answer] = (), *, api_key: str | None = None
    ) -> None:
        self.requests: list[ChatRequest] = []
        self.errors: list[Exception] = []
        self._next = script if callable(script) else _in_order(list(script))
        self._api_key = api_key
        self._lock = threading.Lock()  # guards requests and errors against the handler threads
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def serving(cls, model: BaseChatModel) -> OpenAIStub:
        """Put a chat model behind HTTP: it gets the messages and tools of each request."""
        from langchain_core.messages import convert_to_messages

        def ask(request: ChatRequest) -> AIMessage:
            messages = convert_to_messages(request.messages)
            if not request.tools:
                return model.invoke(messages)
            choice = request.body.get("tool_choice")
            return model.bind_tools(request.tools, tool_choice=choice).invoke(messages)

        return cls(ask)

    @property
    def base_url(self) -> str:
        """What a client takes as ``base_url``: ``http://127.0.0.1:<port>/v1``."""
        if self._server is None:
            raise NotConfigured("the OpenAI stub is not running; use it in a with statement")
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._server = _Server(self._receive)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, name="openai-stub", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go whoever hangs, close all connections and stop the server. May be called twice."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server = self._thread = None

    def _receive(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> _Exchange:
        """Keep a request and say what it gets."""
        with self._lock:
            request = ChatRequest(number=len(self.requests) + 1, path=path, body=body, headers=headers)
            self.requests.append(request)
        if self._api_key is not None and headers.get("authorization") != f"Bearer {self._api_key}":
            return request, Fault.http(HTTPStatus.UNAUTHORIZED, "this key is not valid here")
        try:
            return request, _as_answer(self._next(request))
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything; it is kept
            with self._lock:
                self.errors.append(error)
            return request, Fault.http(HTTPStatus.INTERNAL_SERVER_ERROR, f"the script raised {error!r}")


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # closing joins the handlers

    def __init__(self, receive: Callable[[str, dict[str, Any], dict[str, str]], _Exchange]) -> None:
        self.receive = receive
        self.closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()  # guards _open: handler threads close their own connections
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        self.closing.set()
        with self._lock:
            for connection in self._open:
                _shut(connection)
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"  # chunked bodies, so that a client can tell a cut stream from a whole one

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Stay silent."""

    def do_POST(self) -> None:
        """Answer one chat request."""
        try:
            self._serve()
        except (ConnectionError, TimeoutError):
            return  # the client is gone, which is its right

    def do_GET(self) -> None:
        """Say that there is nothing to get."""
        self._send_error(Fault.http(HTTPStatus.NOT_FOUND, f"the stub answers only POST {_PATH}"))

    def _serve(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path.partition("?")[0] != _PATH:
            self.do_GET()
            return
        try:
            body = json.loads(raw)
        except ValueError:
            self._send_error(Fault.http(HTTPStatus.BAD_REQUEST, "the request body is not JSON"))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request, answer = self.server.receive(self.path, body, headers)
        if isinstance(answer, Fault):
            self._misbehave(answer, request)
        elif request.stream:
            self._send_events([*stream_events(answer, request)])
        else:
            self._send_json(HTTPStatus.OK, completion(answer, request))

    def _misbehave(self, fault: Fault, request: ChatRequest) -> None:
        match fault.kind:
            case "status":
                self._send_error(fault)
            case "hang":
                self.server.closing.wait()
            case "disconnect":
                _shut(self.connection)
            case "malformed":
                self._send(HTTPStatus.OK, b'data: {"id": "chatcmpl\n\n', stream=request.stream)
            case "truncated":
                self._truncate(Reply.text(fault.content), request)
            case "empty_choices" if request.stream:
                self._send_events([{**event, "choices": []} for event in stream_events(Reply(), request)])
            case "empty_choices":
                self._send_json(HTTPStatus.OK, {**completion(Reply(), request), "choices": []})
        self.close_connection = True

    def _truncate(self, reply: Reply, request: ChatRequest) -> None:
        if request.stream:
            events = [*stream_events(reply, request)]
            self._send_events(events[: max(1, len(events) // 2)], whole=False)
        else:
            raw = json.dumps(completion(reply, request)).encode()
            self._send(HTTPStatus.OK, raw[: len(raw) // 2], length=len(raw))

    def _send_error(self, fault: Fault) -> None:
        error = {"message": fault.message, "type": "stub_error", "param": None, "code": fault.code}
        self._send_json(fault.status, {"error": error}, retry_after=fault.retry_after)

    def _send_json(self, status: int, body: Any, *, retry_after: float | str | None = None) -> None:
        self._send(status, json.dumps(body).encode(), retry_after=retry_after)

    def _send(
        self,
        status: int,
        raw: bytes,
        *,
        length: int | None = None,
        retry_after: float | str | None = None,
        stream: bool = False,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", _EVENT_STREAM if stream else "application/json")
        self.send_header("Content-Length", str(len(raw) if length is None else length))
        self.send_header("Connection", "close")
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(raw)

    def _send_events(self, events: Iterable[Any], *, whole: bool = True) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", _EVENT_STREAM)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            self._send_chunk(f"data: {json.dumps(event)}\n\n".encode())
        if whole:
            self._send_chunk(b"data: [DONE]\n\n")
            self._send_chunk(b"")

    def _send_chunk(self, raw: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))


def _in_order(answers: list[Answer]) -> Callable[[ChatRequest], Answer]:
    waiting = deque(answers)

    def take(request: ChatRequest) -> Answer:
        try:
            return waiting.popleft()
        except IndexError:
            count = f"{len(answers)} answer{'s' * (len(answers) != 1)}"
            message = f"the stub's script has {count}; this is request {request.number}"
            return Fault.http(HTTPStatus.BAD_REQUEST, message)

    return take


def _as_answer(answer: Answer) -> Reply | Fault:
    if isinstance(answer, Reply | Fault):
        return answer
    if isinstance(answer, str):
        return Reply.text(answer)
    usage, finish = answer.usage_metadata, answer.response_metadata.get("finish_reason")
    broken = ((call["name"] or "", call["args"] or "") for call in answer.invalid_tool_calls)
    return Reply(
        content=str(answer.text),
        tool_calls=(*((call["name"], call["args"]) for call in answer.tool_calls), *broken),
        reasoning=_thoughts(answer),
        finish_reason=finish if finish in FINISH_REASONS else None,
        usage=(usage["input_tokens"], usage["output_tokens"]) if usage else None,
    )


def _thoughts(answer: AIMessage) -> str:
    blocks = answer.content if isinstance(answer.content, list) else []
    return "".join(str(block.get("thinking", "")) for block in blocks if isinstance(block, dict))


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # already closed by the other side
        connection.shutdown(socket.SHUT_RDWR)
