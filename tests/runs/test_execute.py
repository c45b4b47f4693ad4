"""Executing a run: what the result says of its time, and what is told while it goes on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from deciders import OneByOne
from langgraph.graph import END, START, StateGraph
from load_script import load_script

from quantgraph.llm import KeylessPlanner
from quantgraph.runs import resume_run, run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.testing import OpenAIStub

scripted = load_script(Path(__file__).with_name("scripted_run.py"))
SENTENCE = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240131"
NODES = {"reflection", "data_fetch", "signal_generate", "validate", "daily_loop", "decision", "report"}
ROLES, PAUSE = ("reflection", "validation"), 0.5


class SlowPlanner(KeylessPlanner):
    """Takes half a second for each reply."""

    def _generate(self, *arguments, **options):
        time.sleep(PAUSE)
        return super()._generate(*arguments, **options)


class SlowDecider(OneByOne):
    """Asks, on its first session, a graph whose nodes have names of the run's."""

    slept = False

    def decide(self, context):
        if not self.slept:
            self.slept = True
            graph = StateGraph(dict).add_node("report", lambda _state: time.sleep(PAUSE) or {})
            graph.add_node("validate", lambda _state: time.sleep(PAUSE) or {})
            graph.add_edge(START, "report").add_edge("report", "validate").add_edge("validate", END)
            graph.compile().invoke({})
        return super().decide(context)


@pytest.mark.proof
def test_the_seconds_of_a_node_are_its_own_and_those_of_what_runs_inside_of_it(tmp_path):
    begun = time.perf_counter()
    read_twice, model = SENTENCE.replace("，下穿卖出", ""), dict.fromkeys(ROLES, SlowPlanner())
    told = run_strategy(read_twice, model=model, decider=SlowDecider(), out=tmp_path)
    whole, seconds = time.perf_counter() - begun, told["seconds"]
    assert told["ended_because"] == "done", told["error"]
    assert set(seconds) == NODES
    assert seconds["reflection"] >= PAUSE
    assert seconds["validate"] >= PAUSE
    assert seconds["decision"] >= 2 * PAUSE
    assert sum(seconds.values()) <= whole


def test_a_run_tells_its_nodes_its_tokens_and_each_session_also_when_it_is_resumed(tmp_path):
    first, then = [], []
    with OpenAIStub(scripted.script) as stub:
        settings = load_settings(openai_base_url=stub.base_url, openai_api_key="sk-test", model="stub")
        paused = run_strategy(
            scripted.QUESTION,
            out=tmp_path,
            resources=Resources(settings=settings, on_clarify="ask", watch=first.append),
        )
        assert paused["ended_because"] == "needs_answer"
        asked = len(stub.requests)
        resources = Resources(settings=settings, watch=then.append)
        done = resume_run(paused["run_dir"], answer=scripted.ANSWER, resources=resources)
        calls = len(stub.requests)
    assert done["ended_because"] == "done", done["error"]
    tokens = [event.number for event in first + then if event.kind == "tokens"]
    assert tokens == [sum(scripted.USAGE) * number for number in range(1, calls + 1)]
    assert 0 < asked < calls
    traded = [event for event in first + then if event.kind == "traded"]
    sessions = done["equity"]["sessions"][1:]
    assert [event.text for event in traded] == sessions
    assert [(event.number, event.total) for event in traded] == [
        (number, len(sessions)) for number in range(1, len(sessions) + 1)
    ]
    began = [event.name for event in then if event.kind == "started"]
    assert began[0] == "clarify"
    assert {*began} == {"clarify", *NODES}
