"""Actions as the document writes them, and what is wrong with those that are not actions."""

import json

import pytest
from langchain_core.messages import AIMessage
from pydantic import ValidationError

from quantgraph.agents.execution._actions import (
    CALCULATION_TOOL,
    Action,
    Calculation,
    ToolCall,
    TradeDecision,
    calls_as_text,
    parse_action,
)
from quantgraph.errors import BadOption, ModelOutputInvalid

KLINES = {"exchange": "Binance", "symbol": "BTCUSDT", "timeframe": "1h", "limit": 100}
UNIFIED = {  # the unified format, with its tool call
    "type": "tool_call",
    "step": 1,
    "reasoning": "为什么执行这个操作",
    "action": {"tool_name": "get_kline_data", "params": KLINES},
    "result": None,
    "intermediate_result": None,
    "next_step": "继续分析",
}
MA30 = {
    "type": "calculation",
    "step": 2,
    "reasoning": "根据策略规则，需要计算30日移动平均线",
    "action": {
        "calculation_type": "MA",
        "formula": "MA30 = sum(close[-30:]) / 30",
        "inputs": {"period": 30, "data": "kline_data"},
    },
    "result": None,
    "intermediate_result": {"ma30": 50200, "current_price": 50500, "price_above_ma": True},
    "next_step": "继续分析",
}
BUY = {
    "type": "decision",
    "step": 4,
    "reasoning": "价格突破MA30且RSI在正常区间，满足建仓条件",
    "action": {"action": "buy", "reason": "价格突破30日均线，趋势向上，RSI未超买", "confidence": 0.75},
    "result": None,
    "intermediate_result": None,
    "next_step": "做出决策",
}
OBSERVATION = {
    "type": "observation",
    "step": 3,
    "reasoning": "检查RSI指标，确认是否超买超卖",
    "action": None,
    "result": {"rsi": 65, "is_oversold": False, "is_overbought": False},
    "intermediate_result": None,
    "next_step": "做出决策",
}
SHAPES = [UNIFIED, MA30, BUY, OBSERVATION]


def text(shape, /, **changes):
    return json.dumps({**shape, **changes}, ensure_ascii=False)


def decision(**changes):
    return text(BUY, action={**BUY["action"], **changes})


def fault(reply, **options):
    with pytest.raises(ModelOutputInvalid) as caught:
        parse_action(reply, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["type"])
def test_each_shape_of_the_document_is_read_and_written_as_it_is(shape):
    assert parse_action(text(shape)).model_dump() == shape


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["type"])
def test_an_action_is_read_back_from_plain_json(shape):
    action = parse_action(text(shape))
    assert Action.model_validate(json.loads(json.dumps(action.model_dump()))) == action


def test_the_parts_have_their_values():
    assert parse_action(text(UNIFIED)).action == ToolCall(tool_name="get_kline_data", params=KLINES)
    assert parse_action(text(MA30)).action == Calculation(
        calculation_type="MA",
        formula="MA30 = sum(close[-30:]) / 30",
        inputs={"period": 30, "data": "kline_data"},
    )
    bought = parse_action(text(BUY)).action
    assert isinstance(bought, TradeDecision)
    assert (bought.action, bought.confidence) == ("buy", 0.75)


@pytest.mark.parametrize("shape", SHAPES[:3], ids=lambda shape: shape["type"])
def test_the_keys_of_action_may_stand_beside_the_type(shape):
    flat = {name: value for name, value in shape.items() if name != "action"} | shape["action"]
    assert parse_action(json.dumps(flat)).model_dump() == shape


def test_the_step_is_counted_by_code():
    assert parse_action(text(UNIFIED, step=7), step=2).step == 2
    assert parse_action(text(UNIFIED, step="7")).step == 7
    no_step = {name: value for name, value in UNIFIED.items() if name != "step"}
    assert parse_action(json.dumps(no_step), step=3).step == 3
    assert fault(json.dumps(no_step)) == "step is missing; must be a whole number >= 1"
    assert fault(text(UNIFIED, step=0)) == "step is 0; must be a whole number >= 1"


