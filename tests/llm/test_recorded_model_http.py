"""ChatOpenAI as get_llm builds it, over real HTTP against the stub."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import ssl
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, cast

import openai
import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

from quantgraph.errors import ModelOutputInvalid, ModelUnavailable, NotConfigured, PermissionDenied
from quantgraph.llm import get_llm
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.llm._retry import CallPolicy, model_facts
from quantgraph.settings import load_settings
from quantgraph.testing import Fault, OpenAIStub, Reply, ScriptedChatModel

KEY = "sk-test-0123456789-secret"
HI = [HumanMessage("Hi")]


class Order(BaseModel):
    """An order."""

    symbol: str
    shares: int


@tool
def price(symbol: str) -> float:
    """Price of a symbol."""
    return 1700.5


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if (
            name.upper().startswith(("QUANTGRAPH_", "OPENAI_", "LANGCHAIN_", "LANGSMITH_"))
            or "PROXY" in name.upper()
        ):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def model_at(stub: OpenAIStub, *, timeout: float = 5.0, key: str = KEY) -> BaseChatModel:
    settings = load_settings(openai_api_key=key, openai_base_url=stub.base_url, request_timeout=timeout)
    return get_llm("decision", model="gpt-test", settings=settings)


def wrapped(model: BaseChatModel, policy: CallPolicy, role: str = "test") -> RecordedChatModel:
    return RecordedChatModel(model, role=role, policy=policy)


def ask(model: Any, policy: CallPolicy, role: str = "test") -> AIMessage:
    return wrapped(model, policy, role).invoke(HI)


class Waits:
    """Records waits in place of sleeping."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.policy = CallPolicy(max_attempts=3, sleep=self.seconds.append)


@pytest.fixture
def waits() -> Waits:
    return Waits()


def failure(call: Callable[[], object], kind: type[Exception]) -> str:
    """The one-line message; no key in it nor in the printed traceback."""
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    message = str(caught.value)
    assert "\n" not in message
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return message


def test_text_goes_over_http_with_key_model_and_temperature(waits: Waits) -> None:
    with OpenAIStub([Reply(content="买入。", usage=(11, 3))], api_key=KEY) as stub:
        answer = wrapped(model_at(stub), waits.policy).invoke([SystemMessage("Be short."), ("user", "Hi")])
    assert isinstance(answer, AIMessage)
    assert answer.text == "买入。"
    assert answer.usage_metadata is not None
    assert (answer.usage_metadata["input_tokens"], answer.usage_metadata["output_tokens"]) == (11, 3)
    body = stub.requests[0].body
    assert (body["model"], body["temperature"]) == ("gpt-test", 0.0)
    assert [(one["role"], one["content"]) for one in stub.requests[0].messages] == [
        ("system", "Be short."),
        ("user", "Hi"),
    ]


def test_building_a_model_sends_nothing() -> None:
    with OpenAIStub() as stub:
        model_at(stub)
    assert stub.requests == []


def test_tool_calls_come_back_and_their_results_go_out(waits: Waits) -> None:
    with OpenAIStub([Reply.call("price", symbol="600519.SH"), "It is 1700.5."]) as stub:
        agent = create_agent(wrapped(model_at(stub), waits.policy, role="test"), [price])
        result = agent.invoke({"messages": HI})
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert result["messages"][1].tool_calls[0]["args"] == {"symbol": "600519.SH"}
    assert [one["function"]["name"] for one in stub.requests[0].tools] == ["price"]
    assert stub.requests[1].messages[-1]["content"] == "1700.5"
    assert stub.requests[1].messages[-1]["tool_call_id"] == "call_1_0"


def test_a_stream_adds_up_to_text_tool_calls_and_usage() -> None:
    reply = Reply(
        content="先看价格, then decide.", tool_calls=(("price", {"symbol": "600519.SH"}),), usage=(9, 4)
    )
    with OpenAIStub([reply]) as stub:
        chunks = list(model_at(stub).bind_tools([price]).stream(HI, stream_usage=True))
    whole = reduce(add, chunks)
    assert len(chunks) > 5
    assert whole.text == reply.content
    assert [(call["name"], call["args"]) for call in whole.tool_calls] == [("price", {"symbol": "600519.SH"})]
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["total_tokens"] == 13


