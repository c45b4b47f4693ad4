"""The planner as the stepwise agent: five steps of a documented rule, labelled as such."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from quantgraph.llm import KeylessPlanner
from quantgraph.llm.messages import _json as tags

RISING = [10.0] * 39 + [12.0]  # MA20 = (19 * 10 + 12) / 20 = 10.1
FALLING = [10.0] * 39 + [8.0]  # MA20 = (19 * 10 + 8) / 20 = 9.9


def table(name: str, values: list[Any]) -> dict[str, Any]:
    return {"columns": ["date", name], "rows": [[f"day {day}", value] for day, value in enumerate(values)]}


def bars(closes: list[Any], *, is_last: bool = False) -> dict[str, Any]:
    """Bars as the conversation has them: a table while they are the last result, then the closes."""
    return table("close", closes) if is_last else {"dates": "first to last", "close": closes}


def conversation(*results: Any, rule: str = "", native: bool = False) -> list[BaseMessage]:
    """The messages of an execution whose steps had these results."""
    facts = {"symbol": "600519.SH", "session": "2025-03-03", "user_requirements": rule}
    messages: list[BaseMessage] = [
        SystemMessage("You decide.\n" + tags.wrap("execution_facts", json.dumps(facts))),
        HumanMessage(tags.wrap("execution_step", '{"current_step": 1, "rounds": 10}') + "Act."),
    ]
    for step, result in enumerate(results, 1):
        told = tags.wrap("observation", json.dumps({"step": step, "result": result}))
        asked = tags.wrap("execution_step", json.dumps({"current_step": step + 1, "rounds": 10}))
        call = {"name": "a_tool", "args": {}, "id": f"call_{step}"}
        messages += (
            [AIMessage("", tool_calls=[call]), ToolMessage(told + asked, tool_call_id=f"call_{step}")]
            if native
            else [AIMessage("…"), HumanMessage(told + asked)]
        )
    return messages


def next_of(messages: list[BaseMessage]) -> dict[str, Any]:
    found = re.fullmatch(r"```json\n(.*)\n```", KeylessPlanner().invoke(messages).text, re.DOTALL)
    assert found
    action: dict[str, Any] = json.loads(found[1])
    assert action["reasoning"].startswith("keyless rule: ")
    return action


def decided(*results: Any, **given: Any) -> tuple[str, str]:
    action = next_of(conversation(*results, **given))
    assert action["type"] == "decision"
    assert action["action"]["confidence"] == 0.5
    reason = action["action"]["reason"]
    assert reason.startswith("keyless rule: ")
    return action["action"]["action"], reason


def five(closes: list[Any], rsi: float | None, shares: float, sellable: float) -> list[Any]:
    return [bars(closes), None, table("rsi", [50.0, rsi]), {"shares": shares, "sellable": sellable}]


@pytest.mark.parametrize("native", [False, True])
def test_the_first_four_steps_are_bars_an_average_rsi_and_the_position(native: bool) -> None:
    given = five(RISING, 60.0, 0, 0)
    shown = [[], [bars(RISING, is_last=True)], given[:2], given[:3]]
    steps = [next_of(conversation(*results, native=native)) for results in shown]
    assert [each["step"] for each in steps] == [1, 2, 3, 4]
    assert steps[0]["action"] == {
        "tool_name": "get_kline_data",
        "params": {"symbol": "600519.SH", "timeframe": "1d", "limit": 40},
    }
    assert (steps[1]["type"], steps[1]["action"]["calculation_type"]) == ("calculation", "MA")
    assert steps[1]["intermediate_result"] == {"ma20": 10.1, "close": 12.0}
    assert steps[2]["action"] == {
        "tool_name": "get_indicator",
        "params": {"symbol": "600519.SH", "name": "RSI", "params": {"period": 14}},
    }
    assert steps[3]["action"] == {"tool_name": "get_position", "params": {"symbol": "600519.SH"}}


@pytest.mark.parametrize(
    ("closes", "rsi", "shares", "sellable", "action"),
    [
        (RISING, 69.9, 0, 0, "buy"),
        (RISING, 70.0, 0, 0, "hold"),
        (RISING, 60.0, 100, 100, "hold"),
        (FALLING, 40.0, 100, 100, "sell"),
        (FALLING, 40.0, 100, 0, "hold"),
        (FALLING, 40.0, 0, 0, "hold"),
        ([10.0] * 40, 50.0, 0, 0, "hold"),
    ],
)
def test_the_fifth_step_decides_by_the_average_rsi_and_what_is_held(
    closes: list[float], rsi: float, shares: float, sellable: float, action: str
) -> None:
    given = five(closes, rsi, shares, sellable)
    assert decided(*given)[0] == decided(*given, native=True)[0] == action


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([{"error": "bad_option: no such symbol"}], "a step failed: bad_option: no such symbol"),
        ([bars(RISING[-19:], is_last=True)], "19 closes are known, 20 are needed"),
        ([bars([None] * 21 + RISING[-19:], is_last=True)], "19 closes are known"),
        ([[]], "0 closes are known"),
        (["a text"], "0 closes are known"),
        (five(RISING, None, 0, 0), "RSI or the position is not known"),
        ([*five(RISING, 60.0, 0, 0)[:3], None], "RSI or the position is not known"),
        ([*five(RISING, 60.0, 0, 0)[:2], {"error": "code_timeout: it hangs"}], "a step failed: code_timeout"),
    ],
)
def test_what_is_missing_or_failed_is_a_hold_that_says_so(results: list[Any], said: str) -> None:
    action, reason = decided(*results)
    assert action == "hold"
    assert said in reason


def test_a_reply_that_was_sent_back_is_not_given_again() -> None:
    messages = [
        *conversation(bars(RISING)),
        AIMessage("…"),
        HumanMessage("Your last reply could not be used."),
    ]
    action = next_of(messages)
    assert (action["type"], action["step"], action["action"]["action"]) == ("decision", 2, "hold")
    assert "sent back" in action["action"]["reason"]


def test_a_rule_in_words_is_named_as_not_executed() -> None:
    given = five(RISING, 60.0, 0, 0)
    assert "the rule in words is not executed" in decided(*given, rule="buy on a full moon")[1]
    assert "the rule in words" not in decided(*given)[1]
