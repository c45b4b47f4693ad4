"""Records as the document writes them, and a conversation that stays bounded."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from quantgraph.agents.execution._actions import Action, Calculation, ToolCall, TradeDecision
from quantgraph.agents.execution._prompt import (
    LONGEST_CONVERSATION,
    bounded,
    first_messages,
    observed,
    record_of,
    short_args,
)
from quantgraph.llm.messages import read

KLINE = {"time": 1234567890, "open": 50000, "high": 51000, "low": 49000, "close": 50500, "volume": 1000}
EXECUTION_HISTORY = [
    {
        "step": 1,
        "type": "tool_call",
        "reasoning": "需要获取BTCUSDT的1小时K线数据来分析价格趋势",
        "tool_name": "get_kline_data",
        "params": {"exchange": "Binance", "symbol": "BTCUSDT", "timeframe": "1h", "limit": 100},
        "result": [KLINE],
        "timestamp": "2024-01-01T10:00:00",
    },
    {
        "step": 2,
        "type": "calculation",
        "reasoning": "根据策略规则，需要计算30日移动平均线",
        "calculation_type": "MA",
        "formula": "MA30 = sum(close[-30:]) / 30",
        "inputs": {"period": 30, "data": "kline_data"},
        "intermediate_result": {"ma30": 50200, "current_price": 50500, "price_above_ma": True},
        "timestamp": "2024-01-01T10:00:01",
    },
    {
        "step": 3,
        "type": "calculation",
        "reasoning": "检查RSI指标，确认是否超买超卖",
        "calculation_type": "RSI",
        "formula": "RSI(14) = ...",
        "inputs": {"period": 14, "data": "kline_data"},
        "intermediate_result": {"rsi": 65, "is_oversold": False, "is_overbought": False},
        "timestamp": "2024-01-01T10:00:02",
    },
    {
        "step": 4,
        "type": "decision",
        "reasoning": "价格突破MA30且RSI在正常区间，满足建仓条件",
        "action": "buy",
        "reason": "价格突破30日均线，趋势向上，RSI未超买",
        "confidence": 0.75,
        "timestamp": "2024-01-01T10:00:03",
    },
]
PARTS = {"tool_call": ToolCall, "calculation": Calculation, "decision": TradeDecision}


def action_of(record):
    part = PARTS[record["type"]]
    fields = {name: record[name] for name in part.model_fields}
    told = {"intermediate_result": record.get("intermediate_result")}
    return Action(
        type=record["type"],
        step=record["step"],
        reasoning=record["reasoning"],
        action=part(**fields),
        **told,
    )


@pytest.mark.parametrize("record", EXECUTION_HISTORY, ids=lambda record: str(record["step"]))
def test_each_record_of_the_document_is_made_with_its_keys_in_their_order(record):
    made = record_of(action_of(record), record.get("result"), record["timestamp"])
    assert list(made.items()) == list(record.items())


def test_the_check_of_a_calculation_stands_in_its_record():
    check = {"checked": True, "matches": False, "talib": {"ma30": 50210.0}, "model": {"ma30": 50200}}
    assert record_of(action_of(EXECUTION_HISTORY[1]), check, "2024-01-01")["result"] == check


def test_an_observation_keeps_what_it_notes():
    noted = Action(type="observation", step=2, reasoning="quiet", result={"trend": "flat"})
    assert record_of(noted, None, "2024-01-01T09:30:00+08:00") == {
        "step": 2,
        "type": "observation",
        "reasoning": "quiet",
        "result": {"trend": "flat"},
        "timestamp": "2024-01-01T09:30:00+08:00",
    }


def test_nesting_has_an_end():
    deep = []
    for _ in range(5_000):
        deep = [deep]
    assert short_args({"deep": deep}, 500) == {"…": "…"}
    assert short_args({"limit": object(), "n": 3}, 500) == {"n": 3}


def conversation(rounds, reply, result):
    """A system message and rounds that each call a tool."""
    messages = first_messages({"symbol": "A"}, "Decide.", rounds=rounds)
    action = Action(type="tool_call", step=1, action=ToolCall(tool_name="get_kline_data"))
    for step in range(1, rounds + 1):
        this = action.model_copy(update={"step": step})
        messages += observed(reply, this, result, next_step=step + 1, rounds=rounds)
    return messages


def characters(messages):
    calls = sum(
        len(json.dumps(call["args"]))
        for each in messages
        if isinstance(each, AIMessage)
        for call in each.tool_calls
    )
    return calls + sum(len(each.text) for each in messages)


BARS = [{**KLINE, "time": n} for n in range(500)]
CALL = {"name": "get_kline_data", "args": {"limit": 500}, "id": "a"}
LONG_CALL = {"name": "python_repl", "args": {"code": "x = 1\n" * 1_300}, "id": "a"}


@pytest.mark.parametrize(
    "reply",
    [
        AIMessage('{"type": "tool_call"}'),
        AIMessage("x" * 8_000),
        AIMessage("", tool_calls=[CALL]),
        AIMessage("", tool_calls=[LONG_CALL]),
    ],
    ids=["short", "long", "native", "native code"],
)
def test_ten_rounds_of_long_results_are_bounded_and_the_last_stays(reply):
    whole = conversation(10, reply, BARS)
    short = bounded(whole)
    assert characters(whole) > LONGEST_CONVERSATION >= characters(short)
    assert short[0] == whole[0]
    last = [each for each in short if read("observation", each.text)][-1]
    assert last == [each for each in whole if read("observation", each.text)][-1]
    assert [type(each) for each in short] == [type(each) for each in whole]


def test_older_results_are_shortened_first_and_say_so():
    short = bounded(conversation(8, AIMessage("{}"), BARS))
    told = [read("observation", each.text) for each in short]
    steps = [json.loads(each) for each in told if each]
    assert [each["step"] for each in steps] == list(range(1, 9))
    sizes = [len(json.dumps(each["result"])) for each in steps]
    assert sizes == sorted(sizes)
    assert sizes[0] <= 400
    assert sizes[-1] > 11_000
    assert steps[0]["result"][0].endswith("earlier entries left out)")
    assert steps[0]["result"][-1] == BARS[-1]
    assert all(read("execution_step", each.text) for each in short if isinstance(each, HumanMessage))


def test_a_bounded_conversation_is_bounded_once():
    once = bounded(conversation(10, AIMessage("{}"), BARS))
    assert bounded(once) == once


def test_a_conversation_that_fits_stays():
    messages = [SystemMessage("x" * 50_000), HumanMessage("go"), AIMessage("{}")]
    assert bounded(messages) == messages


def test_a_long_system_message_stays_whole():
    messages = [SystemMessage("x" * 70_000), *conversation(3, AIMessage("{}"), BARS)[1:]]
    assert bounded(messages)[0] == messages[0]


def test_each_native_call_keeps_its_answer():
    short = bounded(conversation(10, AIMessage("", tool_calls=[CALL]), BARS))
    assert sum(isinstance(each, ToolMessage) for each in short) == 10
    assert all(each.tool_call_id == "a" for each in short if isinstance(each, ToolMessage))
