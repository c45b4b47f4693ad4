"""Simultaneous calls of a node: numbered as they come, and not paid for twice after a resume."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from itertools import count

import pytest
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.runnables.config import ContextThreadPoolExecutor

from quantgraph.broker import Decider, Order
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.recording import Recorder
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.runs import RunSpec, replay, resume_run, run_strategy
from quantgraph.runtime import Resources
from quantgraph.testing import ScriptedChatModel

SENTENCE = "000341.SZ，5日均线上穿20日均线买入，下穿卖出，2025年1月2日到2025年1月7日"
NAMES = ("small", "middle", "large")


class Broken(Exception):
    """A process that ends in the middle of a call."""


class Panel(Decider):
    """Buys as many lots as its models say together; from day to day they come in another order."""

    name = "panel"
    uses_signal = False

    def __init__(self, models, turn):
        self._models = {name: RecordedChatModel(model, role="decision") for name, model in models.items()}
        self._turns = count(turn)

    def decide(self, context):
        session = context.session
        names = list(NAMES)[:: -1 if next(self._turns) % 2 else 1]
        said = {name: self._models[name].invoke(f"{session:%Y-%m-%d}: how many lots?").text for name in names}
        if len(said["large"]) > 1:  # what could not be used is asked for again, in the same words
            said["large"] = self._models["large"].invoke(f"{session:%Y-%m-%d}: how many lots?").text
        lots = sum(int(said[name]) * 10**place for place, name in enumerate(NAMES))
        return [Order(symbol="000341.SZ", side="buy", quantity=100 * lots, sequence=1, reason="said")]


def panel(paid, turn=1, *, breaks=False):
    """Models that answer otherwise each time, and write down what they are paid for."""

    def model(name):
        def said(messages):
            day = messages[0].text[:10]
            paid[day, name] += 1
            if breaks and day == "2025-01-06" and name == "small":
                raise Broken
            return "not a number" if name == "large" and paid[day, name] == 1 else f"{len(paid) % 4}"

        return ScriptedChatModel(said, model_name=name)

    return Panel({name: model(name) for name in NAMES}, turn)


def test_a_run_that_was_killed_during_parallel_calls_repeats_no_answered_one(tmp_path):
    paid = Counter()
    spec = RunSpec(question=SENTENCE, approve=True)
    resources = Resources(answer=lambda asked: asked["options"][0])
    with pytest.raises(Broken):
        run_strategy(
            spec, decider=panel(paid, breaks=True), out=tmp_path, source="sample", resources=resources
        )
    (folder,) = tmp_path.glob("*/")
    told = resume_run(folder, decider=panel(paid, 2), resources=resources)
    assert told["ended_because"] == "done", told["error"]
    days = [f"2025-01-0{day}" for day in (2, 3, 6, 7)]
    assert paid == {
        (day, name): 2 if name == "large" or (day, name) == ("2025-01-06", "small") else 1
        for day in days
        for name in NAMES
    }
    assert sum(row["calls"] for row in told["usage"] if row["role"] == "decision") == paid.total() == 17
    silent = Counter()
    for turn in (1, 2):
        replayed = replay(folder, decider=panel(silent, turn))
        assert (replayed.divergence, replayed.differences) == (None, ())
    assert silent == {}


def in_threads(model, questions):
    with ContextThreadPoolExecutor(len(questions)) as pool:
        return list(pool.map(model.invoke, questions))


def in_tasks(model, questions):
    async def gathered():
        return await asyncio.gather(*map(model.ainvoke, questions))

    return asyncio.run(gathered())


def in_branches(model, questions):
    branches = {
        f"{place}": RunnableLambda(lambda _, said=said: said) | model for place, said in enumerate(questions)
    }
    return list(RunnableParallel(branches).invoke(None).values())


def in_a_batch(model, questions):
    return model.batch(questions)


@pytest.mark.parametrize("at_once", [in_threads, in_tasks, in_branches, in_a_batch])
def test_parallel_calls_are_paid_for_once_and_equal_requests_get_two_replies(tmp_path, at_once):
    paid, broken, numbers, ended = Counter(), {"b", "e"}, count(), count(1)
    others_came_back = threading.Event()

    def said(messages):
        text = messages[0].text
        paid[text] += 1
        if text in broken:
            others_came_back.wait(5)
            raise Broken
        return f"{text}{next(numbers)}"

    def heard(_entry, _served):
        if next(ended) == 4:
            others_came_back.set()

    def execution(questions, mode="record"):
        recording = Recorder(tmp_path / "run.sqlite", mode=mode).of("r")
        scope = Scope(recording=recording, path="node", on_model_call=heard)
        with in_scope(scope):
            replies = at_once(RecordedChatModel(ScriptedChatModel(said)), list(questions))
        return [reply.text for reply in replies], scope

    with pytest.raises(Broken):
        execution("abcdae")
    broken.clear()
    paid.clear()
    whole, scope = execution("eadcba")
    assert paid == Counter("be")
    assert [text[0] for text in whole] == list("eadcba")
    assert len(set(whole)) == 6
    assert scope.calls == {"node": 6}
    for order in ("eadcba", "aabcde"):
        again, scope = execution(order, "replay")
        assert sorted(again) == sorted(whole)
        assert (scope.recording.replay_lookup.divergence, scope.recording.replay_lookup.unused_entries()) == (
            None,
            [],
        )
