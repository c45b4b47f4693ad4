"""Calls that are made at the same time: which of an earlier try's is meant, whatever their numbers are now."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from quantgraph.errors import ModelUnavailable
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.recording import Entry, Recorder
from quantgraph.recording.scope import Scope, call_once, happened, in_scope
from quantgraph.testing import ScriptedChatModel


@pytest.fixture
def execution(tmp_path):
    def begin(calls=None, mode="record", **more):
        recorder = Recorder(tmp_path / "run.sqlite", mode=mode, **more)
        return Scope(recording=recorder.of("r"), path="node", calls=calls or {})

    return begin


def asked(scope, *questions, replies=()):
    """Ask one after the other; as many replies as are given are paid for."""
    model = ScriptedChatModel(list(replies))
    with in_scope(scope):
        messages = [RecordedChatModel(model).invoke(question) for question in questions]
    assert model.remaining == 0
    return messages


def texts(messages):
    return [message.text for message in messages]


def test_a_call_is_what_it_was_in_the_try_before_and_a_new_one_has_a_name_of_its_own(execution):
    asked(execution(), "a", "b", replies=["a1", "b1"])
    again = asked(execution(), "c", "b", "a", "a", replies=["c1", "a2"])
    assert texts(again) == ["c1", "b1", "a1", "a2"]
    assert len({message.id for message in again}) == 4  # though two of them have one number
    replayed = asked(execution(mode="replay"), "a", "a", "b", "c")
    assert texts(replayed) == ["a1", "a2", "b1", "c1"]
    assert {message.id for message in replayed} == {message.id for message in again}


def test_an_execution_is_not_served_what_the_one_before_it_was(execution):
    scope = execution()
    asked(scope, "b", "a", replies=["b1", "unusable"])
    again = execution(scope.calls)
    assert texts(asked(again, "a", replies=["a2"])) == ["a2"]
    assert texts(asked(execution(scope.before), "a", "b")) == ["unusable", "b1"]
    assert texts(asked(execution({"node": 2}), "a")) == ["a2"]


def test_of_two_alike_the_one_that_was_lost_is_made_again_and_is_not_the_next_executions(execution):
    def made(scope):
        return scope.key_of(scope.next_call("d" * 32))

    scope = execution()
    lost, kept = made(scope), made(scope)
    assert (lost.seq, kept.seq) == (1, 2)
    scope.recording.add(Entry(key=kept, request="{}", reply="1"))
    again = execution()
    assert [(key := made(again)), again.recording.find(key).reply] == [kept, "1"]
    new = made(again)
    assert again.recording.find(new) is None
    again.recording.add(Entry(key=new, request="{}", reply="2"))
    later = execution(again.calls)
    assert later.recording.find(made(later)) is None


def test_a_run_that_is_begun_anew_has_the_replies_of_each_execution_in_their_order(execution):
    first = execution()
    asked(first, "a", "b", replies=["a1", "b1"])
    asked(execution(first.calls), "b", "a", replies=["b2", "a2"])
    anew = execution()
    anew.recording.mark_restart()
    assert texts(asked(anew, "b", "a")) == ["b1", "a1"]
    assert texts(asked(execution(anew.calls), "a", "b")) == ["a2", "b2"]


def test_what_may_have_passed_is_asked_again_in_its_place_and_what_came_back_is_not(execution):
    class Refused(Exception):
        status_code = 400

    scope = execution()
    with pytest.raises(ModelUnavailable):
        asked(scope, "a", replies=[Refused("no")])
    assert texts(asked(scope, "a", replies=["a2"])) == ["a2"]
    assert texts(asked(execution(), "a", "a", replies=["a1"])) == ["a1", "a2"]
    assert texts(asked(execution(mode="replay"), "a", "a")) == ["a1", "a2"]


def test_the_same_question_to_several_models_is_each_ones_own_in_a_replay(execution):
    def panel(names):
        return [
            RecordedChatModel(ScriptedChatModel([name], model_name=name)).invoke("how many?").text
            for name in names
        ]

    names = ["small", "middle", "large"]
    for mode, order in (("record", names), ("replay", names[::-1])):
        scope = execution(mode=mode)
        with in_scope(scope):
            assert panel(order) == order
    assert scope.recording.replay_lookup.unused_entries() == []


def test_a_fact_that_calls_at_the_same_time_found_out_is_so_at_any_number(execution):
    def found(scope):
        return call_once("fact", {"refused": "json_schema"}, lambda: "json_mode")

    for mode, first in (("record", "a"), ("record", "b"), ("replay", "a")):
        scope = execution(mode=mode)
        with in_scope(scope):
            model = RecordedChatModel(ScriptedChatModel(lambda _: "said"))
            model.invoke("a")
            if first == "b":
                model.invoke("b")
            assert found(scope) == "json_mode"
            if first == "a":
                model.invoke("b")
    assert (scope.recording.replay_lookup.divergence, scope.recording.replay_lookup.unused_entries()) == (
        None,
        [],
    )


def test_a_recording_that_is_closed_while_others_write_loses_none(execution):
    scope = execution()

    def said(number):
        with in_scope(scope):
            RecordedChatModel(ScriptedChatModel(["x"])).invoke(f"{number}")
        scope.recording.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(said, range(40)))
    assert len(list(scope.recording.entries())) == 40


def test_an_event_is_recorded_where_it_happened_and_nowhere_else(execution):
    def happening(scope, *now):
        answers = iter(now)
        with in_scope(scope):
            return [happened("time_limit", lambda: next(answers)) for _ in now]

    def after_a_call(scope, now, replies):
        asked(scope, "a", replies=replies)
        return happening(scope, now)

    assert happening(execution(), False, False, True) == [False, False, True]
    # A resumed run has it again without asking, and so has a replay; at another place neither has.
    assert happening(execution(), False) == [True]
    assert happening(execution(mode="replay"), False) == [True]
    assert after_a_call(execution(), False, ["b"]) == [False]
    assert after_a_call(execution(mode="replay"), True, []) == [False]


def test_an_event_outside_of_a_run_is_what_happens():
    assert [happened("time_limit", lambda now=now: now) for now in (True, False)] == [True, False]
