from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage

from quantgraph.errors import NotConfigured
from quantgraph.testing import ChatRequest, Fault, OpenAIStub, Reply, ScriptedChatModel

TOOL = {"type": "function", "function": {"name": "price", "parameters": {"type": "object", "properties": {}}}}


def post(
    stub: OpenAIStub, *, timeout: float = 5.0, headers: dict[str, str] | None = None, **body: Any
) -> httpx.Response:
    request = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **body}
    url = f"{stub.base_url}/chat/completions"
    return httpx.post(url, json=request, timeout=timeout, headers=headers, trust_env=False)


def events(response: httpx.Response) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_answers_come_in_order_and_requests_are_kept() -> None:
    with OpenAIStub(["one", Reply.text("two"), AIMessage("three")]) as stub:
        texts = [post(stub, n=n).json()["choices"][0]["message"]["content"] for n in (1, 2, 3)]
    assert texts == ["one", "two", "three"]
    assert [(r.number, r.body["n"], r.model, r.path) for r in stub.requests] == [
        (1, 1, "m", "/v1/chat/completions"),
        (2, 2, "m", "/v1/chat/completions"),
        (3, 3, "m", "/v1/chat/completions"),
    ]
    assert stub.requests[0].messages == [{"role": "user", "content": "Hi"}]


def test_a_request_after_the_last_answer_gets_an_error() -> None:
    with OpenAIStub(["only"]) as stub:
        post(stub)
        response = post(stub)
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "the stub's script has 1 answer; this is request 2"


def test_tool_calls_have_json_arguments_and_their_finish_reason() -> None:
    with OpenAIStub([Reply.call("price", symbol="600519.SH", n=3)]) as stub:
        choice = post(stub, tools=[TOOL]).json()["choices"][0]
    call = choice["message"]["tool_calls"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert (call["id"], call["type"], call["function"]["name"]) == ("call_1_0", "function", "price")
    assert json.loads(call["function"]["arguments"]) == {"symbol": "600519.SH", "n": 3}


@pytest.mark.parametrize(
    ("extra", "as_tool"),
    [
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, False),
        ({"response_format": {"type": "json_object"}, "tools": [TOOL]}, False),
        ({"tools": [TOOL]}, True),
        ({"tools": [TOOL, TOOL], "tool_choice": {"type": "function", "function": {"name": "price"}}}, True),
        ({}, False),
    ],
)
def test_a_structured_answer_has_the_requested_form(extra: dict[str, Any], as_tool: bool) -> None:
    with OpenAIStub([Reply.structured({"名": 1})]) as stub:
        message = post(stub, **extra).json()["choices"][0]["message"]
    text = message["tool_calls"][0]["function"]["arguments"] if as_tool else message["content"]
    assert json.loads(text) == {"名": 1}


def test_a_stream_adds_up_to_the_reply_and_ends_with_usage() -> None:
    reply = Reply(
        content="买入并持有 until the end.", tool_calls=(("price", {"symbol": "600519.SH"}),), usage=(5, 7)
    )
    with OpenAIStub([reply]) as stub:
        response = post(stub, stream=True, stream_options={"include_usage": True})
    chunks = events(response)
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert response.headers["content-type"] == "text/event-stream"
    assert "".join(delta.get("content") or "" for delta in deltas) == reply.content
    assert calls[0]["function"]["name"] == "price"
    assert len(calls) > 2
    assert json.loads("".join(call["function"]["arguments"] for call in calls)) == {"symbol": "600519.SH"}
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["usage"] == {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}


def test_a_stream_has_no_usage_unless_asked() -> None:
    with OpenAIStub(["x"]) as stub:
        assert all("usage" not in chunk for chunk in events(post(stub, stream=True)))


def test_status_faults_carry_message_and_retry_after() -> None:
    with OpenAIStub([Fault.http(429, "slow down", retry_after=7), Fault.http(500)]) as stub:
        first, second = post(stub), post(stub)
    assert (first.status_code, first.headers["retry-after"]) == (429, "7")
    assert first.json()["error"]["message"] == "slow down"
    assert second.status_code == 500
    assert "retry-after" not in second.headers


def test_a_hanging_answer_lets_the_client_time_out_and_the_stub_close() -> None:
    with OpenAIStub([Fault.hang(), "after"]) as stub:
        with pytest.raises(httpx.ReadTimeout):
            post(stub, timeout=0.2)
        assert post(stub).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_truncated_answer_breaks_the_protocol(stream: bool) -> None:
    with OpenAIStub([Fault.truncated()]) as stub, pytest.raises(httpx.RemoteProtocolError):
        post(stub, stream=stream)


