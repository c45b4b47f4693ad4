"""An OpenAI-compatible server over real HTTP on loopback, for tests of model clients.

It answers ``POST /v1/chat/completions``, streamed or not, and can misbehave in the ways real servers do.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, cast, get_args

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
        """Release waiting handlers, close all connections and stop the server. A second call does nothing."""
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
        """Send a reply; a ``length`` that differs from the body's makes it look cut.

        ``headers`` may replace the content type, ``application/json``.
        """
        size = len(body) if length is None else length
        default = {"Content-Type": "application/json; charset=utf-8", "Content-Length": str(size)}
        self.send_head(status, default | (headers or {}))
        self.wfile.write(body)


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):  # already closed by the other side
        connection.shutdown(socket.SHUT_RDWR)


FaultKind = Literal["status", "hang", "malformed", "truncated", "disconnect", "empty_choices"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]
FINISH_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)

_CHARACTERS_PER_TOKEN = 4  # a rough count, the same at every run


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """One request. Headers hold the key and are left out of ``repr``."""

    number: int
    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(repr=False)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, as OpenAI's message objects."""
        return list(self.body.get("messages", []))

    @property
    def model(self) -> str:
        """Name of the requested model."""
        return str(self.body.get("model", ""))

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The bound tools, as OpenAI's tool objects."""
        return list(self.body.get("tools") or [])

    @property
    def stream(self) -> bool:
        """Whether the reply must be streamed."""
        return bool(self.body.get("stream"))


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A valid reply: text, tool calls, or both.

    Parameters
    ----------
    content
        Text of the message.
    tool_calls
        Pairs of tool name and arguments (a text is sent as it is); the stub adds ids.
    reasoning
        Thoughts beside the text, sent as ``reasoning_content``.
    answer
        A structured answer. Its form follows the request: JSON text if there is a ``response_format``, else
        a call of the forced (or only) tool, else JSON text.
    finish_reason
        None means ``tool_calls`` or ``stop``, as fits; ``length`` means that the text is cut off.
    usage
        Prompt and completion tokens; None means a quarter of the characters.
    """

    content: str = ""
    tool_calls: tuple[tuple[str, Mapping[str, Any] | str], ...] = ()
    reasoning: str = ""
    answer: Mapping[str, Any] | None = None
    finish_reason: FinishReason | None = None
    usage: tuple[int, int] | None = None

    @classmethod
    def text(cls, content: str) -> Reply:
        """Reply with text."""
        return cls(content=content)

    @classmethod
    def call(cls, name: str, **arguments: Any) -> Reply:
        """Reply with one tool call."""
        return cls(tool_calls=((name, arguments),))

    @classmethod
    def structured(cls, answer: Mapping[str, Any]) -> Reply:
        """Reply with an object in the form that the request demands."""
        return cls(answer=answer)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Misbehaviour instead of a reply. Made by the class methods."""

    kind: FaultKind
    status: int = 200
    message: str = ""
    code: str | None = None
    retry_after: float | str | None = None
    content: str = ""

    @classmethod
    def http(
        cls,
        status: int,
        message: str = "refused by the stub",
        *,
        code: str | None = None,
        retry_after: float | str | None = None,
    ) -> Fault:
        """HTTP status: 429, 500, 401, ...

        ``code`` is the error code of the body (``insufficient_quota``); ``retry_after`` is the header of
        that name, in seconds or as an HTTP date.
        """
        return cls(kind="status", status=status, message=message, code=code, retry_after=retry_after)

    @classmethod
    def hang(cls) -> Fault:
        """No reply until the stub is closed."""
        return cls(kind="hang")

    @classmethod
    def malformed(cls) -> Fault:
        """Status 200 with a body that is not JSON."""
        return cls(kind="malformed")

    @classmethod
    def truncated(cls, content: str = "half of a sentence") -> Fault:
        """Connection closed in the middle of a valid reply."""
        return cls(kind="truncated", content=content)

    @classmethod
    def disconnect(cls) -> Fault:
        """Connection closed without a reply."""
        return cls(kind="disconnect")

    @classmethod
    def empty_choices(cls) -> Fault:
        """Status 200 with an empty list of choices."""
        return cls(kind="empty_choices")


