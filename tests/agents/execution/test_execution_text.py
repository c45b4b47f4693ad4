"""The short texts of an execution's steps."""

from dataclasses import replace

import pandas as pd
import pytest

from quantgraph.agents.execution._drawing import brief, cut, execution_title, step_texts, text_width
from quantgraph.broker.ledger import LoggedExecution, LoggedStep

DAY = pd.Timestamp("2024-01-02")
# The document's example of a history.
HISTORY = [
    {
        "step": 1,
        "type": "tool_call",
        "reasoning": "需要获取BTCUSDT的1小时K线数据来分析价格趋势",
        "tool_name": "get_kline_data",
        "params": {"exchange": "Binance", "symbol": "BTCUSDT", "timeframe": "1h", "limit": 100},
        "result": [
            {"time": 1234567890, "open": 50000, "high": 51000, "low": 49000, "close": 50500, "volume": 1000}
        ],
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
        "step": 4,
        "type": "decision",
        "reasoning": "价格突破MA30且RSI在正常区间，满足建仓条件",
        "action": "buy",
        "reason": "价格突破30日均线，趋势向上，RSI未超买",
        "confidence": 0.75,
        "timestamp": "2024-01-01T10:00:03",
    },
]


def texts(history):
    return [
        (each.step, each.type, each.what, each.inputs, each.result, each.talib, each.failed)
        for each in step_texts(history)
    ]


def test_the_steps_of_a_history_are_told_in_order():
    assert texts(HISTORY) == [
        (
            1,
            "tool_call",
            "get_kline_data",
            "exchange=Binance, symbol=BTCUSDT, timeframe=1h, limit=100",
            "time=1234567890, open=50000, high=51000, low=49000, close=50500, volume=1000",
            "",
            False,
        ),
        (
            2,
            "calculation",
            "MA",
            "MA30 = sum(close[-30:]) / 30 | period=30, data=kline_data",
            "ma30=50200, current_price=50500, price_above_ma=true",
            "",
            False,
        ),
        (4, "decision", "buy", "价格突破30日均线，趋势向上，RSI未超买", "confidence 0.75", "", False),
    ]


def test_a_logged_execution_is_told_as_its_history_is():
    payloads = {
        "tool_call": ("tool_name", "params"),
        "calculation": ("calculation_type", "formula", "inputs"),
    }
    steps = []
    for number, record in enumerate(HISTORY, 1):
        names = payloads.get(record["type"], ("action", "reason", "confidence"))
        action = {name: record.get(name) for name in ("type", "reasoning", "intermediate_result")}
        action["action"] = {name: record[name] for name in names}
        fields = {"rule_name": "r", "rule": "均线", "symbol": "BTCUSDT", "session": DAY}
        steps.append(
            LoggedStep(
                step=number,
                action_type=record["type"],
                action={**action, "step": number},
                result=record.get("result"),
                timestamp=record["timestamp"],
                **fields,
            )
        )
    execution = LoggedExecution(execution_id="x", run_id="r", steps=tuple(steps), **fields)
    assert [each[1:] for each in texts(execution)] == [each[1:] for each in texts(HISTORY)]
    assert execution_title(execution) == "BTCUSDT · 2024-01-02 · 均线"
    assert execution_title(replace(execution, rule="")) == "BTCUSDT · 2024-01-02 · r"
    assert execution_title(replace(execution, rule="", rule_name="")) == "BTCUSDT · 2024-01-02"


@pytest.mark.parametrize(
    ("result", "talib"),
    [
        ({"talib": {"ma(5)": 7.25, "ma(30)": 50100.5}}, "ma(5)=7.25, ma(30)=50100.5"),
        (None, ""),
        ("odd", ""),
        # As earlier ledgers have it.
        (
            {"checked": True, "matches": False, "talib": {"ma30": 50100.5}, "why": "does not match"},
            "ma30=50100.5",
        ),
        ({"checked": True, "matches": False, "talib": {}, "formula": {"ma30": 2.5}}, ""),
        ({"checked": False, "matches": None, "talib": {}, "why": "not checked: no such formula"}, ""),
    ],
)
def test_a_calculation_has_talibs_number_beside_it(result, talib):
    (told,) = step_texts([{**HISTORY[1], "result": result}])
    assert (told.talib, told.failed) == (talib, False)
    assert told.result == "ma30=50200, current_price=50500, price_above_ma=true"


def test_a_tool_that_failed_is_marked():
    (told,) = step_texts([{**HISTORY[0], "result": {"error": "rate_limited: wait"}}])
    assert (told.result, told.failed) == ("rate_limited: wait", True)


def test_values_are_short():
    assert brief([1, 2.50, "x"]) == "1; 2.5; x"
    assert brief(list(range(100))) == "100 entries, the last: 99"
    assert brief(list(range(100)), "zh") == "共 100 条，末条：99"
    assert brief({"a": None, "b": [True]}) == "a=null, b=true"
    assert brief({"time": 1735603200, "close": 3.7}) == "time=2024-12-31, close=3.7"
    assert brief({"time": [1, -86400, 10**30]}) == "time=1; -86400; 1" + "0" * 30
    assert brief(1 / 3) == "0.3333333333"
    assert brief({"a": {"b": {"c": {"d": {"e": 1}}}}}) == "a=b=c=d=…"


def test_control_characters_and_line_feeds_do_not_get_through():
    record = {"type": "observation", "reasoning": "a\n\tb\x1b[2J\x00\u202e\ud800\ufffe", "result": "x\r\ny"}
    (told,) = step_texts([record])
    assert told.reasoning == r"a b\x1b[2J\x00\u202e\ud800?"
    assert told.result == "x y"


@pytest.mark.parametrize(
    "record", [{}, {"step": "x", "type": 7}, {"type": "decision"}, {"type": "tool_call", "params": 3}]
)
def test_a_record_that_is_not_whole_is_told_as_far_as_it_goes(record):
    (told,) = step_texts([record])
    assert told.step == 1


@pytest.mark.parametrize("text", ["", "short", "均线" * 50, "x" * 100, "均x" * 40])
def test_a_cut_text_has_at_most_so_many_columns(text):
    short = cut(text, 40)
    assert text_width(short) <= 41  # the ellipsis may be a wide one
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))


def test_a_reply_shows_its_calls_and_what_each_answered():
    positions = {"AAPL": 10, "MSFT": 0, "CASH": 8500.0}
    record = {
        "type": "model_reply",
        "content": "I buy",
        "tool_calls": [
            {"name": "buy", "args": {"symbol": "AAPL", "amount": 10}},
            {"name": "multiply", "args": {"a": 145.2, "b": 20}},
            {"name": "buy", "args": {"symbol": "MSFT", "amount": 99}},
        ],
        "result": [
            {"name": "buy", "result": positions},
            {"name": "multiply", "result": 2904.0},
            {"name": "buy", "result": {"error": "cash is missing", "code": "insufficient_cash"}},
        ],
    }
    (text,) = step_texts([record])
    assert (text.what, text.reasoning, text.failed) == ("buy, multiply", "I buy", True)
    assert text.inputs == "buy(symbol=AAPL, amount=10); multiply(a=145.2, b=20); buy(symbol=MSFT, amount=99)"
    assert text.result == "AAPL=10, CASH=8500; 2904; insufficient_cash: cash is missing"


def test_a_reply_without_calls_is_its_text():
    (text,) = step_texts([{"type": "model_reply", "content": "done", "tool_calls": [], "result": None}])
    assert (text.what, text.reasoning, text.inputs, text.result, text.failed) == ("", "done", "", "", False)
