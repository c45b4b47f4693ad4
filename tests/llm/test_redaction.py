"""No secret of a model is in its requests, nor in records if its server echoes it."""

from __future__ import annotations

import base64
import json
import traceback

import pytest
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import SecretStr

from quantgraph.errors import ModelUnavailable
from quantgraph.llm._capability_model import CapabilityChatModel
from quantgraph.llm._model_call import ReplyCache
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.llm._retry import CallPolicy, model_facts
from quantgraph.llm.messages._json import build_request
from quantgraph.recording import Recording
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.testing import Fault, OpenAIStub, ScriptedChatModel

SECRET = "Zq9Xw8Ev7Ru6"


def openai(body, url="http://127.0.0.1:9/v1", **more):
    return ChatOpenAI(model="m", api_key="sk-abcdefgh", base_url=url, extra_body=body, max_retries=0, **more)


def asked(model):
    return build_request(model, model_facts(model), ())


def test_headers_and_queries_are_in_no_request_and_public_ones_are_no_secrets():
    model = openai({"max_tokens": 5}, model_kwargs={"extra_headers": {"X-Auth": SECRET}})
    assert asked(model).params == asked(openai({"max_tokens": 5})).params
    assert model_facts(model).hide(f"a {SECRET}") == "a ***"
    public = {"X-Title": "quantgraph", "api-version": "2024-01-02"}
    model = openai(None, default_headers=public, default_query=public)
    assert model_facts(model).secrets == ("sk-abcdefgh",), "or no reply could speak of that day"


@pytest.mark.parametrize(
    "text", ["headers = {'Authorization': 'Bearer abcdefghijklmnop'}", "http://a:b@host"]
)
def test_a_reply_that_looks_like_a_secret_is_kept_as_it_is(text):
    assert model_facts(openai(None)).hide(text) == text


def test_urls_in_options_are_recorded_without_user_and_query():
    url, there = f"postgresql://{SECRET}:{SECRET}@host/v1?a={SECRET}#b", "postgresql://host/v1"
    model = openai({"hook": f"at {url} or {url}"})
    assert asked(model).params["extra_body"] == {"hook": f"at {there} or {there}"}


def test_secrets_that_a_server_echoes_are_in_no_record_error_or_cache(tmp_path):
    sent = {"X-Auth": "Header-1234", "X-Other": 'quo"ted\\2345'}
    basic = base64.b64encode(b"joe99x:p/ss-word").decode()
    secrets = ["Header-1234", 'quo"ted\\2345', "Query+4567/8", "In-The-Call-9", "joe99x", "p/ss-word", basic]
    echo = " ".join([*secrets, "Query%2B4567%2F8", "p%2Fss-word"])
    heard = []
    cache = ReplyCache(tmp_path / "cache.sqlite")
    recording = Recording("r1")
    with OpenAIStub([echo, Fault.http(400, echo)]) as stub:
        url = stub.base_url.replace("//", "//joe99x:p%2Fss-word@")
        inner = openai(None, url, default_headers=sent, default_query={"code": "Query+4567/8"})
        live = RecordedChatModel(inner, policy=CallPolicy(max_attempts=1), cache=cache)
        model = live.bind(extra_headers={"X-Mine": "In-The-Call-9"})
        scope = Scope(recording=recording, path="node", on_model_call=lambda entry, _: heard.append(entry))
        with in_scope(scope):
            replies = [model.invoke("hello").text]
            with pytest.raises(ModelUnavailable) as caught:
                model.invoke("again")
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir()).decode(errors="replace")
    told = [*replies, *map(repr, heard), "".join(traceback.format_exception(caught.value)), kept]
    told += [json.dumps(caught.value.data), *map(repr, recording.entries())]
    told += [text.replace("\\\\", "\\").replace('\\"', '"') for text in told]
    assert len(heard) == 2
    assert replies == [" ".join(["***"] * 9)]
    for secret in echo.split():
        assert [text for text in told if secret in text] == [], secret


class Breaks(ScriptedChatModel):
    api_key: SecretStr = SecretStr(SECRET)

    def _generate(self, *_args, **_options):
        key = self.api_key.get_secret_value()
        raise ValueError(f"bad key {key}") from KeyError(key)


def test_an_exception_of_a_callers_model_does_not_carry_its_key_out():
    with pytest.raises(ModelUnavailable, match=r"failed: ValueError: bad key \*\*\*") as caught:
        RecordedChatModel(Breaks(["a"])).invoke("hello")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


# Addresses ---------------------------------------------------------------------------------------


def test_the_address_is_the_one_that_the_client_uses(monkeypatch):
    for variable in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        with monkeypatch.context() as patched:
            patched.setenv(variable, f"http://me:{SECRET}@one.example/v1/?key={SECRET}")
            model = ChatOpenAI(model="m", api_key="sk-abcdefgh")
        assert model_facts(model).base_url == "http://one.example/v1", "that of when it was made"
        assert model_facts(model).hide(SECRET) == "***"
        assert SECRET not in asked(model).text
    assert model_facts(ChatOpenAI(model="m", api_key="sk-abcdefgh")).base_url == "https://api.openai.com/v1"
    assert model_facts(CapabilityChatModel(model)).base_url == "http://one.example/v1"
    given = {"api_version": "1", "api_key": "k1234567", "azure_deployment": "d"}
    azure = AzureChatOpenAI(azure_endpoint="https://one.example/", **given)
    assert model_facts(azure).base_url == "https://one.example/openai/deployments/d"


class Client:
    """Like Ollama's model, whose address is in its inner HTTP client."""

    def __init__(self, url):
        self._client = type("Http", (), {"base_url": url})()


class Elsewhere(ScriptedChatModel):
    anthropic_api_url: str | None = None
    endpoint: str | None = None
    _client: object = None


def test_models_of_other_makers_have_their_addresses_too():
    assert (
        model_facts(Elsewhere(["a"], anthropic_api_url="https://a.example/")).base_url == "https://a.example"
    )
    assert model_facts(Elsewhere(["a"], endpoint="https://b.example/v2")).base_url == "https://b.example/v2"
    local = Elsewhere(["a"])
    local._client = Client("http://c.example:11434")
    assert model_facts(local).host == "c.example:11434"
    assert model_facts(ScriptedChatModel(["a"])).base_url is None


def test_a_cache_serves_no_reply_of_another_server(tmp_path, monkeypatch):
    cache = ReplyCache(tmp_path / "cache.sqlite")
    with OpenAIStub(["from one"]) as one, OpenAIStub(["from another"]) as another:
        for stub, expected in ((one, "from one"), (another, "from another")):
            monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
            model = RecordedChatModel(ChatOpenAI(model="m", api_key="sk-abcdefgh"), cache=cache)
            assert [model.invoke("hi").text for _ in range(2)] == [expected] * 2
        assert (len(one.requests), len(another.requests)) == (1, 1)