@pytest.mark.parametrize(
    "fault",
    [
        Fault.http(429),
        Fault.http(500),
        Fault.http(503),
        Fault.disconnect(),
        Fault.malformed(),
        Fault.truncated(),
        Fault.empty_choices(),
    ],
)
def test_a_temporary_error_is_retried(fault: Fault, waits: Waits) -> None:
    with OpenAIStub([fault, "fine"]) as stub:
        assert ask(model_at(stub), waits.policy).text == "fine"
    assert len(stub.requests) == 2
    assert len(waits.seconds) == 1


def test_retry_after_is_honoured_as_seconds_and_as_a_date(waits: Waits) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    with OpenAIStub([Fault.http(429, retry_after=2.5), Fault.http(503, retry_after=date), "fine"]) as stub:
        ask(model_at(stub), waits.policy)
    assert waits.seconds[0] == 2.5
    assert 10 < waits.seconds[1] <= 30


def test_waits_grow_with_jitter_when_the_server_names_none() -> None:
    waits: list[float] = []
    policy = CallPolicy(max_attempts=5, first_wait=1.0, longest_wait=5.0, sleep=waits.append)
    with OpenAIStub(lambda _: Fault.http(500)) as stub:
        failure(lambda: ask(model_at(stub), policy), ModelUnavailable)
    assert len(waits) == 4
    for wait, low, high in zip(waits, (1, 2, 4, 5), (2, 3, 5, 5)):
        assert low <= wait <= high


def test_repeated_429_ends_with_model_attempts_and_status(waits: Waits) -> None:
    with OpenAIStub(lambda _: Fault.http(429, f"too many requests for {KEY}")) as stub:
        message = failure(lambda: ask(model_at(stub), waits.policy, role="filter agent"), ModelUnavailable)
    assert message == (
        "filter agent: model gpt-test did not answer after 3 attempts; last: HTTP 429: too many requests for ***"
    )
    assert len(stub.requests) == 3


def test_the_settings_say_how_often_when_the_policy_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTGRAPH_MAX_ATTEMPTS", "2")
    with OpenAIStub(lambda _: Fault.http(500)) as stub:
        policy = CallPolicy(sleep=lambda _: None)
        failure(lambda: ask(model_at(stub), policy), ModelUnavailable)
    assert len(stub.requests) == 2


def test_a_too_long_retry_after_ends_the_call(waits: Waits) -> None:
    with OpenAIStub([Fault.http(429, retry_after=3600)]) as stub:
        message = failure(lambda: ask(model_at(stub), waits.policy), ModelUnavailable)
    assert message.endswith("(the server asks to wait 3600 s)")
    assert waits.seconds == []


def test_a_time_out_is_retried_and_then_reported(waits: Waits) -> None:
    with OpenAIStub(lambda _: Fault.hang()) as stub:
        model = model_at(stub, timeout=0.15)
        message = failure(lambda: ask(model, waits.policy), ModelUnavailable)
    assert message == "test: model gpt-test did not answer after 3 attempts; last: it did not answer in time"
    assert len(stub.requests) == 3


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault.disconnect(), "the connection to 127.0.0.1:"),
        (Fault.truncated(), "the connection to 127.0.0.1:"),
        (Fault.malformed(), "the reply is not the protocol"),
        (Fault.empty_choices(), "the reply is not the protocol"),
    ],
)
def test_a_permanent_error_names_its_cause(fault: Fault, says: str, waits: Waits) -> None:
    with OpenAIStub(lambda _: fault) as stub:
        message = failure(lambda: ask(model_at(stub), waits.policy), ModelUnavailable)
    assert "test: model gpt-test did not answer after 3 attempts; last: " in message
    assert says in message


def test_an_unreachable_address_is_reported(waits: Waits) -> None:
    with OpenAIStub() as stub:
        model = model_at(stub)
    message = failure(lambda: ask(model, waits.policy), ModelUnavailable)
    assert "the connection to 127.0.0.1:" in message


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (401, NotConfigured, "test: model gpt-test: the key is refused (HTTP 401); set OPENAI_API_KEY"),
        (403, PermissionDenied, "test: model gpt-test: this key may not use it (HTTP 403)"),
        (400, ModelUnavailable, "test: model gpt-test refused the request: HTTP 400: no ***"),
        (404, ModelUnavailable, "test: model gpt-test refused the request: HTTP 404: no ***"),
    ],
)
def test_a_refused_request_is_not_retried(
    status: int, kind: type[Exception], says: str, waits: Waits
) -> None:
    with OpenAIStub([Fault.http(status, f"no {KEY} " + "and so on " * 100)]) as stub:
        message = failure(lambda: ask(model_at(stub), waits.policy), kind)
    assert message.startswith(says)
    assert len(message) < 250
    assert len(stub.requests) == 1