def completion(reply: Reply, request: ChatRequest) -> dict[str, Any]:
    """Body of ``chat.completion``."""
    message, finish = _message(reply, request)
    return {
        **_head(request, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": _usage(reply, request, message),
    }


def stream_events(reply: Reply, request: ChatRequest) -> Iterator[dict[str, Any]]:
    """Bodies of ``chat.completion.chunk``; the usage chunk, if requested, comes last."""
    message, finish = _message(reply, request)
    head = _head(request, "chat.completion.chunk")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in pieces(reply.reasoning)]
    deltas += [{"content": piece} for piece in pieces(message["content"] or "")]
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        opening = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
        deltas.append({"tool_calls": [opening]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in pieces(function["arguments"])
        ]
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    if (request.body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": _usage(reply, request, message)}


def pieces(text: str, size: int = 7) -> list[str]:
    """Split a text into the pieces of a stream."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def _head(request: ChatRequest, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{request.number}", "object": kind, "created": 0, "model": request.model}


def _message(reply: Reply, request: ChatRequest) -> tuple[dict[str, Any], str]:
    content, calls = reply.content, list(reply.tool_calls)
    if reply.answer is not None:
        tool = None if request.body.get("response_format") else _expected_tool(request)
        if tool is None:
            content = json.dumps(reply.answer, ensure_ascii=False)
        else:
            calls = [(tool, reply.answer)]
    message: dict[str, Any] = {"role": "assistant", "content": content or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{request.number}_{index}",
                "type": "function",
                "function": {"name": name, "arguments": _arguments(arguments)},
            }
            for index, (name, arguments) in enumerate(calls)
        ]
    elif not content:
        message["content"] = ""
    return message, reply.finish_reason or ("tool_calls" if calls else "stop")


def _arguments(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _expected_tool(request: ChatRequest) -> str | None:
    """Name of the forced tool, or of the only one."""
    choice = request.body.get("tool_choice")
    if isinstance(choice, Mapping):
        return str(choice["function"]["name"])
    names = [str(tool["function"]["name"]) for tool in request.tools]
    return names[0] if len(names) == 1 else None


def _usage(reply: Reply, request: ChatRequest, message: Mapping[str, Any]) -> dict[str, int]:
    prompt, answer = reply.usage or (
        len(json.dumps(request.messages)) // _CHARACTERS_PER_TOKEN,
        len(json.dumps(message)) // _CHARACTERS_PER_TOKEN,
    )
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage

    Answer = Reply | Fault | str | AIMessage


_PATH = "/v1/chat/completions"
_EVENT_STREAM = {"Content-Type": "text/event-stream"}


class _Handler(StubHandler):
    def do_GET(self) -> None:
        """Refuse: nothing can be fetched."""
        self._send_error(Fault.http(HTTPStatus.NOT_FOUND, f"the stub answers only POST {_PATH}"))

    def respond(self, body: bytes) -> None:
        """Answer one chat request."""
        if self.path.partition("?")[0] != _PATH:
            self.do_GET()
            return
        try:
            parsed = json.loads(body)
        except ValueError:
            self._send_error(Fault.http(HTTPStatus.BAD_REQUEST, "the request body is not JSON"))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        stub = cast("OpenAIStub", self.server.stub)
        request, answer = stub.receive(self.path, parsed, headers)
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
                self.server.stub.closing.wait()
            case "disconnect":
                self.disconnect()
            case "malformed":
                headers = _EVENT_STREAM if request.stream else None
                self.send_body(HTTPStatus.OK, b'data: {"id": "chatcmpl\n\n', headers=headers)
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
            body = json.dumps(completion(reply, request)).encode()
            self.send_body(HTTPStatus.OK, body[: len(body) // 2], length=len(body))

    def _send_error(self, fault: Fault) -> None:
        error = {"message": fault.message, "type": "stub_error", "param": None, "code": fault.code}
        headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
        self.send_body(fault.status, json.dumps({"error": error}).encode(), headers=headers)

    def _send_json(self, status: int, body: Any) -> None:
        self.send_body(status, json.dumps(body).encode())

    def _send_events(self, events: Iterable[Any], *, whole: bool = True) -> None:
        self.send_head(HTTPStatus.OK, {**_EVENT_STREAM, "Transfer-Encoding": "chunked"})
        for event in events:
            self._send_chunk(f"data: {json.dumps(event)}\n\n".encode())
        if whole:
            self._send_chunk(b"data: [DONE]\n\n")
            self._send_chunk(b"")

    def _send_chunk(self, chunk: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))


class OpenAIStub(StubServer[ChatRequest]):
    """Scripted chat server on a free port of 127.0.0.1 while its ``with`` block runs.

    Parameters
    ----------
    script
        Answers in order, one a request: a text, a :class:`Reply`, a :class:`Fault` or an ``AIMessage``;
        or a function of the :class:`ChatRequest` that returns one of these for every request (it may be
        run in several threads). A request after the last answer gets HTTP 400.
    api_key
        If set, a request without ``Authorization: Bearer <api_key>`` gets HTTP 401.

    Attributes
    ----------
    errors
        Exceptions that the script's function raised; the client got HTTP 500.

    Examples
    --------
    >>> import httpx
    >>> question = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    >>> with OpenAIStub(["Hello."]) as stub:
    ...     reply = httpx.post(f"{stub.base_url}/chat/completions", json=question, trust_env=False)
    >>> reply.json()["choices"][0]["message"]["content"], stub.requests[0].model
    ('Hello.', 'm')
    """

    handler = _Handler

    def __init__(
        self, script: Iterable[Answer] | Callable[[ChatRequest], Answer] = (), *, api_key: str | None = None
    ) -> None:
        super().__init__()
        self.errors: list[Exception] = []
        self._next = script if callable(script) else _in_order(list(script))
        self._api_key = api_key

    @classmethod
    def serving(cls, model: BaseChatModel) -> OpenAIStub:
        """Server that passes the messages and tools of each request to a chat model."""
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
        """``base_url`` of a client: ``http://127.0.0.1:<port>/v1``."""
        return f"{self.address}/v1"

    def receive(
        self, path: str, body: dict[str, Any], headers: dict[str, str]
    ) -> tuple[ChatRequest, Reply | Fault]:
        """Record a request and choose its answer."""
        request = self._record(
            lambda number: ChatRequest(number=number, path=path, body=body, headers=headers)
        )
        if self._api_key is not None and headers.get("authorization") != f"Bearer {self._api_key}":
            return request, Fault.http(HTTPStatus.UNAUTHORIZED, "this key is not valid here")
        try:
            return request, _as_answer(self._next(request))
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            with self._lock:
                self.errors.append(error)
            return request, Fault.http(HTTPStatus.INTERNAL_SERVER_ERROR, f"the script raised {error!r}")


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
