"""Stub of Jina's search and reader, for tests of :class:`~quantgraph.tools.news._sources.JinaNews`.

>>> import requests
>>> with JinaStub(hits=[{"title": "Up", "url": "https://example.com/1"}]) as stub:
...     reply = requests.post(stub.search_url, json={"q": "up"}, headers={"Authorization": "Bearer any"})
>>> reply.json()["data"][0]["title"], stub.requests
('Up', [JinaRequest(service='search', body={'q': 'up'}, authorized=True)])
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from quantgraph.testing._openai import StubHandler, StubServer


@dataclass(frozen=True, kw_only=True)
class JinaRequest:
    """One request. The key is not kept: ``authorized`` tells whether it was accepted."""

    service: Literal["search", "reader"]
    body: Mapping[str, Any]
    authorized: bool


class _Handler(StubHandler):
    def respond(self, body: bytes) -> None:
        stub = cast("JinaStub", self.server.stub)
        status, reply = stub.reply(self.path, self.headers.get("Authorization") or "", body)
        self.send_body(status, reply)


class JinaStub(StubServer[JinaRequest]):
    """Both services over HTTP on a free port of 127.0.0.1 while its ``with`` block runs."""

    handler = _Handler

    def __init__(
        self,
        *,
        hits: Sequence[Mapping[str, Any]] = (),
        pages: Mapping[str, Mapping[str, Any]] | None = None,
        key: str | None = None,
        status: int = 200,
        text: str | None = None,
    ) -> None:
        super().__init__()
        self._hits, self._pages = list(hits), dict(pages or {})
        self._key, self._status, self._text = key, status, text

    @property
    def search_url(self) -> str:
        """Address for ``JinaNews(search_url=...)``."""
        return f"{self.address}/search"

    @property
    def reader_url(self) -> str:
        """Address for ``JinaNews(reader_url=...)``."""
        return f"{self.address}/reader"

    def reply(self, path: str, authorization: str, body: bytes) -> tuple[int, bytes]:
        """Record a request, and return status and body of its reply."""
        asked = json.loads(body)
        service: Literal["search", "reader"] = "reader" if path == "/reader" else "search"
        authorized = authorization.startswith("Bearer ") and self._key in (None, authorization[7:])
        self._record(lambda _: JinaRequest(service=service, body=asked, authorized=authorized))
        if self._text is not None:
            return self._status, self._text.encode()
        if not authorized:
            return _refusal(
                401, "AuthenticationRequiredError", "Authentication is required to use this endpoint."
            )
        if self._status != 200:
            return _refusal(self._status, "Error", "refused")
        if service == "reader":
            page = self._pages.get(asked["url"], {"content": ""})
            return _reply({"url": asked["url"], "title": "", "description": "", **page})
        if not self._hits:
            return _refusal(
                422, "AssertionFailureError", f"No search results available for query {asked['q']}"
            )
        return _reply(self._hits)


def _reply(data: Any) -> tuple[int, bytes]:
    return 200, json.dumps({"code": 200, "status": 20000, "data": data}).encode()


def _refusal(status: int, name: str, message: str) -> tuple[int, bytes]:
    document = {"data": None, "code": status, "name": name, "status": status * 100, "message": message}
    return status, json.dumps(document).encode()
