"""Executing a run: what the result says of its time."""

from __future__ import annotations

import time

from deciders import OneByOne
from langgraph.graph import END, START, StateGraph

from quantgraph.llm.planner import KeylessPlanner
from quantgraph.runs import run_strategy

SENTENCE = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240131"
NODES = {"reflection", "data_fetch", "signal_generate", "validate", "daily_loop", "decision", "report"}
PAUSE = 0.5


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


def test_the_seconds_of_a_node_are_its_own_and_those_of_what_runs_inside_of_it(tmp_path):
    begun = time.perf_counter()
    model = {"reflection": SlowPlanner(), "signal_generate": SlowPlanner()}
    told = run_strategy(SENTENCE, model=model, decider=SlowDecider(), out=tmp_path)
    whole, seconds = time.perf_counter() - begun, told["seconds"]
    assert told["ended_because"] == "done", told["error"]
    assert set(seconds) == NODES
    assert seconds["reflection"] >= PAUSE
    assert seconds["signal_generate"] >= PAUSE
    assert seconds["decision"] >= 2 * PAUSE
    assert sum(seconds.values()) <= whole
