"""Replies of extreme length or depth are read quickly or refused."""

from __future__ import annotations

import time

import pytest
from langchain_core.messages import AIMessage

from quantgraph.errors import ModelUnavailable
from quantgraph.llm import CallPolicy
from quantgraph.llm._capability_model import MODES, ReplyForm, parse_reply
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.llm.messages._structured import find_json
from quantgraph.testing import ScriptedChatModel

TOOL = {"name": "python_repl", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}
PIECES = [
    "{", '{"', "{a}", "{a:1}", '[{"', '{"a":', "<think>", "</think>",
    "<parameter=a", "<parameter=a>", "<function=a", "<invoke name=a", "<tool_call>{",
    "<tool_call>a<arg_key>", "<arg_key>a</arg_key><arg_value>", "<|tool_call_begin|>a", "[TOOL_CALLS]a{",
    "[TOOL_CALLS]a{}", "to=functions.a", "<", "\"name\": \"a\",", "<|DSML|", "<|channel|>a to=functions.a<|message|>{}", " ",
]  # fmt: skip


@pytest.mark.proof
@pytest.mark.parametrize("piece", PIECES)
def test_an_endlessly_repeating_reply_is_read_within_seconds(piece):
    begun = time.process_time()
    for reply in ("<function=python_repl>" + piece * 40_000, piece * 40_000):
        find_json(reply)
        for mode in MODES:
            parse_reply(AIMessage(reply), ReplyForm(tools=(TOOL,)), mode=mode, turn=1)
    assert time.process_time() - begun < 5


def test_a_reply_of_ten_megabytes_is_a_fault():
    (found,) = find_json('{"a": 1}' + " " * 10_000_000)
    assert "at most 1000000 are read" in found.problem


def test_an_endlessly_nested_reply_violates_the_protocol():
    deep = {}
    for _ in range(150):
        deep = {"a": deep}
    call = {"name": "python_repl", "args": deep, "id": "1", "type": "tool_call"}
    model = RecordedChatModel(
        ScriptedChatModel(lambda _: AIMessage("", tool_calls=[call])), policy=CallPolicy(max_attempts=1)
    )
    with pytest.raises(ModelUnavailable, match="nested too deeply"):
        model.invoke("go")


def test_calls_that_share_an_id_get_ids_of_their_own():
    calls = [{"name": "python_repl", "args": {"query": text}, "id": "same"} for text in "abb"]
    calls.append({"name": "python_repl", "args": {"query": "c"}, "id": "own"})
    read = parse_reply(AIMessage("", tool_calls=calls), ReplyForm(tools=(TOOL,)), mode="native", turn=1)
    ids = [call["id"] for call in read.calls]
    assert len(set(ids)) == 4
    assert ids[-1] == "own"