def test_permanent_refusals_are_not_retried(waits: Waits) -> None:
    with OpenAIStub([Fault.http(501, "no such thing")]) as stub:
        message = failure(lambda: ask(model_at(stub), waits.policy), ModelUnavailable)
    assert message == "test: model gpt-test refused the request: HTTP 501: no such thing"


@pytest.mark.parametrize(
    ("key", "url", "says"),
    [
        (KEY, "localhost:8000/v1", "its address must begin with http"),
        (f"{KEY}\nmore", None, "its key has characters that HTTP headers cannot hold"),
        ("sk-密钥-0123456789", None, "its key has characters that HTTP headers cannot hold"),
    ],
)
def test_an_unsendable_request_is_not_retried(key: str, url: str | None, says: str, waits: Waits) -> None:
    with OpenAIStub() as stub:
        model = ChatOpenAI(
            model="gpt-test", api_key=SecretStr(key), base_url=url or stub.base_url, max_retries=0
        )
        message = failure(lambda: ask(model, waits.policy), NotConfigured)
        assert stub.requests == []
    assert message.startswith(f"test: model gpt-test: {says}")
    assert waits.seconds == []


def test_an_untrusted_certificate_is_not_retried(waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", refuse)
    with OpenAIStub() as stub:
        url = stub.base_url.replace("http:", "https:")
        settings = load_settings(openai_api_key=KEY, openai_base_url=url)
        model = get_llm("decision", model="gpt-test", settings=settings)
        message = failure(lambda: ask(model, waits.policy), NotConfigured)
    assert "the certificate of its server is not trusted" in message
    assert waits.seconds == []


@pytest.mark.parametrize(
    ("message", "usage"),
    [
        (None, {}),
        ({"role": "assistant", "content": 5}, {}),
        ({"role": "assistant", "content": {"a": 1}}, {}),
        ({"role": "assistant", "content": "fine"}, [1]),
        ({"role": "assistant", "content": None, "tool_calls": "price"}, {}),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "price", "arguments": 5}}]}, {}),
    ],
)
def test_a_reply_of_another_shape_is_an_error_of_the_model(
    message: Any, usage: Any, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"model": "gpt-test", "choices": [{"index": 0, "message": message}], "usage": usage}
    monkeypatch.setattr("quantgraph.testing._openai.completion", lambda *_: body)
    with OpenAIStub(lambda _: "fine") as stub:
        told = failure(lambda: ask(model_at(stub), waits.policy), ModelUnavailable)
    assert "after 3 attempts; last: the reply is not the protocol (" in told


def test_a_reply_with_another_role_is_a_reply(waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"model": "gpt-test", "choices": [{"index": 0, "message": {"role": "model", "content": "fine"}}]}
    monkeypatch.setattr("quantgraph.testing._openai.completion", lambda *_: body)
    with OpenAIStub(lambda _: "fine") as stub:
        assert ask(model_at(stub), waits.policy).text == "fine"


def test_a_spent_quota_is_not_retried(waits: Waits) -> None:
    with OpenAIStub([Fault.http(429, "You exceeded your quota", code="insufficient_quota")]) as stub:
        model = model_at(stub)
        message = failure(lambda: ask(model, waits.policy), ModelUnavailable)
    assert message == "test: model gpt-test refused the request: HTTP 429: You exceeded your quota"


def test_an_error_event_inside_a_stream_is_retried(waits: Waits) -> None:
    event = openai.APIError("overloaded", request=cast(Any, None), body=None)
    model = ScriptedChatModel([event, "fine"])
    assert ask(model, waits.policy).text == "fine"


def test_every_wait_is_logged_without_the_key(waits: Waits, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="quantgraph")
    with OpenAIStub([Fault.http(429, f"slow down, {KEY}", retry_after=9), "fine"]) as stub:
        ask(model_at(stub), waits.policy)
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("quantgraph")]
    assert logged == ["test: model gpt-test: HTTP 429: slow down, ***; asking again in 9.0 s"]