def test_a_result_that_the_model_makes_up_is_dropped():
    made_up = [{"time": 1234567890, "close": 50500}]
    assert parse_action(text(UNIFIED, result=made_up)).result is None


def test_prose_fences_and_thoughts_around_an_action_are_skipped():
    draft = decision(action="sell")
    reply = f"<think>{draft}</think>The close is {{1}}.\n```json\n{text(BUY)}\n```"
    assert parse_action(reply).model_dump() == BUY
    assert parse_action(f'The last bar is {{"close": 50500}}, so {text(BUY)}').model_dump() == BUY


def test_json_that_is_almost_right_is_repaired():
    reply = "{'type': 'decision', 'action': 'hold', 'reason': 'calm', 'confidence': 0.5,}"
    assert parse_action(reply, step=1).action == TradeDecision(action="hold", reason="calm", confidence=0.5)


def test_a_confidence_may_be_a_number_as_text():
    assert parse_action(decision(confidence="0.8")).action.confidence == 0.8


def test_an_order_placed_by_json_is_a_decision():
    call = {"tool_name": "place_order", "params": BUY["action"]}
    assert parse_action(text(BUY, type="tool_call", action=call)).model_dump() == BUY
    lots = {**call, "params": {**BUY["action"], "quantity": 100}}
    assert fault(text(UNIFIED, action=lots)) == (
        'decision has no key "quantity"; its keys are action, reason, confidence'
    )
    assert "belongs to decision" in fault(text(UNIFIED, action={**call, "confidence": 0.1}))
    assert "params of place_order must be an object" in fault(
        text(UNIFIED, action={"tool_name": "place_order"})
    )


def native(name, args, said="", **more):
    return AIMessage(said, tool_calls=[{"name": name, "args": args, "id": "a"}], **more)


def test_a_native_call_is_an_action_and_its_text_the_reasoning():
    action = parse_action(native("get_kline_data", KLINES, "需要获取BTCUSDT的1小时K线数据"), step=1)
    assert action.type == "tool_call"
    assert action.reasoning == "需要获取BTCUSDT的1小时K线数据"
    assert action.action == ToolCall(tool_name="get_kline_data", params=KLINES)


@pytest.mark.parametrize("name", ["decision", "place_order"])
def test_a_native_decision_is_a_decision(name):
    action = parse_action(native(name, BUY["action"], "<think>hm</think>go"), step=4)
    assert (action.type, action.reasoning) == ("decision", "go")
    assert action.action == TradeDecision(**BUY["action"])


def test_a_native_calculation_has_its_number():
    args = {**MA30["action"], "intermediate_result": 50200}
    action = parse_action(native("calculation", args), step=2)
    assert (action.type, action.intermediate_result) == ("calculation", 50200)
    assert action.action == Calculation(**MA30["action"])


def test_of_several_native_calls_the_first_is_the_action():
    calls = [{"name": name, "args": {}, "id": name} for name in ("get_position", "get_rules")]
    assert parse_action(AIMessage("", tool_calls=calls), step=1).action.tool_name == "get_position"


def test_a_native_call_that_cannot_be_read_is_a_fault():
    broken = {"name": "get_rules", "args": '{"symbol": ', "id": "a", "error": None}
    assert "'get_rules' are not a JSON object" in fault(AIMessage("", invalid_tool_calls=[broken]), step=1)
    cut = native("get_rules", {}, response_metadata={"finish_reason": "length"})
    assert "cut off" in fault(cut, step=1)
    assert "not JSON, such as NaN" in fault(native("get_rules", {"limit": float("nan")}), step=1)


