"""Which rung a model stands on: found out cheaply, remembered, known to the run, and left when it does not hold."""

from __future__ import annotations

import json
import threading

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from quantgraph.errors import ModelUnavailable, NotConfigured
from quantgraph.llm.capabilities import CapabilityChatModel
from quantgraph.llm.capabilities.capability_cache import PROBE_VERSION
from quantgraph.llm.models import role_model
from quantgraph.llm.planner import KeylessPlanner
from quantgraph.llm.recorded_model import RecordedChatModel
from quantgraph.llm.retry_policy import CallPolicy
from quantgraph.recording import Recorder, Scope, in_scope
from quantgraph.settings import load_settings
from quantgraph.testing import Fault, OpenAIStub, Reply, ScriptedChatModel

ARGS = {"word": "ready", "count": 7}
CALL = json.dumps({"tool": "report", "args": ARGS})
QUESTION = [HumanMessage("go")]


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def server(can):
    """What a server answers that can do only these of tools, json_schema and json_object."""

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


@pytest.mark.parametrize(
    ("can", "rung", "calls"),
    [
        ({"tools", "json_schema", "json_object"}, "native", 1),
        ({"json_schema", "json_object"}, "json_schema", 2),
        ({"json_object"}, "json_mode", 3),
        (set(), "text", 3),
    ],
)
def test_a_probe_finds_the_highest_rung_in_one_to_three_small_calls(can, rung, calls, tmp_path):
    with OpenAIStub(server(can)) as stub:
        assert behind(stub, cache_dir=tmp_path).rung == rung
        assert len(stub.requests) == calls
        assert all(request.body["max_completion_tokens"] <= 1024 for request in stub.requests)
        assert sum(len(json.dumps(request.body)) for request in stub.requests) < 3000
        assert behind(stub, cache_dir=tmp_path).rung == rung, "it is remembered by another object"
        assert len(stub.requests) == calls


@pytest.mark.parametrize(
    ("native", "rung"),
    [
        ("I would call report.", "json_schema"),
        (f"```json\n{CALL}\n```", "json_schema"),  # llama.cpp: a call, but not as one
        (Reply.call("report", word="ready", count=6), "json_schema"),
        (Reply.call("report", word="ready", count="7"), "native"),
        ("", "json_schema"),
        (Fault.http(500, "tools param requires --jinja flag"), "json_schema"),
    ],
)
def test_a_native_rung_is_one_where_the_right_tool_is_called_as_a_tool(native, rung, tmp_path):
    with OpenAIStub([native, CALL]) as stub:
        assert behind(stub, cache_dir=tmp_path).rung == rung


@pytest.mark.parametrize("reply", [f"```json\n{CALL}\n```", Reply(content=CALL[:-5], finish_reason="length")])
def test_a_server_that_ignores_the_form_or_cuts_it_off_does_not_stand_on_its_rung(reply, tmp_path):
    with OpenAIStub(["no", reply, reply]) as stub:
        assert behind(stub, cache_dir=tmp_path).rung == "text"


def test_a_probe_of_a_server_that_is_down_is_an_error_and_not_remembered(tmp_path):
    for down in (Fault.http(503, "starting"), Fault.http(500, "oops"), Fault.http(404, "no such model")):
        with OpenAIStub([down]) as stub, pytest.raises(ModelUnavailable, match=str(down.status)):
            behind(stub, cache_dir=tmp_path).bind_tools([add]).invoke(QUESTION)
    with OpenAIStub([Fault.disconnect(), Reply.call("report", **ARGS)]) as stub:
        model = behind(stub, cache_dir=tmp_path)
        with pytest.raises(ModelUnavailable):
            assert model.rung
        assert not list(tmp_path.rglob("*.json"))
        assert model.rung == "native"
    with OpenAIStub([Fault.http(401)]) as stub, pytest.raises(NotConfigured):
        assert behind(stub, cache_dir=tmp_path).rung


