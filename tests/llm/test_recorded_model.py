"""RecordedChatModel: its records, the replies that it serves, and its callbacks."""

from __future__ import annotations

import asyncio
import json
import pkgutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import openai
import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from quantgraph._util.canonical_json import canonical_json
from quantgraph.errors import BudgetExceeded, ModelUnavailable, RunDiverged
from quantgraph.llm import CallPolicy, KeylessPlanner, get_llm
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.llm._retry import model_facts
from quantgraph.llm.messages._json import (
    build_request,
    finish_reason,
    is_usable,
    message_from_json,
    reply_to_json,
    token_counts,
)
from quantgraph.recording import Budget, Entry, Recorder, Recording
from quantgraph.recording._recordings import Mode
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.settings import load_settings
from quantgraph.testing import Fault, OpenAIStub, Reply, ScriptedChatModel

KEY = "sk-test-0123456789-secret"
HI = [HumanMessage("Hi")]
AT_ONCE = CallPolicy(max_attempts=3, sleep=lambda _: None)


@tool
def price(symbol: str) -> float:
    """Price of a symbol."""
    return 1700.5


class Order(BaseModel):
    """An order."""

    symbol: str
    shares: int


@contextmanager
def run(tmp_path: Path, mode: Mode = "record") -> Iterator[Scope]:
    """A node of a run, opened anew as by another process."""
    recorder = Recorder(tmp_path / "run.sqlite", mode=mode)
    scope = Scope(recording=recorder.of("r1"), path="signal/reflection")
    with in_scope(scope):
        yield scope
    recorder.close("r1")


def at(stub: OpenAIStub, **fields: Any) -> BaseChatModel:
    settings = load_settings(openai_api_key=KEY, openai_base_url=stub.base_url, **fields)
    return get_llm("decision", model="gpt-4o-mini", settings=settings)


def entries(scope: Scope) -> list[Entry]:
    return list(scope.recording.entries())


# Record and serve --------------------------------------------------------------------------------


def test_a_call_is_one_line_with_request_and_reply(tmp_path: Path) -> None:
    with OpenAIStub([Reply(content="买入。", usage=(1000, 500))]) as stub, run(tmp_path) as scope:
        model = RecordedChatModel(at(stub), role="reflection")
        model.bind_tools([price]).invoke([SystemMessage("Be short."), HumanMessage("Hi", id="random")])
        base_url = stub.base_url
    (entry,) = entries(scope)
    assert (entry.key.path, entry.key.seq, entry.key.kind) == ("signal/reflection", 1, "model")
    assert (entry.attempt, entry.final, entry.error) == (1, True, None)
    request = json.loads(entry.request)
    assert (request["model"], request["base_url"]) == ("gpt-4o-mini", base_url)
    assert request["params"]["temperature"] == 0.0
    assert request["messages"] == [
        {"role": "system", "content": "Be short."},
        {"role": "human", "content": "Hi"},
    ]
    assert [one["function"]["name"] for one in request["tools"]] == ["price"]
    facts = dict(entry.facts)
    assert facts.pop("seconds") > 0
    assert facts == {
        "role": "reflection",
        "model": "gpt-4o-mini",
        "prompt_tokens": 1000,
        "completion_tokens": 500,
        "cost": "0.00045",  # 1000 x 0.15 + 500 x 0.60 dollars a million
        "finish": "stop",
    }
    assert json.loads(entry.reply or "")["content"] == "买入。"


@pytest.mark.parametrize("mode", ["record", "replay"])
def test_recorded_replies_are_served_without_the_model(tmp_path: Path, mode: Mode) -> None:
    with OpenAIStub([Reply.call("price", symbol="600519.SH")]) as stub:
        inner = at(stub)
        with run(tmp_path):
            live = RecordedChatModel(inner).bind_tools([price]).invoke(HI)
    with run(tmp_path, mode) as scope:  # the server is gone
        served = RecordedChatModel(inner).bind_tools([price]).invoke(HI)
        assert served == live
        assert served.id
        assert len(entries(scope)) == 1