def test_a_truncated_structured_answer_is_invalid_output(waits: Waits) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "Order", "schema": Order.model_json_schema()}}
    with OpenAIStub([Reply(content='{"symbol": "6005', finish_reason="length")]) as stub:
        model = wrapped(model_at(stub), waits.policy).bind(response_format=schema)
        message = failure(lambda: model.invoke(HI), ModelOutputInvalid)
    assert message.startswith("test: the answer of model gpt-test was cut off at the length limit")


def test_plain_text_cut_off_comes_back_marked(waits: Waits) -> None:
    with OpenAIStub([Reply(content="half of", finish_reason="length")]) as stub:
        answer = ask(model_at(stub), waits.policy)
    assert (answer.text, answer.response_metadata["finish_reason"]) == ("half of", "length")


@pytest.mark.parametrize(
    "error", [KeyError("ours"), ValueError("ours"), AssertionError("ours"), ModelUnavailable("ours")]
)
def test_other_exceptions_pass_unchanged(error: Exception, waits: Waits) -> None:
    with pytest.raises(type(error)) as caught:
        ask(ScriptedChatModel([error]), waits.policy)
    assert caught.value is error
    assert waits.seconds == []


def test_an_agent_has_the_same_policy(waits: Waits) -> None:
    with OpenAIStub([Fault.http(429, retry_after=4), "fine"]) as stub:
        agent = create_agent(wrapped(model_at(stub), waits.policy, role="agent"), [price])
        assert agent.invoke({"messages": HI})["messages"][-1].text == "fine"
    assert waits.seconds == [4.0]
    with OpenAIStub(lambda _: Fault.http(401)) as stub:
        agent = create_agent(wrapped(model_at(stub), waits.policy, role="agent"), [price])
        message = failure(lambda: agent.invoke({"messages": HI}), NotConfigured)
    assert message.startswith("agent: model gpt-test: the key is refused")
    with OpenAIStub(lambda _: Fault.malformed()) as stub:
        agent = create_agent(wrapped(model_at(stub), waits.policy, role="agent"), [price])
        failure(lambda: agent.invoke({"messages": HI}), ModelUnavailable)
    assert len(stub.requests) == 3


def test_an_agent_streaming_through_a_truncated_stream_is_repaired(waits: Waits) -> None:
    with OpenAIStub([Fault.truncated("lost in the middle"), "whole"]) as stub:
        agent = create_agent(wrapped(model_at(stub), waits.policy, role="agent"), [price])
        final = list(agent.stream({"messages": HI}, stream_mode=["messages", "values"]))[-1]
    assert final[0] == "values"
    assert final[1]["messages"][-1].text == "whole"
    assert all(request.stream for request in stub.requests)


def test_an_agent_may_be_awaited(waits: Waits) -> None:
    async def ask(stub: OpenAIStub) -> str:
        agent = create_agent(wrapped(model_at(stub), waits.policy, role="agent"), [price])
        result = await agent.ainvoke({"messages": HI})
        return str(result["messages"][-1].text)

    with OpenAIStub([Fault.http(500), "fine"]) as stub:
        assert asyncio.run(ask(stub)) == "fine"
    assert len(waits.seconds) == 1
    with (
        OpenAIStub(lambda _: Fault.http(503)) as stub,
        pytest.raises(ModelUnavailable, match="after 3 attempts"),
    ):
        asyncio.run(ask(stub))


def test_nothing_is_left_open(waits: Waits) -> None:
    with OpenAIStub(["a"]) as stub:
        ask(model_at(stub), waits.policy)
    gc.collect()  # an unclosed socket would warn here, and warnings are errors


def test_a_key_in_a_url_or_deep_in_the_options_is_a_secret():
    model = ChatOpenAI(
        model="m",
        base_url="https://host/v1?sig=of-the-address&api-version=2026-01-01",
        api_key="of-the-model",
        model_kwargs={"extra_headers": {"Authorization": "Bearer of-a-header"}},
        default_query={"api-key": "of-the-query"},
    )
    facts = model_facts(model)
    assert facts.base_url == "https://host/v1"
    secrets = ("of-the-address", "of-the-model", "of-a-header", "of-the-query")
    assert facts.hide(f"2026-01-01 {' '.join(secrets)}") == "2026-01-01 *** *** *** ***"
