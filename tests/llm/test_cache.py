"""Replies kept across runs."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from quantgraph.errors import NoProgress
from quantgraph.llm import role_model
from quantgraph.llm._model_call import CacheMode, ReplyCache, cached_attempt
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.recording import Budget, Recorder
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.settings import load_settings
from quantgraph.testing import OpenAIStub, Reply, ScriptedChatModel

HI = [HumanMessage("Hi")]


def model_at(stub: OpenAIStub, tmp_path: Path, mode: CacheMode = "full", **fields: Any) -> Any:
    """As a process of its own would build it, on the same folder."""
    settings = load_settings(openai_api_key="sk-test", openai_base_url=stub.base_url, model="m", **fields)
    inner = role_model("clarify", model=None, settings=settings)
    while not isinstance(inner, RecordedChatModel):
        inner = inner.inner  # type: ignore[attr-defined]
    cache = ReplyCache(tmp_path / "models.sqlite", mode=mode)
    return RecordedChatModel(inner.inner, cache=cache)


def test_a_reply_is_served_to_another_run_and_costs_nothing(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "runs.sqlite", budget=Budget(calls=1))
    with OpenAIStub(["fine"]) as stub:
        for run_id in ("one", "two"):
            with in_scope(Scope(recording=recorder.of(run_id), path="n")):
                assert model_at(stub, tmp_path).invoke(HI).text == "fine"
    assert len(stub.requests) == 1
    (entry,) = recorder.of("two").entries()
    facts = dict(entry.facts)
    assert (facts["cached"], facts["cost"], json.loads(entry.reply or "")["content"]) == (True, "0", "fine")
    assert recorder.of("two").usage() == []


def test_a_repeated_request_of_a_run_has_its_own_cache_entry(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "runs.sqlite")
    with OpenAIStub(["one", "two"]) as stub:
        for run_id in ("first", "second"):
            with in_scope(Scope(recording=recorder.of(run_id), path="n")):
                model = model_at(stub, tmp_path)
                assert [model.invoke(HI).text for _ in range(2)] == ["one", "two"]
    assert len(stub.requests) == 2


def test_simultaneous_equal_requests_have_their_own_cache_entries(tmp_path: Path) -> None:
    both, numbers = threading.Barrier(2, timeout=5), count()

    def said(_: object) -> str:
        both.wait()
        return f"{next(numbers)}"

    texts = []
    for run_id, inner in (("one", ScriptedChatModel(said)), ("two", ScriptedChatModel())):
        recording = Recorder(tmp_path / "runs.sqlite").of(run_id)
        model = RecordedChatModel(inner, cache=ReplyCache(tmp_path / "models.sqlite"))
        for node in ("n", "m"):
            with in_scope(Scope(recording=recording, path=node)):
                texts.append({message.text for message in model.batch([HI, HI])})
    assert texts == [{"0", "1"}, {"2", "3"}] * 2


def test_a_cached_reply_is_in_the_record_and_replays_without_the_cache(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "models.sqlite")
    RecordedChatModel(ScriptedChatModel(["fine"]), cache=cache).invoke(HI)
    with in_scope(Scope(recording=Recorder(tmp_path / "run.sqlite").of("r"), path="n")):
        live = RecordedChatModel(ScriptedChatModel(), cache=cache).invoke(HI)
    with in_scope(Scope(recording=Recorder(tmp_path / "run.sqlite", mode="replay").of("r"), path="n")):
        assert RecordedChatModel(ScriptedChatModel()).invoke(HI) == live


def test_any_difference_in_the_request_is_another_request(tmp_path: Path) -> None:
    with OpenAIStub(["1", "2", "3", "4"]) as stub, OpenAIStub(["5"]) as other:
        model = model_at(stub, tmp_path)
        answers = [
            model.invoke(HI).text,
            model.invoke([*HI, HumanMessage("again")]).text,
            model.bind(max_tokens=5).invoke(HI).text,
            model_at(stub, tmp_path, temperature=0.5).invoke(HI).text,
            model_at(other, tmp_path).invoke(HI).text,
            model.invoke(HI).text,
        ]
    assert answers == ["1", "2", "3", "4", "5", "1"]


def test_write_only_calls_and_keeps_and_off_keeps_nothing(tmp_path: Path) -> None:
    with OpenAIStub(["1", "2", "3"]) as stub:
        modes: tuple[CacheMode, ...] = ("llm_write_only", "llm_write_only", "full", "off", "full")
        assert [model_at(stub, tmp_path, mode).invoke(HI).text for mode in modes] == ["1", "2", "2", "3", "2"]


def test_a_reply_is_served_until_it_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = [1000.0]
    monkeypatch.setattr("quantgraph.llm._model_call.time.time", lambda: hour[0] * 3600)
    cache = ReplyCache(tmp_path / "models.sqlite", ttl_hours=24)
    cache.put("request", "{}")
    hour[0] += 23.9
    assert cache.get("request") == "{}"
    hour[0] += 0.2
    assert cache.get("request") is None


@pytest.mark.parametrize(
    "reply",
    [
        Reply(content="half of", finish_reason="length"),
        Reply(content=""),
        Reply(content="<think>hm</think>"),
        Reply(content="half of", finish_reason="error"),
        Reply(content="…", finish_reason="content_filter"),
    ],
)
def test_empty_truncated_and_withheld_replies_are_not_kept(tmp_path: Path, reply: Reply) -> None:
    with OpenAIStub([reply, "whole"]) as stub:
        model = model_at(stub, tmp_path)
        model.invoke(HI)
        assert model.invoke(HI).text == "whole"


def test_a_reply_is_kept_or_dropped_with_its_attempt(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "models.sqlite")

    def calls(end: BaseException | None = None) -> int:
        inner = ScriptedChatModel(["fine"])
        with suppress(NoProgress, KeyboardInterrupt), cached_attempt(), cached_attempt():
            RecordedChatModel(inner, cache=cache).invoke(HI)
            if end is not None:
                raise end
        return len(inner.calls)

    failed, interrupted = NoProgress("it came to nothing"), KeyboardInterrupt()
    ends = [interrupted, failed, None, interrupted, None, failed, None, None]
    assert [calls(end) for end in ends] == [1, 1, 1, 0, 0, 0, 1, 0]


def test_the_settings_turn_it_on(tmp_path: Path) -> None:
    settings = load_settings(llm_cache="full", cache_dir=tmp_path / "cache")
    for script in (["fine"], []):
        assert (
            role_model("clarify", model=ScriptedChatModel(script), settings=settings).invoke(HI).text
            == "fine"
        )
    assert (tmp_path / "cache" / "models.sqlite").is_file()
    role_model("clarify", model=ScriptedChatModel(["x"]), settings=load_settings()).invoke(HI)
