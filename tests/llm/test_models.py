from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from quantgraph.errors import BadOption, NotConfigured
from quantgraph.llm import KeylessPlanner
from quantgraph.llm._models import DEFAULT_MODEL, get_light_llm, get_llm
from quantgraph.llm._retry import model_facts
from quantgraph.llm.messages._json import ModelRequest, build_request
from quantgraph.settings import Role, Settings, is_loopback, load_settings
from quantgraph.testing import OpenAIStub, ScriptedChatModel

KEY = "sk-test-0123456789-secret"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if (
            name.upper().startswith(("QUANTGRAPH_", "OPENAI_", "LANGCHAIN_", "LANGSMITH_"))
            or "PROXY" in name.upper()
        ):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def settings(**fields: Any) -> Settings:
    return load_settings(**{"openai_api_key": KEY, **fields})


def chat(model: object) -> ChatOpenAI:
    assert isinstance(model, ChatOpenAI)
    return model


def test_without_a_key_every_role_gets_the_keyless_planner() -> None:
    assert isinstance(get_llm(), KeylessPlanner)
    assert isinstance(get_light_llm(), KeylessPlanner)
    assert isinstance(get_llm("trader"), KeylessPlanner)


def test_keyless_forces_the_planner_although_there_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(get_llm(model="keyless", settings=settings()), KeylessPlanner)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("QUANTGRAPH_MODEL", "keyless")
    assert isinstance(get_llm("filter"), KeylessPlanner)


def test_with_a_key_it_is_chat_openai_as_the_settings_say() -> None:
    configured = settings(
        openai_base_url="https://models.example/v1", model="big", temperature=0.3, request_timeout=7.0
    )
    model = chat(get_llm(settings=configured))
    assert (model.model_name, model.openai_api_base) == ("big", "https://models.example/v1")
    assert (model.temperature, model.request_timeout, model.max_retries) == (0.3, 7.0, 0)
    assert cast(SecretStr, model.openai_api_key).get_secret_value() == KEY
    assert model.disable_streaming is False


def test_the_environment_alone_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert chat(get_llm()).model_name == DEFAULT_MODEL
    monkeypatch.setenv("QUANTGRAPH_MODEL", "big")
    monkeypatch.setenv("QUANTGRAPH_MODELS", '{"data_fetch": "small", "decision": {"name": "judge"}}')
    names = [chat(get_llm(role)).model_name for role in ("reflection", "data_fetch", "decision")]
    assert names == ["big", "small", "judge"]


def test_the_parameters_of_a_role_go_over_the_wire_and_into_the_request() -> None:
    with OpenAIStub(["Hello.", "Hello."]) as stub:
        plain = settings(openai_base_url=stub.base_url, model="m")
        given = settings(
            openai_base_url=stub.base_url,
            model="m",
            models={"decision": {"temperature": 0.7, "max_tokens": 8000, "seed": 42}},
        )
        get_llm("decision", settings=given).invoke("Hi")
        get_llm("filter", settings=given).invoke("Hi")
        bodies = [request.body for request in stub.requests]

        def digest(role: Role, configured: Settings) -> str:
            model = get_llm(role, settings=configured)
            return build_request(model, model_facts(model), ()).digest

        digests = [digest("decision", given), digest("filter", given), digest("filter", plain)]
    sent = [{name: body.get(name) for name in ("temperature", "max_tokens", "seed")} for body in bodies]
    assert sent == [
        {"temperature": 0.7, "max_tokens": 8000, "seed": 42},
        {"temperature": 0.0, "max_tokens": None, "seed": None},
    ]
    assert digests[0] != digests[1] == digests[2]


@pytest.mark.parametrize(
    ("name", "field", "sent"),
    [
        ("deepseek-chat", "auto", "max_tokens"),
        ("gpt-5-mini", "auto", "max_completion_tokens"),
        ("openai/o3", "auto", "max_completion_tokens"),
        ("deepseek-chat", "max_completion_tokens", "max_completion_tokens"),
        ("o3", "max_tokens", "max_tokens"),
    ],
)
def test_a_limit_of_tokens_is_sent_in_the_field_that_the_server_reads(
    name: str, field: Any, sent: str
) -> None:
    with OpenAIStub(["Hello."]) as stub:
        own = {"decision": {"reply_limit_field": field}}
        given = settings(openai_base_url=stub.base_url, model=name, max_tokens=50, models=own)
        model = get_llm("decision", settings=given)
        model.invoke("Hi")
        body = stub.requests[0].body
    fields = ("max_tokens", "max_completion_tokens")
    assert {each: body[each] for each in fields if each in body} == {sent: 50}
    # The budget reckons with it either way.
    assert build_request(model, model_facts(model), ()).max_tokens == 50


