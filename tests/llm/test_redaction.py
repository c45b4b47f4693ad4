"""No secret of a model is in its requests, nor in records if its server echoes it."""

from __future__ import annotations

import base64
import json
import traceback

import pytest
from langchain_openai import AzureChatOpenAI, ChatOpenAI

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
NAMES = """
api_key api_keys apikey apiKey apiKeys APIKey key keys token tokens access_token accessToken x-api-key auth
authorization bearer pass passwd passphrase pwd password user_password secret clientSecret secrets sig signature
access_key_id private_key_pem aws_secret_access_key session_token session_id jwt credential credentials cookie
connection_string dsn extra_headers extra_query api_key_2
""".split()
COUNTS = {
    "max_tokens": 5,
    "max_completion_tokens": 6,
    "prompt_tokens": 7,
    "top_k": 8,
    "sort_keys": True,
    "stop_token_ids": [1, 2],
    "skip_special_tokens": False,
    "monkey": "a",
    "passes": "b",
    "author": "c",
    "tokenizer": "d",
    "prompt_cache_key": "e",
}


def openai(body, url="http://127.0.0.1:9/v1", **more):
    return ChatOpenAI(model="m", api_key="sk-abcdefgh", base_url=url, extra_body=body, max_retries=0, **more)


def asked(model):
    return build_request(model, model_facts(model), ())


def test_values_named_like_secrets_are_left_out_of_requests_at_any_depth():
    def body(secret):
        deep = {name: [{"a": f"{secret}-{name}"}] for name in NAMES}
        return {**dict.fromkeys(NAMES, secret), "provider": {"keep": 1, **deep, "all": [deep]}}

    model = openai(body(SECRET))
    assert asked(model).params["extra_body"] == {"provider": {"keep": 1, "all": [{}]}}
    assert asked(model).text == asked(openai(body("another"))).text
    assert {model_facts(model).hide(f"{SECRET}-{name}") for name in NAMES} == {"***"}


def test_numbers_of_tokens_and_switches_and_longer_words_are_no_secrets():
    assert asked(openai(COUNTS)).params["extra_body"] == COUNTS
    schema = {"properties": {"key": {"type": "string"}, "session": {"type": "string"}}}
    assert asked(openai({"guided_json": schema})).params["extra_body"] == {"guided_json": schema}
    public = {"X-Title": "quantgraph", "api-version": "2024-01-02"}
    model = openai(None, default_headers=public, default_query=public)
    assert model_facts(model).secrets == ("sk-abcdefgh",), "or no reply could speak of that day"


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
    api_key: str = SECRET

    def _generate(self, *_args, **_options):
        raise ValueError(f"bad key {self.api_key}") from KeyError(self.api_key)


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
