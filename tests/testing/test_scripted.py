from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import add

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from quantgraph.testing import ScriptedChatModel, ScriptExhausted

CALL = {"name": "double", "args": {"n": 21, "名": "茅台"}, "id": "c1", "type": "tool_call"}


@tool
def double(n: int) -> int:
    """Double a number."""
    return 2 * n


class Order(BaseModel):
    """An order."""

    symbol: str
    shares: int


def test_answers_come_in_order_and_calls_are_recorded() -> None:
    model = ScriptedChatModel(["one", AIMessage("two"), lambda messages: f"saw {messages[-1].text}"])
    assert [model.invoke(text).text for text in ("a", "b", "c")] == ["one", "two", "saw c"]
    assert [call.messages[-1].text for call in model.calls] == ["a", "b", "c"]
    assert model.remaining == 0


def test_a_scripted_exception_is_raised_and_the_script_goes_on() -> None:
    model = ScriptedChatModel([TimeoutError("late"), "fine"])
    with pytest.raises(TimeoutError, match="late"):
        model.invoke("a")
    assert model.invoke("a").text == "fine"


def test_an_exhausted_script_names_its_length() -> None:
    model = ScriptedChatModel(["one", "two"])
    model.invoke("a")
    model.invoke("b")
    with pytest.raises(ScriptExhausted, match=r"the script has 2 answers; this is call 3, .* 'more\?'"):
        model.invoke("more?")


def test_one_function_answers_every_call() -> None:
    def echo(messages: list[BaseMessage]) -> str:
        return f"{len(messages)}: {messages[-1].text}"

    model = ScriptedChatModel(echo)
    assert [model.invoke(text).text for text in "abc"] == ["1: a", "1: b", "1: c"]


def test_bound_copies_share_script_and_calls_and_keep_their_tools() -> None:
    model = ScriptedChatModel(["one", "two", "three"])
    bound = model.bind_tools([double], tool_choice="any")
    assert isinstance(bound, ScriptedChatModel)
    assert [bound.invoke("a").text, model.invoke("b").text, bound.invoke("c").text] == ["one", "two", "three"]
    assert [[one["function"]["name"] for one in call.tools] for call in model.calls] == [
        ["double"],
        [],
        ["double"],
    ]
    assert [call.tool_choice for call in bound.calls] == ["any", None, "any"]


def test_options_of_a_call_are_recorded() -> None:
    model = ScriptedChatModel(["x"])
    model.bind(temperature=0.5).invoke("a", stop=["END"])
    assert model.calls[0].stop == ("END",)
    assert model.calls[0].options == {"temperature": 0.5}


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("a longer text, 有中文, in several chunks"),
        AIMessage("", tool_calls=[CALL, {**CALL, "id": "c2", "args": {}}]),
        AIMessage("both", tool_calls=[CALL]),
        AIMessage("", invalid_tool_calls=[{"name": "double", "args": "n: 2", "id": "c1", "error": None}]),
        AIMessage([{"type": "text", "text": "a block"}]),
        AIMessage(
            "counted",
            usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
            response_metadata={"finish_reason": "stop"},
        ),
    ],
)
def test_the_chunks_of_a_stream_add_up_to_the_invoked_message(message: AIMessage) -> None:
    model = ScriptedChatModel([message, message])
    chunks = list(model.stream("a"))
    whole, invoked = reduce(add, chunks), model.invoke("a")
    assert whole.text == invoked.text
    assert whole.tool_calls == invoked.tool_calls == message.tool_calls
    assert [call["args"] for call in whole.invalid_tool_calls] == [
        call["args"] for call in message.invalid_tool_calls
    ]
    assert whole.usage_metadata == invoked.usage_metadata
    assert whole.response_metadata.get("finish_reason") == invoked.response_metadata.get("finish_reason")
    if isinstance(message.content, str) and len(message.content) > 10:
        assert len(chunks) > 3


def test_ainvoke_and_astream_follow_the_same_script() -> None:
    model = ScriptedChatModel(["one", "two words"])

    async def ask() -> tuple[str, str]:
        first = await model.ainvoke("a")
        return first.text, "".join([chunk.text async for chunk in model.astream("b")])

    assert asyncio.run(ask()) == ("one", "two words")


def test_the_scripts_own_message_is_never_handed_out() -> None:
    message = AIMessage("same")
    model = ScriptedChatModel([message, message])
    first, second = model.invoke("a"), model.invoke("a")
    assert first.id != second.id
    assert message.id is None


AS_CALL = AIMessage(
    "", tool_calls=[{"name": "Order", "args": {"symbol": "600519.SH", "shares": 100}, "id": "1"}]
)


def test_structured_output_reads_a_scripted_tool_call() -> None:
    model = ScriptedChatModel([AS_CALL, "no"])
    reader = model.with_structured_output(Order)
    assert reader.invoke("a") == Order(symbol="600519.SH", shares=100)
    assert (model.calls[0].tools[0]["function"]["name"], model.calls[0].tool_choice) == ("Order", "any")
    assert reader.invoke("a") is None


def test_an_agent_runs_its_tool_loop_and_streams() -> None:
    def script() -> ScriptedChatModel:
        return ScriptedChatModel(
            [AIMessage("", tool_calls=[{"name": "double", "args": {"n": 21}, "id": "1"}]), "42."]
        )

    model = script()
    result = create_agent(model, [double]).invoke({"messages": [HumanMessage("2*21?")]})
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert [message.text for message in result["messages"][2:]] == ["42", "42."]
    assert [one["function"]["name"] for one in model.calls[0].tools] == ["double"]
    streamed = create_agent(script(), [double]).stream(
        {"messages": [HumanMessage("2*21?")]}, stream_mode="messages"
    )
    assert "".join(chunk.text for chunk, _ in streamed if chunk.type.startswith("AI")) == "42."


def test_parallel_calls_each_get_one_answer() -> None:
    model = ScriptedChatModel([str(n) for n in range(64)])
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda n: model.invoke(str(n)).text, range(64)))
    assert sorted(texts, key=int) == [str(n) for n in range(64)]
    assert len(model.calls) == 64
