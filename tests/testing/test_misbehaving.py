"""The pack: every model misbehaves as it says, the same each time, streamed and over HTTP too."""

from __future__ import annotations

import json
from functools import reduce
from operator import add

import pytest
from faulty_models import INJECTIONS, MISBEHAVING, FaultyChatModel, flaky_model, misbehaving_in, slow_model
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from quantgraph.errors import BadOption
from quantgraph.llm.messages import _json as tags
from quantgraph.llm.messages import read_json
from quantgraph.subgraphs.signal._agents import ReflectionReply
from quantgraph.testing import OpenAIStub, sample_store, signal_state

SENTENCE = "000341.SZ，5日均线上穿20日均线买入，下穿卖出，20240102到20240131"
FACTS = '{"first_session": "20230103", "last_session": "20251231"}'
PLAN = [SystemMessage(tags.wrap("context", FACTS)), HumanMessage(tags.wrap("user_request", SENTENCE))]
WANTED = {"ts_code": "000341.SZ", "start_date": "20240102", "end_date": "20240131"}
FETCH = [HumanMessage(tags.wrap("fetch", json.dumps(WANTED)))]


@tool
def tushare_daily_bar(ts_code: str, start_date: str, end_date: str) -> str:
    """Fetch daily bars."""
    return "fetched"


def answers(model):
    """What a model answers to a plan and to a fetch, and again; a failure by its kind."""

    def ask(model, messages):
        try:
            reply = model.invoke(messages)
        except ConnectionError as error:
            return type(error)
        broken = [(call["name"], call["args"]) for call in reply.invalid_tool_calls]
        calls = [(call["name"], call["args"]) for call in reply.tool_calls]
        return reply.text, calls, broken, reply.response_metadata.get("finish_reason")

    bound = model.bind_tools([tushare_daily_bar])
    return [ask(model, PLAN), ask(bound, FETCH), ask(model, PLAN), ask(bound, FETCH)]


@pytest.mark.parametrize("name", MISBEHAVING)
def test_faults_are_deterministic_and_change_the_reply(name):
    first = answers(MISBEHAVING[name]())
    assert first == answers(MISBEHAVING[name]())
    right = answers(FaultyChatModel(lambda context: context.correct))
    alike_in_text = {"obeys_data", "slow", "thinking_blocks"}
    assert (first == right) == (name in alike_in_text)


@pytest.mark.parametrize("name", [name for name in MISBEHAVING if name != "flaky"])
def test_the_chunks_of_a_stream_add_up_to_what_is_invoked(name):
    for messages in (PLAN, FETCH):
        streamed, invoked = (MISBEHAVING[name]().bind_tools([tushare_daily_bar]) for _ in range(2))
        whole, reply = reduce(add, streamed.stream(messages)), invoked.invoke(messages)
        assert whole.text == reply.text
        assert not reply.tool_calls or whole.tool_calls == reply.tool_calls
        assert whole.response_metadata == reply.response_metadata


@pytest.mark.parametrize("name", [name for name in MISBEHAVING if name != "flaky"])
def test_over_http_each_misbehaves_as_it_does_here(name):
    here = answers(MISBEHAVING[name]())
    with OpenAIStub.serving(MISBEHAVING[name]()) as stub:
        there = answers(ChatOpenAI(model="m", base_url=stub.base_url, api_key="k", max_retries=0))
    for (text, calls, broken, finish), (text_there, calls_there, broken_there, finish_there) in zip(
        here, there
    ):
        assert (text, calls, broken) == (text_there, calls_there, broken_there)
        assert finish_there == (finish or ("tool_calls" if calls or broken else "stop"))


def test_a_thought_goes_over_http_beside_the_text():
    with OpenAIStub.serving(MISBEHAVING["thinking_blocks"]()) as stub:
        import httpx

        body = {"model": "m", "messages": [{"role": "user", "content": "who are you?"}]}
        reply = httpx.post(f"{stub.base_url}/chat/completions", json=body, trust_env=False).json()
    assert reply["choices"][0]["message"]["reasoning_content"].startswith("First idea")


def test_a_flaky_model_fails_the_given_number_of_times_before_each_answer():
    model = flaky_model(failures=2)
    outcomes = []
    for _ in range(6):
        try:
            outcomes.append(bool(model.invoke("who are you?").text))
        except ConnectionError:
            outcomes.append(None)
    assert outcomes == [None, None, True, None, None, True]


def test_a_slow_model_waits_by_the_clock_it_is_given():
    waited = []
    model = slow_model(90.0, sleep=waited.append)
    assert model.invoke("who are you?").text
    model.bind_tools([tushare_daily_bar]).invoke(FETCH)
    assert waited == [90.0, 90.0]


@pytest.mark.parametrize("text", INJECTIONS)
def test_the_obeying_model_is_right_until_it_reads_the_text(text):
    model = MISBEHAVING["obeys_data"]()
    before = read_json(model.invoke(PLAN).text, ReflectionReply).user_intent.params.ts_code
    news = HumanMessage(f"news of today: {text.upper()}!")
    after = read_json(model.invoke([*PLAN, news]).text, ReflectionReply).user_intent.params.ts_code
    assert (before, after) == ("000341.SZ", "ALL")


def test_only_the_chosen_role_misbehaves():
    cast = misbehaving_in("clarify", "refuses")
    assert {role for role, model in cast.items() if isinstance(model, FaultyChatModel)} == {"clarify"}
    with pytest.raises(BadOption, match="role"):
        misbehaving_in("the director", "refuses")
    with pytest.raises(BadOption, match="valid are prose, "):
        misbehaving_in("clarify", "sings")


def test_the_state_before_an_unreachable_node_is_refused():
    with pytest.raises(BadOption, match="ends before it"):
        signal_state("signal_generate", store=sample_store(), sentence="000341.SZ，20240102到20240131的数据")
