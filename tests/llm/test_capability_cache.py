"""The mode of a model: found in use, kept by run, and left if the server refuses tools or its model writes them."""

from __future__ import annotations

import json

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from quantgraph.errors import ModelUnavailable, NotConfigured
from quantgraph.llm import KeylessPlanner
from quantgraph.llm._capability_model import CapabilityChatModel
from quantgraph.llm._models import role_model
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.llm._retry import CallPolicy
from quantgraph.recording import Recorder
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.settings import load_settings
from quantgraph.testing import Fault, OpenAIStub, Reply, ScriptedChatModel

ARGS = {"a": 1, "b": 2}
CALL = json.dumps({"tool": "add", "args": ARGS})
ADDED = [("add", ARGS)]
QUESTION = [HumanMessage("go")]
NO_TOOLS = Fault.http(400, "this server does not support tools")


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def without_tools(request):
    """A server that supports no tools."""
    return NO_TOOLS if request.tools else f"Sure!\n```json\n{CALL}\n```"


def behind(stub, **options):
    inner = ChatOpenAI(model="m", base_url=stub.base_url, api_key="sk-secret", max_retries=0)
    policy = CallPolicy(max_attempts=1)
    return CapabilityChatModel(RecordedChatModel(inner, role="reflection", policy=policy), **options)


def called(message):
    return [(call["name"], call["args"]) for call in message.tool_calls]


def sent_tools(stub):
    """Of each request, whether tools were sent."""
    return [bool(request.tools) for request in stub.requests]


def test_a_server_with_tools_gets_them_at_once_and_no_other_request():
    with OpenAIStub([Reply.call("add", **ARGS)] * 2) as stub:
        model = behind(stub).bind_tools([add])
        assert [called(model.invoke(QUESTION)) for _ in range(2)] == [ADDED] * 2
        assert (sent_tools(stub), model.mode) == ([True, True], "native")


def test_a_server_that_refuses_tools_is_asked_in_text_and_tools_are_not_sent_again():
    with OpenAIStub(without_tools) as stub:
        model = behind(stub).bind_tools([add])
        assert [called(model.invoke(QUESTION)) for _ in range(2)] == [ADDED] * 2
        assert (sent_tools(stub), model.mode) == ([True, False, False], "text")


MARKUPS = {
    "hermes": '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>',
    "llama": '<function=add>{"a": 1, "b": 2}</function>',
    "dsml": '<｜DSML｜function_calls><｜DSML｜invoke name="add">…</｜DSML｜invoke></｜DSML｜function_calls>',
    "invoke": '<invoke name="add"><parameter name="a">1</parameter></invoke>',
    "deepseek": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a": 1, "b": 2}',
    "glm": "<tool_call>add<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
    "kimi": "<|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{}",
    "mistral": '[TOOL_CALLS]add[ARGS]{"a": 1, "b": 2}',
    "gpt-oss": '<|channel|>commentary to=functions.add<|message|>{"a": 1, "b": 2}',
    "fenced": '```json\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n```',
    "a list": '[{"name": "add", "arguments": {"a": 1, "b": 2}}]',
    "openai's message": '{"tool_calls": [{"type": "function", "function": {"name": "add", "arguments": "{}"}}]}',
    "ours, where tools were offered": CALL,
}


@pytest.mark.parametrize("written", MARKUPS.values(), ids=MARKUPS.keys())
def test_a_call_in_the_markup_of_a_vendor_shows_that_the_server_has_no_tools(written):
    with OpenAIStub([f"Let me add.\n{written}", CALL, CALL]) as stub:
        model = behind(stub).bind_tools([add])
        assert called(model.invoke(QUESTION)) == ADDED
        assert "a form that is not read" in stub.requests[1].messages[-1]["content"]
        assert "# Form of your reply" in stub.requests[1].messages[0]["content"]
        assert called(model.invoke(QUESTION)) == ADDED
        assert (sent_tools(stub), model.mode) == ([True, False, False], "text")


def test_a_fixed_mode_is_never_left():
    with OpenAIStub([MARKUPS["hermes"], Reply.call("add", **ARGS), NO_TOOLS]) as stub:
        model = behind(stub, mode="native").bind_tools([add])
        assert called(model.invoke(QUESTION)) == ADDED
        with pytest.raises(ModelUnavailable, match="does not support tools"):
            model.invoke(QUESTION)
        assert (sent_tools(stub), model.mode) == ([True] * 3, "native")


def test_a_server_that_is_down_is_an_error_and_keeps_the_mode():
    for down in (Fault.http(503, "starting"), Fault.http(500, "oops"), Fault.http(404, "no such model")):
        with OpenAIStub([down]) as stub, pytest.raises(ModelUnavailable, match=str(down.status)):
            behind(stub).bind_tools([add]).invoke(QUESTION)
    with OpenAIStub([Fault.disconnect(), Reply.call("add", **ARGS)]) as stub:
        model = behind(stub).bind_tools([add])
        with pytest.raises(ModelUnavailable):
            model.invoke(QUESTION)
        assert (called(model.invoke(QUESTION)), model.mode) == (ADDED, "native")
    with OpenAIStub([Fault.http(401)]) as stub, pytest.raises(NotConfigured):
        behind(stub).bind_tools([add]).invoke(QUESTION)


