"""The same strategy reaches the same signal in every mode, over real HTTP."""

from __future__ import annotations

import json
import threading

import pytest
from langchain_core.messages import HumanMessage

from quantgraph.llm import KeylessPlanner
from quantgraph.llm.messages._structured import read_json
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.subgraphs.signal._agents import ReflectionReply
from quantgraph.testing import Fault, OpenAIStub

SENTENCE = (
    "000341.SZ, buy when RSI(6) is below 40 and PE is below 100, sell when RSI(6) is above 60, "
    "from 20250401 to 20250630"
)


def run(**options):
    store = DataState()
    settings = load_settings(fetch="agent")
    graph = create_signal_subgraph(
        on_clarify="fail", settings=settings, resources=Resources(store=store), **options
    )
    state = graph.invoke({"messages": [HumanMessage(SENTENCE)]})
    assert state["ended_because"] == "done", state["error_messages"]
    return state, store.snapshot(state["data_ref"])["signal"][state["quantgraph"]["strategy"]["name"]]


class Told(KeylessPlanner):
    """The planner, with a list of its turns."""

    turns: list = []  # noqa: RUF012 - pydantic copies it

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        result = super()._generate(messages, stop, run_manager, **kwargs)
        self.turns.append(result.generations[0].message)
        return result


@pytest.fixture(scope="module")
def here():
    """The planner's turns in process, and their result."""
    planner = Told(turns=[])
    state, signal = run(model=planner)
    return planner.turns, state, signal


class WeakServer:
    """A server without tools, whose model repeats the planner's turns as JSON in prose."""

    def __init__(self, turns, refusal):
        self._turns, self._refusal, self._lock = iter(turns), refusal, threading.Lock()
        self.said = []

    def __call__(self, request):
        if request.tools:
            return self._refusal
        with self._lock:
            turn = next(self._turns)
        self.said.append(request.messages)
        if not turn.tool_calls:
            return f"<think>Done. {{</think>\n{turn.text}"
        (call,) = turn.tool_calls
        written = json.dumps({"tool": call["name"], "args": call["args"]}, ensure_ascii=False)
        return f"<think>A {{tool}}?</think>Of course:\n\n```json\n{written}\n```\n"


@pytest.mark.parametrize(
    "refusal",
    [
        Fault.http(400, "tools are not supported"),
        '<tool_call>{"name": "python_repl", "arguments": {}}</tool_call> <invoke name="tushare_daily_bar">',
    ],
    ids=["refuses tools", "does not read the calls of its model"],
)
def test_the_signal_is_the_same_in_text(here, refusal, monkeypatch):
    turns, state_here, signal_here = here
    server = WeakServer(turns, refusal)
    monkeypatch.setenv("QUANTGRAPH_MODEL", "weak")
    with OpenAIStub(server) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        state, signal = run()
        assert not stub.errors
        refused = sum(bool(request.tools) for request in stub.requests)
    assert len(server.said) == len(turns)
    assert len(stub.requests) == len(turns) + refused
    roles = {"reflection", "data_fetch"}
    assert refused == len(roles), "each role's model finds out once"
    assert {message["role"] for messages in server.said for message in messages} == {
        "system",
        "user",
        "assistant",
    }
    assert state["quantgraph"]["strategy"]["code_hash"] == state_here["quantgraph"]["strategy"]["code_hash"]
    assert state["data_ref"] == state_here["data_ref"]
    assert signal.equals(signal_here)


def test_the_planners_turns_use_the_tools_of_the_fetch(here):
    turns, _, signal = here
    called = [call["name"] for turn in turns for call in turn.tool_calls]
    assert called == ["tushare_daily_bar", "tushare_daily_basic"]
    assert read_json(turns[0].content, ReflectionReply).user_intent.params.required_indicators == ["pe"]
    assert set(signal.to_numpy().ravel()) > {1.0, -1.0}