def test_the_same_question_again_is_another_call(tmp_path: Path) -> None:
    model = RecordedChatModel(ScriptedChatModel(["one", "two"]))
    with run(tmp_path):
        first = [model.invoke(HI).text for _ in range(2)]
    with run(tmp_path):
        again = [model.invoke(HI).text for _ in range(2)]
    assert first == again == ["one", "two"]


def test_a_replay_refuses_an_unrecorded_call(tmp_path: Path) -> None:
    with run(tmp_path):
        RecordedChatModel(ScriptedChatModel(["one"])).invoke(HI)
    with run(tmp_path, "replay"), pytest.raises(RunDiverged, match=r"messages\[0\].content"):
        RecordedChatModel(ScriptedChatModel(["two"])).invoke("Ho")


def test_a_replay_needs_no_model_of_the_same_kind(tmp_path: Path) -> None:
    with OpenAIStub(["fine"]) as stub, run(tmp_path):
        RecordedChatModel(at(stub)).bind_tools([price]).invoke(HI)
    with run(tmp_path, "replay"):
        assert RecordedChatModel(KeylessPlanner()).bind_tools([price]).invoke(HI).text == "fine"


def test_outside_of_a_run_a_call_is_retried_and_not_recorded(tmp_path: Path) -> None:
    with OpenAIStub([Fault.http(500), "fine", "more"]) as stub:
        model = RecordedChatModel(at(stub), policy=AT_ONCE)
        assert [model.invoke(HI).text for _ in range(2)] == ["fine", "more"]
    assert len(stub.requests) == 3
    assert list(tmp_path.glob("*.sqlite")) == []


def test_a_cache_of_langchain_does_not_answer_past_the_record(tmp_path: Path) -> None:
    from langchain_core.caches import InMemoryCache
    from langchain_core.globals import set_llm_cache

    set_llm_cache(InMemoryCache())
    try:
        with run(tmp_path) as scope:
            model = RecordedChatModel(ScriptedChatModel(["one"]))
            assert [model.invoke(HI).text for _ in range(2)] == ["one", "one"]
            assert [entry.key.seq for entry in entries(scope)] == [1, 2]
    finally:
        set_llm_cache(None)


# Attempts ----------------------------------------------------------------------------------------


def test_each_attempt_is_a_line_and_the_last_is_final(tmp_path: Path) -> None:
    with OpenAIStub([Fault.http(429), Fault.truncated(), "fine"]) as stub, run(tmp_path) as scope:
        assert RecordedChatModel(at(stub), role="test", policy=AT_ONCE).invoke(HI).text == "fine"
        lines = entries(scope)
    assert [(one.attempt, one.final, one.error and one.error["code"]) for one in lines] == [
        (1, False, "model_unavailable"),
        (2, False, "model_unavailable"),
        (3, True, None),
    ]
    # An error status costs nothing; the cost of a broken reply is unknown.
    assert [one.facts.get("prompt_tokens") for one in lines[:2]] == [0, None]
    (row,) = scope.recording.usage()
    assert (row["calls"], row["prompt_tokens"], row["cost"]) == (3, None, "unknown")


def test_an_error_is_served_by_a_replay_and_asked_again_by_a_resumed_run(tmp_path: Path) -> None:
    with OpenAIStub(lambda _: Fault.http(503)) as stub, run(tmp_path):
        inner = at(stub)
        model = RecordedChatModel(inner, role="test", policy=AT_ONCE)
        with pytest.raises(ModelUnavailable, match="after 3 attempts") as live:
            model.invoke(HI)
    with run(tmp_path, "replay"), pytest.raises(ModelUnavailable) as served:
        RecordedChatModel(inner).invoke(HI)
    assert (str(served.value), served.value.data) == (str(live.value), live.value.data)
    with run(tmp_path):
        assert RecordedChatModel(ScriptedChatModel(["fine"])).invoke(HI).text == "fine"


def test_an_error_of_our_own_code_passes_and_is_recorded_without_a_reply(tmp_path: Path) -> None:
    with run(tmp_path) as scope:
        with pytest.raises(KeyError, match="ours"):
            RecordedChatModel(ScriptedChatModel([KeyError("ours")]), policy=AT_ONCE).invoke(HI)
        (entry,) = entries(scope)
    assert (entry.final, entry.error and entry.error["message"]) == (False, "KeyError: 'ours'")


