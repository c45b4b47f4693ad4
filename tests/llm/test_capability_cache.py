"""The mode of a model: found cheaply, kept by process and run, and left if the server refuses it."""

from __future__ import annotations

import json
import threading

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from quantgraph.errors import ModelUnavailable, NotConfigured
from quantgraph.llm import KeylessPlanner
from quantgraph.llm import _capability_model as capability_cache
from quantgraph.llm._capability_model import CapabilityChatModel
from quantgraph.llm._models import role_model
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.llm._retry import CallPolicy
from quantgraph.recording import Recorder
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.settings import load_settings
from quantgraph.testing import Fault, OpenAIStub, Reply, ScriptedChatModel

ARGS = {"word": "ready", "count": 7}
CALL = json.dumps({"tool": "report", "args": ARGS})
QUESTION = [HumanMessage("go")]


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def server(can):
    """A server that supports only some of tools, json_schema and json_object."""

    def answer(request):
        form = (request.body.get("response_format") or {}).get("type")
        if request.tools:
            if "tools" not in can:
                return Fault.http(400, "this server does not support tools")
            return Reply.call("report", **ARGS)
        if form is not None and form not in can:
            return Fault.http(400, f"response_format {form} is not supported")
        return CALL if form else f"Sure!\n```json\n{CALL}\n```"

    return answer


def behind(stub, **options):
    inner = ChatOpenAI(model="m", base_url=stub.base_url, api_key="sk-secret", max_retries=0)
    policy = CallPolicy(max_attempts=1)
    return CapabilityChatModel(RecordedChatModel(inner, role="reflection", policy=policy), **options)


def forget_modes():
    """Start as a new process does."""
    capability_cache._FOUND.clear()


@pytest.mark.parametrize(
    ("can", "mode", "calls"),
    [
        ({"tools", "json_schema", "json_object"}, "native", 1),
        ({"json_schema", "json_object"}, "json_schema", 2),
        ({"json_object"}, "text", 2),
        (set(), "text", 2),
    ],
)
def test_a_probe_finds_the_highest_mode_in_one_or_two_small_calls(can, mode, calls):
    with OpenAIStub(server(can)) as stub:
        assert behind(stub).mode == mode
        assert len(stub.requests) == calls
        assert all(request.body["max_completion_tokens"] <= 1024 for request in stub.requests)
        assert sum(len(json.dumps(request.body)) for request in stub.requests) < 3000
        assert behind(stub).mode == mode, "another object of this process knows it"
        assert len(stub.requests) == calls


@pytest.mark.parametrize(
    ("native", "mode"),
    [
        ("I would call report.", "json_schema"),
        (f"```json\n{CALL}\n```", "json_schema"),  # llama.cpp: a call, but not as one
        (Reply.call("report", word="ready", count=6), "json_schema"),
        (Reply.call("report", word="ready", count="7"), "native"),
        ("", "json_schema"),
        (Fault.http(500, "tools param requires --jinja flag"), "json_schema"),
    ],
)
def test_native_mode_is_where_the_right_tool_is_called_as_a_tool(native, mode):
    with OpenAIStub([native, CALL]) as stub:
        assert behind(stub).mode == mode


@pytest.mark.parametrize("reply", [f"```json\n{CALL}\n```", Reply(content=CALL[:-5], finish_reason="length")])
def test_a_server_that_ignores_or_truncates_the_form_lacks_the_mode(reply):
    with OpenAIStub(["no", reply, reply]) as stub:
        assert behind(stub).mode == "text"


def test_a_probe_of_a_server_that_is_down_is_an_error_and_not_remembered():
    for down in (Fault.http(503, "starting"), Fault.http(500, "oops"), Fault.http(404, "no such model")):
        with OpenAIStub([down]) as stub, pytest.raises(ModelUnavailable, match=str(down.status)):
            behind(stub).bind_tools([add]).invoke(QUESTION)
    with OpenAIStub([Fault.disconnect(), Reply.call("report", **ARGS)]) as stub:
        model = behind(stub)
        with pytest.raises(ModelUnavailable):
            assert model.mode
        assert model.mode == "native"
    with OpenAIStub([Fault.http(401)]) as stub, pytest.raises(NotConfigured):
        assert behind(stub).mode


