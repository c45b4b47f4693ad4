"""The signal subgraph gives the same result over real HTTP as in process."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage

from quantgraph.llm import KeylessPlanner
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.testing import Fault, OpenAIStub

pytestmark = pytest.mark.proof

SENTENCES = [
    "合成30成分股，5日均线上穿20日均线买入，下穿卖出，2025年",
    "SYN30, buy when RSI(14) is below 30 and PE is below 20, sell when RSI(14) is above 70, in 2025",
]


def run(sentence, **options):
    store = DataState()
    graph = create_signal_subgraph(on_clarify="fail", resources=Resources(store=store), **options)
    state = graph.invoke({"messages": [HumanMessage(sentence)]})
    assert state["ended_because"] == "done", state["error_messages"]
    return state, store.snapshot(state["data_ref"])["signal"][state["quantgraph"]["strategy"]["name"]]


@pytest.fixture
def served(monkeypatch):
    def point(stub):
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("QUANTGRAPH_MODEL", "stub")

    return point


@pytest.mark.parametrize("sentence", SENTENCES)
def test_over_http_the_same_sentence_gives_the_same_signal_in_exactly_one_call(served, sentence):
    here, signal_here = run(sentence)
    with OpenAIStub.serving(KeylessPlanner()) as stub:
        served(stub)
        there, signal_there = run(sentence)
        paths = [call.path for call in stub.requests]
    assert paths == ["/v1/chat/completions"], "to read: no call tries the server out"
    assert here["quantgraph"]["strategy"]["code_hash"] == there["quantgraph"]["strategy"]["code_hash"]
    assert here["data_ref"] == there["data_ref"]
    assert signal_here.equals(signal_there)


@pytest.mark.proof
def test_temporary_server_errors_do_not_change_the_result(served, monkeypatch):
    expected, _ = run(SENTENCES[0])
    stumbles = iter([Fault.http(429), Fault.http(500)])
    monkeypatch.setenv("QUANTGRAPH_MAX_ATTEMPTS", "3")
    with OpenAIStub.serving(KeylessPlanner()) as calm:
        served(calm)
        monkeypatch.setattr(
            calm, "_next", lambda request, answer=calm._next: next(stumbles, None) or answer(request)
        )
        state, _ = run(SENTENCES[0])
        assert len(calm.requests) == 3
    assert next(stumbles, None) is None
    assert state["quantgraph"]["strategy"]["code_hash"] == expected["quantgraph"]["strategy"]["code_hash"]