def test_calls_without_tools_stand_as_text():
    for reply in (native("get_rules", {"symbol": "A"}, "why"), native("decision", BUY["action"])):
        text = calls_as_text(reply)
        assert not text.tool_calls
        assert parse_action(text, step=1) == parse_action(reply, step=1)
    two = AIMessage("", tool_calls=[{"name": "get_rules", "args": {}, "id": None}] * 2)
    assert "holds 2 JSON objects" in fault(calls_as_text(two), step=1)
    broken = AIMessage("", invalid_tool_calls=[{"name": "x", "args": "{", "id": None, "error": None}])
    assert "a call that cannot be read" in fault(calls_as_text(broken), step=1)
    said = AIMessage("text")
    assert calls_as_text(said) is said


def test_the_tool_of_a_calculation_has_its_keys():
    calculated = CALCULATION_TOOL["function"]["parameters"]
    assert list(calculated["properties"]) == [*Calculation.model_fields, "intermediate_result"]


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("", "the reply holds no JSON object; it is empty; must be one JSON object, one action"),
        (
            "Buy now.",
            "the reply holds no JSON object; it begins 'Buy now.'; must be one JSON object, one action",
        ),
        (text(UNIFIED) + text(BUY), "the reply holds 2 JSON objects; must be one action a reply"),
        (
            '{"action": {"action": "buy"}}',
            "the action has no type; must be one of tool_call, calculation, decision, observation",
        ),
        (
            text(BUY, type="trade"),
            'type is "trade"; must be one of tool_call, calculation, decision, observation',
        ),
        (
            text(MA30, type="decision"),
            'decision has no keys "calculation_type", "formula", "inputs"; "calculation_type" belongs to '
            "calculation; its keys are action, reason, confidence",
        ),
        (
            text(UNIFIED, confidence=0.5),
            '"confidence" beside action: the keys of a reply are type, step, reasoning, action, result, '
            "intermediate_result, next_step, and action has tool_name, params",
        ),
        (
            text(UNIFIED, action={**UNIFIED["action"], **BUY["action"]}),
            'tool_call has no keys "action", "reason", "confidence"; "action" belongs to decision; '
            "its keys are tool_name, params",
        ),
        (
            text(OBSERVATION, action=BUY["action"]),
            'observation has no keys "action", "reason", "confidence"; "action" belongs to decision; '
            "its keys are none (its text is reasoning)",
        ),
        (text(UNIFIED, action=[UNIFIED["action"]]), "must be one object with tool_name, params"),
        (decision(action="buy 0"), 'action.action is "buy 0"; must be buy, sell or hold'),
        (decision(confidence=7), "action.confidence is 7; must be a number from 0 to 1"),
        (decision(confidence="about 0.5"), 'action.confidence is "about 0.5"; must be a number from 0 to 1'),
        (decision(confidence=True), "action.confidence is true; must be a number from 0 to 1"),
        (decision(confidence="NaN"), 'action.confidence is "NaN"; must be a number from 0 to 1'),
        (decision(confidence=float("nan")), "NaN is not a JSON number"),
        (decision(confidence=0), "a buy with confidence 0 contradicts itself; must be above 0, or a hold"),
        (decision(reason=None), "action.reason is missing; must be the reason as text"),
        (text(UNIFIED, action={"tool_name": "x", "params": []}), "action.params is []; must be an object"),
        (text(UNIFIED, reasoning=["why"]), 'reasoning is ["why"]; must be text'),
        ('{"type": "observation", "type": "decision"}', "key 'type' is given twice"),
        (text(UNIFIED)[:-30], "never closed"),
        (text(UNIFIED, reasoning="x" * 9_000), "must be at most 8000"),
        ('{"type": "observation", "result": ' + "[" * 200 + "]" * 200 + "}", "nested too deeply"),
    ],
)
def test_what_is_no_action_is_told_in_one_line_with_what_is_valid(reply, told):
    assert told in fault(reply, step=1)