def test_a_server_that_refuses_everything_without_a_reason_gets_plain_text_and_another_probe():
    with OpenAIStub(lambda request: Fault.http(400, "no")) as stub:
        model = behind(stub)
        assert (model.mode, model.mode, len(stub.requests)) == ("text", "text", 2)
        assert (behind(stub).mode, len(stub.requests)) == ("text", 4)


def test_a_mode_is_known_to_the_process_by_server_and_model():
    with OpenAIStub(server({"tools"})) as one, OpenAIStub(server({"json_schema"})) as two:
        assert [behind(stub).mode for stub in (one, two, one, two)] == ["native", "json_schema"] * 2
        assert (len(one.requests), len(two.requests)) == (1, 2)


def test_an_argument_or_the_settings_override_the_probe(monkeypatch):
    with OpenAIStub([CALL.replace("report", "add").replace("word", "a")] * 2) as stub:
        model = behind(stub, mode="json_schema")
        assert model.mode == "json_schema"
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        monkeypatch.setenv("QUANTGRAPH_MODEL", "m")
        monkeypatch.setenv("QUANTGRAPH_MODEL_RUNG", "text")
        by_settings = role_model("reflection", model=None, settings=load_settings())
        assert by_settings.mode == "text"
        assert by_settings.bind_tools([add]).invoke(QUESTION).tool_calls
        assert "response_format" not in stub.requests[0].body
        assert "tools" not in stub.requests[0].body


def test_models_without_a_server_are_not_probed():
    inner = ScriptedChatModel()
    assert CapabilityChatModel(inner).mode == "native"
    assert not inner.calls
    assert CapabilityChatModel(KeylessPlanner()).mode == "native"
    assert CapabilityChatModel(FakeListChatModel(responses=["x"])).mode == "text"
    assert CapabilityChatModel(RecordedChatModel(FakeListChatModel(responses=["x"]))).mode == "text"


def test_a_plain_conversation_needs_no_probe():
    with OpenAIStub(["Which stock?"]) as stub:
        assert behind(stub).invoke(QUESTION).text == "Which stock?"


def test_a_mode_refused_in_use_gives_way_to_the_next_for_the_whole_process():
    can = {"tools", "json_schema"}
    with OpenAIStub(lambda request: server(can)(request)) as stub:
        model = behind(stub).bind_tools([add])
        assert model.invoke(QUESTION).tool_calls[0]["name"] == "report"
        can.discard("tools")
        assert model.invoke(QUESTION).tool_calls[0]["name"] == "report"
        assert len(stub.requests) == 1 + 1 + 2
        assert (model.mode, behind(stub).mode) == ("json_schema", "json_schema")
        insisting = behind(stub, mode="native").bind_tools([add])
        with pytest.raises(ModelUnavailable, match="does not support tools"):
            insisting.invoke(QUESTION)


@pytest.mark.parametrize(
    "refusal",
    [
        "tools param requires --jinja flag",  # llama.cpp
        "Unsupported param: tools",  # llama.cpp before that
        "registry.ollama.ai/library/m does not support tools",  # Ollama behind LiteLLM
    ],
)
def test_a_500_is_a_refusal_if_it_names_what_was_sent(refusal):
    script = [Reply.call("report", **ARGS), Fault.http(500, refusal), CALL]
    with OpenAIStub(script) as stub:
        model = behind(stub).bind_tools([add])
        assert model.invoke(QUESTION).tool_calls
        assert (model.mode, behind(stub).mode) == ("json_schema", "json_schema")


