"""Records as the document writes them, and a conversation that stays bounded."""

import json

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from quantgraph.agents.execution._actions import Action, Calculation, ToolCall, TradeDecision
from quantgraph.agents.execution._prompt import (
    first_messages,
    observed,
    record_of,
    sent_back,
    with_short_results,
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
        type=record["type"], step=record["step"], reasoning=record["reasoning"], action=part(**fields), **told
    )


@pytest.mark.parametrize("record", EXECUTION_HISTORY, ids=lambda record: str(record["step"]))
def test_each_record_of_the_document_is_made_with_its_keys_in_their_order(record):
    made = record_of(action_of(record), record.get("result"), record["timestamp"])
    assert list(made.items()) == list(record.items())


def test_ta_libs_number_stands_in_the_record_of_a_calculation():
    beside = {"talib": {"ma(30)": 50210.0}}
    made = record_of(action_of(EXECUTION_HISTORY[1]), beside, "2024-01-01")
    assert (made["result"], made["intermediate_result"]["ma30"]) == (beside, 50200)


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
    for args, short in (({"deep": deep}, {"…": "…"}), ({"limit": object(), "n": 3}, {"limit": None, "n": 3})):
        reply = AIMessage("", tool_calls=[{"name": "get_news", "args": args, "id": "a"}])
        said = sent_back(reply, "?", step=1, rounds=3)[0]
        assert {name: said.tool_calls[0]["args"].get(name) for name in short} == short


DAYS = [f"2024-{1 + day // 28:02d}-{1 + day % 28:02d}" for day in range(60)]
BARS = [
    {"time": 1_704_067_200 + day, "date": date, "open": 10.0, "high": 12.3456789, "low": 9.5, "close": 10.25 + day, "volume": 71752652.0}
    for day, date in enumerate(DAYS)
]  # fmt: skip
CALL = {"name": "get_kline_data", "args": {"limit": 500}, "id": "a"}
LONG_CALL = {"name": "python_repl", "args": {"query": "x = 1\n" * 1_300}, "id": "a"}


def conversation(rounds, reply, result):
    """What the model is shown after rounds that each called a tool: the messages of each."""
    messages = first_messages({"symbol": "A"}, "Decide.", rounds=rounds)
    for step in range(1, rounds + 1):
        this = Action(type="tool_call", step=step, action=ToolCall(tool_name="get_kline_data"))
        messages = [
            *with_short_results(messages),
            *observed(reply, this, result, next_step=step + 1, rounds=rounds),
        ]
    return messages


def results_of(messages):
    told = [read("observation", each.text) for each in messages]
    return [json.loads(each)["result"] for each in told if each]


def test_bars_are_a_table_with_dates_and_short_numbers():
    (table,) = results_of(conversation(1, AIMessage("{}"), BARS))
    assert table["columns"] == ["date", "open", "high", "low", "close", "volume"]
    assert table["rows"][0] == ["2024-01-01", 10, 12.3457, 9.5, 10.25, 71752652]
    assert len(table["rows"]) == 60


def test_earlier_bars_are_their_closes_all_of_them():
    *earlier, last = results_of(conversation(3, AIMessage("{}"), BARS))
    assert len(last["rows"]) == 60
    closes = {"dates": "2024-01-01 to 2024-03-04", "close": [10.25 + day for day in range(60)]}
    assert earlier == [closes, closes]


def test_a_running_bar_is_marked_in_its_own_column():
    week = [*BARS[:2], {**BARS[2], "running": True}]
    (table,) = results_of(conversation(1, AIMessage("{}"), week))
    assert table["columns"][-1] == "running"
    assert [row[-1] for row in table["rows"]] == [None, None, True]


@pytest.mark.parametrize(
    "rows", [[], [1, 2], [{"note": "the data have no news"}], {"error": "no_data: none"}]
)
def test_what_has_no_dates_stays_as_it_is(rows):
    assert results_of(conversation(2, AIMessage("{}"), rows)) == [rows, rows]


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
@pytest.mark.parametrize(
    "result", [BARS * 5, "x" * 50_000, {"a": ["y" * 50] * 500}], ids=["bars", "text", "object"]
)
def test_each_message_before_the_last_is_short(reply, result):
    *earlier, _, last = conversation(10, reply, result)
    assert 7_000 < len(last.text) < 8_200
    for each in earlier:
        calls = each.tool_calls if isinstance(each, AIMessage) else []
        assert len(each.text) + sum(len(json.dumps(call["args"])) for call in calls) < 1_600
    assert all(each.tool_call_id == "a" for each in earlier if isinstance(each, ToolMessage))


def test_only_the_last_result_asks_for_an_action():
    messages = conversation(4, AIMessage("{}"), BARS)
    asked = [place for place, each in enumerate(messages) if read("execution_step", each.text)]
    assert asked == [1, len(messages) - 1]


def test_a_shortened_conversation_is_shortened_once():
    once = with_short_results(conversation(5, AIMessage("{}"), BARS * 5))
    assert with_short_results(once) == once


@pytest.mark.parametrize(
    "result",
    [
        {"columns": ["date", "close"], "index": [0], "data": [["2025-01-02", 1.0]]},  # a DataFrame, "split"
        {"columns": ["date", "close"], "rows": []},
        {"columns": ["date", "close"], "rows": ["2 left out"]},
        {"columns": 5, "rows": 7},
        ["columns"],
    ],
)
def test_a_result_that_is_no_table_of_bars_stays_as_it_is(result):
    action = Action(step=1, type="tool_call", reasoning="", action=ToolCall(tool_name="mine", params={}))
    messages = observed(AIMessage("call"), action, result, next_step=2, rounds=5)
    (short,) = [each for each in with_short_results(messages) if read("observation", each.text) is not None]
    assert json.loads(read("observation", short.text))["result"] == result
