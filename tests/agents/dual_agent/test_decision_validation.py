"""Decisions of a reply: the seven actions' rules, what is read, what is a fault, and that faults stay where they are."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgraph.agents.dual_agent._validation import (
    ACTIONS,
    _filter_hallucination_decisions,
    _validate_decision_logic,
    read_decisions,
)

HOLDINGS = {"AAPL": 5_000.0, "TSLA": 3_000.0, "MSFT": 0.0}


def read(entry, current=3_000.0, total=100_000.0):
    """The decision or the fault of one symbol."""
    decisions, faults = read_decisions({"decisions": {"X": entry}}, {"X": current}, total_assets=total)
    assert len(decisions) + len(faults) == 1
    return decisions.get("X") or faults["X"]


def said(action, target, **more):
    return {"action": action, "target_cash_amount": target, "confidence": 0.5, "reasons": ["a"], **more}


# The rules by hand ---------------------------------------------------------------------------------


def test_symbols_that_were_not_asked_about_are_dropped():
    told = {
        "AAPL": {"action": "increase", "target_cash_amount": 5000},
        "TSLA": {"action": "hold", "target_cash_amount": 3000},
        "FAKE": {"action": "increase", "target_cash_amount": 2000},
    }
    assert _filter_hallucination_decisions(told, {"AAPL", "TSLA"}) == {
        "AAPL": {"action": "increase", "target_cash_amount": 5000},
        "TSLA": {"action": "hold", "target_cash_amount": 3000},
    }
    assert _filter_hallucination_decisions(["AAPL"], {"AAPL"}) == {}


@pytest.mark.parametrize(
    ("action", "target", "current", "agrees"),
    [
        ("increase", 5000, 3000, True),
        ("increase", 2000, 3000, False),
        ("increase", 3000, 3000, False),
        ("decrease", 2000, 3000, True),
        ("decrease", 3000, 3000, False),
        ("close", 0, 3000, True),
        ("close", 0.01, 3000, True),
        ("close", 0.02, 3000, False),
        ("close", -0.02, 3000, False),
        ("hold", 3100, 3000, True),  # 100 is more than 1 % of 3000
        ("hold", 3100.01, 3000, False),
        ("hold", 2900, 3000, True),
        ("hold", 50_500, 50_000, True),  # 1 % is 500
        ("hold", 50_500.01, 50_000, False),
        ("hold", 100, 0, True),
        ("buy", 5000, 3000, False),
        ("", 3000, 3000, False),
        ("increase", math.nan, 3000, False),
        ("hold", math.nan, 3000, False),
    ],
)
def test_an_action_and_its_target_agree(action, target, current, agrees):
    assert _validate_decision_logic(action, target, current) is agrees


# Reading -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_reply_is_read_with_and_without_its_outer_key(wrapped):
    inner = {
        "AAPL": {
            "action": "increase",
            "target_cash_amount": "7500.0",
            "confidence": "0.75",
            "reasons": ["Strong momentum", "Reasonable valuation", "Positive earnings"],
        },
        "TSLA": {"action": "hold", "target_cash_amount": "3000.0", "confidence": "0.6", "reasons": "Stable"},
    }
    decisions, faults = read_decisions({"decisions": inner} if wrapped else inner, HOLDINGS)
    assert decisions == {
        "AAPL": {
            "action": "increase",
            "target_cash_amount": 7500.0,
            "confidence": 0.75,
            "reasons": ["Strong momentum", "Reasonable valuation", "Positive earnings"],
        },
        "TSLA": {"action": "hold", "target_cash_amount": 3000.0, "confidence": 0.6, "reasons": ["Stable"]},
    }
    assert {symbol: fault.kind for symbol, fault in faults.items()} == {"MSFT": "missing"}


@pytest.mark.parametrize("target", [None, 0, "0.0", 0.01])
def test_a_close_sells_everything_also_without_a_target(target):
    assert read(said("close", target))["target_cash_amount"] == 0.0
    assert read({"action": "close"})["target_cash_amount"] == 0.0


@pytest.mark.parametrize("target", [None, 3000, 3040.0])
def test_a_hold_keeps_the_current_value(target):
    decision = read(said("hold", target))
    assert (decision["target_cash_amount"], "note" in decision) == (3000.0, False)


def test_a_hold_far_from_the_current_value_holds_and_says_so():
    decision = read(said("hold", 3200))
    assert decision["target_cash_amount"] == 3000.0
    assert decision["note"] == "a hold keeps the current value 3000.00; its target was 3200.00"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("$7,500.00", None),
        ("7,500.00", 7500.0),
        (" 7.5e3 ", 7500.0),
        ("+7500", 7500.0),
        ("7,50", None),
        ("1_000", None),
    ],
)
def test_numbers_as_text(text, number):
    told = read(said("increase", text))
    assert told.kind == "target" if number is None else told["target_cash_amount"] == number


@pytest.mark.parametrize(
    "target",
    [
        None, "", "about 5000", "NaN", "inf", "-1", -0.01, math.nan, math.inf, True, [5000], {"value": 5000}, 10**400,
        "9" * 400, "1e999",
    ],
)  # fmt: skip
@pytest.mark.parametrize("action", ["increase", "decrease"])
def test_a_target_that_is_no_amount_is_a_fault(action, target):
    fault = read(said(action, target))
    assert fault.kind == "target"
    assert "must be a number >= 0" in fault.message
    assert "\n" not in fault.message
    assert len(fault.message) < 200


@pytest.mark.parametrize("action", ["close", "hold"])
@pytest.mark.parametrize("target", ["nothing", math.nan, -5, [0]])
def test_a_target_that_is_no_amount_is_a_fault_of_a_close_and_a_hold_too(action, target):
    assert read(said(action, target)).kind == "target"


def test_a_target_above_all_assets_is_a_fault_that_says_why():
    fault = read(said("increase", 100_001))
    assert fault.kind == "target"
    assert "100001.00 is above the total assets 100000.00" in fault.message
    assert "总资产" in fault.note.zh
    assert read(said("increase", 100_000))["target_cash_amount"] == 100_000
    assert read(said("increase", 100_001), total=None)["target_cash_amount"] == 100_001


@pytest.mark.parametrize("action", ["buy", "sell", "", None, 3, ["hold"], {}, "increase | hold", True])
def test_an_unknown_action_is_a_fault_and_no_silent_hold(action):
    fault = read(said(action, 3000))
    assert fault.kind == "action"
    assert "must be one of increase, decrease, hold, close" in fault.message


def test_an_action_in_capitals_is_read():
    assert read(said(" Increase ", 4000))["action"] == "increase"


@pytest.mark.parametrize(
    ("action", "target", "wrong"),
    [
        (
            "increase",
            2000,
            "above the current value 3000.00; write what the position is to be worth, or hold",
        ),
        ("decrease", 4000, "below the current value 3000.00"),
        ("close", 3000, "equal to 0"),
    ],
)
def test_an_action_against_its_target_is_a_fault(action, target, wrong):
    fault = read(said(action, target))
    assert fault.kind == "logic"
    assert fault.message == f"the target of {action}, {target}.00, must be {wrong}"


@pytest.mark.parametrize("confidence", [7, -0.1, "high", "75%", math.nan, True, [0.5], 10**400])
def test_a_confidence_out_of_range_is_a_fault(confidence):
    assert read(said("hold", 3000, confidence=confidence)).kind == "confidence"


def test_a_confidence_that_is_absent_is_a_half():
    assert (
        read({"action": "hold"})["confidence"]
        == read(said("hold", None, confidence=None))["confidence"]
        == 0.5
    )


@pytest.mark.parametrize(
    ("reasons", "kept"),
    [
        ("one alone", ["one alone"]),
        (["a", 3, None, "", "  ", {"b": 1}, "two\nlines"], ["a", "two lines"]),
        (None, []),
        ({"a": "b"}, []),
        (["x" * 600], ["x" * 500]),
        (list("abcdefghijklmn"), list("abcdefghij")),
        (["bell\x07", "\ud800"], ["bell\\x07", "\\ud800"]),
    ],
)
def test_reasons_are_at_most_ten_short_texts(reasons, kept):
    assert read(said("hold", 3000, reasons=reasons))["reasons"] == kept


@pytest.mark.parametrize("value", [None, "hold", 3, [], ["AAPL"], {"decisions": []}, {"decisions": None}])
def test_a_reply_that_is_no_object_by_symbol_has_a_fault_for_each(value):
    decisions, faults = read_decisions(value, HOLDINGS)
    assert decisions == {}
    assert {fault.kind for fault in faults.values()} == {"shape"}
    assert list(faults) == list(HOLDINGS)


def check_valid(decision, current):
    assert set(decision) - {"note"} == {"action", "target_cash_amount", "confidence", "reasons"}
    target = decision["target_cash_amount"]
    assert decision["action"] in ACTIONS
    assert type(target) is float
    assert 0 <= target <= 100_000
    assert _validate_decision_logic(decision["action"], target, current)
    assert 0 <= decision["confidence"] <= 1
    assert len(decision["reasons"]) <= 10
    assert all(isinstance(each, str) and 0 < len(each) <= 500 for each in decision["reasons"])
    json.dumps(decision, allow_nan=False, ensure_ascii=False).encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "action": st.sampled_from(ACTIONS) | JSON,
        "target_cash_amount": st.floats(0, 1e6) | JSON,
        "confidence": st.floats(0, 1) | JSON,
        "reasons": JSON,
    },
)


@given(entry=ENTRIES | JSON, current=st.floats(0, 100_000))
def test_whatever_is_written_is_a_valid_decision_or_a_fault(entry, current):
    decisions, faults = read_decisions({"X": entry}, {"X": current}, total_assets=100_000.0)
    assert len(decisions) + len(faults) == 1
    for decision in decisions.values():
        check_valid(decision, current)
