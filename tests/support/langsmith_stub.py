"""Stub of LangSmith's ingest, for tests of what a traced run sends.

>>> import requests
>>> with LangSmithStub() as stub:
...     requests.post(f"{stub.address}/runs/batch", json={"post": [{"id": "1", "name": "trading"}]})
...     requests.post(f"{stub.address}/runs/batch", json={"patch": [{"id": "1", "outputs": {}}]})
<Response [202]>
<Response [202]>
>>> stub.runs
[{'id': '1', 'name': 'trading', 'outputs': {}}]
"""

from __future__ import annotations

import json
from typing import Any, cast

from quantgraph.testing._openai import StubHandler, StubServer

_INFO = {
    "use_multipart_endpoint": False,
    "scale_up_qsize_trigger": 1000,
    "scale_up_nthreads_limit": 1,
    "scale_down_nempty_trigger": 4,
    "size_limit": 100,
    "size_limit_bytes": 20_000_000,
}
"""How the client is to send: batches as plain JSON."""


class _Handler(StubHandler):
    def do_GET(self) -> None:
        """Say how to send."""
        self.send_body(200, json.dumps({"batch_ingest_config": _INFO}).encode())

    def respond(self, body: bytes) -> None:
        cast("LangSmithStub", self.server.stub).keep(body)
        self.send_body(202, b"{}")


class LangSmithStub(StubServer[bytes]):
    """The ingest over HTTP on a free port of 127.0.0.1 while its ``with`` block runs."""

    handler = _Handler

    def keep(self, body: bytes) -> None:
        """Record a batch."""
        self._record(lambda _: body)

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The runs sent so far, each with its later changes, in the order in which they began."""
        runs: dict[str, dict[str, Any]] = {}
        for batch in map(json.loads, self.requests):
            for part in [*batch.get("post", []), *batch.get("patch", [])]:
                known = {name: value for name, value in part.items() if value is not None}
                runs.setdefault(part["id"], {}).update(known)
        return sorted(runs.values(), key=lambda run: str(run.get("dotted_order", "")))
