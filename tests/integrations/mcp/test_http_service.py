"""What an MCP server over HTTP refuses, by requests as a stranger would send them."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import httpx
import pytest
from mcp_play import TOKEN, McpRun, prices

from quantgraph.errors import BadOption
from quantgraph.integrations.mcp._server import bound_socket, with_token
from quantgraph.tools.mcp._package import MAX_BODY

ACCEPTED = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
BUY = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "buy", "arguments": {"symbol": "AAA", "amount": 1, "order_id": "stolen"}},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    prices(folder)
    run = McpRun(folder)
    yield run
    result = run.stop()
    assert result["ended_because"] == "cancelled"


def post(run, body=None, **headers):
    own = {
        "Authorization": f"Bearer {TOKEN}",
        **ACCEPTED,
        **{k.replace("_", "-"): v for k, v in headers.items()},
    }
    content = body if isinstance(body, bytes) else json.dumps(BUY if body is None else body).encode()
    return httpx.post(run.url, content=content, headers={k: v for k, v in own.items() if v})


def test_with_its_token_a_request_is_answered(run):
    listed = post(run, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json()["result"]["tools"]
    assert len(listed) == 11
    kinds = {tool["name"]: tool["annotations"] for tool in listed}
    assert {name for name, kind in kinds.items() if kind["destructiveHint"]} == {"buy", "sell", "finish_day"}
    assert {name for name, kind in kinds.items() if not kind["readOnlyHint"]} == {"buy", "sell", "finish_day"}
    for tool in listed:
        assert not {"run", "account", "today", "runtime"} & set(tool["inputSchema"]["properties"])
        assert tool["inputSchema"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer another-server's-token"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": f"Bearer {TOKEN} "[:-2]}, 401),
        ({"X_Run_Id": "another-run"}, 403),
        ({"Host": "example.com"}, 421),
        ({"Host": "127.0.0.1.example.com:80"}, 421),
        ({"Origin": "http://example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:PORT@evil.com"}, 403),
        ({"Origin": "http://localhost:PORT.evil.com"}, 403),
        ({"Origin": "https://127.0.0.1:PORT"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Authorization": f"Bearer{TOKEN}"}, 401),
        ({"Content_Type": "text/plain"}, 400),
    ],
)
def test_what_is_foreign_is_refused(run, headers, status):
    port = str(urlsplit(run.url).port)
    headers = {name: value.replace("PORT", port) for name, value in headers.items()}
    assert post(run, **headers).status_code == status


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer"])
def test_the_schemes_name_may_be_in_any_case(run, scheme):
    assert post(run, Authorization=f"{scheme} {TOKEN}").status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_own_origin_is_answered(run, host):
    assert post(run, Origin=f"http://{host}:{urlsplit(run.url).port}").status_code == 200


def test_a_request_that_is_too_large_is_refused(run):
    large = {**BUY, "params": {"name": "buy", "arguments": {"symbol": "A" * MAX_BODY}}}
    assert post(run, large).status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"withdraw","arguments":{}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"buy","arguments":[1]}}',
        b'{"jsonrpc":"2.0","id":1,"method":"nothing"}',
    ],
)
def test_what_is_malformed_is_an_error_of_the_protocol(run, body):
    answer = post(run, body)
    assert answer.status_code < 500
    assert "error" in answer.json()
    assert "Traceback" not in answer.text


def test_nothing_else_is_served(run):
    port = urlsplit(run.url).port
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert httpx.get(f"http://127.0.0.1:{port}/", headers=headers).status_code == 404


@pytest.mark.parametrize("token", ["", "short", "a token with spaces in it", "ein-schlüssel-mit-umlaut"])
def test_a_token_that_can_be_guessed_or_sent_wrongly_is_refused(token):
    with pytest.raises(BadOption, match="at least 16 printable ASCII characters"):
        with_token(None, token, "run")


def test_a_port_must_be_one():
    with pytest.raises(BadOption, match=r"^port=70000; must be a port from 0 \(a free one\) to 65535"):
        bound_socket(70_000, "port")
