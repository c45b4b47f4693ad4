"""The stand-in for a model is used as the recorded model was."""

from __future__ import annotations

import pytest
from langchain_openai import ChatOpenAI

from quantgraph.llm._capability_model import CapabilityChatModel
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.recording import Recorder
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.runs._replay import replay_models
from quantgraph.testing import OpenAIStub, ScriptedChatModel


class Elsewhere(ScriptedChatModel):
    """Of another maker."""

    base_url: str = "http://models.example/v1"


def price(symbol: str) -> str:
    """Price of a share."""
    return symbol


def ask(model, mode):
    wrapped = CapabilityChatModel(RecordedChatModel(model, role="reflection"), mode=mode)
    return [wrapped.bind_tools([price]).invoke("How much?").text, wrapped.invoke("How much?").text]


@pytest.mark.parametrize(
    ("mode", "kind"), [("auto", Elsewhere), ("native", Elsewhere), ("native", ChatOpenAI)]
)
def test_a_model_is_replayed_as_it_was_used(tmp_path, mode, kind):
    with OpenAIStub(['{"a": 1}', '{"a": 2}']) as stub:
        scripted = kind is Elsewhere
        given = {"api_key": "sk-abcdefgh", "base_url": stub.base_url}
        model = Elsewhere(['{"a": 1}', '{"a": 2}']) if scripted else ChatOpenAI(model="m", **given)
        recorder = Recorder(tmp_path / "run.sqlite")
        with in_scope(Scope(recording=recorder.of("r"), path="node")):
            live = ask(model, mode)
        recorder.close("r")
    recorder = Recorder(tmp_path / "run.sqlite", mode="replay")
    recording = recorder.of("r")
    silent = replay_models(list(recording.entries()))["reflection"]
    with in_scope(Scope(recording=recording, path="node")):
        assert ask(silent, mode) == live == ['{"a": 1}', '{"a": 2}']
    recorder.close("r")
