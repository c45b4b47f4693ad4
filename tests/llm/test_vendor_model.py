"""Servers that keep OpenAI's protocol almost: what they add, how they write arguments, what they refuse."""

from __future__ import annotations

import json

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from vendor_proxy import NO_SYSTEM, NO_TEMPERATURE, ONLY_STREAMS, Vendor, vendor_before

from quantgraph.errors import BadOption, ModelUnavailable
from quantgraph.llm import get_llm
from quantgraph.llm._models import role_model
from quantgraph.llm.messages import vendor_fields
from quantgraph.recording import Recorder
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.settings import RoleModel, load_settings
from quantgraph.testing import OpenAIStub, Reply

ADDED = {"reasoning_content": "hm", "mark": {"a": [1]}}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def vendor():
    with OpenAIStub([Reply.call("add", a=1, b=2), *[Reply.text("3")] * 9]) as stub:
        with vendor_before(stub.base_url, Vendor(adds=ADDED)) as server:
            yield server


def settings(vendor, **options):
    return load_settings(openai_base_url=vendor.url, model="m", max_attempts=1, **options)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("arguments", [str, json.loads, json.dumps])
def test_what_a_server_adds_goes_back_to_it_and_arguments_are_read(vendor, arguments, stream):
    vendor.arguments = arguments if not stream else str
    model = get_llm(settings=settings(vendor, models={"all": RoleModel(stream=stream)})).bind_tools([add])
    reply = model.invoke([HumanMessage("1 + 2")])
    assert reply.tool_calls[0]["args"] == {"a": 1, "b": 2}
    assert vendor_fields(reply) == ADDED
    model.invoke([HumanMessage("1 + 2"), reply, ToolMessage("3", tool_call_id=reply.tool_calls[0]["id"])])
    sent = vendor.asked[1]["messages"][1]
    assert ADDED.items() <= sent.items()
    assert [bool(body.get("stream")) for body in vendor.asked] == [stream, stream]


def test_arguments_that_are_encoded_twice_are_read_from_a_stream(vendor):
    text = json.dumps(json.dumps({"a": 1, "b": 2}))
    with OpenAIStub([Reply(tool_calls=(("add", text),))]) as stub:
        options = load_settings(openai_base_url=stub.base_url, model="m", models={"trader": {"stream": True}})
        model = role_model("trader", model=None, settings=options).bind_tools([add])
        assert model.invoke([HumanMessage("1 + 2")]).tool_calls[0]["args"] == {"a": 1, "b": 2}
        assert len(stub.requests) == 1


def asked_in_a_run(path, model, *messages):
    """The reply of a model in a run, opened anew as by another process."""
    recorder = Recorder(path / "run.sqlite")
    with in_scope(Scope(recording=recorder.of("r"), path="node")):
        reply = model.invoke([*messages])
    recorder.close("r")
    return reply


def test_fields_of_a_megabyte_are_served_from_the_record_and_go_back(vendor, tmp_path):
    vendor.adds = {"reasoning_content": "x" * 1_000_000}
    hi, model = HumanMessage("hi"), role_model("reflection", model=None, settings=settings(vendor))
    asked_in_a_run(tmp_path, model, hi)
    served = asked_in_a_run(tmp_path, model, hi)
    assert (len(vendor.asked), vendor_fields(served)) == (1, vendor.adds)
    model.invoke([hi, served, HumanMessage("go on")])
    assert vendor.asked[1]["messages"][1]["reasoning_content"] == vendor.adds["reasoning_content"]


def test_fields_of_bytes_are_left_out_of_the_record(tmp_path):
    reply = AIMessage("3", additional_kwargs={"signature": b"\x00\xff", "kept": 1})
    inner = GenericFakeChatModel(messages=iter([reply]))
    model = role_model("reflection", model=inner, settings=load_settings())
    for _ in range(2):
        served = asked_in_a_run(tmp_path, model, HumanMessage("hi"))
    assert vendor_fields(served) == {"kept": 1}


def test_a_system_prompt_is_the_head_of_what_the_user_says_first(vendor):
    vendor.refuses = ("no system",)
    model = get_llm(settings=settings(vendor, models={"reflection": RoleModel(system_role="user")}))
    model.invoke([SystemMessage("Be brief."), HumanMessage("1 + 2")])
    assert [(each["role"], each["content"]) for each in vendor.asked[0]["messages"]] == [
        ("user", "Be brief.\n\n1 + 2")
    ]


@pytest.mark.parametrize(
    ("refuses", "line", "named"),
    [
        ("no temperature", NO_TEMPERATURE, "temperature (none sends none)"),
        ("streams", ONLY_STREAMS, "stream (true), extra_body"),
        ("no system", NO_SYSTEM, "system_role (user)"),
    ],
)
def test_a_refusal_that_names_a_parameter_names_our_setting(vendor, refuses, line, named):
    vendor.refuses = (refuses,)
    model = role_model("reflection", model=None, settings=settings(vendor))
    with pytest.raises(ModelUnavailable) as refused:
        model.invoke([SystemMessage("Be brief."), HumanMessage("1 + 2")])
    assert f"HTTP 400: {line}; settings that decide it: {named}" in str(refused.value)


def test_extra_fields_of_requests_come_from_the_environment_for_all_roles_and_for_one(vendor, monkeypatch):
    tables = {"all": {"extra_body": {"enable_thinking": False}}, "trader": {"extra_body": {"top_k": 1}}}
    monkeypatch.setenv("QUANTGRAPH_MODELS", json.dumps(tables))
    monkeypatch.setenv("QUANTGRAPH_MAX_TOKENS", "50")
    for role in ("reflection", "trader"):
        get_llm(role, settings=settings(vendor)).invoke("hi")
    names = ("enable_thinking", "top_k", "max_tokens")
    assert [{name: body[name] for name in names if name in body} for body in vendor.asked] == [
        {"enable_thinking": False, "max_tokens": 50},
        {"top_k": 1, "max_tokens": 50},
    ]
    monkeypatch.setenv("QUANTGRAPH_MODELS", '{"all": {"extra_body": "top_k"}}')
    with pytest.raises(BadOption, match=r"models.all.extra_body|QUANTGRAPH_MODELS"):
        load_settings()