def test_a_server_that_refuses_everything_without_a_reason_is_asked_in_plain_text_and_probed_again(tmp_path):
    with OpenAIStub(lambda request: Fault.http(400, "no")) as stub:
        model = behind(stub, cache_dir=tmp_path)
        assert (model.rung, model.rung, len(stub.requests)) == ("text", "text", 3)
        assert (behind(stub, cache_dir=tmp_path).rung, len(stub.requests)) == ("text", 6)
    assert not list(tmp_path.rglob("*.json"))


def test_what_is_remembered_is_by_server_and_model_without_secrets_and_of_one_version(tmp_path):
    with OpenAIStub(server({"tools"})) as one, OpenAIStub(server({"json_schema"})) as two:
        assert (behind(one, cache_dir=tmp_path).rung, behind(two, cache_dir=tmp_path).rung) == (
            "native",
            "json_schema",
        )
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(files) == 2
        for path in files:
            kept = json.loads(path.read_text())
            assert kept.keys() == {"version", "base_url", "model", "rung"}
            path.write_text(json.dumps({**kept, "rung": "json_mode"}))
        assert behind(one, cache_dir=tmp_path).rung == "json_mode", "the file is what counts"
        files[0].write_text(json.dumps({**json.loads(files[0].read_text()), "version": PROBE_VERSION + 1}))
        files[1].write_text("{")
        assert {behind(stub, cache_dir=tmp_path).rung for stub in (one, two)} == {"native", "json_schema"}