def test_a_mode_is_left_only_after_a_lower_one_has_answered_also_in_a_replay(tmp_path):
    no_tools = Fault.http(400, "tools are not supported")
    script = [Reply.call("report", **ARGS), no_tools, Fault.http(503, "overloaded"), no_tools, CALL, CALL]
    where = tmp_path / "run.sqlite"

    def run(stub, mode, calls=0):
        recording = Recorder(where, mode=mode).of("r1")
        with in_scope(Scope(recording=recording, path="n", calls={"n": calls})):
            model = behind(stub).bind_tools([add])
            return [model.invoke(QUESTION).tool_calls, model.mode]

    with OpenAIStub(script) as stub:
        with pytest.raises(ModelUnavailable, match="503"):
            run(stub, "record")
        assert behind(stub).mode == "native", "nothing has answered in a lower mode"
        recorded = run(stub, "record")
        assert behind(stub).mode == "json_schema"
        forget_modes()
        assert run(stub, "record", calls=2)[1] == "json_schema", "the run goes on in its mode"
        assert (run(stub, "replay"), run(stub, "replay", 2)[1]) == (recorded, "json_schema")
        assert len(stub.requests) == len(script)


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
    with OpenAIStub([Reply.call("report", **ARGS), refusal]) as stub:
        model = behind(stub).bind_tools([add])
        with pytest.raises(ModelUnavailable):
            model.invoke(QUESTION)
        assert len(stub.requests) == 2
        assert model.mode == "native"


def test_the_mode_is_a_fact_of_the_run_and_a_replay_needs_neither_probe_nor_memory(tmp_path):
    where = tmp_path / "run.sqlite"

    def run(stub, mode):
        forget_modes()
        scope = Scope(recording=Recorder(where, mode=mode).of("r1"), path="signal/reflection")
        with in_scope(scope):
            models = [behind(stub).bind_tools([add]) for _ in range(2)]
            messages = [model.invoke(QUESTION) for model in models]
        return [message.tool_calls for message in messages], scope.calls

    with OpenAIStub(server({"json_schema"})) as stub:
        recorded = run(stub, "record")
        assert len(stub.requests) == 2 + 2
        replayed = run(stub, "replay")
        assert len(stub.requests) == 4
    assert replayed == recorded
    assert recorded[1] == {"signal/reflection": 2}, "the probe's calls do not count as the node's"
    kinds = [(e.key.path, e.key.kind) for e in Recorder(where).of("r1").entries()]
    assert kinds.count(("ladder/probe", "model")) == 2
    assert kinds.count(("ladder", "fact")) == 1


def test_a_refusal_of_a_model_without_a_server_holds_for_one_run(tmp_path):
    """Otherwise a replay of the next run, in another process, would diverge."""

    class NoTools(ScriptedChatModel):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            if self.bound_tools:
                raise ModelUnavailable("HTTP 400: tools are not supported", status=400)
            return super()._generate(messages, stop, run_manager, **kwargs)

    inner = NoTools([CALL] * 3)
    model = CapabilityChatModel(RecordedChatModel(inner)).bind_tools([add])
    for run, calls in (("r1", 2), ("r1", 3), ("r2", 2)):
        with in_scope(
            Scope(recording=Recorder(tmp_path / "x.sqlite").of(run), path="n", calls={"n": calls})
        ) as s:
            assert model.invoke(QUESTION).tool_calls
            assert s.calls["n"] - calls == (1 if calls == 3 else 2)


def test_a_run_keeps_the_mode_in_which_it_began(tmp_path):
    where, can = tmp_path / "run.sqlite", {"tools", "json_schema"}
    with OpenAIStub(lambda request: server(can)(request)) as stub:
        for _ in range(2):
            forget_modes()
            with in_scope(Scope(recording=Recorder(where).of("r1"), path="signal/reflection")):
                assert behind(stub).mode == "native"
            can.discard("tools")
        forget_modes()
        assert behind(stub).mode == "json_schema"


def test_many_threads_probe_once():
    with OpenAIStub(server({"tools"})) as stub:
        model = behind(stub)
        found = []
        threads = [threading.Thread(target=lambda: found.append(model.mode)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (found, len(stub.requests)) == (["native"] * 8, 1)