def test_a_server_that_refuses_everything_without_a_reason_keeps_the_mode():
    with OpenAIStub(lambda request: Fault.http(400, "no")) as stub:
        model = behind(stub).bind_tools([add])
        with pytest.raises(ModelUnavailable, match="400: no"):
            model.invoke(QUESTION)
        assert (len(stub.requests), model.mode) == (1, "native")


def test_the_settings_fix_the_mode(monkeypatch):
    with OpenAIStub([CALL]) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        monkeypatch.setenv("QUANTGRAPH_MODEL", "m")
        monkeypatch.setenv("QUANTGRAPH_TOOL_CALLING", "text")
        by_settings = role_model("reflection", model=None, settings=load_settings())
        assert by_settings.mode == "text"
        assert called(by_settings.bind_tools([add]).invoke(QUESTION)) == ADDED
        assert sent_tools(stub) == [False]


def test_a_model_that_binds_no_tools_begins_in_text():
    assert CapabilityChatModel(ScriptedChatModel()).mode == "native"
    assert CapabilityChatModel(KeylessPlanner()).mode == "native"
    assert CapabilityChatModel(FakeListChatModel(responses=["x"])).mode == "text"
    assert CapabilityChatModel(RecordedChatModel(FakeListChatModel(responses=["x"]))).mode == "text"


@pytest.mark.parametrize(
    "refusal",
    [
        "tools param requires --jinja flag",  # llama.cpp
        "Unsupported param: tools",  # llama.cpp before that
        "registry.ollama.ai/library/m does not support tools",  # Ollama behind LiteLLM
    ],
)
def test_a_500_is_a_refusal_if_it_names_what_was_sent(refusal):
    with OpenAIStub([Fault.http(500, refusal), CALL]) as stub:
        model = behind(stub).bind_tools([add])
        assert (called(model.invoke(QUESTION)), model.mode) == (ADDED, "text")


def test_a_mode_is_left_only_after_the_other_has_answered_also_in_a_replay(tmp_path):
    script = [NO_TOOLS, Fault.http(503, "overloaded"), NO_TOOLS, CALL, CALL]
    where = tmp_path / "run.sqlite"

    def run(stub, mode, calls=0):
        recording = Recorder(where, mode=mode).of("r1")
        with in_scope(Scope(recording=recording, path="n", calls={"n": calls})):
            model = behind(stub).bind_tools([add])
            return [called(model.invoke(QUESTION)), model.mode]

    with OpenAIStub(script) as stub:
        with pytest.raises(ModelUnavailable, match="503"):
            run(stub, "record")
        recorded = run(stub, "record")
        assert recorded == [ADDED, "text"]
        assert run(stub, "record", calls=2) == recorded, "the run goes on in its mode"
        assert (run(stub, "replay"), run(stub, "replay", 2)) == (recorded, recorded)
        assert sent_tools(stub) == [True, False, True, False, False]


@pytest.mark.parametrize(
    "refusal",
    [
        Fault.http(400, "maximum context length is 4096 tokens, 5000 in the messages and functions"),
        Fault.http(400, "this content is not allowed"),
        Fault.http(429, "too many tool calls", code="insufficient_quota"),
        Fault.http(500, "internal error while decoding the JSON of an upstream worker"),
    ],
)
def test_another_refusal_leaves_the_mode_alone(refusal):
    with OpenAIStub([refusal]) as stub:
        model = behind(stub).bind_tools([add])
        with pytest.raises(ModelUnavailable):
            model.invoke(QUESTION)
        assert len(stub.requests) == 1
        assert model.mode == "native"


@pytest.mark.parametrize("first", [NO_TOOLS, MARKUPS["dsml"]], ids=["refused", "written"])
def test_a_step_down_is_in_the_record_and_a_replay_takes_it_without_a_call(tmp_path, first):
    where = tmp_path / "run.sqlite"

    def run(stub, mode):
        scope = Scope(recording=Recorder(where, mode=mode).of("r1"), path="signal/reflection")
        with in_scope(scope):
            model = behind(stub).bind_tools([add])
            return [called(model.invoke(QUESTION)) for _ in range(2)], scope.calls

    with OpenAIStub([first, CALL, CALL]) as stub:
        recorded = run(stub, "record")
        replayed = run(stub, "replay")
        assert len(stub.requests) == 3
        server = stub.base_url
    assert replayed == recorded == ([ADDED] * 2, {"signal/reflection": 3})
    (fact,) = [one for one in Recorder(where).of("r1").entries() if one.key.kind == "fact"]
    assert json.loads(fact.request) == {
        "refused": "tools",
        "base_url": server,
        "model": "m",
        "role": "reflection",
    }


def test_a_step_down_holds_for_one_run(tmp_path):
    """Otherwise a replay of the next run, in another process, would diverge."""
    with OpenAIStub(without_tools) as stub:
        model = behind(stub).bind_tools([add])
        for run, calls, tools in (("r1", 2, [True, False]), ("r1", 4, [False]), ("r2", 2, [True, False])):
            before = len(stub.requests)
            recording = Recorder(tmp_path / "x.sqlite").of(run)
            with in_scope(Scope(recording=recording, path="n", calls={"n": calls})):
                assert called(model.invoke(QUESTION)) == ADDED
            assert sent_tools(stub)[before:] == tools
