"""Where a replay and its record part is shown: the question, what of it changed, and the lines."""

from __future__ import annotations

import pytest

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import ModelUnavailable, RunDiverged
from quantgraph.recording import Entry, Key, Recording
from quantgraph.recording._entries import error_json


def model_call(text, *, path="signal/reflection", seq=1, model="big", reply="ok", **more):
    request = canonical_json({"model": model, "messages": [{"role": "user", "content": text}], "tools": []})
    return Entry(
        key=Key(path, seq, "model", content_hash(request)), request=request, reply=f'"{reply}"', **more
    )


@pytest.fixture
def replayed(tmp_path):
    def record(*entries):
        where = tmp_path / "run.sqlite"
        live = Recording("run", where)
        for entry in entries:
            live.add(entry)
        return Recording("run", where, mode="replay")

    return record


def ask(recording, entry):
    return recording.find(entry.key, entry.request).outcome()


def test_a_changed_prompt_is_told_by_node_number_and_place_with_the_lines_that_differ(replayed):
    prompt = "You plan.\nAnswer in JSON.\nBe short."
    recording = replayed(model_call("first"), model_call(prompt, seq=2), model_call("other", path="signal/x"))
    assert ask(recording, model_call("first")) == "ok"
    with pytest.raises(RunDiverged) as caught:
        ask(recording, model_call(prompt.replace("JSON", "XML"), seq=2))
    error = caught.value
    assert error.message == (
        "signal/reflection: model request number 2 is not what was recorded; changed: messages[0].content"
    )
    assert (error.data["path"], error.data["seq"], error.data["kind"]) == ("signal/reflection", 2, "model")
    assert error.data["changed"] == ["messages[0].content"]
    lines = error.data["diff"].splitlines()
    assert lines[0] == "--- recorded signal/reflection #2 model"
    assert [line.strip() for line in lines if line[0] in "+-"][2:] == [
        '-    "Answer in JSON.",',
        '+    "Answer in XML.",',
    ]


def test_a_call_more_than_was_recorded_is_held_against_the_nearest(replayed):
    recording = replayed(model_call("a"), model_call("b", seq=2))
    with pytest.raises(RunDiverged, match=r"number 4 is not .*; the nearest is signal/reflection number 2; "):
        ask(recording, model_call("c", seq=4))


def test_what_nothing_like_it_was_asked_is_said_so(replayed):
    recording = replayed(model_call("a"))
    with pytest.raises(RunDiverged, match="tool request number 1 was not made by the recorded run") as caught:
        recording.find(Key("signal/data_fetch", 1, "tool", "d" * 32), "{}")
    assert caught.value.data["diff"] == ""


def test_a_long_difference_is_cut_to_what_can_be_read(replayed):
    recording = replayed(model_call("\n".join(f"line {number}" for number in range(1000))))
    with pytest.raises(RunDiverged) as caught:
        ask(recording, model_call("x" * 100_000))
    lines = caught.value.data["diff"].splitlines()
    assert len(lines) == 41
    assert max(map(len, lines)) < 130
    assert lines[-1].startswith("... and ")


def test_whichever_model_is_configured_the_recorded_answer_is_served(replayed):
    assert ask(replayed(model_call("a", model="big")), model_call("a", model="nobody")) == "ok"


def test_the_first_divergence_is_met_by_whoever_asks_after_it(replayed):
    recording = replayed(model_call("a"), model_call("b", seq=2))
    for entry in (model_call("z"), model_call("b", seq=2)):
        with pytest.raises(RunDiverged, match="number 1"):
            ask(recording, entry)
    assert recording.replay_lookup.divergence.data["seq"] == 1


def test_what_was_recorded_and_never_asked_is_known(replayed):
    recording = replayed(model_call("a"), model_call("b", seq=2), model_call("c", path="signal/clarify"))
    ask(recording, model_call("a"))
    assert [entry.key.path for entry in recording.replay_lookup.unused_entries()] == [
        "signal/reflection",
        "signal/clarify",
    ]


def test_an_error_is_served_and_what_a_resumed_run_left_behind_is_not_missed(replayed):
    failed = model_call("a")
    down = error_json(ModelUnavailable("the model is down"))
    failed = Entry(key=failed.key, request=failed.request, error=down)
    recording = replayed(failed)
    with pytest.raises(ModelUnavailable, match="the model is down"):
        ask(recording, failed)
    # asked again by a resumed run, which then went another way than the one before it
    recording = replayed(
        model_call("old way", seq=2), model_call("a", reply="new"), model_call("new way", seq=2)
    )
    assert ask(recording, model_call("a")) == "new"
    ask(recording, model_call("new way", seq=2))
    assert recording.replay_lookup.unused_entries() == []


def test_calls_made_at_the_same_time_may_be_numbered_in_another_order_and_are_served_once(replayed):
    recording = replayed(model_call("first", reply="1"), model_call("second", seq=2, reply="2"))
    assert ask(recording, model_call("second", reply="2")) == "2"
    assert ask(recording, model_call("first", seq=2, reply="1")) == "1"
    assert recording.replay_lookup.unused_entries() == []
    with pytest.raises(RunDiverged):
        ask(recording, model_call("first", seq=3))