def test_a_folder_that_cannot_be_written_costs_a_probe_a_process_and_a_line_in_the_log(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with OpenAIStub(server({"tools"})) as stub:
        model = behind(stub, cache_dir=tmp_path / "file")
        assert (model.rung, model.rung, len(stub.requests)) == ("native", "native", 1)
    assert "cannot be kept" in caplog.text


def test_an_argument_or_the_settings_override_the_probe(tmp_path, monkeypatch):
    with OpenAIStub([CALL.replace("report", "add").replace("word", "a")] * 2) as stub:
        model = behind(stub, rung="json_mode", cache_dir=tmp_path)
        assert model.rung == "json_mode"
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        monkeypatch.setenv("QUANTGRAPH_MODEL", "m")
        monkeypatch.setenv("QUANTGRAPH_MODEL_RUNG", "text")
        by_settings = role_model("reflection", model=None, settings=load_settings())
        assert by_settings.rung == "text"
        assert by_settings.bind_tools([add]).invoke(QUESTION).tool_calls
        assert "response_format" not in stub.requests[0].body
        assert "tools" not in stub.requests[0].body


def test_models_without_a_server_are_taken_at_their_word(tmp_path):
    inner = ScriptedChatModel()
    assert CapabilityChatModel(inner, cache_dir=tmp_path).rung == "native"
    assert not inner.calls
    assert CapabilityChatModel(KeylessPlanner(), cache_dir=tmp_path).rung == "native"
    assert CapabilityChatModel(FakeListChatModel(responses=["x"]), cache_dir=tmp_path).rung == "text"
    assert CapabilityChatModel(RecordedChatModel(FakeListChatModel(responses=["x"]))).rung == "text"


def test_plain_talk_needs_no_probe(tmp_path):
    with OpenAIStub(["Which stock?"]) as stub:
        assert behind(stub, cache_dir=tmp_path).invoke(QUESTION).text == "Which stock?"


def test_a_rung_that_turns_out_wrong_in_use_is_left_for_the_next_and_that_is_remembered(tmp_path):
    can = {"tools", "json_schema"}
    with OpenAIStub(lambda request: server(can)(request)) as stub:
        model = behind(stub, cache_dir=tmp_path).bind_tools([add])
        assert model.invoke(QUESTION).tool_calls[0]["name"] == "report"
        can.discard("tools")
        assert model.invoke(QUESTION).tool_calls[0]["name"] == "report"
        assert len(stub.requests) == 1 + 1 + 2
        assert (model.rung, behind(stub, cache_dir=tmp_path).rung) == ("json_schema", "json_schema")
        insisting = behind(stub, rung="native").bind_tools([add])
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
def test_a_refusal_that_comes_as_a_500_is_one_where_it_names_what_was_sent(refusal, tmp_path):
    script = [Reply.call("report", **ARGS), Fault.http(500, refusal), CALL]
    with OpenAIStub(script) as stub:
        model = behind(stub, cache_dir=tmp_path).bind_tools([add])
        assert model.invoke(QUESTION).tool_calls
        assert (model.rung, behind(stub, cache_dir=tmp_path).rung) == ("json_schema", "json_schema")


def test_a_rung_is_left_once_a_lower_one_has_answered_and_a_replay_leaves_it_too(tmp_path):
    no_tools = Fault.http(400, "tools are not supported")
    script = [Reply.call("report", **ARGS), no_tools, Fault.http(503, "overloaded"), no_tools, CALL, CALL]
    where = tmp_path / "run.sqlite"

    def run(stub, mode, cache, calls=0):
        recording = Recorder(where, mode=mode).of("r1")
        with in_scope(Scope(recording=recording, path="n", calls={"n": calls})):
            model = behind(stub, cache_dir=tmp_path / cache).bind_tools([add])
            return [model.invoke(QUESTION).tool_calls, model.rung]

    with OpenAIStub(script) as stub:
        with pytest.raises(ModelUnavailable, match="503"):
            run(stub, "record", "a")
        assert behind(stub, cache_dir=tmp_path / "a").rung == "native", "nothing has answered below it"
        recorded = run(stub, "record", "a")
        assert behind(stub, cache_dir=tmp_path / "a").rung == "json_schema"
        assert run(stub, "record", "b", calls=2)[1] == "json_schema", "the run goes on where it stands"
        assert (run(stub, "replay", "b"), run(stub, "replay", "b", 2)[1]) == (recorded, "json_schema")
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
def test_another_refusal_leaves_the_rung_alone(refusal, tmp_path):
    with OpenAIStub([Reply.call("report", **ARGS), refusal]) as stub:
        model = behind(stub, cache_dir=tmp_path).bind_tools([add])
        with pytest.raises(ModelUnavailable):
            model.invoke(QUESTION)
        assert len(stub.requests) == 2
        assert model.rung == "native"


def test_the_rung_is_a_fact_of_the_run_and_a_replay_needs_neither_probe_nor_memory(tmp_path):
    where = tmp_path / "run.sqlite"

    def run(stub, mode, cache):
        scope = Scope(recording=Recorder(where, mode=mode).of("r1"), path="signal/reflection")
        with in_scope(scope):
            models = [behind(stub, cache_dir=tmp_path / cache).bind_tools([add]) for _ in range(2)]
            messages = [model.invoke(QUESTION) for model in models]
        return [message.tool_calls for message in messages], scope.calls

    with OpenAIStub(server({"json_schema"})) as stub:
        recorded = run(stub, "record", "a")
        assert len(stub.requests) == 2 + 2
        replayed = run(stub, "replay", "b")
        assert len(stub.requests) == 4
    assert replayed == recorded
    assert recorded[1] == {"signal/reflection": 2}, "the probe's calls do not count as the node's"
    kinds = [(e.key.path, e.key.kind) for e in Recorder(where).of("r1").entries()]
    assert kinds.count(("ladder/probe", "model")) == 2
    assert kinds.count(("ladder", "fact")) == 1


def test_what_one_run_learns_of_a_model_without_a_server_the_next_does_not_know(tmp_path):
    """Or the replay of the next, in a process that knows nothing, would ask something else."""

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


def test_a_run_that_began_on_a_rung_goes_on_there_though_the_memory_says_otherwise(tmp_path):
    where, can = tmp_path / "run.sqlite", {"tools", "json_schema"}
    with OpenAIStub(lambda request: server(can)(request)) as stub:
        for memory in ("a", "b"):
            with in_scope(Scope(recording=Recorder(where).of("r1"), path="signal/reflection")):
                assert behind(stub, cache_dir=tmp_path / memory).rung == "native"
            can.discard("tools")
        assert behind(stub, cache_dir=tmp_path / "b").rung == "json_schema"


def test_many_threads_probe_once(tmp_path):
    with OpenAIStub(server({"tools"})) as stub:
        model = behind(stub, cache_dir=tmp_path)
        found = []
        threads = [threading.Thread(target=lambda: found.append(model.rung)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (found, len(stub.requests)) == (["native"] * 8, 1)
