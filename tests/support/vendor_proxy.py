"""A server between a client and ``OpenAIStub`` that keeps the protocol as vendors do: with rules of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

Body = dict[str, Any]

WANTS_THOUGHTS = "The `reasoning_content` in the thinking mode must be passed back to the API."
ONLY_STREAMS = "parameter.enable_thinking must be set to false for non-streaming calls"
NO_SYSTEM = "System role not supported"
NO_TEMPERATURE = "Unsupported parameter: 'temperature' is not supported with this model."


def without_thoughts(body: Body) -> str | None:
    """DeepSeek's rule, for all of an assistant's messages."""
    said = [each for each in body["messages"] if each["role"] == "assistant"]
    return WANTS_THOUGHTS if any(not each.get("reasoning_content") for each in said) else None


REFUSALS: Mapping[str, Callable[[Body], str | None]] = {
    "thoughts": without_thoughts,
    "streams": lambda body: None if body.get("stream") else ONLY_STREAMS,
    "no system": lambda body: NO_SYSTEM if body["messages"][0]["role"] == "system" else None,
    "no temperature": lambda body: NO_TEMPERATURE if "temperature" in body else None,
}


@dataclass
class Vendor:
    """What a server asks for, what it adds to a reply, and what was asked of it."""

    url: str = ""
    refuses: tuple[str, ...] = ()
    adds: Mapping[str, Any] = field(default_factory=dict)
    arguments: Callable[[str], Any] = str
    asked: list[Body] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def marked(self, message: Body) -> Body:
        """A reply's message, or the piece of one, as the vendor writes it."""
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = self.arguments(call["function"]["arguments"])
        return {**message, **self.adds} if message.get("role") else message


@contextmanager
def vendor_before(stub_url: str, vendor: Vendor) -> Iterator[Vendor]:
    """Serve a vendor on loopback, in front of a stub that has the replies."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            vendor.asked.append(body)
            problems = [line for each in vendor.refuses if (line := REFUSALS[each](body))]
            vendor.refused += problems
            if problems:
                self.send(400, "application/json", json.dumps({"error": {"message": problems[0]}}))
                return
            headers = {"content-type": "application/json", "authorization": "Bearer x"}
            request = Request(f"{stub_url}/chat/completions", json.dumps(body).encode(), headers)
            try:
                with urlopen(request) as reply:
                    text, kind = reply.read().decode(), reply.headers["content-type"]
            except HTTPError as error:
                self.send(error.code, "application/json", error.read().decode())
                return
            self.send(200, kind, self.marked(text) if body.get("stream") else self.whole(text))

        def whole(self, text: str) -> str:
            reply = json.loads(text)
            for choice in reply["choices"]:
                choice["message"] = vendor.marked(choice["message"])
            return json.dumps(reply)

        def marked(self, text: str) -> str:
            lines = []
            for line in text.splitlines():
                if line.startswith("data: {"):
                    chunk = json.loads(line.removeprefix("data: "))
                    for choice in chunk["choices"]:
                        choice["delta"] = vendor.marked(choice["delta"])
                    lines.append(f"data: {json.dumps(chunk)}")
                else:
                    lines.append(line)
            return "\n".join([*lines, ""])

        def send(self, status: int, kind: str, text: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        vendor.url = f"http://127.0.0.1:{server.server_port}/v1"
        yield vendor
        server.shutdown()
