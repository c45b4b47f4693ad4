"""Each step of a reading alone: what it makes of a reading, or what it asks."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from states import flat, grouped

from quantgraph.agents import SignalRule
from quantgraph.data import AsOfSource
from quantgraph.data.sample import SampleSource
from quantgraph.market import Moment
from quantgraph.report import BuyAndHold
from quantgraph.runtime import Resources, open_resources
from quantgraph.subgraphs.signal._agents import Params, ReflectionReply
from quantgraph.subgraphs.signal._reading import (
    DATA_STEPS,
    SIGNAL_STEPS,
    Question,
    Reading,
    add_needs,
    ask_for_missing_parts,
    check_with_source,
    read_fields,
    read_plan,
    read_symbols,
    read_window,
    read_words,
    reading_steps,
    set_clauses_aside,
    understand_data,
    understand_signal,
    without_rule,
)

ONE, TWO = "000341.SZ", "000342.SZ"
RULE = "buy when the close is above its 20-day average"
SAID = {"ts_code": ONE, "start_date": "20240102", "end_date": "20240131", "strategy_desc": RULE}


@pytest.fixture
def reading(store):
    def make(decider=None, *, text=f"{ONE}, {RULE}, January 2024", fields=None, given=None, **changes: Any):
        state = grouped({"messages": [HumanMessage(text, id="1")], "error_messages": [], **(fields or {})})
        params = Params.model_validate(SAID | changes).model_dump()
        reply = ReflectionReply.model_validate({"task_type": "mixed", "user_intent": {"params": params}})
        source = SampleSource()
        resources = Resources(
            store=store, source=source, decider=decider, on_clarify="default", model="keyless"
        )
        return Reading(
            state=state,
            resources=open_resources(resources),
            source=AsOfSource(source, Moment(source.sessions()[-1])),
            fixed=given or {},
            reply=reply,
            kind="mixed",
            params=params,
        )

    return make


def through(reading, *steps):
    for step in steps:
        reading = step(reading)
        assert isinstance(reading, Reading), flat(reading.changes)
    return reading


def asked(question):
    assert isinstance(question, Question)
    return question.changes["clarification"]["kind"]


def test_a_message_that_names_no_rule_keeps_that_of_the_last_request(reading):
    last = {
        **SAID,
        "watch": "",
        "trade": "",
        "entry": RULE,
        "exit": "",
        "required_indicators": [],
        "plan": {},
    }
    last["clauses"] = []
    kept = read_words(reading(strategy_desc="", ts_code=TWO, fields={"last_request": last}))
    assert (kept.params["ts_code"], kept.params["strategy_desc"]) == (TWO, RULE)


def test_what_the_caller_fixed_wins(reading):
    assert read_words(reading(given={"ts_code": TWO})).params["ts_code"] == TWO


def test_watched_symbols_are_told_from_traded_ones(reading):
    read = read_symbols(reading(watch=TWO, trade=ONE))
    assert (read.symbols["watch"], read.symbols["trade"], read.params["ts_code"]) == (
        [TWO],
        [ONE],
        f"{TWO},{ONE}",
    )


def test_a_symbol_that_was_given_up_is_gone(reading):
    read = read_symbols(reading(ts_code=f"{ONE},{TWO}", fields={"waived_symbols": [TWO]}))
    assert read.params["ts_code"] == ONE


def test_fields_are_what_bars_do_not_hold(reading):
    read = read_fields(reading(required_indicators=["close", "PE", "ma5"]))
    assert (read.params["required_indicators"], read.own_fields) == (["pe"], ("pe",))


@pytest.mark.parametrize(
    ("missing", "kind"), [("ts_code", "symbol"), ("start_date", "window"), ("strategy_desc", "strategy")]
)
def test_what_is_missing_is_asked_for(reading, missing, kind):
    assert asked(ask_for_missing_parts(reading(**{missing: ""}))) == kind
    assert ask_for_missing_parts(whole := reading()) is whole


def test_one_of_several_spans_is_asked_for(reading):
    spans = [["20240102", "20240131"], ["20240301", "20240331"]]
    assert asked(read_window(reading(windows=spans))) == "window"
    fixed = reading(windows=spans, given={"start_date": "20240102"})
    assert read_window(fixed) is fixed


def test_what_nothing_executes_is_asked_about_unless_it_was_given_up(reading):
    clause = {"quote": "stop at 5%", "became": "", "status": "not_done"}
    assert asked(read_plan(reading(clauses=[clause]))) == "plan"
    assert isinstance(read_plan(reading(clauses=[clause], fields={"waived": ["stop at 5%"]})), Reading)


def test_the_source_knows_the_symbols_or_the_run_ends(reading):
    request = through(reading(), read_symbols, check_with_source).request
    assert (request["ts_code"], request["start"], request["end"]) == (ONE, "20240102", "20240131")
    ended = check_with_source(read_symbols(reading(ts_code="999999.SH")))
    assert isinstance(ended, Question)
    assert ended.changes["ended_because"] == "data_unavailable"


def test_a_rule_is_set_aside_for_a_decider_without_a_signal(reading):
    aside = set_clauses_aside(read_symbols(reading(BuyAndHold())))
    assert (aside.kind, aside.not_executed) == ("data_fetch", RULE)
    done = through(aside, read_fields, check_with_source, add_needs, without_rule, understand_data)
    assert done.request["strategy"] == ""
    assert f"decider buy_and_hold does not execute: {RULE}" in done.request["notes"]
    assert [
        clause["words"] for clause in done.understanding["clauses"] if clause["status"] == "not_done"
    ] == [RULE]


def test_the_last_step_says_what_was_understood(reading):
    done = through(reading(), *SIGNAL_STEPS)
    assert done.understanding == through(reading(), *SIGNAL_STEPS[:-1], understand_signal).understanding
    assert (done.understanding["trade"], done.understanding["windows"]) == ([ONE], [["20240102", "20240131"]])
    assert done.understanding["rule"] == {"entry": RULE, "exit": "", "exit_is_default": False}
    assert set(done.changes) == {
        "user_intent", "params", "reflected_on", "answering", "checked", "understanding",
    }  # fmt: skip


def test_the_decider_is_asked_which_way_a_sentence_goes(reading):
    assert reading_steps(reading(SignalRule()).resources) is SIGNAL_STEPS
    assert reading_steps(reading(BuyAndHold()).resources) is DATA_STEPS