def test_an_interrupted_call_is_recorded_since_it_may_have_cost(tmp_path: Path) -> None:
    def told_to_stop(_: object) -> str:
        raise KeyboardInterrupt

    with run(tmp_path) as scope:
        with pytest.raises(KeyboardInterrupt):
            RecordedChatModel(ScriptedChatModel(told_to_stop), policy=AT_ONCE).invoke(HI)
        (entry,) = entries(scope)
    assert (entry.final, entry.facts.get("prompt_tokens")) == (False, None)
    with run(tmp_path) as scope:
        assert scope.recording.usage()[0]["calls"] == 1
        assert RecordedChatModel(ScriptedChatModel(["fine"])).invoke(HI).text == "fine"


@pytest.mark.parametrize(
    "where", ["quantgraph.recording.Recording.add", "quantgraph.recording._budget.BudgetTracker.reserve"]
)
def test_a_cancelled_task_loses_no_reply_and_keeps_no_reservation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    entered, go_on = threading.Event(), threading.Event()
    real = pkgutil.resolve_name(where)

    def slowly(*given: Any) -> Any:
        entered.set()
        go_on.wait(5)
        return real(*given)

    async def cancelled(model: RecordedChatModel) -> None:
        task = asyncio.ensure_future(model.ainvoke(HI))
        await asyncio.to_thread(entered.wait, 5)
        task.cancel()
        asyncio.get_running_loop().call_later(0.05, go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    recording = Recorder(tmp_path / "run.sqlite", budget=Budget(completion_tokens=100)).of("r1")
    inner = ScriptedChatModel(["one", "two"])
    with in_scope(Scope(recording=recording, path="signal/reflection")):
        with monkeypatch.context() as patch:
            patch.setattr(where, slowly)
            asyncio.run(cancelled(RecordedChatModel(inner)))
    assert len(inner.calls) == sum(row["calls"] for row in recording.usage()) == 1
    with in_scope(Scope(recording=recording, path="signal/reflection")):
        model = RecordedChatModel(inner, node_seconds=2)
        assert [asyncio.run(model.ainvoke(HI)).text, model.invoke("Ho").text] == ["one", "two"]


def test_a_wait_beyond_the_end_of_the_node_does_not_begin(tmp_path: Path) -> None:
    waits: list[float] = []
    policy = CallPolicy(max_attempts=5, sleep=waits.append)
    with OpenAIStub(lambda _: Fault.http(429, retry_after=30)) as stub, run(tmp_path):
        model = RecordedChatModel(at(stub), policy=policy, node_seconds=40)
        with pytest.raises(ModelUnavailable, match="asks to wait 30 s"):
            model.invoke(HI)
        assert (len(stub.requests), waits) == (5, [30.0] * 4)  # nothing was slept: the clock stands still
        hurried = RecordedChatModel(at(stub), policy=policy, node_seconds=20)
        with pytest.raises(BudgetExceeded, match="would be asked again in 30 s"):
            hurried.invoke(HI)
        assert len(waits) == 4


# Streams and callbacks ---------------------------------------------------------------------------


class Ear(BaseCallbackHandler):
    """Counts the events of a tracer."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        self.told.append("start")

    def on_llm_new_token(self, token: str, **_: Any) -> None:
        self.told.append(token)

    def on_llm_end(self, *_: Any, **__: Any) -> None:
        self.told.append("end")


def graph_of(model: Any) -> Any:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    return graph.compile()


def test_callbacks_are_called_once_the_inner_models_own_too() -> None:
    ear, own = Ear(), Ear()
    RecordedChatModel(ScriptedChatModel(["whole"], callbacks=[own])).invoke(HI, {"callbacks": [ear]})
    assert ear.told == own.told == ["start", "end"]


def test_a_graphs_messages_stream_has_each_token_once_and_ends_in_the_state(tmp_path: Path) -> None:
    with OpenAIStub([Reply(content="先看价格, then decide.", usage=(9, 4))]) as stub, run(tmp_path) as scope:
        graph = graph_of(RecordedChatModel(at(stub)))
        parts = list(graph.stream({"messages": HI}, stream_mode=["messages", "values"]))
        (entry,) = entries(scope)
    tokens = [part[0] for mode, part in parts if mode == "messages"]
    assert len(tokens) > 3
    assert reduce(add, tokens).text == "先看价格, then decide."
    final = parts[-1][1]["messages"][-1]
    assert {token.id for token in tokens} == {final.id}
    assert (final.text, entry.facts["prompt_tokens"], entry.facts["finish"]) == (
        "先看价格, then decide.",
        9,
        "stop",
    )


def test_a_broken_stream_is_retried_with_another_message_id(tmp_path: Path) -> None:
    with OpenAIStub([Fault.truncated("lost in the middle"), "whole again"]) as stub, run(tmp_path):
        graph = graph_of(RecordedChatModel(at(stub), policy=AT_ONCE))
        parts = list(graph.stream({"messages": HI}, stream_mode=["messages", "values"]))
    texts: dict[str, str] = {}
    for mode, part in parts:
        if mode == "messages":
            texts[part[0].id] = texts.get(part[0].id, "") + part[0].text
    final = parts[-1][1]["messages"][-1]
    assert final.text == texts[final.id] == "whole again"
    (broken,) = (text for name, text in texts.items() if name != final.id)
    assert "lost in the middle".startswith(broken)


def test_a_served_reply_is_streamed_whole_and_once(tmp_path: Path) -> None:
    for _ in range(2):
        with run(tmp_path):
            graph = graph_of(RecordedChatModel(ScriptedChatModel(["said before"])))
            parts = list(graph.stream({"messages": HI}, stream_mode="messages"))
    assert [part[0].text for part in parts] == ["said before"]


def test_stream_gives_the_whole_reply_and_tells_tokens_as_they_come() -> None:
    ear = Ear()
    with OpenAIStub([Fault.truncated(), "one two three four"]) as stub:
        model = RecordedChatModel(at(stub), policy=AT_ONCE)
        chunks = list(model.stream(HI, {"callbacks": [ear]}))
    assert "".join(str(chunk.text) for chunk in chunks) == "one two three four"


def test_an_agent_streams_through_a_call_of_a_tool(tmp_path: Path) -> None:
    with (
        OpenAIStub([Reply.call("price", symbol="600519.SH"), "It is 1700.5."]) as stub,
        run(tmp_path) as scope,
    ):
        agent = create_agent(RecordedChatModel(at(stub), role="agent"), [price])
        parts = list(agent.stream({"messages": HI}, stream_mode=["messages", "values"]))
        assert [entry.key.seq for entry in entries(scope)] == [1, 2]
    final = parts[-1][1]["messages"]
    assert [message.type for message in final] == ["human", "ai", "tool", "ai"]
    tokens = [part[0] for mode, part in parts if mode == "messages" and isinstance(part[0], AIMessageChunk)]
    assert sum(1 for token in tokens for call in token.tool_call_chunks if call["name"]) == 1


# Binding -----------------------------------------------------------------------------------------


def test_options_and_tools_reach_the_model_and_the_record(tmp_path: Path) -> None:
    with (
        OpenAIStub([Reply.structured({"symbol": "600519.SH", "shares": 1})] * 2) as stub,
        run(tmp_path) as scope,
    ):
        model = RecordedChatModel(at(stub))
        model.bind_tools([price], tool_choice="any", parallel_tool_calls=False).invoke(HI)
        model.bind(response_format={"type": "json_object"}, max_tokens=7, stop=["END"]).invoke(HI)
        bound, formatted = (json.loads(entry.request) for entry in entries(scope))
    assert stub.requests[0].body["tool_choice"] == "required"
    assert stub.requests[0].body["parallel_tool_calls"] is False
    assert stub.requests[1].body["response_format"] == {"type": "json_object"}
    assert stub.requests[1].body["stop"] == ["END"]
    assert (bound["tool_choice"], bound["params"]["parallel_tool_calls"]) == ("any", False)
    params = formatted["params"]
    assert (params["response_format"], params["max_tokens"]) == ({"type": "json_object"}, 7)
    assert params["stop"] == ["END"]


def test_structured_output_is_recorded_and_served(tmp_path: Path) -> None:
    call = AIMessage("", tool_calls=[{"name": "Order", "args": {"symbol": "X", "shares": 1}, "id": "1"}])
    for mode, script in (("record", [call]), ("replay", [])):
        with run(tmp_path, mode) as scope:
            model = RecordedChatModel(ScriptedChatModel(script)).with_structured_output(Order)
            assert model.invoke("Hi") == Order(symbol="X", shares=1)
            (entry,) = entries(scope)
    assert json.loads(entry.request)["tools"][0]["function"]["name"] == "Order"


# Async -------------------------------------------------------------------------------------------


@pytest.mark.proof
def test_an_awaited_call_records_serves_and_does_not_block_the_loop(tmp_path: Path) -> None:
    class Slow(ScriptedChatModel):
        """Sleeps in its thread, as a client would wait."""

        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            time.sleep(0.2)
            return super()._generate(*args, **kwargs)

    async def beat(gaps: list[float]) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            gaps.append(time.perf_counter() - before)

    async def ask(model: RecordedChatModel) -> tuple[str, float]:
        gaps: list[float] = []
        heart = asyncio.create_task(beat(gaps))
        text = (await model.ainvoke(HI)).text
        heart.cancel()
        return text, max(gaps, default=0.0)

    with run(tmp_path):
        text, longest = asyncio.run(ask(RecordedChatModel(Slow(["fine"]))))
    assert text == "fine"
    assert longest < 0.15
    with run(tmp_path) as scope:
        assert asyncio.run(ask(RecordedChatModel(ScriptedChatModel())))[0] == "fine"
        assert len(entries(scope)) == 1


def test_an_awaited_broken_stream_is_retried(tmp_path: Path) -> None:
    async def ask(model: RecordedChatModel) -> list[Any]:
        graph = StateGraph(MessagesState)

        async def node(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        graph.add_node("ask", node)
        graph.add_edge(START, "ask")
        return [part async for part in graph.compile().astream({"messages": HI}, stream_mode="messages")]

    policy = CallPolicy(max_attempts=3, sleep=lambda _: None)
    event = openai.APIError("overloaded", request=None, body=None)  # type: ignore[arg-type]
    with run(tmp_path) as scope:
        parts = asyncio.run(
            ask(RecordedChatModel(ScriptedChatModel([event, "fine as it is"]), policy=policy))
        )
        assert [entry.final for entry in entries(scope)] == [False, True]
    assert "".join(part[0].text for part in parts) == "fine as it is"
    assert len({part[0].id for part in parts}) == 1


# Requests and replies as JSON --------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("plain", response_metadata={"finish_reason": "stop", "model_name": "m"}),
        AIMessage([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "{}"}]),
        AIMessage(
            "half",
            response_metadata={"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        ),
        AIMessage(
            "",
            tool_calls=[{"name": "f", "args": {"n": None, "x": 1.5, "代码": ["600519.SH"]}, "id": "call_1"}],
            invalid_tool_calls=[
                {"name": "g", "args": '{"a": ', "id": "2", "error": "no JSON", "type": "invalid_tool_call"}
            ],
            usage_metadata={
                "input_tokens": 5,
                "output_tokens": 2,
                "total_tokens": 7,
                "input_token_details": {"cache_read": 3},
            },
            additional_kwargs={"reasoning_content": "hm"},
        ),
    ],
)
def test_a_reply_comes_back_equal(message: AIMessage) -> None:
    assert message_from_json(json.loads(canonical_json(reply_to_json(message)))) == message


@pytest.mark.parametrize(
    ("usage", "known"), [((7, 2, 9), (7, 2)), ((-1000, 2, 9), (None, None)), ((10**12, 2, 9), (None, None))]
)
def test_an_invalid_token_count_is_unknown(usage: tuple[int, ...], known: tuple[int | None, ...]) -> None:
    names = ("input_tokens", "output_tokens", "total_tokens")
    told: Any = dict(zip(names, usage, strict=True))
    assert token_counts(AIMessage("fine", usage_metadata=told)) == known


def test_a_finish_reason_is_cut_to_fit_the_database() -> None:
    message = AIMessage("", response_metadata={"finish_reason": "st\0o" + "p" * 90})
    assert finish_reason(message) == "sto" + "p" * 37


@pytest.mark.parametrize(
    ("message", "usable"),
    [
        (AIMessage("text"), True),
        (AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}]), True),
        (AIMessage("  "), False),
        (AIMessage("half", response_metadata={"finish_reason": "length"}), False),
        (AIMessage("half", response_metadata={"stop_reason": "max_tokens"}), False),
        (AIMessage("half", response_metadata={"finish_reason": "MAX_TOKENS"}), False),
        (AIMessage("half", response_metadata={"finish_reason": "model_length"}), False),
        (AIMessage("half", response_metadata={"done_reason": "length"}), False),
        (AIMessage("half", response_metadata={"finish_reason": "error"}), False),
        (AIMessage("whole", response_metadata={"status": "completed"}), True),
        (AIMessage("<think>hm</think>"), False),
        (AIMessage("…", response_metadata={"finish_reason": "content_filter"}), False),
        (AIMessage("no", additional_kwargs={"refusal": "I will not"}), False),
        (AIMessage("", invalid_tool_calls=[{"name": "f", "args": "{", "id": "1", "error": None}]), False),
    ],
)
def test_empty_truncated_withheld_and_unreadable_replies_are_not_usable(
    message: AIMessage, usable: bool
) -> None:
    assert is_usable(message) is usable


def test_a_request_has_one_text_whatever_ids_the_messages_have() -> None:
    model = ScriptedChatModel()

    def text(mark: str) -> str:
        called = AIMessage("", id=mark, tool_calls=[{"name": "f", "args": {}, "id": "call_1"}])
        result = ToolMessage("1", id=mark, tool_call_id="call_1", artifact=object())
        return build_request(model, model_facts(model), [HumanMessage("Hi", id=mark), called, result]).text

    assert text("one") == text("two")
    assert json.loads(text("one"))["messages"][2]["tool_call_id"] == "call_1"


# Secrets -----------------------------------------------------------------------------------------


def test_no_secret_reaches_the_database_an_error_or_a_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from langchain_openai import ChatOpenAI

    header, password = "header-0123456789", "hunter2-0123"
    caplog.set_level(0, logger="quantgraph")
    echo = f"no {KEY}, Authorization: Bearer {KEY}, {header}, http://me:{password}@host/v1"
    with OpenAIStub([Fault.http(429, echo), echo, Fault.http(400, echo)]) as stub, run(tmp_path) as scope:
        inner = ChatOpenAI(
            model="m",
            api_key=KEY,  # type: ignore[arg-type]
            base_url=stub.base_url.replace("//", f"//me:{password}@"),
            default_headers={"X-Api-Key": header, "Authorization": f"Bearer {KEY}"},
            max_retries=0,
        )
        model = RecordedChatModel(inner, policy=AT_ONCE)
        live = model.bind(extra_headers={"Authorization": f"Bearer {KEY}"}).invoke(echo)
        with pytest.raises(ModelUnavailable) as refused:
            model.invoke(HI)
        assert len(entries(scope)) == 3
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("run.sqlite*"))
    shown = [kept.decode(errors="replace"), str(live), str(refused.value), caplog.text, repr(model)]
    for secret in (KEY, header, password):
        assert [secret in text for text in shown] == [False] * len(shown), secret
    assert b"://me:***@host/v1" in kept


# Speed -------------------------------------------------------------------------------------------


@pytest.mark.proof
def test_recording_adds_less_than_twice_what_a_call_to_a_model_that_answers_at_once_takes(
    tmp_path: Path,
) -> None:
    model = RecordedChatModel(ScriptedChatModel(lambda messages: "y" * 2000)).bind_tools([price])
    question = [HumanMessage("x" * 8000)]

    def cost(recording: Recording) -> float:
        with in_scope(Scope(recording=recording, path="node")):
            begun = time.thread_time()
            for _ in range(25):
                model.invoke(question)
            return time.thread_time() - begun

    costs = [
        (cost(Recording("r")), cost(Recorder(tmp_path / f"{part}.sqlite").of("r"))) for part in range(12)
    ]
    bare, taped = map(min, zip(*costs, strict=True))  # in turns: another process slows both
    assert taped < 3 * bare  # a ratio: machines differ by more than that in milliseconds
