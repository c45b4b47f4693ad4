"""Models as LangChain gives them: fallbacks, retries, bound options, configurable fields, ``provider:model``."""

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from quantgraph import run_strategy
from quantgraph.errors import BadOption, NotConfigured
from quantgraph.llm import KeylessPlanner, get_llm
from quantgraph.llm._models import role_model
from quantgraph.llm._retry import model_facts
from quantgraph.runs import replay
from quantgraph.settings import load_settings
from quantgraph.testing import Fault, OpenAIStub

KEYS = "sk-first-0123456789", "sk-other-0123456789"
SENTENCE = "000341.SZ, buy when the 5-day average crosses above the 20-day average, sell when below, 2025"


@tool
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


@pytest.fixture
def servers(monkeypatch):
    """One that fails with 503, and one that answers, with a model of each; the second is the environment's."""
    with OpenAIStub(lambda _: Fault(503)) as failing, OpenAIStub(lambda _: "hello") as good:
        monkeypatch.setenv("OPENAI_BASE_URL", good.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEYS[1])
        yield failing, good, *map(model_of, (failing, good), KEYS)


def model_of(server, key):
    return ChatOpenAI(model="big", base_url=server.base_url, api_key=key, max_retries=0)


FORMS = {
    "fallbacks": lambda first, other: first.with_fallbacks([other]),
    "retry": lambda _, other: other.with_retry(stop_after_attempt=2),
    "both": lambda first, other: first.with_fallbacks([other.with_retry()]).with_retry(stop_after_attempt=2),
    "bound": lambda _, other: other.bind(temperature=0.3),
    "fields": lambda _, other: other.configurable_fields(temperature=ConfigurableField(id="heat")),
    "configurable": lambda *_: init_chat_model("openai:big", configurable_fields=("model",)),
}


@pytest.mark.parametrize("form", FORMS)
def test_it_is_asked_with_and_without_tools_as_the_model_that_comes_first(servers, form):
    failing, good, *models = servers
    model = role_model("reflection", model=FORMS[form](*models), settings=load_settings())
    assert model.invoke("hi").content == model.bind_tools([double]).invoke("hi").content == "hello"
    assert [bool(request.tools) for request in good.requests] == [False, True]
    assert {request.body.get("temperature") for request in good.requests} == {
        0.3 if form == "bound" else None
    }
    assert bool(failing.requests) == (form in {"fallbacks", "both"})


def test_the_keys_of_those_that_stand_in_are_hidden_too(servers):
    _, _, first, other = servers
    facts = model_facts(get_llm(model=first.with_fallbacks([other])))
    assert (facts.name, {*facts.secrets}) == ("big", {*KEYS})
    assert facts.hide(f"bad key {KEYS[1]}") == "bad key ***"


def test_a_run_with_a_fallback_is_recorded_and_replayed_offline(servers, tmp_path):
    _, good, first, _ = servers
    model = first.with_fallbacks([KeylessPlanner()])
    told = run_strategy(SENTENCE, source="sample", model=model, out=tmp_path)
    assert told["ended_because"] == "done", told["error"]
    assert replay(told["run_dir"]).identical
    assert not good.requests


def test_the_configuration_of_the_graph_around_a_call_chooses_the_model(servers):
    _, good, *_ = servers
    chosen = role_model("filter", model=FORMS["configurable"](), settings=load_settings())
    warmed = role_model("filter", model=FORMS["fields"](None, servers[3]), settings=load_settings())
    node = RunnableLambda(lambda _: [chosen.invoke("hi"), warmed.bind_tools([double]).invoke("hi")])
    node.invoke(None, {"configurable": {"model": "openai:small", "heat": 0.7}})
    node.invoke(None)
    asked = [(request.model, request.body.get("temperature")) for request in good.requests]
    assert asked == [("small", None), ("big", 0.7), ("big", None), ("big", None)]


def test_a_providers_name_is_asked_for_by_its_prefix(servers, monkeypatch):
    assert get_llm(model="openai:gpt-x", settings=load_settings()).model_name == "gpt-x"
    assert get_llm(model="qwen3:8b", settings=load_settings()).model_name == "qwen3:8b", "a tag, no provider"
    with pytest.raises(NotConfigured, match="pip install langchain-mistralai"):
        get_llm(model="mistralai:large")
    monkeypatch.setenv("QUANTGRAPH_MODEL", "mistralai:large")
    with pytest.raises(NotConfigured, match="mistralai:large"):
        get_llm()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (RunnableLambda(lambda _: 3), "must end in a chat model"),
        (RunnableLambda(lambda _: 3).with_retry(), "not RunnableLambda"),
        (init_chat_model(configurable_fields=("model",)), "needs a default"),
    ],
    ids=["function", "retried function", "no default"],
)
def test_what_ends_in_no_chat_model_is_refused_in_one_line(model, said):
    with pytest.raises(BadOption, match=said):
        get_llm(model=model)