def test_a_dropped_connection_has_no_answer() -> None:
    with OpenAIStub([Fault.disconnect()]) as stub, pytest.raises(httpx.RemoteProtocolError):
        post(stub)


def test_a_malformed_body_is_a_200_that_is_not_json() -> None:
    with OpenAIStub([Fault.malformed()]) as stub:
        response = post(stub)
    assert response.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        response.json()


def test_empty_choices_and_finish_reason_length() -> None:
    with OpenAIStub([Fault.empty_choices(), Reply(content="cut of", finish_reason="length")]) as stub:
        assert post(stub).json()["choices"] == []
        assert post(stub).json()["choices"][0]["finish_reason"] == "length"


def test_a_wrong_key_gets_401_when_one_is_asked_for() -> None:
    with OpenAIStub(["in"], api_key="sk-right") as stub:
        assert post(stub).status_code == 401
        assert post(stub, headers={"Authorization": "Bearer sk-wrong"}).status_code == 401
        assert post(stub, headers={"Authorization": "Bearer sk-right"}).status_code == 200
    assert "sk-right" not in repr(stub.requests)


def test_a_function_answers_every_request_and_its_exception_is_kept() -> None:
    def answer(request: ChatRequest) -> str:
        if request.number == 2:
            raise KeyError("boom")
        return f"reply {request.number} to {request.messages[-1]['content']}"

    with OpenAIStub(answer) as stub:
        texts = [post(stub), post(stub), post(stub)]
    assert texts[0].json()["choices"][0]["message"]["content"] == "reply 1 to Hi"
    assert texts[1].status_code == 500
    assert texts[2].status_code == 200
    assert [type(error) for error in stub.errors] == [KeyError]


def test_a_chat_model_can_be_put_behind_http() -> None:
    scripted = ScriptedChatModel(
        [AIMessage("", tool_calls=[{"name": "price", "args": {"n": 1}, "id": "a"}]), "done"]
    )
    with OpenAIStub.serving(scripted) as stub:
        call = post(stub, tools=[TOOL]).json()["choices"][0]["message"]["tool_calls"][0]
        history = [
            {"role": "system", "content": "be short"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": "42"},
        ]
        text = post(stub, messages=history).json()["choices"][0]["message"]["content"]
    assert (call["function"]["name"], text) == ("price", "done")
    assert [tool["function"]["name"] for tool in scripted.calls[0].tools] == ["price"]
    assert [message.type for message in scripted.calls[1].messages] == ["system", "ai", "tool"]


def test_parallel_requests_each_get_one_answer() -> None:
    texts: list[str] = []
    with OpenAIStub([str(n) for n in range(8)]) as stub:
        threads = [
            threading.Thread(
                target=lambda: texts.append(post(stub).json()["choices"][0]["message"]["content"])
            )
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(texts) == [str(n) for n in range(8)]
    assert sorted(request.number for request in stub.requests) == list(range(1, 9))


def test_closing_frees_the_port_and_an_idle_connection() -> None:
    with OpenAIStub(["x"]) as stub:
        port = int(stub.base_url.rpartition(":")[2].partition("/")[0])
        idle = socket.create_connection(("127.0.0.1", port))
        post(stub)  # accepted in order: now the idle one is too
    with idle:
        assert idle.recv(1) == b""
    stub.close()
    with pytest.raises(NotConfigured, match="with block"):
        _ = stub.base_url
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.parametrize(("path", "status"), [("/v1/responses", 404), ("/v1/chat/completions", 400)])
def test_what_is_not_a_chat_request_is_refused(path: str, status: int) -> None:
    with OpenAIStub(["unused"]) as stub:
        url = stub.base_url.removesuffix("/v1") + path
        assert httpx.post(url, content=b"not json", trust_env=False).status_code == status
    assert stub.requests == []


def test_the_package_needs_no_pytest_and_loads_nothing_heavy() -> None:
    code = (
        "import sys, quantgraph.testing as t; light = set(sys.modules); t.OpenAIStub; stub = set(sys.modules);"
        "heavy = {'pytest', 'openai', 'langchain_openai', 'langchain_core', 'pandas'};"
        "print(sorted(heavy & light), sorted(heavy & stub))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []"
