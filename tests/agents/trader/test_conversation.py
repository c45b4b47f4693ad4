"""The conversation of a day in its window."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from quantgraph.agents.trader._prompt import bounded_window


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
