"""Each node runs on the twelve documented fields alone, and each prompt on its documented placeholders."""

from __future__ import annotations

import string

import numpy as np
import pandas as pd
import pytest
from langchain_core.messages import HumanMessage
from states import flat, then

from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadOption
from quantgraph.runtime import Resources
from quantgraph.subgraphs import signal
from quantgraph.subgraphs.signal import (
    clarify_node,
    create_signal_subgraph,
    data_fetch_node,
    reflection_node,
    signal_generate_node,
    validation_node,
)

CODES = "000341.SZ,000342.SZ"
RULE = "2日均线上穿5日均线买入，下穿卖出"
PARAMS = {
    "ts_code": CODES,
    "start_date": "20240102",
    "end_date": "20240229",
    "strategy_desc": RULE,
    "required_indicators": ["pe"],
}
PLACEHOLDERS = {
    "REFLECTION_NODE_PROMPT": "data_ready indicators_ready signal_ready execution_history error_messages "
    "user_message retry_count max_retries",
    "DATA_FETCH_AGENT_PROMPT": "ts_code start_date end_date required_indicators",
    "SIGNAL_GENERATE_AGENT_PROMPT": "available_ohlcv available_indicators strategy_description",
    "CLARIFY_NODE_PROMPT": "clarification_reason clarification_count execution_history error_messages "
    "chat_history",
    "VALIDATION_NODE_PROMPT": "validation_type expected_fields",
}


def twelve(**changes):
    return {
        "messages": [HumanMessage(f"{CODES}，{RULE}，20240102到20240229", id="1")],
        "current_task": "",
        "data_ready": False,
        "indicators_ready": False,
        "signal_ready": False,
        "user_intent": {"type": "mixed", "params": PARAMS},
        "clarification_needed": None,
        "clarification_count": 0,
        "execution_history": [],
        "error_messages": [],
        "max_retries": 3,
        "retry_count": 0,
    } | changes


@pytest.fixture
def resources(store):
    return Resources(store=store, model="keyless", source="sample")


def test_the_fetch_brings_what_the_intent_names(resources, store):
    state = twelve()
    update = data_fetch_node(state, resources=resources)
    assert (update["data_ready"], update["indicators_ready"]) == (True, True)
    first, last = pd.Timestamp("20240102"), pd.Timestamp("20240229")
    expected = SampleSource().bars(CODES.split(","), first, last)["close"]
    np.testing.assert_array_equal(store.snapshot(update["data_ref"])["ohlcv"]["close"], expected)
    assert state == twelve()


def test_the_signal_is_made_of_the_latest_data(resources, store):
    data_fetch_node(twelve(), resources=resources)
    update = signal_generate_node(twelve(data_ready=True), resources=resources)
    assert update["signal_ready"]
    assert flat(update)["strategy"]["name"] in store.snapshot()["signal"]


def test_the_validation_checks_the_latest_data(resources):
    data_fetch_node(twelve(), resources=resources)
    update = validation_node(twelve(data_ready=True, indicators_ready=True), resources=resources)
    assert flat(update)["validation"]["validation_passed"]
    assert update["current_task"] == "signal_gen"


def test_a_signal_is_valid_with_its_code_alone(resources):
    fetched = then(twelve(), data_fetch_node(twelve(), resources=resources))
    made = then(fetched, signal_generate_node(fetched, resources=resources))
    assert flat(validation_node(made, resources=resources))["validation"]["validation_passed"]
    bare = twelve(data_ready=True, signal_ready=True)
    update = validation_node(bare, resources=resources)
    assert not flat(update)["validation"]["validation_passed"]
    assert update["error_messages"] == [
        "no_signal: the state has no strategy: a signal is checked with the code that made it"
    ]


def test_the_reflection_and_the_question_need_no_more(resources):
    update = reflection_node(twelve(user_intent={}), resources=resources)
    assert update["user_intent"]["params"]["ts_code"] == CODES
    asked = clarify_node(twelve(clarification_needed="Which stock?"), resources=resources)
    assert flat(asked)["clarification"]["question"]


@pytest.mark.parametrize("node", [data_fetch_node, signal_generate_node, validation_node])
@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "user_intent.params has no ts_code"),
        ({"ts_code": CODES}, "user_intent.params has no start_date and end_date"),
        ({**PARAMS, "strategy_desc": ""}, "user_intent.params has no strategy_desc"),
        ({**PARAMS, "required_indicators": 7}, "user_intent.params is not valid: required_indicators"),
    ],
)
def test_an_intent_that_lacks_a_part_is_one_line(resources, node, params, said):
    with pytest.raises(BadOption, match=said) as raised:
        node(twelve(user_intent={"type": "mixed", "params": params}), resources=resources)
    assert raised.value.data["parameter"] == "user_intent.params"


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_a_prompt_is_filled_with_the_documented_placeholders(name):
    prompt = getattr(signal, name)
    wanted = PLACEHOLDERS[name].split()
    assert {field for _, field, _, _ in string.Formatter().parse(prompt) if field} == {*wanted}
    assert "<7>" in prompt.format(**dict.fromkeys(wanted, "<7>"))


def test_the_closing_words_are_of_the_requests_language_and_count_once(resources):
    hello = [("user", "hello"), ("ai", "Hi, what shall I do?")]
    text = f"{CODES}，{RULE}，20240102到20240229"
    graph = create_signal_subgraph(on_clarify="default", resources=resources)
    state = graph.invoke({"messages": [*hello, ("user", text)]})
    closing = state["messages"][-1].text
    assert closing.count("买入 ") == closing.count("卖出 ") == 1
    assert " sell " not in closing
