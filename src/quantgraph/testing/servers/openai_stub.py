"""An OpenAI-compatible server over real HTTP on loopback, for tests of model clients.

It answers ``POST /v1/chat/completions``, streamed or not, and can misbehave in the ways real servers do.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from quantgraph.testing.servers.openai_wire import (
    FINISH_REASONS,
    ChatRequest,
    Fault,
    Reply,
    completion,
    stream_events,
)
from quantgraph.testing.servers.stub_server import StubHandler, StubServer

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage

    Answer = Reply | Fault | str | AIMessage


_PATH = "/v1/chat/completions"
_EVENT_STREAM = {"Content-Type": "text/event-stream"}


class _Handler(StubHandler):
    def do_GET(self) -> None:  # noqa: N802 - the name is the base class's
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
        called from several threads). A request after the last answer gets HTTP 400.
    api_key
        If given, a request without ``Authorization: Bearer <api_key>`` gets HTTP 401.

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