@pytest.mark.parametrize(
    ("reply", "lines"),
    [
        (
            decision(action="long", confidence=7, size=100),
            [
                'decision has no key "size"; its keys are action, reason, confidence',
                'action.action is "long"; must be buy, sell or hold',
                "action.confidence is 7; must be a number from 0 to 1",
            ],
        ),
        (
            '{"action": {"action": "buy", "quantity": 10}, "reasoning": ["up"]}',
            [
                "the action has no type; must be one of tool_call, calculation, decision, observation",
                'decision has no key "quantity"; its keys are action, reason, confidence',
                "action.reason is missing; must be the reason as text",
                "action.confidence is missing; must be a number from 0 to 1",
                "step is missing; must be a whole number >= 1",
                'reasoning is ["up"]; must be text',
            ],
        ),
        (
            text(MA30, action={"formula": "", "inputs": [], "name": "MA"}, step=0, intermediate_result=None),
            [
                "intermediate_result is missing; must be the number that you calculate",
                'calculation has no key "name"; its keys are calculation_type, formula, inputs',
                "action.calculation_type is missing; must be the indicator, such as MA or RSI",
                'action.formula is ""; must be the formula as text',
                "action.inputs is []; must be an object with what the formula is applied to",
                "step is 0; must be a whole number >= 1",
            ],
        ),
    ],
    ids=["decision", "no type", "calculation"],
)
def test_all_that_is_wrong_with_an_action_is_in_one_message(reply, lines):
    assert fault(reply) == "; ".join(lines)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("Buy.", "schema"),
        (decision(confidence=7), "schema"),
        (decision(confidence=0), "logic"),
        (decision(confidence=0, size=1), "schema"),
    ],
)
def test_a_contradiction_is_told_from_a_wrong_form(reply, kind):
    with pytest.raises(ModelOutputInvalid) as caught:
        parse_action(reply, step=1)
    assert caught.value.data["kind"] == kind


def test_a_reply_that_was_cut_off_is_told_so():
    cut = AIMessage(text(BUY)[:-5], response_metadata={"finish_reason": "length"})
    assert "the reply was cut off" in fault(cut, step=1)


def test_lone_surrogates_are_replaced():
    assert parse_action(text(OBSERVATION).replace("检查", "\\ud800"), step=1).reasoning.startswith("?RSI")


def test_a_hold_may_have_no_confidence_at_all():
    assert parse_action(decision(action="hold", confidence=0)).action.confidence == 0


def test_what_is_no_text_is_refused():
    with pytest.raises(BadOption, match="reply must be text or an AIMessage, not dict"):
        parse_action({"type": "decision"})


def test_an_action_made_by_hand_is_of_one_type():
    with pytest.raises(ValidationError, match="action of type decision must be TradeDecision"):
        Action(type="decision", step=1, action=ToolCall(tool_name="get_rules"))
    with pytest.raises(ValidationError, match="action of type observation must be null"):
        Action(type="observation", step=1, action=ToolCall(tool_name="get_rules"))


def test_a_decision_may_name_its_symbol_and_no_other():
    told = {"type": "decision", "action": {**BUY["action"], "symbol": "600519.SH"}}
    assert parse_action(json.dumps(told), step=1, symbol="600519.SH").action.action == "buy"
    told["action"] |= {"quantity": 100, "price": 10.5}
    with pytest.raises(ModelOutputInvalid) as fault:
        parse_action(json.dumps(told), step=1, symbol="600519.SH")
    assert fault.value.message == (
        'decision has no keys "quantity", "price": it decides 600519.SH alone, and its size is set by code; '
        "its keys are action, reason, confidence"
    )
    with pytest.raises(ModelOutputInvalid, match=r"it decides 601318\.SH alone"):
        parse_action(json.dumps(told), step=1, symbol="601318.SH")


def test_the_case_of_a_decision_does_not_matter():
    said = {"type": "decision", "action": {"action": " BUY", "reason": "up", "confidence": 0.5}}
    assert parse_action(json.dumps(said), step=1).action.action == "buy"
