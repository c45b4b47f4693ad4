"""Model calls end with the time of the node, or after a stop request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langgraph.errors import GraphDrained
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import RunControl

from quantgraph.errors import BudgetExceeded
from quantgraph.llm import get_llm
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.llm._retry import AT_ONCE
from quantgraph.recording import Budget, Recorder
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.settings import load_settings
from quantgraph.testing import Fault, OpenAIStub, ScriptedChatModel

pytestmark = pytest.mark.proof

HI = [HumanMessage("Hi")]
SOON = 5.0
"""Seconds; a wait for the model would take a minute."""


def at(stub: OpenAIStub) -> BaseChatModel:
    settings = load_settings(openai_api_key="sk-test", openai_base_url=stub.base_url)
    return get_llm("decision", model="gpt-4o-mini", settings=settings)


def told_to_stop(
    recorder: Recorder, model: Any, stub: OpenAIStub, reason: str, ask: Callable[[Any], Any]
) -> tuple[list[Any], float]:
    """Call a model in a graph with a stop request during the call; the record, and the seconds."""
    control = RunControl()

    def node(state: MessagesState) -> dict[str, Any]:
        with in_scope(Scope(recording=recorder.of("r"), path="ask")):
            return {"messages": [ask(model)]}

    def tell() -> None:
        while not stub.requests:
            time.sleep(0.01)
        control.request_drain(reason)

    graph = StateGraph(MessagesState)
    graph.add_node("ask", node)
    graph.add_edge(START, "ask")
    threading.Thread(target=tell).start()
    begun = time.monotonic()
    with pytest.raises(GraphDrained):
        graph.compile().invoke({"messages": HI}, control=control)
    took = time.monotonic() - begun
    return [(entry.attempt, entry.final) for entry in recorder.of("r").entries()], took


def asked(model: Any) -> Any:
    return model.invoke(HI)


def awaited(model: Any) -> Any:
    return asyncio.run(model.ainvoke(HI))


@pytest.mark.parametrize("ask", [asked, awaited])
@pytest.mark.parametrize(
    ("reason", "answer"), [("enough", Fault.http(503, retry_after=40)), (AT_ONCE, Fault.hang())]
)
def test_after_a_stop_request_nothing_is_retried_or_waited_for(
    tmp_path: Path, ask: Callable[[Any], Any], reason: str, answer: Fault
) -> None:
    recorder = Recorder(tmp_path / "run.sqlite")
    with OpenAIStub(lambda _: answer) as stub:
        lines, took = told_to_stop(recorder, RecordedChatModel(at(stub)), stub, reason, ask)
        assert len(stub.requests) == 1
    assert lines == [(1, False)]  # who goes on asks again
    assert took < SOON


def test_a_call_in_flight_is_awaited_and_no_call_follows(tmp_path: Path) -> None:
    def slowly(_: object) -> str:
        time.sleep(0.3)
        return "fine"

    def twice(model: Any) -> Any:
        assert model.invoke(HI).text == "fine"
        return model.invoke(HI)

    recorder = Recorder(tmp_path / "run.sqlite")
    with OpenAIStub(slowly) as stub:
        lines, _ = told_to_stop(recorder, RecordedChatModel(at(stub)), stub, "enough", twice)
        assert len(stub.requests) == 1
    assert lines == [(1, True)]


@pytest.mark.parametrize("ask", [asked, awaited])
def test_the_end_of_the_time_ends_a_call_in_flight_also_in_a_replay(
    tmp_path: Path, ask: Callable[[Any], Any]
) -> None:
    where = tmp_path / "run.sqlite"
    told = []
    for mode, budget, seconds in (
        ("record", Budget(seconds=0.4), 600.0),
        ("replay", None, 600.0),
        ("record", None, 0.4),
    ):
        recorder = Recorder(where, mode=mode, budget=budget)
        with OpenAIStub(lambda _: Fault.hang()) as stub:
            begun = time.monotonic()
            # A replay takes the answer whichever model the question is put to.
            inner = at(stub) if mode == "record" else ScriptedChatModel()
            with in_scope(Scope(recording=recorder.of("r"), path="n")):
                model = RecordedChatModel(inner, node_seconds=seconds)
                with pytest.raises(BudgetExceeded) as over:
                    ask(model)
            assert time.monotonic() - begun < SOON
            assert len(stub.requests) == (mode == "record")
        told.append(str(over.value))
        assert over.value.data["limit"] == "seconds"
    run, replayed, node = told
    assert run == replayed == "budget of the run: at most 0.4 seconds; the model has not answered"
    assert "a node may work for 0.4 seconds (settings: node_seconds)" in node
    recording = Recorder(where).of("r")
    assert [entry.final for entry in recording.entries()] == [False, True, False, True]
    assert recording.usage()[0]["calls"] == 2
    assert recording.usage()[0]["prompt_tokens"] is None  # it may have been paid for


def test_an_abandoned_reply_is_dropped_and_its_stream_ended(tmp_path: Path) -> None:
    go_on, told = threading.Event(), []

    class Ear(BaseCallbackHandler):
        def on_llm_new_token(self, token: str, **_: Any) -> None:
            told.append(token)

    class Slow(ScriptedChatModel):
        """Hangs before its first token."""

        def _generate(self, *args: Any, run_manager: Any, **kwargs: Any) -> Any:
            go_on.wait(10)
            run_manager.on_llm_new_token("late")
            return super()._generate(*args, **kwargs)

    recording = Recorder(tmp_path / "run.sqlite").of("r")
    with in_scope(Scope(recording=recording, path="n")), pytest.raises(BudgetExceeded):
        RecordedChatModel(Slow(["late words"]), node_seconds=0.1).invoke(HI, config={"callbacks": [Ear()]})
    (left,) = [thread for thread in threading.enumerate() if thread.name == "model call"]
    go_on.set()
    left.join(5)
    assert (left.is_alive(), told) == (False, [])
    assert [entry.reply for entry in recording.entries()] == [None, None]


def test_a_call_made_by_an_abandoned_model_is_not_an_answer_of_the_run(tmp_path: Path) -> None:
    go_on = threading.Event()

    def slow(_: object) -> str:
        go_on.wait(10)
        return "late"

    inner = RecordedChatModel(ScriptedChatModel(slow), role="inner")
    outer = RecordedChatModel(ScriptedChatModel(lambda _: inner.invoke(HI).text), node_seconds=0.1)
    with in_scope(Scope(recording=Recorder(tmp_path / "run.sqlite").of("r"), path="n")):
        with pytest.raises(BudgetExceeded):
            outer.invoke(HI)
        left = [thread for thread in threading.enumerate() if thread.name == "model call"]
        go_on.set()
        for thread in left:
            thread.join(5)
    replayed = Recorder(tmp_path / "run.sqlite", mode="replay").of("r")
    with in_scope(Scope(recording=replayed, path="n")), pytest.raises(BudgetExceeded):
        outer.invoke(HI)
    assert replayed.replay_lookup is not None
    assert replayed.replay_lookup.unused_entries() == []
