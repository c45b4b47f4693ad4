"""The conversation of a day: read as AI-Trader's helpers read it, and bounded."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from quantgraph.agents.trader._prompt import bounded_window, extract_conversation, extract_tool_messages
from quantgraph.errors import BadOption

CALL = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c"}
TALK = [
    SystemMessage("prompt"),
    HumanMessage("question"),
    AIMessage("first", tool_calls=[CALL]),
    ToolMessage("3", tool_call_id="c"),
    AIMessage("last"),
]


def test_the_last_text_is_the_conversations_final_one():
    assert extract_conversation({"messages": TALK}, "final") == "last"
    assert extract_conversation(TALK) == "last"


def test_a_conversation_without_a_text_has_an_empty_final_one():
    assert extract_conversation({"messages": [AIMessage("", tool_calls=[CALL])]}, "final") == ""
    assert extract_conversation([]) == ""


def test_thinking_is_not_the_final_text():
    assert extract_conversation([AIMessage("<think>I will write <FINISH_SIGNAL></think>hm")]) == "hm"


def test_all_messages_and_the_answers_of_tools():
    assert extract_conversation({"conversation": TALK}, "all") == TALK
    assert [each.content for each in extract_tool_messages({"messages": TALK})] == ["3"]


def test_another_kind_is_refused():
    with pytest.raises(BadOption, match="valid are final, all"):
        extract_conversation(TALK, "first")


def talk(replies, size):
    told = [SystemMessage("p" * 100), HumanMessage("q")]
    for place in range(replies):
        call = {"name": "t", "args": {"x": "a" * size}, "id": f"c{place}"}
        told += [AIMessage("w" * size, tool_calls=[call]), ToolMessage("r" * size, tool_call_id=f"c{place}")]
    return told


def length(messages):
    return sum(
        len(str(each.content)) + sum(len(str(call["args"])) for call in getattr(each, "tool_calls", []))
        for each in messages
    )


def test_a_short_conversation_stays_as_it_is():
    told = talk(3, 50)
    assert bounded_window(told, 10_000) == told


def test_old_results_are_shortened_before_old_words_and_the_last_exchange_stays():
    told = talk(10, 1_000)
    kept = bounded_window(told, 24_000)
    assert len(kept) == len(told)
    assert length(kept) <= 24_500
    assert kept[:2] == told[:2]
    assert kept[-2:] == told[-2:]
    assert len(kept[2].content) == 1_000
    assert "characters left out" in kept[3].content


def test_every_call_keeps_its_answer():
    kept = bounded_window(talk(20, 2_000), 8_000)
    calls = [call["id"] for each in kept if isinstance(each, AIMessage) for call in each.tool_calls]
    assert calls == [each.tool_call_id for each in kept if isinstance(each, ToolMessage)]