@pytest.mark.parametrize("url", [None, "https://api.openai.com/v1", "https://me.openai.azure.com/v1"])
def test_openai_itself_is_sent_the_field_that_its_reasoning_models_take(url: str | None) -> None:
    given = settings(openai_base_url=url, openai_api_key=KEY, model="gpt-4o-mini", max_tokens=50)
    assert chat(get_llm("decision", settings=given)).max_tokens == 50


@pytest.mark.parametrize("field", ["temperature", "max_tokens", "seed"])
def test_each_parameter_alone_changes_the_digest_and_the_limit_is_known(field: str) -> None:
    def request(**fields: Any) -> ModelRequest:
        model = get_llm("decision", settings=settings(model="m", **fields))
        return build_request(model, model_facts(model), ())

    changed = request(models={"decision": {field: 2}})
    assert changed.digest != request().digest == request(models={"filter": {field: 2}}).digest
    assert changed.max_tokens == (2 if field == "max_tokens" else None)


def test_the_model_for_simple_work_is_that_of_its_role() -> None:
    configured = settings(model="big", models={"data_fetch": "small", "decision": "judge"})
    assert chat(get_light_llm(settings=configured)).model_name == "small"
    assert chat(get_light_llm("decision", settings=configured)).model_name == "judge"
    assert chat(get_light_llm(settings=settings(model="big"))).model_name == "big"


def test_a_chat_model_is_returned_unchanged() -> None:
    mine = ScriptedChatModel()
    assert get_llm("decision", model=mine) is mine
    assert get_light_llm(model=mine) is mine


def test_a_mapping_picks_by_role_and_leaves_the_rest_to_the_settings() -> None:
    mine = ScriptedChatModel()
    by_role: dict[Role, Any] = {"decision": mine, "filter": "small", "clarify": "keyless"}
    configured = settings(model="big")
    assert get_llm("decision", model=by_role, settings=configured) is mine
    assert chat(get_llm("filter", model=by_role, settings=configured)).model_name == "small"
    assert isinstance(get_llm("clarify", model=by_role, settings=configured), KeylessPlanner)
    assert chat(get_llm("trader", model=by_role, settings=configured)).model_name == "big"


def test_unknown_roles_and_kinds_are_refused() -> None:
    with pytest.raises(BadOption, match="did you mean 'validation'"):
        get_llm("validate")  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="did you mean 'decision'"):
        get_llm("filter", model={"desicion": "x"})  # type: ignore[dict-item]
    with pytest.raises(BadOption, match="must be a chat model, a model name, or a mapping by role, not int"):
        get_llm(model=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{"model": "big"}, {"settings": {"model": "big"}}])
def test_a_named_model_without_a_key_names_the_variable(given: dict[str, Any]) -> None:
    fields = given.pop("settings", {})
    with pytest.raises(NotConfigured, match=r"model 'big' for role 'trader' .* set OPENAI_API_KEY") as caught:
        get_llm("trader", settings=load_settings(**fields), **given)
    assert caught.value.data["variable"] == "OPENAI_API_KEY"


def test_a_server_without_a_model_name_names_the_variable() -> None:
    with pytest.raises(NotConfigured, match=r"server models\.example: set QUANTGRAPH_MODEL"):
        get_llm(settings=settings(openai_base_url="https://models.example/v1"))


def test_a_local_server_needs_no_key_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with OpenAIStub(["from here"]) as stub:
        model = get_llm(model="llama", settings=load_settings(openai_base_url=stub.base_url))
        assert model.invoke("Hi").text == "from here"
    assert stub.requests[0].model == "llama"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:11434/v1", True),
        ("http://127.8.0.1/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://api.localhost/v1", True),
        ("http://localhost.example.com/v1", False),
        ("http://10.0.0.1/v1", False),
        ("https://api.openai.com/v1", False),
        (None, False),
    ],
)
def test_loopback_is_this_machine_only(url: str | None, expected: bool) -> None:
    assert is_loopback(url) is expected


def test_no_repr_of_a_model_shows_the_key() -> None:
    model = get_llm(model="big", settings=settings())
    assert KEY not in repr(model)
    assert KEY not in str(model)


def test_importing_the_package_loads_no_model_library() -> None:
    code = (
        "import sys, quantgraph.llm as llm; first = set(sys.modules); llm.get_llm; llm.role_model;"
        " names = {'openai', 'langchain_openai', 'langgraph', 'tushare'};"
        "print(sorted((names | {'langchain_core', 'pydantic'}) & first), sorted(names & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []"
